package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidewheel/tidewheel/engine"
)

// Topics lists the topics, by name, without the stages, of which TopicInfo tells with their topics. The list is the caller's.
func (b *Broker) Topics(ctx context.Context) ([]engine.TopicInfo, error) {
	if err := b.enter(); err != nil {
		return nil, err
	}
	topics, pos := b.e.Topics()
	b.leave()
	if err := b.gate.wait(ctx, pos); err != nil {
		return nil, err
	}
	return withoutStages(topics), nil
}

// withoutStages takes the stages out of a list.
func withoutStages(topics []engine.TopicInfo) []engine.TopicInfo {
	return slices.DeleteFunc(topics, func(t engine.TopicInfo) bool { return isStage(t.Name) })
}

// Topic describes a topic; one that is not there is engine.ErrNoTopic.
func (b *Broker) Topic(ctx context.Context, name string) (engine.TopicInfo, error) {
	if err := b.enter(); err != nil {
		return engine.TopicInfo{}, err
	}
	info, ok, pos := b.e.Topic(name)
	b.leave()
	if err := b.gate.wait(ctx, pos); err != nil {
		return engine.TopicInfo{}, err
	}
	if !ok {
		return engine.TopicInfo{}, fmt.Errorf("broker: %w: %q", engine.ErrNoTopic, name)
	}
	return info, nil
}

// DefineTopic makes a topic, or changes its number of queues (1 to 65,536).
func (b *Broker) DefineTopic(ctx context.Context, name string, queues int) error {
	return b.command(ctx, &engine.DefineTopic{Topic: name, Queues: queues})
}

// DeleteTopic removes a topic with its queues and committed offsets. What waits for it is dropped when due, and so is what
// groups have to retry; receipts of its messages are unknown from then on.
func (b *Broker) DeleteTopic(ctx context.Context, name string) error {
	r := &request{cmds: []engine.Command{&engine.DeleteTopic{Topic: name}}, size: requestOverhead}
	if err := b.queue.finish(ctx, r); err != nil {
		return err
	}
	if err := r.answers[0].Err; err != nil {
		return err
	}
	b.groups.dropTopic(r.answers[0].Topic, name)
	return nil
}

// command hands commands to the writer whose only answer is that they are done, or why not.
func (b *Broker) command(ctx context.Context, cmds ...engine.Command) error {
	if len(cmds) == 0 {
		return nil
	}
	r := &request{cmds: cmds, size: requestOverhead * len(cmds)}
	if err := b.queue.finish(ctx, r); err != nil {
		return err
	}
	var errs []error
	for i := range r.answers {
		errs = append(errs, r.answers[i].Err)
	}
	return errors.Join(errs...)
}
