package timer

import (
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// Sizes of a memtable's parts.
const (
	// blockRefs is how many refs a block holds at most: a put moves half of that on average.
	blockRefs = 128
	// chunkEntries is how many entries are made room for at once.
	chunkEntries = 4096
)

// memtable holds waiting entries in order. The entries themselves lie in the order in which they were put, which is what a
// checkpoint saves; their order by key is kept by small refs, in sorted blocks that are sorted themselves: a put touches
// little memory. What fires or is cancelled leaves at once and never reaches the TimerLog.
type memtable struct {
	chunks  [][]timerlog.Entry // append-only
	length  int                // entries in chunks, dead ones included
	spilled int                // of them are in a spill, or in one that is being written

	blocks [][]ref        // none is empty
	starts []timerlog.Key // the first key of each block, or one below it
	n      int

	spills []timerlog.Ref
	held   int // entries in spills, dead ones included
}

// ref is an entry in the order of keys. Equal due times are told apart by the entries' ids.
type ref struct {
	due int64
	at  uint32 // index of the entry
}

func (m *memtable) entry(at uint32) *timerlog.Entry {
	return &m.chunks[at/chunkEntries][at%chunkEntries]
}

// less says whether a ref lies below a key.
func (m *memtable) less(r ref, k timerlog.Key) bool {
	return r.due < k.Due || r.due == k.Due && m.entry(r.at).ID < k.ID
}

func (m *memtable) is(r ref, k timerlog.Key) bool { return r.due == k.Due && m.entry(r.at).ID == k.ID }

// find returns the block in which k is or belongs, and the place in it.
func (m *memtable) find(k timerlog.Key) (block, at int) {
	if len(m.blocks) == 0 {
		return 0, 0
	}
	lo, hi := 1, len(m.starts)
	for lo < hi {
		if mid := int(uint(lo+hi) >> 1); k.Less(m.starts[mid]) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	block = lo - 1
	refs := m.blocks[block]
	lo, hi = 0, len(refs)
	for lo < hi {
		if mid := int(uint(lo+hi) >> 1); m.less(refs[mid], k) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return block, lo
}

// has says whether find found the key itself.
func (m *memtable) has(block, at int, k timerlog.Key) bool {
	return block < len(m.blocks) && at < len(m.blocks[block]) && m.is(m.blocks[block][at], k)
}

// get finds an entry.
func (m *memtable) get(k timerlog.Key) (timerlog.Entry, bool) {
	if b, at := m.find(k); m.has(b, at, k) {
		return *m.entry(m.blocks[b][at].at), true
	}
	return timerlog.Entry{}, false
}

// first is the smallest entry, nil if there is none.
func (m *memtable) first() *timerlog.Entry {
	if m.n == 0 {
		return nil
	}
	return m.entry(m.blocks[0][0].at)
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
	m.insert(r, e.Key)
	return m.blocks[0][0].at == r.at
}

// load is put for an entry that a spill holds already.
func (m *memtable) load(e timerlog.Entry) {
	m.put(e)
	m.spilled = m.length
}

func (m *memtable) insert(r ref, k timerlog.Key) {
	if len(m.blocks) == 0 {
		m.blocks = append(m.blocks, append(make([]ref, 0, blockRefs), r))
		m.starts = append(m.starts, k)
		m.n++
		return
	}
	b, at := m.find(k)
	refs := m.blocks[b]
	if m.has(b, at, k) {
		refs[at] = r
		return
	}
	m.n++
	if k.Less(m.starts[b]) {
		m.starts[b] = k
	}
	if len(refs) == blockRefs {
		m.split(b, at, r)
		return
	}
	if len(refs) == cap(refs) { // its front left: there is room, but not behind it
		refs = append(make([]ref, 0, blockRefs), refs...)
	}
	m.blocks[b] = insertAt(refs, at, r)
}

// split makes two blocks of a full one and adds the ref. Ascending puts leave full blocks behind.
func (m *memtable) split(b, at int, r ref) {
	refs := m.blocks[b]
	cut := blockRefs / 2
	if at == blockRefs {
		cut = blockRefs
	}
	lower, upper := refs[:cut], append(make([]ref, 0, blockRefs), refs[cut:]...)
	if at >= cut {
		upper = insertAt(upper, at-cut, r)
	} else {
		lower = insertAt(lower, at, r)
	}
	m.blocks = append(m.blocks, nil)
	copy(m.blocks[b+2:], m.blocks[b+1:])
	m.blocks[b], m.blocks[b+1] = lower, upper
	m.starts = append(m.starts, timerlog.Key{})
	copy(m.starts[b+2:], m.starts[b+1:])
	m.starts[b+1] = m.entry(upper[0].at).Key
}

func insertAt(refs []ref, at int, r ref) []ref {
	refs = append(refs, ref{})
	copy(refs[at+1:], refs[at:])
	refs[at] = r
	return refs
}

// remove drops an entry if it is there. It says whether it was the first one.
func (m *memtable) remove(k timerlog.Key) (first bool) {
	b, at := m.find(k)
	if !m.has(b, at, k) {
		return false
	}
	m.removeAt(b, at)
	return b == 0 && at == 0
}

// removeFirst drops the smallest entry.
func (m *memtable) removeFirst() { m.removeAt(0, 0) }

func (m *memtable) removeAt(b, at int) {
	refs := m.blocks[b]
	switch m.n--; {
	case len(refs) == 1 && b == 0:
		m.blocks, m.starts = m.blocks[1:], m.starts[1:]
	case len(refs) == 1:
		m.blocks = append(m.blocks[:b], m.blocks[b+1:]...)
		m.starts = append(m.starts[:b], m.starts[b+1:]...)
	case at == 0: // what fires leaves at the front: no copy
		m.blocks[b] = refs[1:]
	default:
		m.blocks[b] = append(refs[:at], refs[at+1:]...)
	}
}

// tableSource reads a memtable that does not change.
type tableSource struct {
	m         *memtable
	block, at int
}

// all returns a source of all entries.
func (m *memtable) all() tableSource { return tableSource{m: m} }

// seek returns a source of the entries above a key.
func (m *memtable) seek(after timerlog.Key) *tableSource {
	b, at := m.find(after)
	if m.has(b, at, after) {
		at++
	}
	return &tableSource{m, b, at}
}

func (s *tableSource) head() (*timerlog.Entry, bool, error) {
	for s.block < len(s.m.blocks) {
		if refs := s.m.blocks[s.block]; s.at < len(refs) {
			return s.m.entry(refs[s.at].at), true, nil
		}
		s.block, s.at = s.block+1, 0
	}
	return nil, false, nil
}

func (s *tableSource) next() { s.at++ }

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
