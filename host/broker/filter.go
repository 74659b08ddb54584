package broker

import (
	"bytes"
	"context"
	"errors"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
)

// decidedMessage is one that a group does not get, because hooks decided otherwise; its entry is held until that is in the log.
type decidedMessage struct {
	leasedMessage
	t     *track
	epoch uint32
	d     *Decision
	hook  string
	err   error // why it is not settled
}

// ask asks the hooks about what was read and is for the reader. The answer has the decisions at the indexes of the messages,
// nil where nobody was asked; it is nil where no hook is.
func (l *leasePull) ask(ctx context.Context, s *source, t *track, part *PulledQueue, fresh bool) ([]*Decision, error) {
	hooks := l.b.opts.Hooks
	if hooks == nil || len(part.Messages) == 0 || !hooks.Consumes(l.g.name, l.req.Topic) {
		return nil, nil
	}
	which := l.unasked(s, t, part, fresh)
	if len(which) == 0 {
		return nil, nil
	}
	messages := part.Messages
	if len(which) < len(messages) {
		messages = make([]engine.Message, len(which))
		for n, i := range which {
			messages[n] = part.Messages[i]
		}
	}
	l.asks(t, true)
	given, err := l.b.askHooks(ctx, len(which), func(ctx context.Context, h Hooks) ([]Decision, error) {
		return h.Consume(ctx, l.g.name, l.req.Topic, messages)
	})
	l.asks(t, false)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	switch {
	case errors.Is(err, ErrClosed), ctx.Err() != nil:
		part.Messages = part.Messages[:0] // nobody has them
		return nil, err
	case err != nil:
		l.b.log.Warn("messages wait to be decided about", "group", l.g.name, "topic", l.req.Topic, "error", err)
	}
	decisions := make([]*Decision, len(part.Messages))
	waits := false
	for n, i := range which {
		d := &Decision{}
		if n < len(given) && !waits {
			d = &given[n]
		}
		decisions[i], waits = d, waits || d.action() == Undecided
	}
	l.pace(s, t, waits, decisions[which[0]].action() != Undecided)
	return decisions, nil
}

// unasked are the indexes of the messages about which hooks are to be asked.
func (l *leasePull) unasked(s *source, t *track, part *PulledQueue, fresh bool) (which []int) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	for i := range part.Messages {
		m := &part.Messages[i]
		if m.Err != nil {
			continue // nobody can decide about it
		}
		ask := false
		if e := t.find(m.Offset); fresh {
			ask = m.Offset >= t.next && !t.isSettled(m.Offset) && (s.retry && originOf(m, "") == l.req.Topic || !s.retry && !l.unwanted(*m))
		} else {
			ask = e != nil && e.unasked
		}
		if ask {
			which = append(which, i)
		}
	}
	return which
}

// asks notes whether the pull that reads a queue asks hooks: others do not wait for it then.
func (l *leasePull) asks(t *track, asking bool) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	t.asking = asking
}

// pace says when the hooks are to be asked again. While they decide nothing, nothing more is read, so that the order stays;
// but for a group's retries, which are of many topics.
func (l *leasePull) pace(s *source, t *track, waits, progress bool) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	if progress {
		t.backoff = 0
	}
	t.held = 0
	if !waits {
		return
	}
	t.backoff = backoff(t.backoff)
	if !s.retry {
		t.held = l.b.env.Mono() + int64(t.backoff)
	}
}

// obey does what was decided about a message that the reader may have, and says whether it gets it. The caller holds mu.
func (l *leasePull) obey(s *source, t *track, e *entry, m *engine.Message, d *Decision, epoch uint32, now int64) bool {
	switch d.action() {
	case Undecided:
		l.b.measures.consumed.add(Undecided)
		t.undecided(e, now)
		l.g.own.lower(t.ends)
		return false
	case ActionKeep:
		l.b.measures.consumed.add(ActionKeep)
		e.unasked = false
		return true
	case ActionReplace: // its bytes in the log are the old ones: it is asked about again before it comes again
		l.b.measures.consumed.add(ActionReplace)
		e.unasked = true
		m.Key, m.Tag, m.Body = []byte(d.Message.Key), []byte(d.Message.Tag), d.Message.Body
		changed := d.Message.properties()
		for name, value := range m.Properties.All() { // its past is not the hook's: the id of the first delivery, say
			if ownProperty(string(name)) {
				changed = message.AppendProperty(changed, string(name), string(value))
			}
		}
		m.Properties = changed
		return true
	}
	e.state, e.unasked = stateBusy, true
	one := decidedMessage{t: t, epoch: epoch, d: d, hook: hookConsume}
	one.Message, one.topic, one.queue, one.attempt = *m, s.topic, int(s.ref.Queue), e.attempt()+1
	if d.Action != ActionDrop { // the memory of the part is used again when nothing of it is handed out
		one.Message.Message = cloned(&m.Message)
	}
	l.decided = append(l.decided, one)
	return false
}

// settleDecided writes down what hooks decided about messages that the reader does not get. What cannot be written now is
// asked about again later.
func (l *leasePull) settleDecided(ctx context.Context) {
	for rest := l.decided; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].t == rest[0].t {
			n++
		}
		l.settleTrack(ctx, rest[0].t, rest[:n])
		rest = rest[n:]
	}
	l.decided = nil
}

// settleTrack settles messages of one queue.
func (l *leasePull) settleTrack(ctx context.Context, t *track, list []decidedMessage) {
	err := l.b.join(ctx, l.g)
	if err == nil && l.g.isGone() { // a Settle would make the group again
		l.g.mu.Lock()
		defer l.g.mu.Unlock()
		l.g.part()
		return
	}
	committed := int64(0)
	if err == nil {
		committed = l.b.settleList(ctx, l.g, t, list)
		for i := range list {
			if m := &list[i]; m.err != nil && !isTransient(m.err) { // it cannot be done: the message is not to come for ever
				m.d = m.d.instead(m.err)
				committed = max(committed, l.b.settleList(ctx, l.g, t, list[i:i+1]))
			}
		}
	}
	now := l.b.env.Mono()
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	if err == nil {
		l.g.part()
	}
	if len(list) > 0 && t.epoch == list[0].epoch {
		t.committed = max(t.committed, committed)
	}
	t.backoff = max(t.backoff, firstBackoff)
	for i := range list {
		m := &list[i]
		e := t.find(m.Offset)
		switch {
		case t.epoch != m.epoch || e == nil || e.state != stateBusy || e.token != 0:
		case err != nil || m.err != nil:
			e.state = stateOpen
			t.undecided(e, now)
			l.g.own.lower(t.ends)
		default:
			l.b.measures.consumed.add(m.d.Action)
			t.done(e)
		}
	}
	l.g.roomier(t)
}

// cloned copies a message with its bytes.
func cloned(m *message.Message) message.Message {
	c := *m
	c.Key, c.Tag, c.Body = bytes.Clone(m.Key), bytes.Clone(m.Tag), bytes.Clone(m.Body)
	c.Properties, c.BornHost = bytes.Clone(m.Properties), bytes.Clone(m.BornHost)
	return c
}
