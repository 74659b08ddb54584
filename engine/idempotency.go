package engine

import (
	"errors"
	"fmt"
	"math"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/idempotency"
	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/message"
)

// keyOverhead is what an idempotency key takes in a record beside its bytes.
const keyOverhead = 3 + len(message.PropertyKey)

// KeyFound is what FindKey found.
type KeyFound struct {
	// Found says whether a message was put with the key. Then Message is that message, as it was stored and without the
	// key among its properties, and Answer is what its put was answered but for Clamped. Both belong to the caller.
	Found   bool
	Message message.Message
	Answer  Answer
	// Position: the answer may leave when the log is released up to here. Where nothing was found it goes into
	// Put.KeySince.
	Position Offset
}

// FindKey finds the message that was put into a topic with an idempotency key, at most Options.IdempotencyWindow ago. It
// compares the whole key with that of the stored message. When that cannot be read, the error says so, until the message is
// declared lost (MarkHole). It is not for the writer: it may read a block or two of each
// file of keys, and the message. Safe for concurrent use.
func (e *Engine) FindKey(topic string, key []byte) (KeyFound, error) {
	if e.closed.Load() {
		return KeyFound{}, ErrClosed
	}
	e.mu.RLock()
	f := KeyFound{Position: e.asOf()}
	t := e.st.TopicByName(topic)
	e.mu.RUnlock()
	if t == nil || e.opts.IdempotencyWindow < 0 {
		return f, nil
	}
	now := e.env.Wall()
	var failed error
	err := e.idem.Find(idempotency.Hash(t.ID, key), func(pos Offset) bool {
		rec, _, err := e.log.ReadRecord(pos, 0, nil)
		if errors.Is(err, commitlog.ErrOutOfLog) {
			return true // deleted with the head of the log
		}
		m := &f.Message
		if err == nil && rec.Kind == message.KindMessage {
			err = message.Decode(rec.Payload, m)
		}
		if err != nil {
			failed = e.unlessLost(pos, err)
			return failed == nil
		}
		own, rest := m.IdempotencyKey()
		if rec.Kind != message.KindMessage || m.Topic != t.ID || string(own) != string(key) || now-m.StoreMs > e.opts.IdempotencyWindow.Milliseconds() {
			return true
		}
		f.Found, m.Properties = true, rest
		f.Answer = Answer{
			Outcome: Stored, Topic: m.Topic, Queue: m.Queue, Offset: m.QueueOffset, Position: pos, Size: int32(rec.Size),
			ID: m.ID, DueMs: m.DueMs, Lane: m.Lane, Level: int(m.Level),
		}
		if m.ID != 0 {
			f.Answer.Outcome, f.Answer.Offset = Scheduled, -1
		}
		return false
	})
	if err = errors.Join(err, failed); err != nil {
		return KeyFound{}, fmt.Errorf("engine: find idempotency key: %w", err)
	}
	return f, nil
}

// unlessLost is the error of reading a message, nil when it was declared lost.
func (e *Engine) unlessLost(pos Offset, err error) error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.st.InHole(pos) {
		return nil
	}
	return err
}

// keyed takes the idempotency key of a put into its message, or says why not. It decides by the hash alone, since the
// writer reads no bodies: then the caller looks again.
func (e *Engine) keyed(m *message.Message, p *Put, t *state.Topic) error {
	if len(p.IdempotencyKey) == 0 {
		return nil
	}
	if e.opts.IdempotencyWindow < 0 {
		return fmt.Errorf("%w: idempotency keys are off (IdempotencyWindow)", ErrBadCommand)
	}
	if err := message.CheckIdempotencyKey(p.IdempotencyKey); err != nil {
		kind := ErrProperties
		if errors.Is(err, message.ErrTooLarge) {
			kind = ErrTooLarge
		}
		return fmt.Errorf("%w: %w", kind, err)
	}
	if size := len(p.IdempotencyKey) + keyOverhead + len(p.Properties); size > message.MaxProperties {
		return fmt.Errorf("%w: properties of %d bytes with the idempotency key, allowed are %d", ErrTooLarge, size, message.MaxProperties)
	}
	if t != nil && e.idem.Since(idempotency.Hash(t.ID, p.IdempotencyKey), p.KeySince) {
		return fmt.Errorf("%w: a put with it may have come after %d", ErrKey, p.KeySince)
	}
	e.scratch.properties = message.AppendProperty(e.scratch.properties[:0], message.PropertyKey, string(p.IdempotencyKey))
	e.scratch.properties = append(e.scratch.properties, p.Properties...)
	m.Properties = e.scratch.properties
	m.Flags |= message.Keyed
	return nil
}

// keysSince is the logTime from which on keys are remembered.
func (e *Engine) keysSince() int64 {
	if e.opts.IdempotencyWindow < 0 {
		return math.MaxInt64
	}
	return max(e.st.LogMs, e.batch.logMs) - e.opts.IdempotencyWindow.Milliseconds()
}

// keysFrom is a position before which no key is remembered: the begin of the first segment that was not sealed before
// that time.
func (e *Engine) keysFrom() Offset {
	since := e.keysSince()
	for _, g := range e.st.Segments {
		if g.End == 0 || g.Sealed >= since {
			return g.Base
		}
	}
	return e.st.Head()
}

// keysIn says whether a segment has to stay because a key in it is remembered.
func (e *Engine) keysIn(g state.Segment) bool {
	return g.Sealed >= e.keysSince() && e.idem.Any(g.Base, g.End, e.keysSince())
}
