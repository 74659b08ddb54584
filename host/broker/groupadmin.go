package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/record"
)

// GroupMode says how the readers of a group share its messages.
type GroupMode uint8

// The modes.
const (
	// Clustering: each message goes to one of the group's readers. The mode of a group that was never defined.
	Clustering GroupMode = iota
	// Broadcast: each reader reads everything, and keeps its place itself. Messages with a delay cannot be read so.
	Broadcast
)

// String is "clustering" or "broadcast".
func (m GroupMode) String() string {
	if m == Broadcast {
		return "broadcast"
	}
	return "clustering"
}

func modeOf(attrs uint32) GroupMode {
	if attrs&record.GroupBroadcast != 0 {
		return Broadcast
	}
	return Clustering
}

// DefineGroup makes a consumer group, or changes its mode; a group that is only read from needs no definition. A group
// that has committed offsets in a topic with delayed messages cannot become a broadcast group: ErrBroadcast.
func (b *Broker) DefineGroup(ctx context.Context, name string, mode GroupMode) error {
	if mode > Broadcast {
		return fmt.Errorf("%w: group mode %d", ErrRequest, mode)
	}
	c := &engine.DefineGroup{Group: name}
	if mode == Broadcast {
		c.Attrs = record.GroupBroadcast
	}
	return b.command(ctx, c)
}

// DeleteGroup removes a group: its committed offsets, what waits for it to be retried, and its dead letters. Its receipts
// are unknown from then on. A group that is not there is engine.ErrNoGroup.
func (b *Broker) DeleteGroup(ctx context.Context, name string) error {
	g := b.groups.acquire(name)
	defer b.groups.release(g)
	return b.alone(ctx, g, func() error {
		r := &request{size: 3 * requestOverhead, cmds: []engine.Command{
			&engine.DeleteTopic{Topic: RetryTopic(name)}, &engine.DeleteTopic{Topic: DeadLetterTopic(name)},
			&engine.DeleteGroup{Group: name},
		}}
		if err := b.queue.finish(ctx, r); err != nil {
			return err
		}
		known := false
		for i := range r.answers {
			if a := &r.answers[i]; a.Err == nil {
				known = true
				if i < 2 {
					b.groups.dropTopic(a.Topic, r.cmds[i].(*engine.DeleteTopic).Topic)
				}
			}
		}
		if err := r.answers[2].Err; !known {
			return err
		}
		b.groups.forget(g)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.gone = true
		clear(g.tracks)
		return nil
	})
}

// Seek sets where a group goes on in queues, back or forth. Its leases in them are void: what is not before the offset
// comes again, and acks of it are AckExpired. Each queue is judged on its own: the errors are joined.
func (b *Broker) Seek(ctx context.Context, group, topic string, offsets []QueueOffset) error {
	return b.CommitOffset(ctx, group, topic, offsets, true)
}

// SeekTime is Seek to the first messages that became visible at or after a time, ms since 1970, in every queue of a topic;
// to the end of a queue that has none. It returns where that is.
func (b *Broker) SeekTime(ctx context.Context, group, topic string, wallMs int64) ([]QueueOffset, error) {
	info, err := b.Topic(ctx, topic)
	if err != nil {
		return nil, err
	}
	offsets := make([]QueueOffset, len(info.Queues))
	for q := range info.Queues {
		if offsets[q], err = b.at(topic, q, wallMs); err != nil {
			return nil, err
		}
	}
	return offsets, b.Seek(ctx, group, topic, offsets)
}

func (b *Broker) at(topic string, queue int, wallMs int64) (QueueOffset, error) {
	if err := b.enter(); err != nil {
		return QueueOffset{}, err
	}
	defer b.leave()
	offset, err := b.e.SearchTime(topic, queue, wallMs)
	if err != nil {
		return QueueOffset{}, fmt.Errorf("broker: %w", err)
	}
	return QueueOffset{queue, offset}, nil
}

// CommitOffset says that a group is done with the messages below the offset in each of the queues, whoever has a lease on
// them. An offset below the committed one is refused with engine.ErrOffset unless seek is set, which makes it a Seek. Each
// queue is judged on its own: the errors are joined.
func (b *Broker) CommitOffset(ctx context.Context, group, topic string, offsets []QueueOffset, seek bool) error {
	if len(offsets) == 0 {
		return nil
	}
	if err := message.ValidGroup(group); err != nil {
		return fmt.Errorf("broker: %w: %w", engine.ErrGroupName, err)
	}
	g := b.groups.acquire(group)
	defer b.groups.release(g)
	if seek {
		return b.alone(ctx, g, func() error { return b.place(ctx, g, topic, offsets, true) })
	}
	if err := b.join(ctx, g); err != nil {
		return err
	}
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.part()
	}()
	return b.place(ctx, g, topic, offsets, false)
}

// place commits offsets and lets the group's tracks know.
func (b *Broker) place(ctx context.Context, g *group, topic string, offsets []QueueOffset, seek bool) error {
	r := &request{size: requestOverhead * len(offsets)}
	for _, o := range offsets {
		r.cmds = append(r.cmds, &engine.CommitOffset{Group: g.name, Topic: topic, Queue: o.Queue, Offset: o.Offset, Seek: seek})
	}
	if err := b.queue.finish(ctx, r); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var errs []error
	for i := range r.answers {
		a := &r.answers[i]
		if errs = append(errs, a.Err); a.Err != nil {
			continue
		}
		t := g.tracks[engine.QueueRef{Topic: a.Topic, Queue: a.Queue}]
		switch {
		case t == nil:
		case seek:
			t.reset(a.Offset)
			t.void = g.tokens
		default:
			t.forward(a.Offset)
			t.committed = max(t.committed, a.Offset)
			g.roomier(t)
		}
	}
	return errors.Join(errs...)
}

// broadcast says whether a group is a broadcast group.
func (b *Broker) broadcast(ctx context.Context, name string) (bool, error) {
	if name == "" {
		return false, nil
	}
	if err := b.enter(); err != nil {
		return false, err
	}
	info, ok, pos := b.e.Group(name)
	b.leave()
	if !ok || modeOf(info.Attrs) != Broadcast {
		return false, nil
	}
	return true, b.gate.wait(ctx, pos)
}

// subscribe notes in the log that a broadcast group reads a topic, by the offset 0 of the first queue: from then on the
// engine refuses messages with a delay for it, as it refuses the note while one waits. A group of mode clustering needs none.
func (b *Broker) subscribe(ctx context.Context, group, topic string) error {
	if is, err := b.broadcast(ctx, group); err != nil || !is {
		return err
	}
	if err := b.enter(); err != nil {
		return err
	}
	_, reads, _ := b.e.Committed(group, topic, 0)
	b.leave()
	if reads {
		return nil
	}
	err := b.command(ctx, &engine.CommitOffset{Group: group, Topic: topic})
	if errors.Is(err, engine.ErrOffset) {
		return nil // it has committed something meanwhile
	}
	return err
}
