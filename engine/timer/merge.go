package timer

import (
	"math"

	"github.com/tidewheel/tidewheel/engine/schedule"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// source is a sorted stream of entries. head returns the entry it stands at, valid until next is called; ok is false at
// the end.
type source interface {
	head() (e *timerlog.Entry, ok bool, err error)
	next()
}

// merge gives the smallest head of its sources: a binary heap.
type merge struct{ nodes []node }

type node struct {
	entry timerlog.Entry // the head of src
	src   source
	moved bool // src is past entry, and its new head could not be read yet
}

func (m *merge) reset() { m.nodes = m.nodes[:0] }

func (m *merge) add(s source) { m.nodes = append(m.nodes, node{src: s}) }

// init looks at all heads; sources at their end leave.
func (m *merge) init() error {
	kept := m.nodes[:0]
	for _, n := range m.nodes {
		e, ok, err := n.src.head()
		if err != nil {
			return err
		}
		if ok {
			kept = append(kept, node{entry: *e, src: n.src})
		}
	}
	clear(m.nodes[len(kept):])
	m.nodes = kept
	for i := len(kept)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	return nil
}

// join adds sources to a merge that runs.
func (m *merge) join(sources []*runSource) error {
	for _, s := range sources {
		e, ok, err := s.head()
		if err != nil {
			return err
		}
		if ok {
			m.nodes = append(m.nodes, node{entry: *e, src: s})
			m.up(len(m.nodes) - 1)
		}
	}
	return nil
}

func (m *merge) first() (*timerlog.Entry, bool) {
	if len(m.nodes) == 0 {
		return nil, false
	}
	return &m.nodes[0].entry, true
}

// advance moves the source of the first entry on. After an error the entry is still the first, and the next advance
// goes on from there.
func (m *merge) advance() error {
	m.step()
	return m.settle()
}

// step is the half of advance that cannot fail; settle must follow before first.
func (m *merge) step() {
	if n := &m.nodes[0]; !n.moved {
		n.src.next()
		n.moved = true
	}
}

// settle looks at the new head of a source that was moved.
func (m *merge) settle() error {
	if len(m.nodes) == 0 || !m.nodes[0].moved {
		return nil
	}
	n := &m.nodes[0]
	e, ok, err := n.src.head()
	if err != nil {
		return err
	}
	if ok {
		n.entry, n.moved = *e, false
	} else {
		last := len(m.nodes) - 1
		m.nodes[0], m.nodes[last] = m.nodes[last], node{}
		m.nodes = m.nodes[:last]
	}
	m.down(0)
	return nil
}

func (m *merge) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !m.nodes[i].entry.Key.Less(m.nodes[parent].entry.Key) {
			return
		}
		m.nodes[i], m.nodes[parent] = m.nodes[parent], m.nodes[i]
		i = parent
	}
}

func (m *merge) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(m.nodes); c++ {
			if m.nodes[c].entry.Key.Less(m.nodes[least].entry.Key) {
				least = c
			}
		}
		if least == i {
			return
		}
		m.nodes[i], m.nodes[least] = m.nodes[least], m.nodes[i]
		i = least
	}
}

// levelSource reads a schedule queue. It may reach the end and go on when more was appended.
type levelSource struct {
	cursor *schedule.Cursor
	at     int64 // index of the entry it stands at
	entry  timerlog.Entry
	have   bool
}

func newLevelSource(q *schedule.Queue, at int64) *levelSource {
	return &levelSource{cursor: q.Cursor(at), at: at}
}

func (s *levelSource) head() (*timerlog.Entry, bool, error) {
	if !s.have {
		e, ok, err := s.cursor.Next()
		if err != nil || !ok {
			return nil, false, err
		}
		s.entry, s.have = e, true
	}
	return &s.entry, true, nil
}

func (s *levelSource) next() {
	s.have = false
	s.at++
}

// Run is a sorted sequence of entries in the TimerLog: groups, one after the other.
type Run []timerlog.Ref

// runSource reads a loose run from its first entry: a late one may stand below the frontier.
type runSource struct {
	log    *timerlog.Log
	run    Run
	at     int              // group it stands in
	cursor *timerlog.Cursor // of that group
	after  timerlog.Key     // entries up to here are left out
	entry  timerlog.Entry
	have   bool
}

// again returns a source of the same entries from where this one stands.
func (s *runSource) again() *runSource {
	c := &runSource{log: s.log, run: s.run, at: s.at, after: s.after}
	if s.have {
		c.after = timerlog.Key{Due: s.entry.Due, ID: s.entry.ID - 1} // ids begin at 1
	}
	return c
}

// left lists the groups that are not read to their end.
func (s *runSource) left() Run { return s.run[s.at:] }

// count is how many entries those groups have.
func (s *runSource) count() (n int) {
	for _, ref := range s.left() {
		n += ref.Count
	}
	return n
}

func (s *runSource) head() (*timerlog.Entry, bool, error) {
	for !s.have && s.at < len(s.run) {
		if s.cursor == nil {
			if s.after == (timerlog.Key{}) {
				s.after.Due = math.MinInt64
			}
			c, err := s.log.Cursor(s.run[s.at], s.after)
			if err != nil {
				return nil, false, err
			}
			s.cursor = c
		}
		e, ok, err := s.cursor.Next()
		if err != nil {
			return nil, false, err
		}
		if ok {
			s.entry, s.have = e, true
			break
		}
		s.at++
		s.cursor = nil // the groups that follow begin behind after too
	}
	return &s.entry, s.have, nil
}

func (s *runSource) next() {
	s.have = false
}

// levelScan reads a schedule queue from a key on.
type levelScan struct {
	queue *schedule.Queue
	after timerlog.Key
	src   *levelSource
}

func (s *levelScan) head() (*timerlog.Entry, bool, error) {
	if s.src == nil {
		at, err := s.queue.Search(s.after)
		if err != nil {
			return nil, false, err
		}
		s.src = newLevelSource(s.queue, at)
	}
	return s.src.head()
}

func (s *levelScan) next() { s.src.next() }
