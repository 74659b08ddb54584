package state_test

import (
	"fmt"
	"testing"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/consumequeue"
	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/record"
	"github.com/tidewheel/tidewheel/engine/statebits"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// silent is an index that does nothing, so that a benchmark measures the fold alone.
type silent struct{}

func (silent) Unit(uint32, uint32, int64, consumequeue.Unit) error { return nil }
func (silent) Put(timerlog.Entry, int64) error                     { return nil }
func (silent) Gone(uint8, timerlog.Key)                            {}
func (silent) SetBits(uint64, statebits.State) error               { return nil }
func (silent) CloseChunk(uint64)                                   {}
func (silent) Keyed(uint32, []byte, state.Offset)                  {}
func (silent) TopicGone(uint32)                                    {}
func (silent) Trimmed(uint32, uint32, int64)                       {}

func benchState(b *testing.B) *state.State {
	s := state.New(1)
	s.Create(begin)
	if err := s.Topic(topic(1, "orders", 4), silent{}); err != nil {
		b.Fatal(err)
	}
	return s
}

func records(b *testing.B, n int) {
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
}

func BenchmarkFoldWaiting(b *testing.B) {
	s := benchState(b)
	m := waiting(0, begin+1000, 1000)
	b.ReportAllocs()
	for b.Loop() {
		m.ID = s.NextID
		if err := s.Message(1000, size, m, silent{}); err != nil {
			b.Fatal(err)
		}
	}
	records(b, b.N)
}

func BenchmarkFoldVisible(b *testing.B) {
	s := benchState(b)
	m := visible(1, 0, 0)
	b.ReportAllocs()
	for b.Loop() {
		m.QueueOffset = s.Topics[1].Queues[0].Next
		if err := s.Message(1000, size, m, silent{}); err != nil {
			b.Fatal(err)
		}
	}
	records(b, b.N)
}

// BenchmarkApplyDeliver folds encoded records of 1,024 deliveries, as a replay does.
func BenchmarkApplyDeliver(b *testing.B) {
	s := benchState(b)
	var payload []byte
	d := &record.Deliver{}
	id, n := uint64(1), 0
	b.ReportAllocs()
	for b.Loop() {
		if id+record.MaxItems >= 1<<30 {
			b.Fatal("no ids are left")
		}
		s.NextID = id + record.MaxItems
		base := s.Topics[1].Queues[0].Next
		d.Items, d.Queues = d.Items[:0], append(d.Queues[:0], record.DeliverQueue{Topic: 1, Base: base})
		d.Frontier = s.Lanes[0]
		for range record.MaxItems {
			d.Items = append(d.Items, record.DeliverItem{Key: key(begin+int64(id), id), Position: commitlog.Offset(id * size), Size: size})
			d.Frontier = key(begin+int64(id), id)
			id++
		}
		payload = d.Append(payload[:0])
		r := commitlog.Record{Pos: 1000, Size: len(payload), Kind: record.KindDeliver, Payload: payload}
		if err := s.Apply(&r, true, silent{}); err != nil {
			b.Fatal(err)
		}
		n += record.MaxItems
	}
	records(b, n)
}

// BenchmarkDigest is what a seal and a checkpoint of a store with 1,000 topics cost the writer.
func BenchmarkDigest(b *testing.B) {
	s := benchState(b)
	for i := range 1000 {
		if err := s.Topic(topic(s.NextTopic, fmt.Sprintf("topic-%d", i), 8), silent{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Digest()
	}
	b.ReportMetric(float64(len(s.Append(nil))), "state-bytes")
}
