package broker_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/broker/brokertest"
)

// keepHooks keep whatever is due at no cost: what remains is what a stage costs.
type keepHooks struct {
	brokertest.Hooks
	kept []broker.Decision
}

func (h *keepHooks) Stages(string) bool { return true }

func (h *keepHooks) Due(_ context.Context, _ string, messages []engine.Message) ([]broker.Decision, error) {
	return h.kept[:len(messages)], nil
}

// BenchmarkFire has messages of 1 KiB become visible that are due at the same time, directly and through a stage.
func BenchmarkFire(b *testing.B) {
	hooks := &keepHooks{kept: make([]broker.Decision, 1024)}
	for i := range hooks.kept {
		hooks.kept[i] = brokertest.Keep("p")
	}
	for name, opts := range map[string]broker.Options{"direct": {}, "staged": {Hooks: hooks}} {
		b.Run(name, func(b *testing.B) {
			root, err := fsadapter.OpenRoot(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			clock := broker.NewManualClock(time.Now().UnixMilli())
			br, err := broker.Open(broker.Env{FS: fsadapter.New(root), Wall: clock.Wall}, ".", opts)
			if err != nil {
				b.Fatal(err)
			}
			defer br.Close()
			body := make([]byte, 1<<10)
			for left := b.N; left > 0; {
				batch := make([]broker.Message, min(left, 1000))
				for i := range batch {
					batch[i] = broker.Message{Topic: "t", Body: body, At: broker.In(time.Hour)}
				}
				if _, err := br.PutBatch(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
				left -= len(batch)
			}
			if _, err := clock.Advance(2 * time.Hour); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			if err := br.CatchUp(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
			b.StopTimer()
			visible := int64(0)
			info, err := br.Topic(b.Context(), "t")
			for _, q := range info.Queues {
				visible += q.Visible
			}
			if err != nil || visible != int64(b.N) {
				b.Fatalf("%d of %d are visible, %v", visible, b.N, err)
			}
		})
	}
}
