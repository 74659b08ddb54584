package state_test

import (
	"slices"
	"testing"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/record"
)

func TestSegments(t *testing.T) {
	w := newWorld(t)
	w.must(topic(1, "orders", 1))
	w.pass(100)
	w.seal()
	base := w.s.Segments[1].Base
	if want := (state.Segment{Base: 0, End: base, Visible: 100, Sealed: 100}); w.s.Segments[0] != want {
		t.Errorf("sealed segment %+v, want %+v", w.s.Segments[0], want)
	}
	if want := (state.Segment{Base: base, Visible: 100, Opened: 100}); w.s.Segments[1] != want {
		t.Errorf("new segment %+v, want %+v", w.s.Segments[1], want)
	}
	if w.s.End != base+commitlog.SegmentHeaderSize || w.s.Head() != 0 {
		t.Errorf("the log is [%d, %d)", w.s.Head(), w.s.End)
	}
}

// What becomes visible keeps the segment that it points into, whichever is written then.
func TestVisibleOfSegment(t *testing.T) {
	w := newWorld(t)
	w.must(topic(1, "orders", 1))
	at := w.next()
	w.must(flagged(1, begin+5000, 0))
	w.pass(100)
	w.seal()
	w.pass(100)
	w.seal()
	w.pass(100)
	w.must(visible(1, 0, 0)) // in the third: that is where the last look was
	d := deliver(1, key(begin+5000, 1))
	d.Items[0].Position = at
	w.pass(100)
	w.must(d)
	var got []int64
	for _, g := range w.s.Segments {
		got = append(got, g.Visible)
	}
	if want := []int64{400, 200, 300}; !slices.Equal(got, want) {
		t.Errorf("visible %v, want %v", got, want)
	}
}

func TestTrim(t *testing.T) {
	w := newWorld(t)
	w.must(topic(1, "orders", 2), topic(2, "mail", 1), visible(1, 0, 0), visible(1, 0, 1), visible(2, 0, 0))
	for range 3 {
		w.pass(100)
		w.seal()
	}
	w.must(&record.Hole{From: 600, To: 640}, &record.Hole{From: 700, To: w.s.Segments[1].Base + 50},
		&record.Hole{From: w.s.Segments[2].Base, To: w.s.Segments[2].Base + 10})
	w.ix.take()
	head := w.s.Segments[1].Base
	w.must(&record.Trim{Head: head, Mins: []record.TrimMin{
		{Topic: 1, Queue: 0, Min: 1}, {Topic: 2, Queue: 0, Min: 1}, {Topic: 2, Queue: 9, Min: 1}, {Topic: 9, Queue: 0, Min: 1},
	}})
	if got, want := w.ix.take(), []string{"trim 1/0 to 1", "trim 2/0 to 1"}; !slices.Equal(got, want) {
		t.Errorf("the index heard %q, want %q", got, want)
	}
	if w.s.Head() != head || len(w.s.Segments) != 3 {
		t.Errorf("segments %+v", w.s.Segments)
	}
	if w.s.Topics[1].Queues[0] != (state.Queue{Min: 1, Next: 2}) || w.s.Topics[2].Queues[0] != (state.Queue{Min: 1, Next: 1}) {
		t.Errorf("queues %+v %+v", w.s.Topics[1].Queues, w.s.Topics[2].Queues)
	}
	if len(w.s.Holes) != 2 || w.s.Holes[0].From != 700 {
		t.Errorf("holes %v: those below the head go, one that reaches into the log stays", w.s.Holes)
	}

	// A minimum never goes back, and a position of the segment that went is in none.
	w.must(&record.Trim{Head: w.s.Segments[1].Base, Mins: []record.TrimMin{{Topic: 1, Queue: 0, Min: 0}}})
	if w.s.Topics[1].Queues[0].Min != 1 {
		t.Error("the minimum went back")
	}
	d := deliver(2)
	d.Frontier, d.Items = w.s.Lanes[0], []record.DeliverItem{}
	w.must(d, visible(1, 0, 2))
}

// F3: the bits of a chunk go when every id in it was given out, nothing of it waits, every copy lies below R, and the last
// word about one is as old as what is trimmed. Until then a cancel must be remembered: its entry may still lie in a run.
func TestChunksClose(t *testing.T) {
	const chunk = state.ChunkIDs
	base := state.Chunk{Pending: 0, Changed: 600, ChangedAt: 100}
	for _, c := range []struct {
		name   string
		next   uint64
		change func(c *state.Chunk)
		roll   commitlog.Offset
		closes bool
	}{
		{"all is over", chunk, func(*state.Chunk) {}, 601, true},
		{"an id is not given out", chunk - 1, func(*state.Chunk) {}, 601, false},
		{"a message waits", chunk, func(c *state.Chunk) { c.Pending = 1 }, 601, false},
		{"the last word lies above R", chunk, func(*state.Chunk) {}, 600, false},
		{"the last word is as old as what goes", chunk, func(c *state.Chunk) { c.ChangedAt = 200 }, 601, true},
		{"the last word is younger than what goes", chunk, func(c *state.Chunk) { c.ChangedAt = 201 }, 601, false},
		{"closed before", chunk, func(c *state.Chunk) { *c = state.Chunk{Closed: true} }, 601, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.must(topic(1, "orders", 1))
			w.pass(200)
			w.seal() // visible until 200
			w.pass(1000)
			w.seal()
			w.s.NextID, w.s.Chunks = c.next, []state.Chunk{base}
			c.change(&w.s.Chunks[0])
			before := w.s.Chunks[0]
			w.must(&record.Roll{To: c.roll})
			w.must(&record.Trim{Head: w.s.Segments[1].Base})
			calls := w.ix.take()
			if c.closes {
				if !slices.Equal(calls, []string{"close 0"}) || w.s.Chunks[0] != (state.Chunk{Closed: true}) {
					t.Errorf("calls %q, chunk %+v", calls, w.s.Chunks[0])
				}
				if f, err := w.s.Fate(0, key(begin+1, 5), bits{}); f != state.Unknown || err != nil {
					t.Errorf("fate of a forgotten id: %d, %v", f, err)
				}
			} else if len(calls) > 0 || w.s.Chunks[0] != before {
				t.Errorf("calls %q, chunk %+v", calls, w.s.Chunks[0])
			}
		})
	}
}

// A chunk's last word counts from the youngest of all segments that go at once.
func TestChunksCloseByYoungestSegment(t *testing.T) {
	w := newWorld(t)
	w.must(topic(1, "orders", 1))
	for range 3 {
		w.pass(200)
		w.seal()
	}
	w.s.NextID, w.s.Chunks = state.ChunkIDs, []state.Chunk{{Changed: 600, ChangedAt: 400}}
	w.must(&record.Roll{To: 700}, &record.Trim{Head: w.s.Segments[1].Base})
	if w.s.Chunks[0].Closed {
		t.Fatal("closed with a segment that was visible until 200")
	}
	w.must(&record.Trim{Head: w.s.Segments[1].Base})
	if !w.s.Chunks[0].Closed {
		t.Error("not closed with the segment that was visible until 400")
	}
}

// A moment of the wall clock is found among units, which know only the running time, and told of one.
func TestLogTimeOf(t *testing.T) {
	type at struct{ log, wall int64 }
	for _, c := range []struct {
		name    string
		batches []at
		want    map[int64]int64 // log time by wall time
	}{
		{"no steps", []at{{0, begin}, {500, begin + 500}, {9000, begin + 9000}}, map[int64]int64{
			begin - 1: 0, begin: 0, begin + 700: 700, begin + 9000: 9000, begin + 20000: 20000,
		}},
		{"drift is no step", []at{{0, begin}, {5000, begin + 6000}, {9000, begin + 8000}}, map[int64]int64{begin + 9000: 9000}},
		{"forward, as after a stop", []at{{0, begin}, {1000, begin + 1000}, {1001, begin + 100_000}, {2001, begin + 101_000}}, map[int64]int64{
			begin + 500: 500, begin + 1000: 1000,
			begin + 50_000:  1001, // the clock jumped over it
			begin + 100_000: 1001, begin + 100_500: 1501,
		}},
		{"back", []at{{0, begin}, {10_000, begin + 10_000}, {10_001, begin + 4000}, {20_000, begin + 14_000}}, map[int64]int64{
			begin + 3000: 3000, begin + 5000: 5000, begin + 9999: 9999, // reached the first time
			begin + 12_000: 18_001, // only after the step
		}},
		{"back and forward", []at{{0, begin}, {10_000, begin + 10_000}, {10_001, begin + 4000}, {12_000, begin + 50_000}}, map[int64]int64{
			begin + 9000: 9000, begin + 20_000: 12_000, begin + 51_000: 13_000,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			for _, b := range c.batches {
				w.logMs, w.wallMs = b.log, b.wall
				w.must(&record.Roll{})
			}
			for wall, want := range c.want {
				if got := w.s.LogTimeOf(wall); got != want {
					t.Errorf("wall clock %d is log time %d, want %d", wall, got, want)
				}
			}
			for _, b := range c.batches { // drift that is no step is not known
				if got := w.s.WallTimeOf(b.log); got < b.wall-1000 || got > b.wall+1000 {
					t.Errorf("log time %d is wall clock %d, want %d", b.log, got, b.wall)
				}
			}
		})
	}
	if got := state.New(1).LogTimeOf(begin); got != 0 {
		t.Errorf("without a clock: %d", got)
	}
	if got := state.New(1).WallTimeOf(7); got != 7 {
		t.Errorf("without a clock: %d", got)
	}
}

// Clock steps of trimmed segments go; a store whose clock steps all the time keeps the newest ones.
func TestClockStepsAreBounded(t *testing.T) {
	w := newWorld(t)
	for range 5000 {
		w.pass(1)
		w.wallMs += 10_000
		w.must(&record.Roll{})
	}
	if n := len(w.s.Steps); n != 4096 {
		t.Errorf("%d steps", n)
	}
	if last := w.s.Steps[len(w.s.Steps)-1]; last != (state.Step{LogMs: w.logMs, WallMs: w.wallMs}) {
		t.Errorf("the last step is %+v", last)
	}
	w.seal()
	w.pass(100)
	w.wallMs += 10_000
	w.must(&record.Trim{Head: w.s.Segments[1].Base})
	if n := len(w.s.Steps); n != 2 || w.s.Steps[0].LogMs != 5000 {
		t.Errorf("%d steps are left, from %+v", n, w.s.Steps[0])
	}
}
