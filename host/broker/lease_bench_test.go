package broker_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/host/broker"
)

// BenchmarkConsume lets one consumer handle messages that are there already; ns/op is a message, acked durably.
func BenchmarkConsume(b *testing.B) {
	for _, c := range []struct {
		name        string
		concurrency int
	}{{"1", 1}, {"16", 16}, {"256", 256}} {
		b.Run("concurrency="+c.name, func(b *testing.B) {
			root, err := fsadapter.OpenRoot(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			br, err := broker.Open(broker.Env{FS: fsadapter.New(root)}, ".", broker.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer br.Close()
			messages := make([]broker.Message, 1000)
			for i := range messages {
				messages[i] = broker.Message{Topic: "t", Body: make([]byte, 200)}
			}
			for left := b.N; left > 0; left -= len(messages) {
				if _, err := br.PutBatch(b.Context(), messages[:min(left, len(messages))]); err != nil {
					b.Fatal(err)
				}
			}
			ctx, stop := context.WithCancel(b.Context())
			defer stop()
			var n atomic.Int64
			b.ReportAllocs()
			b.ResetTimer()
			err = br.Consume(ctx, "t", "g", func(context.Context, *broker.Delivery) error {
				if n.Add(1) == int64(b.N) {
					stop()
				}
				return nil
			}, broker.ConsumeOptions{Concurrency: c.concurrency})
			if ctx.Err() == nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
