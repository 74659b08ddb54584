package broker_test

import (
	"fmt"
	"testing"

	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/host/broker"
)

// BenchmarkPut stores messages of 200 B from many goroutines on real files, each answered after fsync.
func BenchmarkPut(b *testing.B) {
	for _, level := range []int{0, 18} {
		for _, goroutines := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("level=%d/goroutines=%d", level, goroutines), func(b *testing.B) {
				benchmarkPut(b, level, goroutines)
			})
		}
	}
}

func benchmarkPut(b *testing.B, level, goroutines int) {
	root, err := fsadapter.OpenRoot(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	br, err := broker.Open(broker.Env{FS: fsadapter.New(root)}, ".", broker.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer br.Close()
	m := broker.Message{Topic: "t", Body: make([]byte, 200), At: broker.Level(level)}
	if _, err := br.Put(b.Context(), m); err != nil {
		b.Fatal(err)
	}
	b.SetParallelism(max(goroutines/2, 1)) // of two processors
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := br.Put(b.Context(), m); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
