package state_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/record"
	"github.com/tidewheel/tidewheel/engine/statebits"
)

// stateRecords cuts a state into records, as the writer does at the begin of a segment.
func stateRecords(s *state.State, part int) (rs []payload) {
	data := s.Append(nil)
	parts := slices.Collect(slices.Chunk(data, part))
	for i, p := range parts {
		rs = append(rs, &record.State{Part: uint32(i), Parts: uint32(len(parts)), Digest: s.Digest(), Data: p})
	}
	return rs
}

// lose lets the fold miss what fn does to the log, as after a repair.
func (w *world) lose(fn func(whole *world)) (whole *world) {
	whole = &world{t: w.t, s: clone(w.t, w.s), ix: &index{bits: map[uint64]statebits.State{}}, logMs: w.logMs, wallMs: w.wallMs, flags: true}
	from := w.s.End
	fn(whole)
	w.logMs, w.wallMs = whole.logMs, whole.wallMs
	w.s.LostBatches(from, whole.s.End)
	w.s.EndBatch(whole.s.End, false)
	return whole
}

func clone(t testing.TB, s *state.State) *state.State {
	n := state.New(0)
	if err := n.Decode(s.Append(nil)); err != nil {
		t.Fatal(err)
	}
	n.Seen = bits{}
	return n
}

// A state record in the log says what the fold knows; then it is compared, whatever its parts.
func TestStateRecordCompared(t *testing.T) {
	for _, part := range []int{1 << 20, 50} {
		w := peopled(t)
		before, end := w.s.Digest(), w.s.End
		rs := stateRecords(w.s, part)
		for _, r := range rs {
			w.must(r) // each in a batch of its own
		}
		w.s.End = end
		if w.s.Digest() != before || len(w.ix.take()) > 0 {
			t.Error("the state changed")
		}
	}
	w := peopled(t)
	other := clone(t, w.s)
	other.Pending++
	if err := w.apply(stateRecords(other, 1<<20)...); !errors.Is(err, state.ErrFold) {
		t.Errorf("a state record of another state: %v", err)
	}
}

// A suffix of the log begins with a state record: it is believed.
func TestStateRecordBegins(t *testing.T) {
	for _, part := range []int{1 << 20, 50} {
		old := peopled(t)
		w := &world{t: t, s: state.New(1), ix: &index{bits: map[uint64]statebits.State{}}, flags: true, logMs: old.logMs, wallMs: old.wallMs}
		w.s.Seen = bits{}
		rs := stateRecords(old.s, part)
		for _, r := range rs {
			w.s.BeginBatch(old.s.LogMs, old.s.WallMs)
			w.s.End = old.s.End
			w.must(r)
		}
		if w.s.Digest() == old.s.Digest() {
			t.Error("the end of the log is part of the state")
		}
		w.s.End = old.s.End
		if w.s.Digest() != old.s.Digest() {
			t.Errorf("got %+v\nwant %+v", w.s, old.s)
		}
		if w.s.Oldest != 3 {
			t.Errorf("ids are known from %d on", w.s.Oldest)
		}
		w.must(visible(1, 0, 0)) // the next state record would be compared
		if err := w.apply(rs[0]); !errors.Is(err, state.ErrFold) {
			t.Errorf("a second one: %v", err)
		}
	}
}

func TestStateRecordRefused(t *testing.T) {
	good := peopled(t).s
	twoLanes := clone(t, good)
	twoLanes.Lanes = append(twoLanes.Lanes, key(1, 1))
	parts := stateRecords(good, 20)
	wrong := *parts[1].(*record.State)
	wrong.Data = slices.Clone(wrong.Data)
	wrong.Data[0] ^= 1
	for _, c := range []struct {
		name    string
		records []payload
		want    string
	}{
		{"lanes", stateRecords(twoLanes, 1<<20), "2 lanes, the store 1"},
		{"no first part", parts[1:], "has digest"},
		{"a part is missing", append(slices.Clone(parts[:1]), parts[2:]...), ""},
		{"a part is another", append([]payload{parts[0], &wrong}, parts[2:]...), ""},
		{"the parts are no state", []payload{&record.State{Parts: 1, Data: []byte{1, 2, 3}}}, "cut off"},
		{"the digest is another", []payload{&record.State{Parts: 1, Digest: [16]byte{1}, Data: good.Append(nil)}}, "it says 01"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &world{t: t, s: state.New(1), ix: &index{}, flags: true}
			w.s.Seen = bits{}
			if err := w.apply(c.records...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// Behind a lost range the fold takes what it is told, until a state record says how things are.
func TestLossyResync(t *testing.T) {
	w := peopled(t)
	whole := w.lose(func(whole *world) {
		whole.must(
			&record.Topic{Op: record.Delete, ID: 2}, topic(3, "new", 1), group(2, "audit"),
			waiting(3, begin+2000, 1000), flagged(4, begin+9000, 0), visible(1, 0, 0), visible(1, 0, 1),
		)
	})
	if !w.s.Lossy() || !w.s.InHole(w.s.End-1) {
		t.Fatal("nothing is lost")
	}
	for _, both := range []*world{w, whole} {
		both.ix.take()
		both.must(
			visible(1, 0, 2), visible(3, 0, 0), // of a topic that the fold does not know
			&record.Cancel{ID: 4, Due: begin + 9000, Topic: 1}, // of an id that it does not know
			deliver(3, key(begin+2000, 3)),
			flagged(5, begin+6000, 0), topic(4, "mail", 1), // a name whose topic was deleted
			&record.Commit{Group: 2, Topic: 1, Offset: 1}, &record.Group{Op: record.Change, ID: 2, Attrs: 1},
		)
	}
	calls := w.ix.take()
	for _, want := range []string{
		"unit 1/0 at 2: position 2160 size 100 tags 7 log 0", "bits 4 cancelled", "gone 0 (1009000, 4)", "topic 2 gone",
		"unit 1/0 at 3: position 700 size 100 tags 0 log 0",
	} {
		if !slices.Contains(calls, want) {
			t.Errorf("the index did not hear %q, but %q", want, calls)
		}
	}
	if w.s.NextID != whole.s.NextID || w.s.TopicByName("mail").ID != 4 {
		t.Errorf("next id %d, topics %+v", w.s.NextID, w.s.Topics)
	}
	if w.s.Digest() == whole.s.Digest() {
		t.Error("the fold knows what was lost")
	}

	for _, r := range stateRecords(whole.s, 1<<20) {
		w.must(r)
		whole.must(r)
	}
	if w.s.Lossy() {
		t.Error("still lossy behind a state record")
	}
	if w.s.Digest() != whole.s.Digest() {
		t.Errorf("got %+v\nwant %+v", w.s, whole.s)
	}
	if len(w.s.Lost) != 1 {
		t.Errorf("lost %v", w.s.Lost)
	}
	if err := w.apply(&record.Cancel{ID: 99, Topic: 1}); !errors.Is(err, state.ErrFold) {
		t.Errorf("an unknown id behind the state record: %v", err)
	}
}

// Topics that ended in a lost range lose their queues when the state record says so.
func TestLossyTopicsGone(t *testing.T) {
	w := peopled(t)
	whole := w.lose(func(whole *world) { whole.must(&record.Topic{Op: record.Delete, ID: 1}, visible(2, 0, 0)) })
	w.ix.take()
	w.must(stateRecords(whole.s, 1<<20)...)
	if got := w.ix.take(); !slices.Equal(got, []string{"topic 1 gone"}) {
		t.Errorf("the index heard %q", got)
	}
}

// A state record that lies across a lost range is not taken for one.
func TestLossyInStateRecord(t *testing.T) {
	old := peopled(t)
	w := peopled(t)
	rs := stateRecords(old.s, 50)
	w.must(rs[0])
	w.s.LostBatches(w.s.End, w.s.End+1000)
	w.s.EndBatch(w.s.End+1000, false)
	if err := w.apply(rs[len(rs)-1]); err == nil || !w.s.Lossy() {
		t.Errorf("the rest of a state record was believed: %v", err)
	}
}

// A checkpoint behind a lost range remembers that no state record came yet.
func TestResume(t *testing.T) {
	w := peopled(t)
	w.s.Resume(true)
	w.must(&record.Cancel{ID: 9, Topic: 1})
	w.s.Resume(false)
	if err := w.apply(&record.Cancel{ID: 99, Topic: 1}); !errors.Is(err, state.ErrFold) {
		t.Errorf("got %v", err)
	}
}
