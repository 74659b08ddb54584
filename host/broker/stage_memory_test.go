package broker_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/broker/brokertest"
)

// ponderingHooks stage all topics. While they are down they decide nothing, at once; then they take their time about each.
type ponderingHooks struct {
	brokertest.Hooks
	down  atomic.Bool
	bytes atomic.Int64 // of bodies, of all calls
	asked chan string
}

func (h *ponderingHooks) Stages(string) bool { return true }

func (h *ponderingHooks) Due(ctx context.Context, topic string, messages []engine.Message) ([]broker.Decision, error) {
	if h.down.Load() {
		return nil, nil
	}
	for i := range messages {
		h.bytes.Add(int64(len(messages[i].Body)))
	}
	h.asked <- topic
	<-ctx.Done()
	return nil, ctx.Err()
}

// What waits in the stages of many topics, whose plugin takes its time about each, does not come into memory all at once; and no
// topic waits for another.
func TestStagesMemory(t *testing.T) {
	const topics, each = 160, 16
	hooks := &ponderingHooks{asked: make(chan string, topics)}
	hooks.down.Store(true)
	fsys, opts := newSyncFS(), broker.Options{Hooks: hooks, Engine: engine.Options{Queues: 1}}
	b := open(t, fsys, opts)
	all := make([]broker.Message, 0, topics*each)
	body := bytes.Repeat([]byte("x"), 64<<10)
	for i := range topics * each {
		all = append(all, broker.Message{Topic: fmt.Sprint("t", i%topics), Body: body})
	}
	for len(all) > 0 {
		if _, err := b.PutBatch(t.Context(), all[:topics]); err != nil {
			t.Fatal(err)
		}
		all = all[topics:]
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	hooks.down.Store(false)
	open(t, fsys, opts)
	for seen := map[string]bool{}; len(seen) < topics; {
		select {
		case topic := <-hooks.asked:
			seen[topic] = true
		case <-time.After(30 * time.Second):
			t.Fatalf("%d of %d topics are asked about", len(seen), topics)
		}
	}
	if got, most := hooks.bytes.Load(), int64(64<<20+topics*64<<10+16<<20); got > most {
		t.Errorf("the calls have %d MiB of messages, want %d at most", got>>20, most>>20)
	}
}
