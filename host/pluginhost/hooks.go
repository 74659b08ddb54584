package pluginhost

import (
	"context"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// Publishes implements broker.Hooks.
func (h *Host) Publishes(topic string) bool { return h.has(atPublish, "", topic) }

// Stages implements broker.Hooks.
func (h *Host) Stages(topic string) bool { return h.has(atDue, "", topic) }

// Consumes implements broker.Hooks.
func (h *Host) Consumes(group, topic string) bool { return h.has(atConsume, group, topic) }

// Publish implements broker.Hooks.
func (h *Host) Publish(ctx context.Context, topic string, messages []*broker.Message) ([]broker.Decision, error) {
	q := question{h: h, place: atPublish, topic: topic, records: make([]abi.Record, len(messages))}
	for i, m := range messages {
		putRecord(&q.records[i], m)
	}
	return q.ask(ctx)
}

// Due implements broker.Hooks.
func (h *Host) Due(ctx context.Context, topic string, messages []engine.Message) ([]broker.Decision, error) {
	q := question{h: h, place: atDue, topic: topic}
	q.take(messages)
	return q.ask(ctx)
}

// Consume implements broker.Hooks.
func (h *Host) Consume(ctx context.Context, group, topic string, messages []engine.Message) ([]broker.Decision, error) {
	q := question{h: h, place: atConsume, group: group, topic: topic}
	q.take(messages)
	return q.ask(ctx)
}

// take makes the records of stored messages. One that can't be read is kept without a question: who reads it is told.
func (q *question) take(messages []engine.Message) {
	q.records = make([]abi.Record, len(messages))
	size := 0
	for i := range messages {
		size += 2*len(messages[i].Properties) + len(messages[i].Tag) + 32
	}
	topic := []byte(q.topic)
	headers := make(abi.Headers, 0, size) // grown, it moves, and the records before it keep what they have
	for i := range messages {
		if messages[i].Err != nil {
			q.unreadable = append(q.unreadable, i)
			continue
		}
		headers = record(&q.records[i], topic, &messages[i], headers)
	}
}
