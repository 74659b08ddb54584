package record_test

import (
	"testing"

	"github.com/tidewheel/tidewheel/engine/record"
)

func BenchmarkDeliverAppend(b *testing.B) {
	d := burst(record.MaxItems)
	buf := make([]byte, 0, d.PayloadSize())
	b.ReportAllocs()
	for b.Loop() {
		buf = d.Append(buf[:0])
	}
	b.ReportMetric(float64(len(buf))/float64(len(d.Items)), "B/item")
	perSecond(b, len(d.Items))
}

func BenchmarkDeliverDecode(b *testing.B) {
	payload := burst(record.MaxItems).Append(nil)
	var d record.Deliver
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Decode(payload); err != nil {
			b.Fatal(err)
		}
	}
	perSecond(b, len(d.Items))
}

func BenchmarkCancelAppend(b *testing.B) {
	c := record.Cancel{ID: 77, Due: 1_796_036_533_123, Topic: 3}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = c.Append(buf[:0])
	}
	perSecond(b, 1)
}

func BenchmarkCancelDecode(b *testing.B) {
	payload := (&record.Cancel{ID: 77, Due: 1_796_036_533_123, Topic: 3}).Append(nil)
	var c record.Cancel
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Decode(payload); err != nil {
			b.Fatal(err)
		}
	}
	perSecond(b, 1)
}

// perSecond reports how many records of a benchmark's iteration were handled per second; an item counts as one.
func perSecond(b *testing.B, records int) {
	b.ReportMetric(float64(b.N)*float64(records)/b.Elapsed().Seconds(), "records/s")
}
