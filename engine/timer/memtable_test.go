package timer

import (
	"slices"
	"testing"

	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// checkTable compares a memtable with a sorted map, and looks at what its parts promise each other.
func checkTable(t *testing.T, m *memtable, want map[timerlog.Key]timerlog.Entry) {
	t.Helper()
	var sorted []timerlog.Entry
	for _, e := range want {
		sorted = append(sorted, e)
	}
	slices.SortFunc(sorted, func(a, b timerlog.Entry) int { return a.Compare(b.Key) })
	all := m.all()
	if got := read(t, &all); !slices.Equal(got, sorted) || m.n != len(sorted) {
		t.Fatalf("has %d entries, n %d; want %d", len(got), m.n, len(sorted))
	}
	for i := range m.leaves {
		l := &m.leaves[i]
		if len(l.refs) == 0 || len(l.refs) > leafRefs || i == 0 && !l.sorted {
			t.Fatalf("leaf %d has %d refs, sorted %t", i, len(l.refs), l.sorted)
		}
		for _, r := range l.refs {
			k := m.key(r)
			if i > 0 && k.Less(m.starts[i]) || i+1 < len(m.starts) && !k.Less(m.starts[i+1]) || k.ID < m.low || k.ID > m.high {
				t.Fatalf("leaf %d of %d has %v, starts %v", i, len(m.leaves), k, m.starts)
			}
		}
		if l.sorted && !slices.IsSortedFunc(l.refs, func(a, b ref) int { return m.key(a).Compare(m.key(b)) }) {
			t.Fatalf("leaf %d is not sorted", i)
		}
	}
	if first := m.first(); len(sorted) > 0 && *first != sorted[0] || len(sorted) == 0 && first != nil {
		t.Fatalf("first %v", first)
	}
}

// read lists what a source gives.
func read(t *testing.T, s source) (es []timerlog.Entry) {
	t.Helper()
	for {
		e, ok, err := s.head()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return es
		}
		es = append(es, *e)
		s.next()
	}
}

// Random puts, removals, look-ups and replacements, against a map.
func TestMemtableAgainstMap(t *testing.T) {
	for name, due := range map[string]func(i int, r int64) int64{
		"random":     func(_ int, r int64) int64 { return r % 1000 },
		"ascending":  func(i int, _ int64) int64 { return int64(i) },
		"descending": func(i int, _ int64) int64 { return -int64(i) },
		"two hills":  func(i int, r int64) int64 { return int64(i%2)*1_000_000 + r%50 + int64(i) },
		"one second": func(int, int64) int64 { return 7 },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRand(3)
			m, want := &memtable{}, map[timerlog.Key]timerlog.Entry{}
			var known []timerlog.Key
			for i := range 6000 {
				k := key(due(i, r.Int64N(1<<40)), uint64(i+1))
				switch n := r.IntN(10); {
				case n < 5 || len(known) == 0:
					known = append(known, k)
				case n < 6:
					k = known[r.IntN(len(known))] // another copy of one, perhaps of one that is gone
				default:
					k = known[r.IntN(len(known))]
					if n == 9 && m.n > 0 {
						k = m.first().Key // what fires
					}
					first := m.n > 0 && m.first().Key == k
					if got := m.remove(k); got != first {
						t.Fatalf("remove %v: first %t, want %t", k, got, first)
					}
					delete(want, k)
					continue
				}
				e := timerlog.Entry{Key: k, Position: offset(i)}
				if got := m.put(e); got != (m.first().Key == k) {
					t.Fatalf("put %v: first %t", k, got)
				}
				want[k] = e
				if e, ok := m.get(k); !ok || e != want[k] {
					t.Fatalf("get %v: %v, %t", k, e, ok)
				}
				if i%97 == 0 {
					checkTable(t, m, want)
				}
			}
			checkTable(t, m, want)
			for _, k := range known {
				e, ok := m.get(k)
				if w, has := want[k]; ok != has || e != w {
					t.Fatalf("get %v: %v, %t; want %v, %t", k, e, ok, w, has)
				}
			}
			src := m.all()
			all := read(t, &src)
			for range 50 {
				k := key(due(r.IntN(6000), r.Int64N(1<<40)), uint64(r.IntN(6000)))
				from, found := slices.BinarySearchFunc(all, k, func(e timerlog.Entry, k timerlog.Key) int { return e.Compare(k) })
				if found {
					from++
				}
				if got := read(t, m.seek(k)); !slices.Equal(got, all[from:]) {
					t.Fatalf("above %v: %d entries, want %d", k, len(got), len(all[from:]))
				}
			}
			for i, k := range keys(all) {
				if i%2 == 0 {
					m.removeFirst()
				} else if !m.remove(k) {
					t.Fatalf("remove %v, the first: it is not", k)
				}
				delete(want, k)
			}
			checkTable(t, m, want)
			m.put(at(1, 1))
			checkTable(t, m, map[timerlog.Key]timerlog.Entry{key(1, 1): at(1, 1)})
		})
	}
}

// A spill takes every entry that was put since the last one, whatever became of it, in the order of the puts; what is put
// afterwards does not change it.
func TestMemtableUnspilled(t *testing.T) {
	m := &memtable{}
	m.load(at(9, 9)) // a spill has it
	var want []timerlog.Key
	for i := range 3 * chunkEntries / 2 {
		m.put(at(int64(i%7), uint64(i+10)))
		want = append(want, key(int64(i%7), uint64(i+10)))
	}
	m.remove(key(3, 13))
	u := m.takeUnspilled()
	m.put(at(100, 99999))
	for _, most := range []int{1, 1000, chunkEntries, 1 << 20} {
		var got []timerlog.Key
		err := u.parts(most, func(*timerlog.Entry) bool { return true }, func(es []timerlog.Entry) error {
			if len(es) == 0 || len(es) > most {
				t.Errorf("%d entries at a time, at most %d", len(es), most)
			}
			got = append(got, keys(es)...)
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%d at a time: %d entries, %v; want %d", most, len(got), err, len(want))
		}
	}
	var odd int
	err := u.parts(100, func(e *timerlog.Entry) bool { return e.ID%2 == 1 }, func(es []timerlog.Entry) error {
		odd += len(es)
		return nil
	})
	if err != nil || odd != len(want)/2 {
		t.Errorf("%d entries are kept, %v", odd, err)
	}
	if err := u.parts(100, func(*timerlog.Entry) bool { return true }, func([]timerlog.Entry) error { return errRead }); err != errRead {
		t.Errorf("got %v", err)
	}
	next := m.takeUnspilled()
	if next.to-next.from != 1 {
		t.Errorf("the next one has %d", next.to-next.from)
	}
	if empty := m.takeUnspilled(); empty.from != empty.to {
		t.Errorf("then %d are left", empty.to-empty.from)
	}
}
