package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/handle"
	"github.com/tidewheel/tidewheel/engine/internal/state"
)

// explainBytes bounds the log that one Explain reads.
const explainBytes = 256 << 20

// Explanation is the life of a waiting message, as the log tells it.
type Explanation struct {
	Outcome Outcome // what a cancel would answer; Scheduled while it waits
	Events  []Event // in the order of the log
	Reason  string  // why it is not in its topic, or why it is
	// Next is the handle that counts instead, of a message that was moved or whose cancel was undone; else zero.
	Next handle.Handle
	// ScannedTo is how far the log was read: at most 256 MiB from From on. Ask again from there for the rest.
	ScannedTo Offset
	// Position: the answer may leave when the log is released up to here.
	Position Offset
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
	start, scan := from, eventScan{id: h.ID, home: h.Topic}
	err = e.log.Scan(from, 0, false, func(b *commitlog.Batch) error {
		if b.End() > e.Released() || b.Base-start > explainBytes {
			return fs.SkipAll
		}
		x.ScannedTo = b.End()
		return scan.read(b)
	})
	x.Events, x.Next = scan.events, scan.next
	if outcome == Delivered {
		x.Reason = e.whyDelivered(x.Events)
	}
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

// whyDelivered tells a message that is in its topic from one that is in the stage, or that was decided about there.
func (e *Engine) whyDelivered(events []Event) string {
	var staged, decided *Event
	for i := range events {
		switch ev := &events[i]; {
		case ev.Kind == EventStaged:
			staged = ev
		case staged != nil && ev.Verdict != nil && ev.Verdict.Queue == staged.Queue && ev.Verdict.Offset == staged.Offset:
			decided = ev
		}
	}
	switch {
	case decided != nil && !decided.Verdict.Asked:
		return "it was delivered: no plugin was asked"
	case decided != nil && decided.Kind == EventDelivered:
		return fmt.Sprintf("it was delivered: plugin %x kept it", decided.Verdict.Digest[:6])
	case decided != nil:
		return fmt.Sprintf("it is not in its topic: plugin %x decided %s, code %d", decided.Verdict.Digest[:6],
			ActionName(decided.Verdict.Action), decided.Verdict.Code)
	case staged != nil && e.inStage(staged):
		return "it was due, and is in the stage of its topic, not yet decided"
	case staged != nil:
		return "it was due, and was decided about in the stage of its topic"
	}
	return "it was delivered"
}

// inStage says whether a message that came to a stage is not settled there.
func (e *Engine) inStage(ev *Event) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	t, g := e.st.Topics[ev.Topic], e.st.GroupByName(StageGroup)
	if t == nil || t.Stage == nil || int(ev.Queue) >= len(t.Stage.Queues) {
		return false
	}
	key := state.OffsetKey{Topic: t.Stage.ID, Queue: ev.Queue}
	if g != nil {
		key.Group = g.ID
	}
	return !e.st.Offsets.IsSettled(key, e.low(t.Stage, ev.Queue), ev.Offset)
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
		return "it is due in " + span(h.Due-now)
	case e.failed.Load() != nil:
		return "it is due, but the store has failed and must be opened again"
	case e.fire.err != nil:
		return fmt.Sprintf("it is due, but its index cannot be read: %v", e.fire.err)
	case e.st.Topics[h.Topic] == nil:
		return "it is due, but its topic was deleted: it will be dropped"
	}
	return "it is due and delivered by one of the next ticks"
}

// span is a number of ms for people: days, then what is left of one.
func span(ms int64) string {
	const day = 24 * 60 * 60 * 1000
	rest := (time.Duration(ms%day) * time.Millisecond).String()
	if ms < day {
		return rest
	}
	return fmt.Sprintf("%dd%s", ms/day, rest)
}
