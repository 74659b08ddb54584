package timer

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

func offset(i int) commitlog.Offset { return commitlog.Offset(i) }

var errRead = errors.New("this sector cannot be read")

// flaky is a source that fails before some of its entries, so many times each.
type flaky struct {
	entries []timerlog.Entry
	fails   map[int]int // by index; the index behind the last is the end
	at      int
	reads   int
}

func (f *flaky) head() (*timerlog.Entry, bool, error) {
	f.reads++
	if f.fails[f.at] > 0 {
		f.fails[f.at]--
		return nil, false, errRead
	}
	if f.at == len(f.entries) {
		return nil, false, nil
	}
	return &f.entries[f.at], true, nil
}

func (f *flaky) next() { f.at++ }

// deal gives n sorted entries to so many sources by chance, some of them to none.
func deal(seed uint64, n, sources int) (all []timerlog.Entry, dealt []*flaky) {
	r := newRand(seed)
	dealt = make([]*flaky, sources)
	for i := range dealt {
		dealt[i] = &flaky{fails: map[int]int{}}
	}
	for i := range n {
		all = append(all, at(r.Int64N(50), uint64(i+1)))
	}
	slices.SortFunc(all, func(a, b timerlog.Entry) int { return a.Compare(b.Key) })
	for _, e := range all {
		d := dealt[r.IntN(max(1, sources-1))]
		d.entries = append(d.entries, e)
	}
	return all, dealt
}

func TestMerge(t *testing.T) {
	for sources := 1; sources < 40; sources++ {
		all, dealt := deal(uint64(sources), 500, sources)
		var m merge
		for _, d := range dealt {
			m.add(d)
		}
		if err := m.init(); err != nil {
			t.Fatal(err)
		}
		for i, want := range all {
			e, ok := m.first()
			if !ok || *e != want {
				t.Fatalf("%d sources, entry %d: %v, %t, want %v", sources, i, e, ok, want)
			}
			if err := m.advance(); err != nil {
				t.Fatal(err)
			}
		}
		if e, ok := m.first(); ok {
			t.Errorf("%d sources: %v at the end", sources, e)
		}
	}
}

// After an error in the middle of a source, at its begin or at its end, the merge goes on from there: nothing is skipped,
// and what was first before stays so until the caller has advanced.
func TestMergeErrors(t *testing.T) {
	for seed := range uint64(30) {
		r := newRand(seed)
		all, dealt := deal(seed, 300, 1+r.IntN(9))
		for _, d := range dealt {
			for range 1 + r.IntN(6) {
				d.fails[r.IntN(len(d.entries)+1)] = 1 + r.IntN(3)
			}
		}
		var m merge
		failed := 0
		for { // as the lane does: after an error of init it begins anew
			m.reset()
			for _, d := range dealt {
				m.add(d)
			}
			err := m.init()
			if err == nil {
				break
			}
			if failed++; !errors.Is(err, errRead) || failed > 1000 {
				t.Fatal(err)
			}
		}
		var got []timerlog.Entry
		for {
			e, ok := m.first()
			if !ok {
				break
			}
			first := *e
			got = append(got, first)
			for {
				err := m.advance()
				if err == nil {
					break
				}
				if failed++; !errors.Is(err, errRead) || failed > 1000 {
					t.Fatal(err)
				}
				if e, ok := m.first(); !ok || *e != first {
					t.Fatalf("seed %d: after an error %v is first, before it was %v", seed, e, first)
				}
			}
		}
		if !slices.Equal(got, all) {
			t.Fatalf("seed %d: got %d entries %v\nwant %d %v", seed, len(got), keys(got), len(all), keys(all))
		}
		if failed == 0 {
			t.Errorf("seed %d: nothing failed", seed)
		}
	}
}

// Sources may join a merge that runs, as the slots of a ring do when they are opened.
func TestMergeJoin(t *testing.T) {
	run := func(entries ...timerlog.Entry) *runSource {
		s := newStore(t, shape{seats: 8, runs: 4})
		ref, err := s.logs[0].WriteGroup(timerlog.RingLoose, timerlog.NoSlot, timerlog.Ref{}, entries)
		if err != nil {
			t.Fatal(err)
		}
		return &runSource{log: s.logs[0], run: Run{ref}}
	}
	var m merge
	if err := m.join(nil); err != nil {
		t.Fatal(err)
	}
	m.add(&flaky{entries: []timerlog.Entry{at(10, 1), at(30, 2)}})
	if err := m.init(); err != nil {
		t.Fatal(err)
	}
	empty := &runSource{}
	if err := m.join([]*runSource{run(at(20, 3), at(40, 4)), run(at(5, 5)), empty, run(at(10, 6))}); err != nil {
		t.Fatal(err)
	}
	var got []timerlog.Key
	for e, ok := m.first(); ok; e, ok = m.first() {
		got = append(got, e.Key)
		if err := m.advance(); err != nil {
			t.Fatal(err)
		}
	}
	if want := []timerlog.Key{key(5, 5), key(10, 1), key(10, 6), key(20, 3), key(30, 2), key(40, 4)}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A run of several groups is one sorted source; one that begins anew goes on where the other stands.
func TestRunOfGroups(t *testing.T) {
	s := newStore(t, shape{seats: 8, runs: 4})
	var run Run
	var all []timerlog.Entry
	for g := range 4 {
		var es []timerlog.Entry
		for i := range 1 + 300*(g%2) {
			es = append(es, at(int64(g*1000+i), uint64(len(all)+i+1)))
		}
		ref, err := s.logs[0].WriteGroup(timerlog.RingLoose, timerlog.NoSlot, timerlog.Ref{}, es)
		if err != nil {
			t.Fatal(err)
		}
		run, all = append(run, ref), append(all, es...)
	}
	src := &runSource{log: s.logs[0], run: run}
	for i, want := range all {
		e, ok, err := src.head()
		if err != nil || !ok || *e != want {
			t.Fatalf("entry %d: %v, %t, %v; want %v", i, e, ok, err, want)
		}
		if i%50 == 0 {
			if got := read(t, src.again()); !slices.Equal(got, all[i:]) {
				t.Fatalf("begun anew at entry %d: %d entries, want %d", i, len(got), len(all)-i)
			}
			if rest := read(t, &runSource{log: s.logs[0], run: src.left()}); len(rest) < len(all)-i || !slices.Equal(rest[len(rest)-len(all)+i:], all[i:]) {
				t.Fatalf("groups that are left at entry %d have %d entries", i, len(rest))
			}
		}
		src.next()
	}
	if _, ok, err := src.head(); ok || err != nil || len(src.left()) > 0 {
		t.Errorf("at the end: %t, %v, %d groups are left", ok, err, len(src.left()))
	}
	for _, i := range []int{0, 1, 150, 301, 302, 601} {
		got := read(t, &runSource{log: s.logs[0], run: run, after: all[i].Key})
		if !slices.Equal(got, all[i+1:]) {
			t.Errorf("above entry %d: %d entries, want %d", i, len(got), len(all)-i-1)
		}
	}
}

func BenchmarkMerge(b *testing.B) {
	for _, sources := range []int{1, 18, 96} {
		b.Run(fmt.Sprintf("sources=%d", sources), func(b *testing.B) {
			const each = 1000
			list := make([]*flaky, sources)
			for i := range list {
				list[i] = &flaky{}
				for j := range each {
					list[i].entries = append(list[i].entries, at(int64(j*sources+i), uint64(i*each+j+1)))
				}
			}
			var m merge
			b.ReportAllocs()
			for n := 0; n < b.N; {
				m.reset()
				for _, s := range list {
					s.at = 0
					m.add(s)
				}
				if err := m.init(); err != nil {
					b.Fatal(err)
				}
				for _, ok := m.first(); ok && n < b.N; _, ok = m.first() {
					if err := m.advance(); err != nil {
						b.Fatal(err)
					}
					n++
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
