package engine

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/handle"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/record"
)

// explainBytes bounds the log that one Explain reads.
const explainBytes = 256 << 20

// Explanation is the life of a waiting message, as the log tells it.
type Explanation struct {
	Outcome Outcome // what a cancel would answer; Scheduled while it waits
	Events  []Event // in the order of the log
	Reason  string  // why it is not in its topic, or why it is
	// ScannedTo is how far the log was read: at most 256 MiB from From on. Ask again from there for the rest.
	ScannedTo Offset
	// Position: the answer may leave when the log is released up to here.
	Position Offset
}

// Event is something that happened to a message.
type Event struct {
	Kind     string // stored, rolled, delivered, dropped, cancelled, moved, undone
	WallMs   int64  // when the writer decided it
	Position Offset // of the record
	DueMs    int64
	Topic    uint32
	Queue    uint32
	Offset   int64  // in the queue, of a delivery
	NewID    uint64 // of a move or an undo
}

// Explain tells the life of the message of a handle from a position of the log on: the handle's, or where an Explain before
// it stopped. It reads the log and is for people, not for a hot path. Safe for concurrent use.
func (e *Engine) Explain(h handle.Handle, from Offset) (Explanation, error) {
	outcome, pos, err := e.Verdict(h)
	if err != nil {
		return Explanation{}, err
	}
	x := Explanation{Outcome: outcome, Position: pos, ScannedTo: from}
	x.Reason = e.why(h, outcome)
	if from <= h.Position {
		if from, err = e.batchWith(max(h.Position, e.log.First())); err != nil {
			return x, err
		}
	}
	if from < e.log.First() {
		from = e.log.First()
	}
	start := from
	err = e.log.Scan(from, 0, false, func(b *commitlog.Batch) error {
		if b.End() > e.Released() || b.Base-start > explainBytes {
			return fs.SkipAll
		}
		x.ScannedTo = b.End()
		return x.read(b, h.ID)
	})
	if err != nil && !errors.Is(err, commitlog.ErrOutOfLog) {
		return x, fmt.Errorf("engine: explain: %w", err)
	}
	return x, nil
}

// batchWith finds the batch that holds a position, by reading its segment from the begin: a record does not say where its
// batch begins.
func (e *Engine) batchWith(pos Offset) (Offset, error) {
	base, _, _, ok := e.log.SegmentOf(pos)
	if !ok {
		return e.log.First(), nil
	}
	at := base
	err := e.log.Scan(base, 0, false, func(b *commitlog.Batch) error {
		if b.End() > pos {
			at = b.Base
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("engine: explain: %w", err)
	}
	return at, nil
}

// why gives the one reason for what a message does.
func (e *Engine) why(h handle.Handle, outcome Outcome) string {
	e.mu.RLock()
	defer e.mu.RUnlock()
	now := e.env.Wall()
	switch {
	case outcome == Delivered:
		return "it was delivered"
	case outcome == AlreadyCancelled:
		return "it was cancelled"
	case outcome == Superseded:
		return "it was moved: its new handle counts"
	case outcome == NotFound:
		return "the store does not know it, or has forgotten it"
	case h.Due > now:
		return fmt.Sprintf("it is due in %d ms", h.Due-now)
	case e.failed.Load() != nil:
		return "it is due, but the store has failed and must be opened again"
	case e.fire.err != nil:
		return fmt.Sprintf("it is due, but its index cannot be read: %v", e.fire.err)
	case e.st.Topics[h.Topic] == nil:
		return "it is due, but its topic was deleted: it will be dropped"
	}
	return "it is due and delivered by one of the next ticks"
}

// read takes the events of an id out of a batch.
func (x *Explanation) read(b *commitlog.Batch, id uint64) error {
	records := b.Records()
	for {
		r, ok, err := records.Next()
		if err != nil || !ok {
			return err
		}
		ev := Event{WallMs: b.AppendMs, Position: r.Pos, Offset: -1}
		if ok, err := ev.fill(&r, id); err != nil {
			return err
		} else if ok {
			x.Events = append(x.Events, ev)
		}
	}
}

// fill says whether a record speaks of an id, and what.
func (ev *Event) fill(r *commitlog.Record, id uint64) (bool, error) {
	switch r.Kind {
	case message.KindMessage:
		var m message.Message
		if err := message.DecodeHead(r.Payload, &m); err != nil || m.ID != id {
			return false, err
		}
		ev.Kind, ev.DueMs, ev.Topic, ev.Queue = "stored", m.DueMs, m.Topic, m.Queue
		if m.Flags&message.Copy != 0 {
			ev.Kind = "rolled"
		}
		return true, nil
	case record.KindCancel:
		var c record.Cancel
		if err := c.Decode(r.Payload); err != nil || c.ID != id {
			return false, err
		}
		ev.Kind, ev.DueMs, ev.Topic = "cancelled", c.Due, c.Topic
		return true, nil
	case record.KindSupersede, record.KindUndo:
		var s record.Supersede
		if err := s.Decode(r.Payload); err != nil || s.ID != id {
			return false, err
		}
		ev.Kind, ev.DueMs, ev.Topic, ev.NewID = "moved", s.Due, s.Topic, s.NewID
		if r.Kind == record.KindUndo {
			ev.Kind = "undone"
		}
		return true, nil
	case record.KindDeliver:
		return ev.fillDelivery(r, id)
	}
	return false, nil
}

func (ev *Event) fillDelivery(r *commitlog.Record, id uint64) (bool, error) {
	var d record.Deliver
	if err := d.Decode(r.Payload); err != nil {
		return false, err
	}
	before := map[uint16]int64{}
	for i := range d.Items {
		it := &d.Items[i]
		if it.ID != id {
			before[it.Queue]++
			continue
		}
		q := d.Queues[it.Queue]
		ev.Kind, ev.DueMs, ev.Topic, ev.Queue = "delivered", it.Due, q.Topic, q.Queue
		if ev.Offset = q.Base + before[it.Queue]; q.Base == record.Gone {
			ev.Kind, ev.Offset = "dropped", -1
		}
		return true, nil
	}
	return false, nil
}
