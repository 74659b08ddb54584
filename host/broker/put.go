package broker

import (
	"context"
	"fmt"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/handle"
)

// Put stores a message and returns when it is durable; with Options.Durability Interval, when it is written. When the
// context ends first, the error says whether the message was taken back (nothing happened) or is of kind ErrUnknown (it may be stored). A refusal is the engine's error:
// engine.ErrTopicName, engine.ErrQueue, engine.ErrLevel, engine.ErrTooLarge and so on.
func (b *Broker) Put(ctx context.Context, m Message) (Receipt, error) {
	receipts, err := b.PutBatch(ctx, []Message{m})
	if err != nil {
		return Receipt{}, err
	}
	return receipts[0], receipts[0].Err
}

// PutBatch stores messages, in order, and returns when all are durable, or written, as Put does. A message can be refused
// on its own: its receipt has Err. An error of the call is as in Put; of kind ErrUnknown, any of the messages may be stored.
func (b *Broker) PutBatch(ctx context.Context, messages []Message) ([]Receipt, error) {
	receipts := make([]Receipt, len(messages))
	puts := make([]engine.Put, len(messages))
	r := &request{cmds: make([]engine.Command, 0, len(messages)), written: b.opts.Durability == Interval}
	for i := range messages {
		puts[i], receipts[i].Err = messages[i].put()
		if receipts[i].Err == nil && messages[i].At != (When{}) {
			receipts[i].Err = b.mayDelay(messages[i].Topic)
		}
		if receipts[i].Err == nil {
			r.cmds = append(r.cmds, &puts[i])
			r.size += messages[i].size()
		}
	}
	if len(r.cmds) == 0 {
		return receipts, nil
	}
	if err := b.queue.do(ctx, r); err != nil {
		return nil, err
	}
	n := 0
	for i := range receipts {
		if receipts[i].Err == nil {
			receipts[i] = b.receipt(r.answers[n])
			receipts[i].Past = receipts[i].Outcome == engine.Stored && messages[i].At != When{}
			n++
		}
	}
	return receipts, nil
}

func (b *Broker) receipt(a engine.Answer) Receipt {
	if a.Outcome == engine.Refused {
		return Receipt{Err: a.Err}
	}
	r := Receipt{
		ID: b.ID(a.Position), Outcome: a.Outcome, Queue: int(a.Queue), Offset: a.Offset, Position: a.Position,
		DueMs: a.DueMs, Level: a.Level, Clamped: a.Clamped,
	}
	if a.Outcome == engine.Scheduled {
		r.Handle = b.e.SealHandle(a.Handle())
	}
	return r
}

// ID is the id of the message whose first copy is at a position (message.Message.First). It is unique among stores.
func (b *Broker) ID(first engine.Offset) string {
	return fmt.Sprintf("%x-%x", b.e.StoreID(), int64(first))
}

// Cancel takes a waiting message back. The outcome is definite: engine.Cancelled, engine.AlreadyCancelled,
// engine.Superseded, engine.Delivered or engine.NotFound, which a forged handle is too. It is durable when Cancel
// returns. The error is about the call alone.
func (b *Broker) Cancel(ctx context.Context, text string) (Outcome, error) {
	h, err := b.open(text)
	if err != nil {
		return engine.NotFound, nil
	}
	r := &request{cmds: []engine.Command{&engine.Cancel{Handle: h}}, size: requestOverhead}
	if err := b.queue.do(ctx, r); err != nil {
		return engine.Refused, err
	}
	return r.answers[0].Outcome, r.answers[0].Err
}

// Timer is what is known of a message that was put with a delay.
type Timer struct {
	Outcome Outcome // engine.Scheduled while it waits; else what Cancel would answer
	Topic   string  // empty when it is not known any more
	DueMs   int64   // that its handle was made for, ms since 1970
}

// Timer looks at a handle and changes nothing. A handle that is forged, or forgotten after the retention, is
// engine.NotFound.
func (b *Broker) Timer(ctx context.Context, text string) (Timer, error) {
	h, err := b.open(text)
	if err != nil {
		return Timer{Outcome: engine.NotFound}, nil
	}
	topics, err := b.Topics(ctx)
	if err != nil {
		return Timer{}, err
	}
	outcome, err := b.verdict(ctx, h)
	if err != nil {
		return Timer{}, err
	}
	t := Timer{Outcome: outcome, DueMs: h.Due}
	for i := range topics {
		if topics[i].ID == h.Topic {
			t.Topic = topics[i].Name
		}
	}
	return t, nil
}

// open checks a handle's signature; outside the writer, since it is the slow part.
func (b *Broker) open(text string) (handle.Handle, error) {
	h, err := b.e.OpenHandle(text)
	if err != nil {
		return h, fmt.Errorf("broker: %w", err)
	}
	return h, nil
}
