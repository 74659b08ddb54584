package timer

import (
	"sort"

	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// blockEntries is how many entries a block of a memtable holds at most: a put moves half of that on average, and finding
// the block is a search among their first keys.
const blockEntries = 64

// memtable holds waiting entries in order, without pointers: blocks of sorted entries, themselves sorted. What fires or
// is cancelled leaves at once and never reaches the TimerLog.
type memtable struct {
	blocks [][]timerlog.Entry // none is empty
	starts []timerlog.Key     // the first key of each block, or one below it
	n      int

	// What a checkpoint has to save. Invariant: every entry of the table is in fresh, in a spill that is being written,
	// or in spills.
	fresh  []timerlog.Entry // put since the last spill
	spills []timerlog.Ref
	held   int // entries in spills, dead ones included
}

// find returns the block in which k is or belongs, and the place in it.
func (m *memtable) find(k timerlog.Key) (block, at int) {
	if len(m.blocks) == 0 {
		return 0, 0
	}
	block = max(sort.Search(len(m.starts), func(i int) bool { return k.Less(m.starts[i]) })-1, 0)
	es := m.blocks[block]
	if es[len(es)-1].Key.Less(k) { // ascending puts need no search
		return block, len(es)
	}
	return block, sort.Search(len(es), func(i int) bool { return !es[i].Key.Less(k) })
}

// get finds an entry.
func (m *memtable) get(k timerlog.Key) (timerlog.Entry, bool) {
	b, at := m.find(k)
	if b < len(m.blocks) && at < len(m.blocks[b]) && m.blocks[b][at].Key == k {
		return m.blocks[b][at], true
	}
	return timerlog.Entry{}, false
}

// put adds an entry; one with the same key is an older copy and is replaced. It says whether the entry is the first one
// now.
func (m *memtable) put(e timerlog.Entry) (first bool) {
	m.fresh = append(m.fresh, e)
	m.insert(e)
	return m.blocks[0][0].Key == e.Key
}

func (m *memtable) insert(e timerlog.Entry) {
	if len(m.blocks) == 0 {
		m.blocks = append(m.blocks, make([]timerlog.Entry, 0, blockEntries))
		m.starts = append(m.starts, e.Key)
	}
	b, at := 0, 0
	if m.n > 0 {
		b, at = m.find(e.Key)
	}
	es := m.blocks[b]
	if at < len(es) && es[at].Key == e.Key {
		es[at] = e
		return
	}
	m.n++
	if e.Key.Less(m.starts[b]) {
		m.starts[b] = e.Key
	}
	if len(es) < cap(es) {
		m.blocks[b] = insertAt(es, at, e)
		return
	}
	if len(es) < blockEntries { // its front left: there is room, but not behind it
		m.blocks[b] = insertAt(append(make([]timerlog.Entry, 0, blockEntries), es...), at, e)
		return
	}
	m.split(b, at, e)
}

// split makes two blocks of a full one and adds the entry. Ascending puts leave full blocks behind.
func (m *memtable) split(b, at int, e timerlog.Entry) {
	es := m.blocks[b]
	cut := blockEntries / 2
	if at == blockEntries {
		cut = blockEntries
	}
	lower, upper := es[:cut], append(make([]timerlog.Entry, 0, blockEntries), es[cut:]...)
	if at >= cut {
		upper = insertAt(upper, at-cut, e)
	} else {
		lower = insertAt(lower, at, e)
	}
	m.blocks = append(m.blocks, nil)
	copy(m.blocks[b+2:], m.blocks[b+1:])
	m.blocks[b], m.blocks[b+1] = lower, upper
	m.starts = append(m.starts, timerlog.Key{})
	copy(m.starts[b+2:], m.starts[b+1:])
	m.starts[b+1] = upper[0].Key
}

func insertAt(es []timerlog.Entry, at int, e timerlog.Entry) []timerlog.Entry {
	es = append(es, timerlog.Entry{})
	copy(es[at+1:], es[at:])
	es[at] = e
	return es
}

// remove drops an entry if it is there. It says whether it was the first one.
func (m *memtable) remove(k timerlog.Key) (first bool) {
	b, at := m.find(k)
	if b >= len(m.blocks) || at >= len(m.blocks[b]) || m.blocks[b][at].Key != k {
		return false
	}
	es := m.blocks[b]
	first = b == 0 && at == 0
	switch m.n--; {
	case len(es) == 1 && b == 0:
		m.blocks, m.starts = m.blocks[1:], m.starts[1:]
	case len(es) == 1:
		m.blocks = append(m.blocks[:b], m.blocks[b+1:]...)
		m.starts = append(m.starts[:b], m.starts[b+1:]...)
	case at == 0: // what fires leaves at the front: no copy
		m.blocks[b] = es[1:]
	default:
		m.blocks[b] = append(es[:at], es[at+1:]...)
	}
	return first
}

// seek returns a source of the entries above a key. The table must not change while it is used, but for what the caller
// does about it.
func (m *memtable) seek(after timerlog.Key) *tableSource {
	b, at := m.find(after)
	if b < len(m.blocks) && at < len(m.blocks[b]) && m.blocks[b][at].Key == after {
		at++
	}
	return &tableSource{blocks: m.blocks, block: b, at: at}
}

// all returns a source of all entries.
func (m *memtable) all() *tableSource { return &tableSource{blocks: m.blocks} }

// keepFresh drops from fresh what left the table since.
func (m *memtable) keepFresh() {
	kept := m.fresh[:0]
	for _, e := range m.fresh {
		if now, ok := m.get(e.Key); ok && now.Position == e.Position {
			kept = append(kept, e)
		}
	}
	m.fresh = kept
}

// tableSource reads a memtable that does not change.
type tableSource struct {
	blocks    [][]timerlog.Entry
	block, at int
}

func (s *tableSource) head() (*timerlog.Entry, bool, error) {
	for s.block < len(s.blocks) {
		if es := s.blocks[s.block]; s.at < len(es) {
			return &es[s.at], true, nil
		}
		s.block, s.at = s.block+1, 0
	}
	return nil, false, nil
}

func (s *tableSource) next() { s.at++ }
