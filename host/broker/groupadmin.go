package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
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

// attrBroadcast is the bit of a group's attributes in the log that says its mode.
const attrBroadcast = 1

func modeOf(attrs uint32) GroupMode {
	if attrs&attrBroadcast != 0 {
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
	if mode == Clustering {
		if err := b.command(ctx, &engine.DefineGroup{Group: name}); err != nil {
			return err
		}
		b.broadcasts.drop(name)
		return nil
	}
	info, ok, err := b.groupInfo(ctx, name)
	if err != nil {
		return err
	}
	topics := map[string]bool{}
	if ok {
		for _, o := range info.Offsets {
			topics[o.Topic] = true
		}
	}
	for topic := range topics {
		if strings.HasPrefix(topic, retryPrefix) || strings.HasPrefix(topic, deadPrefix) {
			continue
		}
		if err := b.broadcastable(ctx, name, topic); err != nil {
			return err
		}
	}
	if err := b.command(ctx, &engine.DefineGroup{Group: name, Attrs: attrBroadcast}); err != nil {
		return err
	}
	b.broadcasts.add(name, slices.Collect(maps.Keys(topics))...)
	return nil
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
		b.broadcasts.drop(name)
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

// groupInfo is what the log says of a group.
func (b *Broker) groupInfo(ctx context.Context, name string) (engine.GroupInfo, bool, error) {
	if err := b.enter(); err != nil {
		return engine.GroupInfo{}, false, err
	}
	infos, pos := b.e.Groups()
	b.leave()
	if err := b.gate.wait(ctx, pos); err != nil {
		return engine.GroupInfo{}, false, err
	}
	for i := range infos {
		if infos[i].Name == name {
			return infos[i], true, nil
		}
	}
	return engine.GroupInfo{}, false, nil
}

// broadcasts knows which groups are broadcast groups, and which topics they read. It is safe for concurrent use.
type broadcasts struct {
	mu     sync.RWMutex
	groups map[string]map[string]bool // the topics of each
}

// load takes over what the log says.
func (s *broadcasts) load(infos []engine.GroupInfo) {
	for i := range infos {
		if modeOf(infos[i].Attrs) != Broadcast {
			continue
		}
		s.add(infos[i].Name)
		for _, o := range infos[i].Offsets {
			s.add(infos[i].Name, o.Topic)
		}
	}
}

func (s *broadcasts) add(group string, topics ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.groups == nil {
		s.groups = map[string]map[string]bool{}
	}
	if s.groups[group] == nil {
		s.groups[group] = map[string]bool{}
	}
	for _, topic := range topics {
		s.groups[group][topic] = true
	}
}

func (s *broadcasts) drop(group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.groups, group)
}

// has says whether a group is a broadcast group.
func (s *broadcasts) has(group string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.groups[group] != nil
}

// reads says whether a broadcast group is known to read a topic.
func (s *broadcasts) reads(group, topic string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.groups[group][topic]
}

// reader is a broadcast group that reads a topic, "" if there is none.
func (s *broadcasts) reader(topic string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for group, topics := range s.groups {
		if topics[topic] {
			return group
		}
	}
	return ""
}

// dropTopic forgets a topic that was deleted.
func (s *broadcasts) dropTopic(topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, topics := range s.groups {
		delete(topics, topic)
	}
}

// subscribe notes, durably, that a broadcast group reads a topic: no delayed message is put into it from then on.
func (b *Broker) subscribe(ctx context.Context, group, topic string) error {
	if !b.broadcasts.has(group) || b.broadcasts.reads(group, topic) {
		return nil
	}
	if err := b.broadcastable(ctx, group, topic); err != nil {
		return err
	}
	b.broadcasts.add(group, topic) // first, so that nothing delayed comes in behind the look
	err := b.broadcastable(ctx, group, topic)
	if err == nil {
		err = b.command(ctx, &engine.CommitOffset{Group: group, Topic: topic})
	}
	if err != nil && !errors.Is(err, engine.ErrOffset) { // ErrOffset: it has committed something already
		b.broadcasts.mu.Lock()
		delete(b.broadcasts.groups[group], topic)
		b.broadcasts.mu.Unlock()
		return err
	}
	return nil
}

// broadcastable refuses a topic with delayed messages.
func (b *Broker) broadcastable(ctx context.Context, group, topic string) error {
	info, err := b.Topic(ctx, topic)
	if err != nil {
		return err
	}
	if info.Pending > 0 {
		return fmt.Errorf("broker: %w: topic %q has %d delayed messages, which broadcast group %q cannot read",
			ErrBroadcast, topic, info.Pending, group)
	}
	return nil
}

// mayDelay refuses a message with a delay for a topic that a broadcast group reads.
func (b *Broker) mayDelay(topic string) error {
	if group := b.broadcasts.reader(topic); group != "" {
		return fmt.Errorf("broker: %w: topic %q is read by broadcast group %q, so it takes no message with a delay",
			ErrBroadcast, topic, group)
	}
	return nil
}
