package engine

import (
	"cmp"
	"fmt"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/handle"
	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/record"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// mayTarget says why a put has no topic or queue to go to, and finds the topic.
func (e *Engine) mayTarget(p *Put, w *when) error {
	t := e.st.TopicByName(p.Topic)
	count := e.opts.Queues
	if t != nil {
		count = t.Count
	}
	if p.Queue != AnyQueue && (p.Queue < 0 || p.Queue >= count) {
		return fmt.Errorf("%w: queue %d of topic %q, allowed is 0 to %d", ErrQueue, p.Queue, p.Topic, count-1)
	}
	if err := reserved("topic", p.Topic); err != nil {
		return err
	}
	if p.Unstaged && w.due > e.batch.wall {
		return fmt.Errorf("%w: a message that goes round the stage has no delay", ErrBadCommand)
	}
	if w.topic = t; t != nil {
		w.staged = t.Staged() && !p.Unstaged
		return nil
	}
	if err := message.ValidTopic(p.Topic); err != nil {
		return fmt.Errorf("%w: %w", ErrTopicName, err)
	}
	if e.opts.NoAutoTopics {
		return fmt.Errorf("%w: %q", ErrNoTopic, p.Topic)
	}
	w.staged = !p.Unstaged && e.stagedAnew(p.Topic)
	return e.mayMake(p.Topic)
}

// target is the topic and queue of a put that may be done; the topic is made on first use.
func (e *Engine) target(p *Put, w *when) (*state.Topic, uint32) {
	if w.topic == nil {
		w.topic = e.makeTopic(p.Topic, e.opts.Queues, 0)
	}
	t, queue := w.topic, p.Queue
	if queue == AnyQueue {
		queue = int(e.turns[t.ID] % uint32(t.Count))
		e.turns[t.ID]++
	}
	return t, uint32(queue)
}

// makeTopic defines a topic whose name was checked, and its stage, if it is to have one.
func (e *Engine) makeTopic(name string, queues int, attrs uint32) *state.Topic {
	staged := e.stagedAnew(name)
	if staged {
		attrs |= record.TopicStaged
	}
	t := e.addTopic(name, queues, attrs)
	if staged {
		e.makeStage(t)
	}
	return t
}

// addTopic defines a topic.
func (e *Engine) addTopic(name string, queues int, attrs uint32) *state.Topic {
	r := &record.Topic{Op: record.Define, ID: e.st.NextTopic, Queues: uint32(queues), Attrs: attrs, Name: name}
	e.write(record.KindTopic, r)
	e.folded(e.st.Topic(r, (*index)(e)))
	e.turns[r.ID] = 0
	return e.st.TopicByName(name)
}

func (e *Engine) defineTopic(c *DefineTopic) (Answer, error) {
	if c.Queues < 1 || c.Queues > maxQueues {
		return Answer{}, fmt.Errorf("%w: %d queues for topic %q, allowed is 1 to %d", ErrQueue, c.Queues, c.Topic, maxQueues)
	}
	if err := message.ValidTopic(c.Topic); err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrTopicName, err)
	}
	if c.Attrs > record.TopicHost {
		return Answer{}, fmt.Errorf("%w: attributes %#x of topic %q, the upper 8 bits are the engine's", ErrBadCommand, c.Attrs, c.Topic)
	}
	if err := reserved("topic", c.Topic); err != nil {
		return Answer{}, err
	}
	t := e.st.TopicByName(c.Topic)
	if t == nil {
		if err := e.mayMake(c.Topic); err != nil {
			return Answer{}, err
		}
		t = e.makeTopic(c.Topic, c.Queues, c.Attrs)
	} else {
		e.changeTopic(t, c.Queues, t.Attrs&^record.TopicHost|c.Attrs)
	}
	return Answer{Outcome: Done, Topic: t.ID, Offset: -1}, nil
}

// changeTopic changes a topic, and its stage has as many queues. Only changes are logged.
func (e *Engine) changeTopic(t *state.Topic, queues int, attrs uint32) {
	if t.Stage != nil {
		e.changeTopic(t.Stage, queues, t.Stage.Attrs)
	}
	if t.Count == queues && t.Attrs == attrs {
		return
	}
	r := &record.Topic{Op: record.Change, ID: t.ID, Queues: uint32(queues), Attrs: attrs, Name: t.Name}
	e.write(record.KindTopic, r)
	e.folded(e.st.Topic(r, (*index)(e)))
}

func (e *Engine) pauseTopic(c *PauseTopic) (Answer, error) {
	t := e.st.TopicByName(c.Topic)
	if t == nil {
		return Answer{}, fmt.Errorf("%w: %q", ErrNoTopic, c.Topic)
	}
	if err := reserved("topic", c.Topic); err != nil {
		return Answer{}, err
	}
	attrs := t.Attrs &^ record.TopicPaused
	if c.Paused {
		attrs |= record.TopicPaused
	}
	e.changeTopic(t, t.Count, attrs)
	return Answer{Outcome: Done, Topic: t.ID, Offset: -1}, nil
}

func (e *Engine) deleteTopic(c *DeleteTopic) (Answer, error) {
	t := e.st.TopicByName(c.Topic)
	if t == nil {
		return Answer{}, fmt.Errorf("%w: %q", ErrNoTopic, c.Topic)
	}
	if err := reserved("topic", c.Topic); err != nil {
		return Answer{}, err
	}
	if t.Stage != nil {
		e.removeTopic(t.Stage)
	}
	e.removeTopic(t)
	e.readers = nil
	return Answer{Outcome: Done, Topic: t.ID, Offset: -1}, nil
}

func (e *Engine) removeTopic(t *state.Topic) {
	r := &record.Topic{Op: record.Delete, ID: t.ID, Name: t.Name}
	e.write(record.KindTopic, r)
	e.folded(e.st.Topic(r, (*index)(e)))
	delete(e.turns, t.ID)
}

func (e *Engine) defineGroup(c *DefineGroup) (Answer, error) {
	if err := reserved("group", c.Group); err != nil {
		return Answer{}, err
	}
	g, err := e.group(c.Group, c.Attrs)
	if err != nil {
		return Answer{}, err
	}
	if g.Attrs != c.Attrs {
		if c.Attrs&record.GroupBroadcast != 0 {
			if err := e.mayTurn(g); err != nil {
				return Answer{}, err
			}
		}
		r := &record.Group{Op: record.Change, ID: g.ID, Attrs: c.Attrs, Name: g.Name}
		e.write(record.KindGroup, r)
		e.folded(e.st.Group(r))
		e.readers = nil
	}
	return Answer{Outcome: Done, Offset: -1}, nil
}

// group finds a group, and makes it on first use.
func (e *Engine) group(name string, attrs uint32) (*state.Group, error) {
	if g := e.st.GroupByName(name); g != nil {
		return g, nil
	}
	if err := message.ValidGroup(name); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGroupName, err)
	}
	r := &record.Group{Op: record.Define, ID: e.st.NextGroup, Attrs: attrs, Name: name}
	e.write(record.KindGroup, r)
	e.folded(e.st.Group(r))
	return e.st.GroupByName(name), nil
}

func (e *Engine) commitOffset(c *CommitOffset) (Answer, error) {
	t := e.st.TopicByName(c.Topic)
	if t == nil || c.TopicID != 0 && c.TopicID != t.ID {
		return Answer{}, fmt.Errorf("%w: %q", ErrNoTopic, c.Topic)
	}
	if c.Queue < 0 || c.Queue >= len(t.Queues) {
		return Answer{}, fmt.Errorf("%w: queue %d of topic %q, allowed is 0 to %d", ErrQueue, c.Queue, c.Topic, len(t.Queues)-1)
	}
	if err := cmp.Or(reserved("topic", c.Topic), reserved("group", c.Group)); err != nil {
		return Answer{}, err // a stage is settled, and nothing in it twice
	}
	if next := t.Queues[c.Queue].Next; c.Offset < 0 || c.Offset > next {
		return Answer{}, fmt.Errorf("%w: %d in queue %d of topic %q, allowed is 0 to %d", ErrOffset, c.Offset, c.Queue, c.Topic, next)
	}
	g, err := e.group(c.Group, 0)
	if err != nil {
		return Answer{}, err
	}
	key := state.OffsetKey{Group: g.ID, Topic: t.ID, Queue: uint32(c.Queue)}
	old, known := e.st.Offsets.Get(key)
	if known && c.Offset < old && !c.Seek {
		return Answer{}, fmt.Errorf("%w: %d is before the committed %d; going back needs a seek", ErrOffset, c.Offset, old)
	}
	if !known {
		if err := e.mayEnter(g, t); err != nil {
			return Answer{}, err
		}
		if g.Attrs&record.GroupBroadcast != 0 {
			e.readers = nil
		}
	}
	if !known || c.Offset != old || c.Seek && e.st.Offsets.SettledCount(key) > 0 { // only changes are logged
		r := &record.Commit{Group: g.ID, Topic: t.ID, Queue: uint32(c.Queue), Offset: c.Offset, Seek: c.Seek}
		e.write(record.KindCommit, r)
		e.folded(e.st.Commit(r))
	}
	at, _ := e.st.Offsets.Get(key)
	return Answer{Outcome: Done, Topic: t.ID, Queue: uint32(c.Queue), Offset: at}, nil
}

func (e *Engine) markHole(c *MarkHole) (Answer, error) {
	if c.From < 0 || c.To <= c.From || c.To > e.log.End() {
		return Answer{}, fmt.Errorf("%w: hole from %d to %d, the log ends at %d", ErrBadCommand, c.From, c.To, e.log.End())
	}
	r := &record.Hole{From: c.From, To: c.To, Reason: c.Reason}
	e.write(record.KindHole, r)
	e.folded(e.st.Hole(r))
	return Answer{Outcome: Done, Offset: -1}, nil
}

// outcomes of a handle that nothing is done to.
var outcomes = [...]Outcome{
	state.Unknown:    NotFound,
	state.Waiting:    Scheduled,
	state.Fired:      Delivered,
	state.Cancelled:  AlreadyCancelled,
	state.Superseded: Superseded,
}

func (e *Engine) fate(h handle.Handle) (state.Fate, error) {
	return e.st.Fate(h.Lane, timerlog.Key{Due: h.Due, ID: h.ID}, e.bits)
}

func (e *Engine) cancel(c *Cancel) (Answer, error) {
	h := c.Handle
	fate, err := e.fate(h)
	if err != nil {
		return Answer{}, fmt.Errorf("engine: cancel: %w", err)
	}
	a := Answer{Outcome: outcomes[fate], Topic: h.Topic, ID: h.ID, DueMs: h.Due, Lane: h.Lane, Offset: -1}
	if fate == state.Waiting {
		r := &record.Cancel{ID: h.ID, Due: h.Due, Topic: h.Topic, Lane: h.Lane}
		pos, _ := e.write(record.KindCancel, r)
		e.folded(e.st.Cancel(pos, r, (*index)(e)))
		a.Outcome = Cancelled
	}
	return a, nil
}

// move supersedes a waiting message by a copy with another due time, both in one batch.
func (e *Engine) move(c *Move) (Answer, error) {
	h := c.Handle
	fate, err := e.fate(h)
	if err != nil {
		return Answer{}, fmt.Errorf("engine: move: %w", err)
	}
	if fate != state.Waiting {
		return Answer{Outcome: outcomes[fate], Topic: h.Topic, ID: h.ID, DueMs: h.Due, Lane: h.Lane, Offset: -1}, nil
	}
	if err := e.checkDue(c.DueMs); err != nil {
		return Answer{}, err
	}
	return e.replace(h, c.Record, c.DueMs, record.KindSupersede, Moved)
}

// undo supersedes a cancelled message by a copy with the same due time.
func (e *Engine) undo(c *Undo) (Answer, error) {
	h := c.Handle
	fate, err := e.fate(h)
	if err != nil {
		return Answer{}, fmt.Errorf("engine: undo: %w", err)
	}
	if fate != state.Cancelled {
		return Answer{Outcome: outcomes[fate], Topic: h.Topic, ID: h.ID, DueMs: h.Due, Lane: h.Lane, Offset: -1}, nil
	}
	if h.Due <= e.batch.wall {
		return Answer{}, fmt.Errorf("%w: it was due at %d, now is %d", ErrTooLate, h.Due, e.batch.wall)
	}
	return e.replace(h, c.Record, h.Due, record.KindUndo, Restored)
}

// replace makes the old id superseded and stores the copy.
func (e *Engine) replace(h handle.Handle, old Pending, due int64, kind commitlog.Kind, outcome Outcome) (Answer, error) {
	m := &e.scratch.message
	if err := old.message(m); err != nil {
		return Answer{}, err
	}
	if m.ID != h.ID {
		return Answer{}, fmt.Errorf("%w: the record is of message %d, the handle of %d", ErrBadCommand, m.ID, h.ID)
	}
	if err := cmp.Or(e.takesPuts(), e.takesWaiting()); err != nil {
		return Answer{}, err
	}
	if due > e.batch.wall {
		if err := e.mayWait(e.st.Topics[m.Topic]); err != nil {
			return Answer{}, err
		}
	}
	if _, err := e.isLate(e.laneOf(m.Topic), due); err != nil {
		return Answer{}, err
	}
	r := &record.Supersede{Cancel: record.Cancel{ID: h.ID, Due: h.Due, Topic: h.Topic, Lane: h.Lane}, NewID: e.st.NextID}
	pos, _ := e.write(kind, r)
	if kind == record.KindUndo {
		e.folded(e.st.Undo(pos, r, (*index)(e)))
	} else {
		e.folded(e.st.Supersede(pos, r, (*index)(e)))
	}
	m.Flags, m.Level = message.Moved, 0
	a, err := e.putTimed(m, due)
	e.folded(err) // the half without this would lose the message
	a.Outcome = outcome
	return a, err
}

// maxDueMs is the end of the year 9999.
const maxDueMs = 253402300799999
