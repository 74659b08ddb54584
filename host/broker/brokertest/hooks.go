package brokertest

import (
	"context"
	"slices"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
)

// Hooks are broker.Hooks made of functions, one message at a time; behind an undecided one the others are asked about later. A function that is nil does not decide about anything. They
// are called by several goroutines at once. Set the fields before the broker is opened.
type Hooks struct {
	// Topics are those that are decided about; none: all.
	Topics []string

	OnPublish func(topic string, m *broker.Message) broker.Decision
	OnDue     func(topic string, m *engine.Message) broker.Decision
	OnConsume func(group, topic string, m *engine.Message) broker.Decision
}

var _ broker.Hooks = (*Hooks)(nil)

func (h *Hooks) meant(topic string) bool {
	return len(h.Topics) == 0 || slices.Contains(h.Topics, topic)
}

// Publishes is true when there is an OnPublish and the topic is meant.
func (h *Hooks) Publishes(topic string) bool { return h.OnPublish != nil && h.meant(topic) }

// Stages is true when there is an OnDue and the topic is meant.
func (h *Hooks) Stages(topic string) bool { return h.OnDue != nil && h.meant(topic) }

// Consumes is true when there is an OnConsume and the topic is meant.
func (h *Hooks) Consumes(_, topic string) bool { return h.OnConsume != nil && h.meant(topic) }

// Publish asks OnPublish about each message.
func (h *Hooks) Publish(ctx context.Context, topic string, messages []*broker.Message) ([]broker.Decision, error) {
	return each(ctx, messages, func(m **broker.Message) broker.Decision { return h.OnPublish(topic, *m) })
}

// Due asks OnDue about each message.
func (h *Hooks) Due(ctx context.Context, topic string, messages []engine.Message) ([]broker.Decision, error) {
	return each(ctx, messages, func(m *engine.Message) broker.Decision { return h.OnDue(topic, m) })
}

// Consume asks OnConsume about each message.
func (h *Hooks) Consume(ctx context.Context, group, topic string, messages []engine.Message) ([]broker.Decision, error) {
	return each(ctx, messages, func(m *engine.Message) broker.Decision { return h.OnConsume(group, topic, m) })
}

// each decides about messages until one is undecided or the context ends.
func each[M any](ctx context.Context, messages []M, decide func(*M) broker.Decision) ([]broker.Decision, error) {
	var decisions []broker.Decision
	for i := range messages {
		if err := ctx.Err(); err != nil {
			return decisions, err
		}
		d := decide(&messages[i])
		if decisions = append(decisions, d); d.Action == broker.Undecided {
			break
		}
	}
	return decisions, nil
}

// Keep is the decision of a plugin of a name that a message goes on. Its digest is made of the name.
func Keep(plugin string) broker.Decision { return decision(plugin, broker.ActionKeep) }

// Drop is the decision of a plugin of a name that a message is forgotten.
func Drop(plugin string) broker.Decision { return decision(plugin, broker.ActionDrop) }

func decision(plugin string, a broker.Action) broker.Decision {
	d := broker.Decision{Action: a, Plugin: plugin}
	copy(d.Digest[:], plugin)
	d.Asked = [][32]byte{d.Digest}
	return d
}
