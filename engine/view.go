package engine

import (
	"errors"
	"fmt"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/handle"
	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/record"
	"github.com/tidewheel/tidewheel/engine/timer"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// Pending is a waiting message as it was read for a Move. It is a copy and belongs to the caller.
type Pending struct {
	payload  []byte
	position Offset
}

// Size is the length of the message's record in bytes, about.
func (p Pending) Size() int { return len(p.payload) }

// Message decodes the message. Its slices lie in p.
func (p Pending) Message() (m message.Message, err error) {
	err = p.message(&m)
	return m, err
}

func (p Pending) message(m *message.Message) error {
	if p.payload == nil {
		return fmt.Errorf("%w: no record was read", ErrBadCommand)
	}
	return message.Decode(p.payload, m)
}

// ReadPending reads a waiting message, wherever a roll has moved it. ErrNoMessage: it does not wait any more. Safe for
// concurrent use.
func (e *Engine) ReadPending(h handle.Handle) (Pending, error) {
	if e.closed.Load() {
		return Pending{}, ErrClosed
	}
	pos, err := e.locate(h)
	if err != nil {
		return Pending{}, err
	}
	return e.readWaiting(h, pos)
}

// ReadCancelled reads a message that was cancelled, for an Undo. ErrNoMessage: it is not cancelled, or its body is gone.
// Safe for concurrent use.
func (e *Engine) ReadCancelled(h handle.Handle) (Pending, error) {
	if e.closed.Load() {
		return Pending{}, ErrClosed
	}
	outcome, _, err := e.Verdict(h)
	if err != nil {
		return Pending{}, err
	}
	if outcome != AlreadyCancelled {
		return Pending{}, fmt.Errorf("%w: it is not cancelled", ErrNoMessage)
	}
	p, err := e.readWaiting(h, h.Position)
	if errors.Is(err, commitlog.ErrOutOfLog) {
		return Pending{}, fmt.Errorf("%w: its body was deleted with the log's head", ErrNoMessage)
	}
	return p, err
}

// readWaiting reads the record of a message that waits, or did.
func (e *Engine) readWaiting(h handle.Handle, pos Offset) (Pending, error) {
	rec, _, err := e.log.ReadRecord(pos, 0, nil)
	if err != nil {
		return Pending{}, fmt.Errorf("engine: read waiting message: %w", err)
	}
	var m message.Message
	if rec.Kind != message.KindMessage {
		return Pending{}, fmt.Errorf("%w: record of kind %d at %d", ErrNoMessage, rec.Kind, pos)
	}
	if err := message.DecodeHead(rec.Payload, &m); err != nil {
		return Pending{}, fmt.Errorf("engine: read waiting message: %w", err)
	}
	if m.ID != h.ID {
		return Pending{}, fmt.Errorf("%w: message %d is at %d", ErrNoMessage, m.ID, pos)
	}
	return Pending{append([]byte(nil), rec.Payload...), pos}, nil
}

// locate finds the current copy of a waiting message: at the handle's position unless that was rolled.
func (e *Engine) locate(h handle.Handle) (Offset, error) {
	for try := 1; ; try++ {
		pos, scan, err := e.locateNow(h)
		if err != nil || scan == nil {
			return pos, err
		}
		pos, err = e.locateIn(scan, h)
		if err == nil || try == scanTries {
			return pos, err
		}
	}
}

// locateNow answers from memory, or takes a picture of where the copies of a rolled message may be.
func (e *Engine) locateNow(h handle.Handle) (Offset, *timer.Scan, error) {
	e.mu.Lock() // the bits' cache and the lane are the writer's
	defer e.mu.Unlock()
	fate, err := e.fate(h)
	if err != nil {
		return 0, nil, fmt.Errorf("engine: locate message: %w", err)
	}
	if fate != state.Waiting {
		return 0, nil, fmt.Errorf("%w: it does not wait", ErrNoMessage)
	}
	if h.Position >= e.st.Rolled {
		return h.Position, nil, nil
	}
	return 0, e.lanes[h.Lane].NewScanOf(timerlog.Key{Due: h.Due, ID: h.ID}), nil
}

// locateIn reads the copies without holding anybody up, and finds the one that is alive.
func (e *Engine) locateIn(scan *timer.Scan, h handle.Handle) (Offset, error) {
	var copies []timerlog.Entry
	en, ok, err := scan.Next()
	for ; ok && err == nil; en, ok, err = scan.Next() {
		copies = append(copies, en)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	scan.Close()
	for i := 0; i < len(copies) && err == nil; i++ {
		var alive bool
		if alive, err = e.st.Alive(&copies[i], h.Lane, e.bits); alive {
			return copies[i].Position, nil
		}
	}
	if err != nil {
		return 0, fmt.Errorf("engine: locate message: %w", err)
	}
	return 0, fmt.Errorf("%w: message %d waits and is in no index", ErrNoMessage, h.ID)
}

// Verdict says what a Cancel would answer, and does nothing: Scheduled while the message waits. The answer may leave when
// the log is released up to the position. Safe for concurrent use.
func (e *Engine) Verdict(h handle.Handle) (Outcome, Offset, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	fate, err := e.fate(h)
	if err != nil {
		return Refused, 0, fmt.Errorf("engine: verdict: %w", err)
	}
	return outcomes[fate], e.asOf(), nil
}

// View reads the message whose record is at a position into p, whose Messages then hold it alone, with Offset -1. While
// it waits, or is not released, the error is ErrPending. Safe for concurrent use.
func (e *Engine) View(pos Offset, p *Pulled) (Message, error) {
	if e.closed.Load() {
		return Message{}, ErrClosed
	}
	if pos < 0 || pos >= e.Released() {
		return Message{}, fmt.Errorf("%w: at %d", ErrNoMessage, pos)
	}
	var err error
	var rec commitlog.Record
	if rec, p.buf, err = e.log.ReadRecord(pos, 0, p.buf); err != nil {
		if errors.Is(err, commitlog.ErrOutOfLog) {
			return Message{}, fmt.Errorf("%w: %w", ErrNoMessage, err)
		}
		return Message{}, fmt.Errorf("engine: view: %w", err)
	}
	if rec.Kind != message.KindMessage {
		return Message{}, fmt.Errorf("%w: record of kind %d at %d", ErrNoMessage, rec.Kind, pos)
	}
	m := Message{Offset: -1, Position: pos, Size: int32(rec.Size)}
	if err := message.Decode(rec.Payload, &m.Message); err != nil {
		return Message{}, fmt.Errorf("engine: view: %w", err)
	}
	if m.ID != 0 {
		if err := e.mayView(&m); err != nil {
			return Message{}, err
		}
	}
	m.QueueOffset = -1
	p.Messages = append(p.Messages[:0], m)
	return m, nil
}

// mayView refuses what nobody may see: a message that waits, or that was taken back.
func (e *Engine) mayView(m *Message) error {
	outcome, pos, err := e.Verdict(handle.Handle{Lane: m.Lane, Topic: m.Topic, ID: m.ID, Due: m.DueMs})
	switch {
	case err != nil:
		return err
	case outcome == Delivered && pos <= e.Released(), outcome == NotFound:
		return nil
	case outcome == Scheduled, outcome == Delivered:
		return fmt.Errorf("%w: message %d is due at %d", ErrPending, m.ID, m.DueMs)
	}
	return fmt.Errorf("%w: message %d was taken back", ErrNoMessage, m.ID)
}

// SearchTime is the first offset of a queue whose message became visible at or after a wall clock time, ms; the queue's
// end if there is none. Clock steps are taken into account. Safe for concurrent use.
func (e *Engine) SearchTime(topic string, queue int, wallMs int64) (int64, error) {
	q, low, _, err := e.queue(topic, queue)
	if err != nil || q == nil {
		return low, err
	}
	e.mu.RLock()
	logMs := e.st.LogTimeOf(wallMs)
	e.mu.RUnlock()
	at, err := q.SearchLogTime(logMs)
	if err != nil {
		return 0, fmt.Errorf("engine: search queue %d of topic %q: %w", queue, topic, err)
	}
	return max(low, int64(at)), nil
}

// Committed is a group's offset in a queue; ok is false when there is none. The answer may leave when the log is released
// up to the position. Safe for concurrent use.
func (e *Engine) Committed(group, topic string, queue int) (offset int64, ok bool, pos Offset) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	g, t := e.st.GroupByName(group), e.st.TopicByName(topic)
	if g != nil && t != nil {
		offset, ok = e.st.Offsets.Get(state.OffsetKey{Group: g.ID, Topic: t.ID, Queue: uint32(queue)})
	}
	return offset, ok, e.asOf()
}

// TopicInfo describes a topic.
type TopicInfo struct {
	ID      uint32
	Name    string
	Attrs   uint32      // of the host
	Paused  bool        // groups are kept from reading it
	Staged  bool        // what falls due waits in the topic's stage for a verdict
	Count   int         // queues that new messages go to
	Queues  []QueueInfo // at least Count
	Pending int64       // messages that wait for it
	// StageLag is how many messages are in the topic's stage and not settled.
	StageLag int64
}

// Paused says whether groups are kept from reading a topic, by its id; false when it is gone. The answer may leave when
// the log is released up to the position. Safe for concurrent use.
func (e *Engine) Paused(topic uint32) (paused bool, pos Offset) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	t := e.st.Topics[topic]
	return t != nil && t.Paused(), e.asOf()
}

// QueueInfo is the offsets of a queue: [Min, Visible) can be read, [Visible, Next) is not released.
type QueueInfo struct{ Min, Next, Visible int64 }

// GroupInfo describes a consumer group.
type GroupInfo struct {
	ID      uint32
	Name    string
	Attrs   uint32
	Offsets []CommittedOffset
}

// CommittedOffset is a group's next offset in a queue.
type CommittedOffset struct {
	Topic   string
	Queue   int
	Offset  int64
	Settled int64 // offsets above it that are settled already
}

func (e *Engine) topicInfo(t *state.Topic) TopicInfo {
	info := TopicInfo{ID: t.ID, Name: t.Name, Attrs: t.Attrs & record.TopicHost, Paused: t.Paused(), Count: t.Count, Pending: t.Pending}
	if info.Staged = t.Staged(); t.Stage != nil {
		info.StageLag = e.stageLag(t.Stage)
	}
	for i, q := range t.Queues {
		low := e.low(t, uint32(i))
		visible := low
		if cq := e.queues.Queue(t.ID, uint32(i)); cq != nil {
			visible = max(visible, min(int64(cq.Visible()), q.Next))
		}
		info.Queues = append(info.Queues, QueueInfo{low, q.Next, visible})
	}
	return info
}
