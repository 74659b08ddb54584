package broker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/handle"
	"github.com/tidewheel/tidewheel/engine/message"
)

// At is a due time, ms since 1970. One that is past means at once.
func At(ms int64) When { return When{dueMs: ms} }

// In is a delay from the moment of storing, in whole milliseconds, at least one.
func In(d time.Duration) When { return When{delayMs: max(d.Milliseconds(), 1)} }

// DueMs is the time that is meant, ms since 1970, when it is nowMs; a level is none.
func (w When) DueMs(nowMs int64) int64 {
	switch {
	case w.delayMs > math.MaxInt64-nowMs:
		return math.MaxInt64
	case w.delayMs != 0:
		return nowMs + w.delayMs
	case w.dueMs != 0:
		return w.dueMs
	}
	return nowMs
}

// Changed says what became of a waiting message that was to be moved, fired or restored.
type Changed struct {
	Outcome Outcome // engine.Moved or engine.Restored; else what Cancel would answer, and nothing happened
	Handle  string  // the new one; the old one is superseded
	DueMs   int64   // ms since 1970; of a message that was delivered: when it was due
}

// Move gives a waiting message another due time, ms since 1970; one that is past means now. It is one step: the message
// never is away, and never there twice. The outcome is definite, as that of Cancel.
func (b *Broker) Move(ctx context.Context, text string, dueMs int64) (Changed, error) {
	return b.change(ctx, text, b.e.ReadPending, func(h handle.Handle, p engine.Pending) engine.Command {
		return &engine.Move{Handle: h, DueMs: dueMs, Record: p}
	})
}

// Fire moves a waiting message to now.
func (b *Broker) Fire(ctx context.Context, text string) (Changed, error) {
	return b.Move(ctx, text, b.env.Wall())
}

// Undo takes a cancel back, until the message's due time and while its body is in the log: it waits again, under a new
// handle. After that the error is engine.ErrTooLate or engine.ErrNoMessage.
func (b *Broker) Undo(ctx context.Context, text string) (Changed, error) {
	c, err := b.change(ctx, text, b.e.ReadCancelled, func(h handle.Handle, p engine.Pending) engine.Command {
		return &engine.Undo{Handle: h, Record: p}
	})
	if err == nil && c.Outcome == engine.AlreadyCancelled {
		return c, fmt.Errorf("broker: %w: the cancelled message's body was deleted with the head of the log", engine.ErrNoMessage)
	}
	return c, err
}

// changeTries is how often a message is read again that was rolled while it was read.
const changeTries = 3

// change reads a message, since the writer reads no bodies, and hands the command to it.
func (b *Broker) change(ctx context.Context, text string, read func(handle.Handle) (engine.Pending, error),
	command func(handle.Handle, engine.Pending) engine.Command) (Changed, error) {
	h, err := b.open(text)
	if err != nil {
		return Changed{Outcome: engine.NotFound}, nil
	}
	record, outcome, err := b.find(ctx, h, read)
	if err != nil || outcome != engine.Done {
		return Changed{Outcome: outcome, DueMs: h.Due}, err
	}
	r := &request{cmds: []engine.Command{command(h, record)}, size: requestOverhead + record.Size()}
	if err := b.queue.do(ctx, r); err != nil {
		return Changed{}, err
	}
	a := r.answers[0]
	c := Changed{Outcome: a.Outcome, DueMs: a.DueMs}
	if a.Outcome == engine.Moved || a.Outcome == engine.Restored {
		c.Handle = b.e.SealHandle(a.Handle())
	}
	return c, a.Err
}

// find reads a message: engine.Done, or what it is if it is not what was asked for.
func (b *Broker) find(ctx context.Context, h handle.Handle, read func(handle.Handle) (engine.Pending, error)) (
	engine.Pending, Outcome, error) {
	for try := 1; ; try++ {
		if err := b.enter(); err != nil {
			return engine.Pending{}, engine.Refused, err
		}
		record, err := read(h)
		b.leave()
		again := try < changeTries
		switch {
		case err == nil:
			return record, engine.Done, nil
		case errors.Is(err, commitlog.ErrOutOfLog) && again: // it was rolled, and the place it was at deleted
		case errors.Is(err, engine.ErrNoMessage):
			outcome, err := b.verdict(ctx, h)
			if err != nil || outcome != engine.Scheduled || !again {
				return record, outcome, err
			}
		default:
			return record, engine.Refused, fmt.Errorf("broker: %w", err)
		}
	}
}

// Read reads a message that waits, or one that was cancelled while its body is in the log. Otherwise the error is
// engine.ErrNoMessage. The message is a copy and belongs to the caller.
func (b *Broker) Read(ctx context.Context, text string) (message.Message, error) {
	h, err := b.open(text)
	if err != nil {
		return message.Message{}, fmt.Errorf("%w: %w", engine.ErrNoMessage, err)
	}
	record, outcome, err := b.find(ctx, h, b.e.ReadPending)
	if err == nil && outcome == engine.AlreadyCancelled {
		record, outcome, err = b.find(ctx, h, b.e.ReadCancelled)
	}
	if err != nil {
		return message.Message{}, err
	}
	if outcome != engine.Done {
		return message.Message{}, fmt.Errorf("broker: %w: it does not wait", engine.ErrNoMessage)
	}
	m, err := record.Message()
	if err != nil {
		return message.Message{}, fmt.Errorf("broker: %w", err)
	}
	return m, nil
}

// verdict is what a cancel would answer.
func (b *Broker) verdict(ctx context.Context, h handle.Handle) (Outcome, error) {
	if err := b.enter(); err != nil {
		return engine.Refused, err
	}
	outcome, pos, err := b.e.Verdict(h)
	b.leave()
	if err != nil {
		return engine.Refused, fmt.Errorf("broker: %w", err)
	}
	return outcome, b.gate.wait(ctx, pos)
}

// Place finds out where a message that waited became visible; see engine.Engine.Place. It is for one that a change has just been
// refused for as engine.Delivered.
func (b *Broker) Place(text string) (p engine.Place, ok bool, err error) {
	h, err := b.open(text)
	if err != nil {
		return engine.Place{}, false, nil
	}
	if err := b.enter(); err != nil {
		return engine.Place{}, false, err
	}
	defer b.leave()
	if p, ok, err = b.e.Place(h); err != nil {
		err = fmt.Errorf("broker: %w", err)
	}
	return p, ok, err
}

// Waiting is a message that waits.
type Waiting struct {
	engine.Waiting
	Handle string // cancels and moves it
}

// TimersPage is one look at the waiting messages.
type TimersPage struct {
	Messages  []Waiting // in the order of (due, id)
	Next      string    // where to go on; "" at the end
	ScannedTo int64     // a due time, ms: everything before it that matches was found
}

// TimersPage lists waiting messages, from a page on ("" at first), at most limit. A page may be empty and not the last.
func (b *Broker) TimersPage(ctx context.Context, f engine.Filter, page string, limit int) (TimersPage, error) {
	if err := b.enter(); err != nil {
		return TimersPage{}, err
	}
	found, err := b.e.Pending(f, page, limit)
	b.leave()
	if err != nil {
		return TimersPage{}, fmt.Errorf("broker: %w", err)
	}
	if err := b.gate.wait(ctx, found.Position); err != nil {
		return TimersPage{}, err
	}
	p := TimersPage{Next: found.Next, ScannedTo: found.ScannedTo}
	for _, w := range found.Messages {
		p.Messages = append(p.Messages, Waiting{w, b.e.SealHandle(w.Handle)})
	}
	return p, nil
}

// Timers goes over waiting messages in the order of (due, id), lazily: pages are read as the loop comes to them, and
// what fires meanwhile is not there any more. After an error the loop ends.
func (b *Broker) Timers(ctx context.Context, f engine.Filter) iter.Seq2[Waiting, error] {
	return func(yield func(Waiting, error) bool) {
		for page := ""; ; {
			p, err := b.TimersPage(ctx, f, page, 0)
			if err != nil {
				yield(Waiting{}, err)
				return
			}
			for _, w := range p.Messages {
				if !yield(w, nil) {
					return
				}
			}
			if page = p.Next; page == "" {
				return
			}
		}
	}
}

// Horizon counts waiting messages by due time; see engine.Engine.Horizon.
func (b *Broker) Horizon(ctx context.Context, topic string, fromMs, toMs, stepMs int64) (engine.Horizon, error) {
	if err := b.enter(); err != nil {
		return engine.Horizon{}, err
	}
	h, err := b.e.Horizon(topic, fromMs, toMs, stepMs)
	b.leave()
	if err != nil {
		return engine.Horizon{}, fmt.Errorf("broker: %w", err)
	}
	return h, b.gate.wait(ctx, h.Position)
}

// Explanation is the life of a message; see engine.Explanation.
type Explanation struct {
	engine.Explanation
	Handle string // the one that counts instead: of a message that was moved, or whose cancel was undone
}

// Explain tells the life of a message from the log; see engine.Engine.Explain. A forged handle is engine.NotFound.
func (b *Broker) Explain(ctx context.Context, text string) (Explanation, error) {
	h, err := b.open(text)
	if err != nil {
		return Explanation{Explanation: engine.Explanation{Outcome: engine.NotFound}}, nil
	}
	x, err := b.lifeOf(ctx, h)
	out := Explanation{Explanation: x}
	if x.Next != (handle.Handle{}) {
		out.Handle = b.e.SealHandle(x.Next)
	}
	return out, err
}

// lifeOf reads the log up to what was released when it began.
func (b *Broker) lifeOf(ctx context.Context, h handle.Handle) (engine.Explanation, error) {
	x, err := b.explain(ctx, h, 0)
	if err != nil || x.ScannedTo >= x.Position {
		return x, err
	}
	// What was not released when the log was read is now.
	rest, err := b.explain(ctx, h, x.ScannedTo)
	if err != nil {
		return x, err
	}
	if rest.Outcome == x.Outcome && len(rest.Events) == 0 {
		rest.Reason = x.Reason // it was told from the events before
	}
	rest.Events = append(x.Events, rest.Events...)
	rest.Position = x.Position
	if rest.Next == (handle.Handle{}) {
		rest.Next = x.Next
	}
	return rest, nil
}

func (b *Broker) explain(ctx context.Context, h handle.Handle, from engine.Offset) (engine.Explanation, error) {
	if err := b.enter(); err != nil {
		return engine.Explanation{}, err
	}
	x, err := b.e.Explain(h, from)
	b.leave()
	if err != nil {
		return engine.Explanation{}, fmt.Errorf("broker: %w", err)
	}
	return x, b.gate.wait(ctx, x.Position)
}
