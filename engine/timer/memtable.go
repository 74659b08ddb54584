package timer

import (
	"sort"

	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// blockEntries is how many entries a block of a memtable holds at most: a put moves half of that on average.
const blockEntries = 256

// memtable holds waiting entries in order, without pointers to them: blocks of sorted entries, themselves sorted. What
// fires or is cancelled leaves at once and never reaches the TimerLog.
type memtable struct {
	blocks [][]timerlog.Entry // none is empty
	n      int

	// What a checkpoint has to save. Invariant: every entry of the table is in fresh or in a spill.
	fresh  []timerlog.Entry // put since the last spill
	spills []timerlog.Ref
	held   int // entries in spills, dead ones included
}

// find returns the block in which k is or belongs, and the place in it.
func (m *memtable) find(k timerlog.Key) (block, at int) {
	block = sort.Search(len(m.blocks), func(i int) bool { return k.Less(m.blocks[i][0].Key) }) - 1
	if block < 0 {
		return 0, 0
	}
	es := m.blocks[block]
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

// put adds an entry; one with the same key is an older copy and is replaced.
func (m *memtable) put(e timerlog.Entry) {
	m.fresh = append(m.fresh, e)
	m.insert(e)
}

func (m *memtable) insert(e timerlog.Entry) {
	b, at := m.find(e.Key)
	if len(m.blocks) == 0 {
		m.blocks = append(m.blocks, make([]timerlog.Entry, 0, blockEntries))
	}
	es := m.blocks[b]
	if at < len(es) && es[at].Key == e.Key {
		es[at] = e
		return
	}
	m.n++
	if len(es) < blockEntries {
		es = append(es, timerlog.Entry{})
		copy(es[at+1:], es[at:])
		es[at] = e
		m.blocks[b] = es
		return
	}
	cut := blockEntries / 2
	if at == blockEntries { // ascending puts fill blocks whole
		cut = blockEntries
	}
	upper := append(make([]timerlog.Entry, 0, blockEntries), es[cut:]...)
	m.blocks = append(m.blocks, nil)
	copy(m.blocks[b+2:], m.blocks[b+1:])
	m.blocks[b], m.blocks[b+1] = es[:cut], upper
	switch {
	case at >= cut:
		m.blocks[b+1] = insertAt(upper, at-cut, e)
	default:
		m.blocks[b] = insertAt(es[:cut], at, e)
	}
}

func insertAt(es []timerlog.Entry, at int, e timerlog.Entry) []timerlog.Entry {
	es = append(es, timerlog.Entry{})
	copy(es[at+1:], es[at:])
	es[at] = e
	return es
}

// remove drops an entry if it is there.
func (m *memtable) remove(k timerlog.Key) bool {
	b, at := m.find(k)
	if b >= len(m.blocks) || at >= len(m.blocks[b]) || m.blocks[b][at].Key != k {
		return false
	}
	es := m.blocks[b]
	if m.n--; len(es) == 1 {
		m.blocks = append(m.blocks[:b], m.blocks[b+1:]...)
		return true
	}
	if at == 0 { // what fires leaves at the front: no copy
		m.blocks[b] = es[1:]
		return true
	}
	m.blocks[b] = append(es[:at], es[at+1:]...)
	return true
}

// first is the smallest entry.
func (m *memtable) first() (timerlog.Entry, bool) {
	if m.n == 0 {
		return timerlog.Entry{}, false
	}
	return m.blocks[0][0], true
}

// sorted appends all entries in order.
func (m *memtable) sorted(dst []timerlog.Entry) []timerlog.Entry {
	for _, es := range m.blocks {
		dst = append(dst, es...)
	}
	return dst
}

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
