package brokertest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
)

// patience is how long WantDelivered waits for what is due. In a bubble it takes no time.
const patience = 10 * time.Second

// WantDelivered says that exactly these bodies are visible in a topic, in any order, from its beginning on: each as often
// as it stands in the list. What is due this moment is waited for. It reads as no group, so it takes nothing from anyone.
func WantDelivered(t testing.TB, b *Broker, topic string, bodies ...string) {
	t.Helper()
	want := slices.Sorted(slices.Values(bodies))
	got := Delivered(t, b, topic)
	for deadline := time.Now().Add(patience); len(got) < len(want) && time.Now().Before(deadline); {
		if !await(t, b, topic, len(got)) {
			break
		}
		got = Delivered(t, b, topic)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("brokertest: in %s are %q, want %q", topic, got, want)
	}
}

// Delivered is the bodies that are visible in a topic, queue after queue. A topic that is not there has none.
func Delivered(t testing.TB, b *Broker, topic string) []string {
	t.Helper()
	var bodies []string
	for _, from := range starts(t, b, topic) {
		for end := false; !end; {
			var p broker.Pulled
			req := broker.PullRequest{Topic: topic, From: []broker.QueueOffset{from}, MaxCount: broker.MaxPull}
			if err := b.Pull(t.Context(), req, &p); err != nil {
				t.Fatalf("brokertest: pull from %s: %v", topic, err)
			}
			for _, m := range p.Queues[0].Messages {
				if m.Err != nil {
					t.Fatalf("brokertest: message %d in queue %d of %s: %v", m.Offset, from.Queue, topic, m.Err)
				}
				bodies = append(bodies, string(m.Body))
			}
			end = p.Queues[0].Next == from.Offset
			from.Offset = p.Queues[0].Next
		}
	}
	return bodies
}

// starts is where the queues of a topic begin.
func starts(t testing.TB, b *Broker, topic string) []broker.QueueOffset {
	t.Helper()
	info, err := b.Topic(t.Context(), topic)
	if err != nil && !errors.Is(err, engine.ErrNoTopic) {
		t.Fatalf("brokertest: topic %s: %v", topic, err)
	}
	var from []broker.QueueOffset
	for q, queue := range info.Queues {
		from = append(from, broker.QueueOffset{Queue: q, Offset: queue.Min})
	}
	return from
}

// await waits until a topic has more than n messages; false when none came.
func await(t testing.TB, b *Broker, topic string, n int) bool {
	t.Helper()
	info, err := b.Topic(t.Context(), topic)
	if err != nil {
		return false // a topic is made by the put
	}
	var ends []broker.QueueOffset
	for q, queue := range info.Queues {
		ends = append(ends, broker.QueueOffset{Queue: q, Offset: queue.Visible})
		n -= int(queue.Visible - queue.Min)
	}
	if n < 0 {
		return true
	}
	var p broker.Pulled
	if err := b.Pull(t.Context(), broker.PullRequest{Topic: topic, From: ends, Wait: patience}, &p); err != nil {
		t.Fatalf("brokertest: pull from %s: %v", topic, err)
	}
	return p.Count() > 0
}
