package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidewheel/tidewheel/engine"
)

// GroupInfo is how a consumer group stands.
type GroupInfo struct {
	Name   string
	Mode   GroupMode
	Topics []GroupTopic // in which it has committed offsets, or leases; without its own two topics
	// Retrying are its messages that wait to be delivered again, or can be.
	Retrying int64
	// DeadLetters are those that it gave up and that were not dropped or tried again.
	DeadLetters int64
}

// GroupTopic is how a group stands in a topic.
type GroupTopic struct {
	Topic  string
	Queues []GroupQueue // all of the topic
}

// GroupQueue is how a group stands in a queue.
type GroupQueue struct {
	Queue     int
	Committed int64 // the group goes on here after a restart; -1: it has committed nothing
	Next      int64 // it has not looked at what lies from here on
	End       int64 // of the queue
	Lag       int64 // messages that it is not done with: from the lowest one that is not acked to the end
	Leased    int   // leases that run
}

// Lag is the sum over the queues of all topics.
func (g *GroupInfo) Lag() (n int64) {
	for _, t := range g.Topics {
		for _, q := range t.Queues {
			n += q.Lag
		}
	}
	return n
}

// Leased is the number of leases that run, over all topics.
func (g *GroupInfo) Leased() (n int) {
	for _, t := range g.Topics {
		for _, q := range t.Queues {
			n += q.Leased
		}
	}
	return n
}

// Groups lists the consumer groups by name. The list is the caller's.
func (b *Broker) Groups(ctx context.Context) ([]GroupInfo, error) {
	return b.groupInfos(ctx, func(string) bool { return true })
}

// Group describes a consumer group; one that was not defined and has no leases and no offsets is engine.ErrNoGroup.
func (b *Broker) Group(ctx context.Context, name string) (GroupInfo, error) {
	list, err := b.groupInfos(ctx, func(other string) bool { return other == name })
	if err != nil {
		return GroupInfo{}, err
	}
	if len(list) == 0 {
		return GroupInfo{}, fmt.Errorf("broker: %w: %q", engine.ErrNoGroup, name)
	}
	return list[0], nil
}

// standing is what log and memory say of a group.
type standing struct {
	info      engine.GroupInfo
	committed map[string]map[int]int64 // by topic and queue
}

// groupInfos describes the groups that are wanted.
func (b *Broker) groupInfos(ctx context.Context, wanted func(name string) bool) ([]GroupInfo, error) {
	if err := b.enter(); err != nil {
		return nil, err
	}
	known, _ := b.e.Groups()
	topics, pos := b.e.Topics()
	b.leave()
	if err := b.gate.wait(ctx, pos); err != nil && !errors.Is(err, ErrFailed) {
		return nil, err
	}
	byName := map[string]*engine.TopicInfo{}
	for i := range topics {
		byName[topics[i].Name] = &topics[i]
	}
	groups := map[string]*standing{}
	for i := range known {
		if !isStage(known[i].Name) && wanted(known[i].Name) {
			groups[known[i].Name] = newStanding(known[i])
		}
	}
	for _, g := range b.groups.all() {
		if wanted(g.name) && (groups[g.name] != nil || g.reads()) {
			if groups[g.name] == nil {
				groups[g.name] = newStanding(engine.GroupInfo{Name: g.name})
			}
		}
		b.groups.release(g)
	}
	list := make([]GroupInfo, 0, len(groups))
	for name, s := range groups {
		info, err := b.describe(ctx, name, s, byName)
		if err != nil {
			return nil, err
		}
		list = append(list, info)
	}
	slices.SortFunc(list, func(x, y GroupInfo) int {
		if x.Name < y.Name {
			return -1
		}
		return 1
	})
	return list, nil
}

func newStanding(info engine.GroupInfo) *standing {
	s := &standing{info: info, committed: map[string]map[int]int64{}}
	for _, o := range info.Offsets {
		if s.committed[o.Topic] == nil {
			s.committed[o.Topic] = map[int]int64{}
		}
		s.committed[o.Topic][o.Queue] = o.Offset
	}
	return s
}

// reads says whether the group is at work on any queue.
func (g *group) reads() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.tracks) > 0
}

// describe puts a group together.
func (b *Broker) describe(ctx context.Context, name string, s *standing, topics map[string]*engine.TopicInfo) (GroupInfo, error) {
	info := GroupInfo{Name: name, Mode: modeOf(s.info.Attrs)}
	g := b.groups.acquire(name)
	defer b.groups.release(g)
	for topic := range topicsOf(g, s) {
		t := topics[topic]
		if t == nil {
			continue
		}
		queues := b.standsIn(g, t, s.committed[topic])
		switch topic {
		case RetryTopic(name):
			info.Retrying = t.Pending
			for _, q := range queues {
				info.Retrying += q.Lag
			}
		case DeadLetterTopic(name):
		default:
			info.Topics = append(info.Topics, GroupTopic{topic, queues})
		}
	}
	slices.SortFunc(info.Topics, func(x, y GroupTopic) int {
		if x.Topic < y.Topic {
			return -1
		}
		return 1
	})
	if topics[DeadLetterTopic(name)] != nil {
		count, err := b.CountDeadLetters(ctx, name, DeadFilter{})
		if err != nil {
			return GroupInfo{}, err
		}
		info.DeadLetters = count.Count
	}
	return info, nil
}

// topicsOf are the topics in which a group stands anywhere, and that of its retries.
func topicsOf(g *group, s *standing) map[string]bool {
	topics := map[string]bool{RetryTopic(g.name): true}
	for topic := range s.committed {
		topics[topic] = true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range g.tracks {
		topics[t.topic] = true
	}
	return topics
}

// standsIn says how a group stands in the queues of a topic.
func (b *Broker) standsIn(g *group, topic *engine.TopicInfo, committed map[int]int64) []GroupQueue {
	now := b.env.Mono()
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]GroupQueue, len(topic.Queues))
	for i := range list {
		at, ok := committed[i]
		q := GroupQueue{Queue: i, Committed: at, End: topic.Queues[i].Visible}
		low := max(at, topic.Queues[i].Min)
		q.Next = low
		if !ok {
			q.Committed = -1
		}
		if t := g.tracks[engine.QueueRef{Topic: topic.ID, Queue: uint32(i)}]; t != nil {
			low, q.Next, q.Leased = max(low, t.low()), max(low, t.next), t.leased(now)
		}
		q.Lag = max(q.End-low, 0)
		list[i] = q
	}
	return list
}
