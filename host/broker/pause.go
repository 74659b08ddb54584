package broker

import (
	"context"
	"slices"

	"github.com/tidewheel/tidewheel/engine"
)

// PauseTopic keeps groups from reading a topic, or lets them again. It returns when that is durable; it survives restarts.
// While a topic is paused its messages are stored and delivered as always, a Pull of a group finds nothing and waits for
// as long as it was told to, and a Pull that says From where it reads is not held back. A topic that is not there is
// engine.ErrNoTopic. engine.TopicInfo.Paused says how it stands.
func (b *Broker) PauseTopic(ctx context.Context, name string, paused bool) error {
	r := &request{cmds: []engine.Command{&engine.PauseTopic{Topic: name, Paused: paused}}, size: requestOverhead}
	if err := b.queue.finish(ctx, r); err != nil {
		return err
	}
	if err := r.answers[0].Err; err != nil {
		return err
	}
	if !paused {
		b.bells.ringTopic(r.answers[0].Topic)
	}
	return nil
}

// held says whether the pull finds nothing because its topic is paused: a group's, that is, which does not say itself
// where to read.
func (p *pull) held(ctx context.Context) (bool, error) {
	group := p.req.Group != "" && slices.ContainsFunc(p.from, func(at place) bool { return at.follow })
	if !group {
		return false, nil
	}
	if err := p.b.enter(); err != nil {
		return false, err
	}
	paused, pos := p.b.e.Paused(p.ref.Topic)
	p.b.leave()
	return paused, p.settled(ctx, pos)
}

// ringTopic wakes all readers of a topic, as if something had become visible in each of its queues.
func (b *bells) ringTopic(topic uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ref := range b.all {
		if ref.Topic == topic {
			b.ringOne(ref)
		}
	}
}
