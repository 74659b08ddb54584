package broker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
)

// Committed as an offset means where the group stands, or the queue's first message when the group has committed
// nothing there, or no group is named.
const Committed = -1

// QueueOffset is a place in a queue.
type QueueOffset struct {
	Queue  int
	Offset int64
}

// PullRequest asks for messages of a topic.
type PullRequest struct {
	Topic string
	Group string // whose committed offsets count; may be empty
	// From says which queues to read and from where, and leases nothing. Nil means: with a Group, what is to be delivered
	// to it; without one, all queues from their first message.
	From []QueueOffset
	// AckTimeout is how long a group leases what is returned, at most MaxAckTimeout; 0: Options.AckTimeout.
	AckTimeout time.Duration
	// MaxAttempts is how often a message that is leased may be delivered before it becomes a dead letter, at most 1,000. 0:
	// Options.MaxAttempts.
	MaxAttempts int
	// Tags, if any, are the ones wanted; other messages are passed over.
	Tags []string
	// MaxCount is the most messages in all, at most MaxPull. 32.
	MaxCount int
	// MaxBytes is about the most bytes of messages in all; one message is returned whatever its size. 1 MiB.
	MaxBytes int
	// Wait is how long to wait for the first message when there is none, at most MaxWait. 0: not at all.
	Wait time.Duration
}

// Pulled is what a Pull found. It can be used again and again; it is not safe for concurrent use.
type Pulled struct {
	// Queues are the queues that were looked at, in no particular order. The messages in them are valid until the next
	// Pull into the same Pulled.
	Queues []PulledQueue
}

// PulledQueue is one queue's part. Its Next is the offset to go on from; a reader that says From commits it when the
// messages are done with. A queue of which a group has messages that come again can have several parts.
type PulledQueue struct {
	Topic string // the one that was asked for, or the group's retry topic
	Queue int
	engine.Pulled
	Leases []Lease // of a group's messages, at the same index; else empty
}

// Deliveries goes over the messages that a group was given, in no particular order of queues. They belong to p.
func (p *Pulled) Deliveries() iter.Seq[Delivery] {
	return func(yield func(Delivery) bool) {
		for i := range p.Queues {
			part := &p.Queues[i]
			for j := range part.Leases {
				lease := part.Leases[j]
				if !yield(Delivery{part.Messages[j], lease, part.Queue, part.Topic != lease.Topic}) {
					return
				}
			}
		}
	}
}

// Count is the number of messages in all queues.
func (p *Pulled) Count() int {
	n := 0
	for i := range p.Queues {
		n += len(p.Queues[i].Messages)
	}
	return n
}

// filterRounds bounds how often one Pull asks a queue again that had only messages with other tags.
const filterRounds = 16

// Pull reads messages into what is handed in, waiting for the first one if asked to.
//
// A group's pull that does not say From leases what it returns, each message under a receipt (Pulled.Deliveries): nobody
// else of the group gets it until the lease is over; then it comes again, with a higher attempt. The reader ends the lease
// with Ack, Retry or Reject, or makes it longer with Extend. The pull reads the topic and, of the group's retries, what
// comes from that topic. With Tags, messages with other tags count as acked by the group. Leases are in memory: after a
// restart the group goes on at its committed offsets.
//
// Any other pull leases nothing and changes nothing. A topic or queue that is not there is engine.ErrNoTopic or
// engine.ErrQueue, an offset whose message was deleted engine.ErrTrimmed. A message that can't be read has its Err set and
// doesn't hold up the others. When the context ends before a message comes, its error is returned.
func (b *Broker) Pull(ctx context.Context, req PullRequest, into *Pulled) error {
	into.Queues = into.Queues[:0]
	if err := req.complete(); err != nil {
		return err
	}
	if req.Group != "" && req.From == nil {
		return b.pullGroup(ctx, req, into)
	}
	if err := b.subscribe(ctx, req.Group, req.Topic); err != nil {
		return err
	}
	p := pull{b: b, req: req, into: into, tags: tagHashes(req.Tags)}
	if err := p.resolve(ctx); err != nil {
		return err
	}
	timer := time.NewTimer(req.Wait)
	defer timer.Stop()
	for {
		bell := b.bells.listen(p.ref)
		err := p.look(ctx)
		if err != nil || into.Count() > 0 || req.Wait == 0 {
			b.bells.leave(p.ref, bell)
			return err
		}
		over := false
		select {
		case <-atOnce(p.more):
		case <-bell.rung:
		case <-timer.C:
			over = true
		case <-ctx.Done():
			over, err = true, ctx.Err()
		case <-b.closing:
			over, err = true, ErrClosed
		}
		b.bells.leave(p.ref, bell)
		if over {
			return err
		}
	}
}

// atOnce is a channel that is closed if there is nothing to wait for, else one that never is.
func atOnce(yes bool) <-chan struct{} {
	if !yes {
		return nil
	}
	ch := make(chan struct{})
	close(ch)
	return ch
}

// complete fills in the defaults and checks the limits.
func (r *PullRequest) complete() error {
	if r.MaxCount == 0 {
		r.MaxCount = 32
	}
	if r.MaxBytes == 0 {
		r.MaxBytes = 1 << 20
	}
	switch {
	case r.MaxCount < 0 || r.MaxCount > MaxPull:
		return fmt.Errorf("%w: MaxCount is %d, allowed is 1 to %d", ErrRequest, r.MaxCount, MaxPull)
	case r.MaxBytes < 0:
		return fmt.Errorf("%w: MaxBytes is %d, allowed is 1 or more", ErrRequest, r.MaxBytes)
	case r.AckTimeout < 0 || r.AckTimeout > MaxAckTimeout:
		return fmt.Errorf("%w: AckTimeout is %v, allowed is 0 to %v", ErrRequest, r.AckTimeout, MaxAckTimeout)
	case r.MaxAttempts < 0 || r.MaxAttempts > 1000:
		return fmt.Errorf("%w: MaxAttempts is %d, allowed is 0 to 1000", ErrRequest, r.MaxAttempts)
	case r.Wait < 0 || r.Wait > MaxWait:
		return fmt.Errorf("%w: Wait is %v, allowed is 0 to %v", ErrRequest, r.Wait, MaxWait)
	}
	return nil
}

// tagHashes is what the engine filters by.
func tagHashes(tags []string) []int32 {
	if len(tags) == 0 {
		return nil
	}
	hashes := make([]int32, len(tags))
	for i, tag := range tags {
		hashes[i] = message.TagHash(tag)
	}
	return hashes
}

// pull is one Pull on its way.
type pull struct {
	b    *Broker
	req  PullRequest
	into *Pulled
	tags []int32
	from []place
	more bool            // a queue goes on behind what was passed over
	ref  engine.QueueRef // that something new is announced for
}

// place is where a queue is read from.
type place struct {
	QueueOffset
	follow bool  // by the committed offset: what was deleted is passed over
	min    int64 // the queue's first offset, as it may be told
	max    int64 // the queue's end at the begin
}

// settled waits until what was computed at a position may be told. When the log has failed that will never be; then
// durable messages can be read all the same, from where the state before the failure says.
func (p *pull) settled(ctx context.Context, pos engine.Offset) error {
	if err := p.b.gate.wait(ctx, pos); !errors.Is(err, ErrFailed) {
		return err
	}
	return nil
}

// topic describes the topic.
func (p *pull) topic(ctx context.Context) (engine.TopicInfo, error) {
	if err := p.b.enter(); err != nil {
		return engine.TopicInfo{}, err
	}
	info, ok, pos := p.b.e.Topic(p.req.Topic)
	p.b.leave()
	if !ok {
		return info, p.refusal(ctx, pos, fmt.Errorf("broker: %w: %q", engine.ErrNoTopic, p.req.Topic))
	}
	return info, p.settled(ctx, pos)
}

// refusal is an error that depends on state: it is held until that is durable, and after a failure it is not told.
func (p *pull) refusal(ctx context.Context, pos engine.Offset, refusal error) error {
	if err := p.b.gate.wait(ctx, pos); err != nil {
		return err
	}
	return refusal
}

// resolve finds out which queues are to be read from where.
func (p *pull) resolve(ctx context.Context) error {
	info, err := p.topic(ctx)
	if err != nil {
		return err
	}
	from := p.req.From
	if from == nil {
		for q := range info.Queues {
			from = append(from, QueueOffset{q, Committed})
		}
	}
	p.ref = engine.QueueRef{Topic: info.ID, Queue: allQueues}
	if len(from) == 1 && from[0].Queue >= 0 {
		p.ref.Queue = uint32(from[0].Queue)
	}
	for _, f := range from {
		if f.Queue < 0 || f.Queue >= len(info.Queues) {
			return fmt.Errorf("broker: %w: %s has queues 0 to %d, not %d",
				engine.ErrQueue, p.req.Topic, len(info.Queues)-1, f.Queue)
		}
		at := place{f, f.Offset == Committed, info.Queues[f.Queue].Min, info.Queues[f.Queue].Visible}
		if at.follow {
			if at.Offset, err = p.committed(ctx, f.Queue); err != nil {
				return err
			}
			at.Offset = max(at.Offset, at.min)
		}
		p.from = append(p.from, at)
	}
	return nil
}

// committed is where the group stands; 0 when it does not.
func (p *pull) committed(ctx context.Context, queue int) (int64, error) {
	if p.req.Group == "" {
		return 0, nil
	}
	if err := p.b.enter(); err != nil {
		return 0, err
	}
	offset, _, pos := p.b.e.Committed(p.req.Group, p.req.Topic, queue)
	p.b.leave()
	return offset, p.settled(ctx, pos)
}

// look reads every queue once, starting with another one each time, so that a busy one does not hide the rest.
func (p *pull) look(ctx context.Context) error {
	count, bytes := p.req.MaxCount, p.req.MaxBytes
	turn := int(p.b.turn.Add(1))
	p.into.Queues, p.more = p.into.Queues[:0], false
	if held, err := p.held(ctx); err != nil || held {
		return err
	}
	for i := range p.from {
		at := &p.from[(turn+i)%len(p.from)]
		part := p.into.next()
		part.Topic, part.Queue, part.Leases = p.req.Topic, at.Queue, part.Leases[:0]
		if count <= 0 || bytes <= 0 {
			part.Messages = part.Messages[:0]
			part.Next, part.Min, part.Max = at.Offset, at.min, at.max
			continue
		}
		if err := p.read(ctx, at, part, count, bytes); err != nil {
			return err
		}
		count -= len(part.Messages)
		for j := range part.Messages {
			bytes -= len(part.Messages[j].Body)
		}
	}
	return nil
}

// next lengthens the list of queues by one whose buffers are used again.
func (p *Pulled) next() *PulledQueue {
	if n := len(p.Queues); n < cap(p.Queues) {
		p.Queues = p.Queues[:n+1]
	} else {
		p.Queues = append(p.Queues, PulledQueue{})
	}
	return &p.Queues[len(p.Queues)-1]
}

// read asks the engine for one queue's messages, past those with other tags.
func (p *pull) read(ctx context.Context, at *place, part *PulledQueue, count, bytes int) error {
	for round := 1; ; round++ {
		err := p.ask(at, part, count, bytes)
		if errors.Is(err, engine.ErrTrimmed) && at.follow && part.Min > at.Offset {
			if err := p.settled(ctx, part.Position); err != nil {
				return err
			}
			at.Offset, at.min = part.Min, part.Min
			continue
		}
		if err != nil {
			return p.refusal(ctx, part.Position, fmt.Errorf("broker: %w", err))
		}
		moved := part.Next > at.Offset
		at.Offset = part.Next
		part.Messages = slices.DeleteFunc(part.Messages, p.unwanted)
		if len(part.Messages) > 0 || !moved || p.tags == nil {
			break
		}
		if round == filterRounds {
			p.more = true
			break
		}
	}
	part.Next, part.Min = at.Offset, at.min
	return nil
}

// ask is one pull of the engine's.
func (p *pull) ask(at *place, part *PulledQueue, count, bytes int) error {
	if err := p.b.enter(); err != nil {
		return err
	}
	defer p.b.leave()
	return p.b.e.Pull(engine.PullRequest{
		Topic: p.req.Topic, Queue: at.Queue, Offset: at.Offset, MaxCount: count, MaxBytes: bytes, Tags: p.tags,
	}, &part.Pulled)
}

// unwanted tells tags apart that have the same hash.
func (p *pull) unwanted(m engine.Message) bool {
	return p.tags != nil && m.Err == nil && !slices.Contains(p.req.Tags, string(m.Tag))
}
