package broker

import (
	"context"
	"fmt"
	"iter"

	"github.com/tidewheel/tidewheel/engine"
)

// Where a stream of events may begin beside the place of an event.
const (
	EventsFromNow   engine.Offset = 0  // what is released after the loop has begun
	EventsFromFirst engine.Offset = -1 // the oldest that the log has
)

// EventFilter says which events are meant. The zero value means everything from now on.
type EventFilter struct {
	// Topic, if any, is the one whose events are meant: of its messages, its own, and commits in it. It need not be there
	// yet.
	Topic string
	// From is where to begin: EventsFromNow, EventsFromFirst, or a place in the log. To go on behind an event that was
	// seen, also after a restart, it is that event's Position + 1.
	From engine.Offset
}

// Event is something that happened, with the log position that names it (engine.Event says which fields a kind has).
type Event struct {
	engine.Event
	MessageID string // as in a Receipt; empty where the log does not say it: of a cancel only the number ID is known
}

// Events tells what happens, in the order of the log, each event once, and only what is durable: messages that come,
// wait, are moved, cancelled, delivered (with LatenessMs) or dropped, commits, changes of topics and groups. It reads the
// log as the loop comes to it, in steps of a few MiB, and at the end it waits for more, until the context ends: so the
// loop ends only by the caller, with an error, or when the broker is closed (ErrClosed).
//
// engine.ErrTrimmed: the place was deleted, at the begin or under a loop that was too slow; the error says where the log
// begins now, and EventsFromFirst goes on there. engine.ErrOffset: the log was never that long. After an error the loop
// is over. A sequence can be gone through again, and then it begins again.
func (b *Broker) Events(ctx context.Context, f EventFilter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		r, err := b.eventReader(f)
		var events []engine.Event
		for err == nil {
			if events, err = b.readEvents(ctx, r, events[:0]); err != nil {
				break
			}
			for i := range events {
				if !yield(b.event(&events[i]), nil) {
					return
				}
			}
			if err = ctx.Err(); err == nil {
				err = b.gate.wait(ctx, r.At()+1)
			}
		}
		yield(Event{}, err)
	}
}

// eventReader makes the reader of a loop.
func (b *Broker) eventReader(f EventFilter) (*engine.EventReader, error) {
	if err := b.enter(); err != nil {
		return nil, err
	}
	defer b.leave()
	from := f.From
	switch from {
	case EventsFromNow:
		from = b.e.Released()
	case EventsFromFirst:
		from = b.e.First()
	}
	r, err := b.e.NewEventReader(f.Topic, from)
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	return r, nil
}

// readEvents takes one step.
func (b *Broker) readEvents(ctx context.Context, r *engine.EventReader, into []engine.Event) ([]engine.Event, error) {
	if err := b.enter(); err != nil {
		return nil, err
	}
	events, pos, err := r.Read(into)
	b.leave()
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	return events, b.gate.wait(ctx, pos)
}

func (b *Broker) event(ev *engine.Event) Event {
	out := Event{Event: *ev}
	if ev.First >= 0 && ev.Kind != engine.EventTrimmed && ev.Kind != engine.EventLost {
		out.MessageID = b.ID(ev.First)
	}
	return out
}
