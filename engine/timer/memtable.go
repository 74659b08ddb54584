package timer

import (
	"slices"
	"sort"

	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// chunkEntries is how many entries are made room for at once.
const chunkEntries = 4096

// memtable holds waiting entries in order. The entries themselves lie in the order in which they were put, which is what a
// checkpoint saves; their order by key is kept by small refs, in leaves: a put touches little memory. The first leaf is
// sorted, the others only if it comes about: a flush sorts copies. What fires or is cancelled leaves at once and never
// reaches the TimerLog.
type memtable struct {
	chunks  [][]timerlog.Entry // append-only
	length  int                // entries in chunks, dead ones included
	spilled int                // of them are in a spill, or in one that is being written

	// Invariant: leaf i holds the keys in [starts[i], starts[i+1]), the first one also those below; none is empty.
	leaves []leaf
	starts []timerlog.Key
	n      int
	low    uint64 // no id is below, if there is an entry
	high   uint64 // or above

	spills []timerlog.Ref
	held   int // entries in spills, dead ones included
}

func (m *memtable) entry(at uint32) *timerlog.Entry {
	return &m.chunks[at/chunkEntries][at%chunkEntries]
}

// find returns the leaf in which k is or belongs.
func (m *memtable) find(k timerlog.Key) int {
	at := 0
	for n := len(m.starts); n > 1; { // no branch depends on what is compared: a wrong guess costs more than a step
		half := n / 2
		if next := at + half; m.starts[next].Due <= k.Due {
			at = next
		}
		n -= half
	}
	if at == 0 || m.starts[at].Due < k.Due || m.starts[at].ID <= k.ID {
		return at
	}
	above := sort.Search(at, func(i int) bool { return k.Less(m.starts[i]) })
	return max(above-1, 0)
}

// lookup finds a key; false if it is not there. Most that are not have an id that no entry can have.
func (m *memtable) lookup(k timerlog.Key) (leaf, at int, ok bool) {
	if m.n == 0 || k.ID < m.low || k.ID > m.high {
		return 0, 0, false
	}
	leaf = m.find(k)
	at = m.search(&m.leaves[leaf], k)
	return leaf, at, at >= 0
}

// get finds an entry.
func (m *memtable) get(k timerlog.Key) (timerlog.Entry, bool) {
	if n, at, ok := m.lookup(k); ok {
		return *m.entry(m.leaves[n].refs[at].at), true
	}
	return timerlog.Entry{}, false
}

// first is the smallest entry, nil if there is none.
func (m *memtable) first() *timerlog.Entry {
	if m.n == 0 {
		return nil
	}
	return m.entry(m.leaves[0].refs[0].at)
}

// put adds an entry; one with the same key is an older copy and is replaced. It says whether the entry is the first one
// now.
func (m *memtable) put(e timerlog.Entry) (first bool) {
	r := ref{e.Due, uint32(m.length)}
	if m.length%chunkEntries == 0 {
		m.chunks = append(m.chunks, make([]timerlog.Entry, 0, chunkEntries))
	}
	last := &m.chunks[len(m.chunks)-1]
	*last = append(*last, e)
	m.length++
	if n, at, ok := m.lookup(e.Key); ok {
		m.leaves[n].refs[at] = r
		return n == 0 && at == 0
	}
	return m.insert(r, e.Key)
}

// load is put for an entry that a spill holds already.
func (m *memtable) load(e timerlog.Entry) {
	m.put(e)
	m.spilled = m.length
}

// insert adds the ref of a key that is not there. It says whether it is the first one.
func (m *memtable) insert(r ref, k timerlog.Key) (first bool) {
	if m.n == 0 {
		m.leaves, m.starts = append(m.leaves[:0], newLeaf()), append(m.starts[:0], k)
		m.low, m.high = k.ID, k.ID
	}
	m.n++
	m.low, m.high = min(m.low, k.ID), max(m.high, k.ID)
	n := m.find(k)
	if m.leaves[n].full() {
		n = m.grow(n, k)
	}
	return m.add(&m.leaves[n], r, k, n == 0) == 0 && n == 0
}

// grow makes two leaves of a full one and returns the one in which k belongs. Ascending puts leave full leaves behind.
func (m *memtable) grow(n int, k timerlog.Key) int {
	l := &m.leaves[n]
	upper, start := newLeaf(), k
	if !l.sorted || !m.less(l.refs[leafRefs-1], k) {
		upper, start = m.split(l)
	}
	m.leaves = slices.Insert(m.leaves, n+1, upper)
	m.starts = slices.Insert(m.starts, n+1, start)
	if k.Less(start) {
		return n
	}
	return n + 1
}

// remove drops an entry if it is there. It says whether it was the first one.
func (m *memtable) remove(k timerlog.Key) (first bool) {
	n, at, ok := m.lookup(k)
	if !ok {
		return false
	}
	m.removeAt(n, at)
	return n == 0 && at == 0
}

// removeFirst drops the smallest entry.
func (m *memtable) removeFirst() { m.removeAt(0, 0) }

func (m *memtable) removeAt(n, at int) {
	m.n--
	m.leaves[n].drop(at)
	if len(m.leaves[n].refs) > 0 {
		return
	}
	if n > 0 {
		m.leaves, m.starts = slices.Delete(m.leaves, n, n+1), slices.Delete(m.starts, n, n+1)
		return
	}
	m.leaves[0] = leaf{}
	m.leaves, m.starts = m.leaves[1:], m.starts[1:]
	if m.n > 0 && !m.leaves[0].sorted {
		m.sort(m.leaves[0].refs)
		m.leaves[0].sorted = true
	}
}

// tableSource reads a memtable that does not change. It changes nothing in it either: any number may read at once.
type tableSource struct {
	m    *memtable
	leaf int   // the next one
	refs []ref // of the one before, from the place on
	own  []ref // a sorted copy, used again
}

// all returns a source of all entries.
func (m *memtable) all() tableSource { return tableSource{m: m} }

// seek returns a source of the entries above a key.
func (m *memtable) seek(after timerlog.Key) *tableSource {
	s := &tableSource{m: m}
	if m.n == 0 {
		return s
	}
	s.leaf = m.find(after)
	s.open()
	at := m.place(s.refs, after)
	if at < len(s.refs) && m.is(s.refs[at], after) {
		at++
	}
	s.refs = s.refs[at:]
	return s
}

// open turns to the next leaf.
func (s *tableSource) open() {
	l := &s.m.leaves[s.leaf]
	s.leaf++
	s.refs = l.refs
	if !l.sorted {
		s.own = append(s.own[:0], l.refs...)
		s.m.sort(s.own)
		s.refs = s.own
	}
}

func (s *tableSource) head() (*timerlog.Entry, bool, error) {
	for len(s.refs) == 0 {
		if s.leaf == len(s.m.leaves) {
			return nil, false, nil
		}
		s.open()
	}
	return s.m.entry(s.refs[0].at), true, nil
}

func (s *tableSource) next() { s.refs = s.refs[1:] }

// unspilled is a picture of the entries that no spill holds, in the order in which they were put. It does not change: more
// entries are put behind it.
type unspilled struct {
	chunks   [][]timerlog.Entry
	from, to int
}

// takeUnspilled hands the entries that no spill holds over to one.
func (m *memtable) takeUnspilled() unspilled {
	u := unspilled{from: m.spilled, to: m.length}
	u.chunks = append(u.chunks, m.chunks[min(u.from/chunkEntries, len(m.chunks)):]...)
	m.spilled = m.length
	return u
}

// parts calls fn with the entries that keep says yes to, at most most at a time. The slice is used again.
func (u unspilled) parts(most int, keep func(e *timerlog.Entry) bool, fn func(entries []timerlog.Entry) error) error {
	base := u.from / chunkEntries * chunkEntries
	var part []timerlog.Entry
	for i := u.from; i < u.to; i++ {
		e := &u.chunks[(i-base)/chunkEntries][i%chunkEntries]
		if !keep(e) {
			continue
		}
		if part = append(part, *e); len(part) == most {
			if err := fn(part); err != nil {
				return err
			}
			part = part[:0]
		}
	}
	if len(part) == 0 {
		return nil
	}
	return fn(part)
}
