package timer

import (
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// table is a memtable with the part of the TimerLog that it is flushed to: the loose one, or that of a ring.
type table struct {
	kind     uint8 // timerlog.RingLoose, RingSeconds or RingHours
	capacity int
	log      *timerlog.Log
	active   *memtable
	frozen   *frozen      // at most one in a lane
	runs     []*runSource // of the loose one
	ring     *ring        // of the others
}

// frozen is a memtable while it is flushed. Its entries do not change.
type frozen struct {
	memtable    *memtable
	tableSource // the merge's place
}

func newTable(kind uint8, capacity int, log *timerlog.Log) *table {
	return &table{kind: kind, capacity: capacity, log: log, active: &memtable{}}
}

// sources adds what the merge reads.
func (t *table) sources(m *merge) {
	m.add(&activeSource{t})
	if t.frozen != nil {
		m.add(t.frozen)
	}
	for _, r := range t.runs {
		m.add(r)
	}
	if t.ring != nil {
		for _, g := range t.ring.open {
			m.add(g)
		}
	}
}

// prune forgets sources that are read to their end.
func (t *table) prune() {
	t.runs = pruned(t.runs)
	if t.ring != nil {
		t.ring.open = pruned(t.ring.open)
	}
}

func pruned(list []*runSource) []*runSource {
	kept := list[:0]
	for _, r := range list {
		if len(r.left()) > 0 {
			kept = append(kept, r)
		}
	}
	clear(list[len(kept):])
	return kept
}

// count is how many entries are in memory.
func (t *table) count() int {
	n := t.active.n
	if t.frozen != nil {
		n += t.frozen.memtable.n
	}
	return n
}

// spills lists the parts of the TimerLog that hold what is in memory.
func (t *table) spills() []timerlog.Ref {
	refs := append([]timerlog.Ref(nil), t.active.spills...)
	if t.frozen != nil {
		refs = append(refs, t.frozen.memtable.spills...)
	}
	return refs
}

// activeSource is the active memtable: what is taken leaves it.
type activeSource struct{ t *table }

func (s *activeSource) head() (*timerlog.Entry, bool, error) {
	e := s.t.active.first()
	return e, e != nil, nil
}

func (s *activeSource) next() { s.t.active.removeFirst() }
