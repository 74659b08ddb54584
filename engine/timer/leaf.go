package timer

import (
	"slices"

	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// leafRefs is how many refs a leaf holds at most.
const leafRefs = 512

// ref is an entry in the order of keys. Equal due times are told apart by the entries' ids.
type ref struct {
	due int64
	at  uint32 // index of the entry in the memtable
}

// leaf is a part of a memtable's order: the refs in [start, start of the next leaf). They are sorted only where somebody
// needs them so: a put into a leaf that is not read yet touches its end alone, and the flush sorts it elsewhere.
type leaf struct {
	refs   []ref
	sorted bool
}

func newLeaf() leaf { return leaf{refs: make([]ref, 0, leafRefs), sorted: true} }

func (l *leaf) full() bool { return len(l.refs) == leafRefs }

// less says whether a ref lies below a key.
func (m *memtable) less(r ref, k timerlog.Key) bool {
	return r.due < k.Due || r.due == k.Due && m.entry(r.at).ID < k.ID
}

func (m *memtable) is(r ref, k timerlog.Key) bool { return r.due == k.Due && m.entry(r.at).ID == k.ID }

func (m *memtable) key(r ref) timerlog.Key { return m.entry(r.at).Key }

// place finds where k is or belongs in a sorted list.
func (m *memtable) place(refs []ref, k timerlog.Key) int {
	lo, hi := 0, len(refs)
	for lo < hi {
		if mid := int(uint(lo+hi) >> 1); m.less(refs[mid], k) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// search finds a key in a leaf, -1 if it is not there.
func (m *memtable) search(l *leaf, k timerlog.Key) int {
	if l.sorted {
		if at := m.place(l.refs, k); at < len(l.refs) && m.is(l.refs[at], k) {
			return at
		}
		return -1
	}
	for i, r := range l.refs {
		if r.due == k.Due && m.entry(r.at).ID == k.ID {
			return i
		}
	}
	return -1
}

// add adds the ref of a key that is not there; the leaf must not be full. In order says that the leaf has to stay sorted. It
// returns where the ref is.
func (m *memtable) add(l *leaf, r ref, k timerlog.Key, inOrder bool) int {
	if len(l.refs) == cap(l.refs) { // its front left: there is room, but not behind it
		l.refs = append(make([]ref, 0, leafRefs), l.refs...)
	}
	last := len(l.refs)
	l.refs = append(l.refs, r)
	switch {
	case !l.sorted || last == 0 || m.less(l.refs[last-1], k):
	case !inOrder:
		l.sorted = false
	default:
		at := m.place(l.refs[:last], k)
		copy(l.refs[at+1:], l.refs[at:last])
		l.refs[at] = r
		return at
	}
	return last
}

// drop drops the ref at a place.
func (l *leaf) drop(at int) {
	last := len(l.refs) - 1
	switch {
	case !l.sorted:
		l.refs[at] = l.refs[last]
		l.refs = l.refs[:last]
	case at == 0: // what fires leaves at the front: no copy
		l.refs = l.refs[1:]
	default:
		l.refs = append(l.refs[:at], l.refs[at+1:]...)
	}
}

// sort sorts refs.
func (m *memtable) sort(refs []ref) {
	slices.SortFunc(refs, func(a, b ref) int {
		switch {
		case a.due < b.due:
			return -1
		case a.due > b.due:
			return 1
		}
		return m.key(a).Compare(m.key(b))
	})
}

// split moves about the upper half of a full leaf to a new one, and returns it with its smallest possible key.
func (m *memtable) split(l *leaf) (upper leaf, start timerlog.Key) {
	cut := leafRefs / 2
	if l.sorted {
		start = m.key(l.refs[cut])
	} else {
		start = m.middle(l.refs)
		cut = m.partition(l.refs, start)
	}
	upper = newLeaf()
	upper.refs, upper.sorted = append(upper.refs, l.refs[cut:]...), l.sorted
	l.refs = l.refs[:cut]
	return upper, start
}

// middle is a key near the middle of many refs: that of a sample. Some lie below it.
func (m *memtable) middle(refs []ref) timerlog.Key {
	const looks = 15
	var sample [looks]ref
	for i := range sample {
		sample[i] = refs[i*len(refs)/looks]
	}
	m.sort(sample[:])
	return m.key(sample[looks/2])
}

// partition brings what lies below a key to the front, and says how much that is.
func (m *memtable) partition(refs []ref, k timerlog.Key) int {
	lo, hi := 0, len(refs)
	for lo < hi {
		if m.less(refs[lo], k) {
			lo++
		} else {
			hi--
			refs[lo], refs[hi] = refs[hi], refs[lo]
		}
	}
	return lo
}
