package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/handle"
)

// Put stores a message and returns when it is durable; with Options.Durability Interval, when it is written. When the
// context ends first, the error says whether the message was taken back (nothing happened) or is of kind ErrUnknown (it
// may be stored). A refusal is the engine's error: engine.ErrTopicName, engine.ErrQueue, engine.ErrLevel,
// engine.ErrTooLarge and so on; or ErrIdempotencyMismatch.
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
	p := batchPut{b: b, messages: messages, puts: make([]engine.Put, len(messages)), receipts: make([]Receipt, len(messages))}
	todo := make([]int, 0, len(messages))
	for i := range messages {
		err := messages[i].put(&p.puts[i])
		if p.receipts[i].Err = err; err == nil {
			todo = append(todo, i)
		}
	}
	todo, err := p.publish(ctx, todo)
	if err != nil {
		return nil, err
	}
	for try := 0; len(todo) > 0; try++ {
		if todo, err = p.look(ctx, todo); err == nil {
			todo, err = p.store(ctx, todo, try < keyTries)
		}
		if err != nil && p.stored && !errors.Is(err, ErrUnknown) {
			err = fmt.Errorf("%w: a part is stored: %w", ErrUnknown, err)
		}
		if err != nil {
			return nil, err
		}
	}
	return p.receipts, nil
}

// batchPut is a PutBatch on its way.
type batchPut struct {
	b        *Broker
	messages []Message
	puts     []engine.Put
	receipts []Receipt
	stored   bool          // there is one of them that was not before
	dropped  map[int]error // what a message is answered that is stored as a dead letter of a plugin; by its index
}

// store stores messages, and returns those whose idempotency key has to be looked for again, if it may.
func (p *batchPut) store(ctx context.Context, todo []int, mayLook bool) (again []int, err error) {
	if len(todo) == 0 {
		return nil, nil
	}
	r := &request{cmds: make([]engine.Command, len(todo)), written: p.b.opts.Durability == Interval}
	for n, i := range todo {
		r.cmds[n] = &p.puts[i]
		r.size += p.messages[i].size()
	}
	if err := p.b.queue.do(ctx, r); err != nil {
		return nil, err
	}
	for n, i := range todo {
		if a := &r.answers[n]; mayLook && errors.Is(a.Err, engine.ErrKey) {
			again = append(again, i)
		} else {
			p.answered(i, *a)
			p.stored = p.stored || a.Outcome != engine.Refused
		}
	}
	return again, nil
}

// answered makes a receipt of an answer.
func (p *batchPut) answered(i int, a engine.Answer) {
	r := &p.receipts[i]
	if *r = p.b.receipt(a); r.Err != nil {
		return
	}
	if err := p.dropped[i]; err != nil {
		*r = Receipt{Err: err}
		return
	}
	r.Topic = p.puts[i].Topic
	r.Past = a.Outcome == engine.Stored && p.messages[i].At != When{}
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
