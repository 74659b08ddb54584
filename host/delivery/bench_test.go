package delivery

import (
	"net/http"
	"testing"

	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/broker/brokertest"
	"github.com/tidewheel/tidewheel/plugins"
)

// BenchmarkDeliver is the whole way of a message: leased, prepared, sent over loopback, judged and settled, 16 at once. The
// files are in memory.
func BenchmarkDeliver(b *testing.B) {
	store := brokertest.Open(b)
	r := receive(b, func(r *receiver, _ http.ResponseWriter, _ *http.Request) { <-r.got })
	c := settings(b, store)
	c.Log = nil
	c.Plugin, c.Client = courier(b, plugins.Policy{OnError: plugins.OnErrorDeadLetter}), r.client(b, 0)
	w := start(b, c)
	batch := make([]broker.Message, 1000)
	for i := range batch {
		batch[i] = broker.Message{Topic: "orders", Body: []byte(r.URL)}
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n%len(batch) == 0 {
			if _, err := store.PutBatch(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
			done := int64(n + len(batch))
			until(b, "a batch is delivered", func() bool { return w.Stats().Messages["acked"] == done })
		}
		n++
	}
	b.ReportMetric(float64(w.Stats().Messages["acked"])/b.Elapsed().Seconds(), "messages/s")
}
