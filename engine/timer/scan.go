package timer

import (
	"fmt"
	"math"

	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/engine/timerwheel"
)

// Scan reads the entries of a lane in order, from a key on, beside the writer: NewScan takes a picture of the sources,
// which Next then reads on any goroutine. Entries may be dead: the caller asks the fold about them. After Next has returned
// ok = false, or an error, the writer calls Close.
//
// An error of kind fs.ErrNotExist or timerlog's says that files were deleted meanwhile: make a new Scan.
type Scan struct {
	merge merge
	views []*timerwheel.View
	limit timerlog.Key // of the picture: memtables were copied up to here
	began bool
}

// NewScan takes a picture of what lies above a key. Of each memtable at most most entries are copied; where one has more,
// the scan ends at the last one copied. Writer.
func (l *Lane) NewScan(after timerlog.Key, most int) *Scan {
	return l.newScan(after, most, math.MaxInt64)
}

// NewScanOf takes a picture of what may hold the entry with a key; the scan gives its copies: a message that was rolled has
// some, of which one is alive. Writer.
func (l *Lane) NewScanOf(k timerlog.Key) *Scan {
	s := l.newScan(timerlog.Key{Due: k.Due, ID: k.ID - 1}, 2, k.Due) // ids begin at 1
	s.limit = k
	return s
}

// newScan takes a picture of what lies above a key and in no slot behind that of a due time.
func (l *Lane) newScan(after timerlog.Key, most int, last int64) *Scan {
	s := &Scan{limit: timerlog.Key{Due: math.MaxInt64, ID: math.MaxUint64}}
	for _, t := range l.tables {
		s.copyTable(t.active, after, most)
		if t.frozen != nil {
			s.merge.add(t.frozen.memtable.seek(after))
		}
		for _, r := range t.runs {
			s.merge.add(&runSource{log: t.log, run: r.left(), after: after}) // files of the groups before may be gone
		}
		if t.ring != nil {
			v := t.ring.wheel.View()
			s.views = append(s.views, v)
			from, to := t.ring.span(l.cfg.Frontier())
			from = max(from, t.ring.wheel.Number(after.Due))
			if last != math.MaxInt64 {
				to = min(to, t.ring.wheel.Number(last)+1)
			}
			s.merge.add(&ringSource{log: t.log, floor: t.ring.floor(), view: v, from: from, to: to, after: after})
		}
	}
	if l.cfg.Queues != nil {
		for q := range l.cfg.Queues.All() {
			s.merge.add(&levelScan{queue: q, after: after})
		}
	}
	return s
}

func (s *Scan) copyTable(m *memtable, after timerlog.Key, most int) {
	src := m.seek(after)
	c := &copySource{}
	for {
		e, ok, _ := src.head()
		if !ok {
			break
		}
		if len(c.entries) == most {
			if last := c.entries[most-1].Key; last.Less(s.limit) {
				s.limit = last
			}
			break
		}
		c.entries = append(c.entries, *e)
		src.next()
	}
	s.merge.add(c)
}

// Next returns the next entry; ok is false at the end of the picture.
func (s *Scan) Next() (e timerlog.Entry, ok bool, err error) {
	if !s.began {
		if err := s.merge.init(); err != nil {
			return e, false, fmt.Errorf("timer: scan: %w", err)
		}
		s.began = true
	}
	head, ok := s.merge.first()
	if !ok || s.limit.Less(head.Key) {
		return timerlog.Entry{}, false, nil
	}
	e = *head
	if err := s.merge.advance(); err != nil {
		return e, false, fmt.Errorf("timer: scan: %w", err)
	}
	return e, true, nil
}

// Limited says that the scan ended before the lane did: the next one goes on behind the key.
func (s *Scan) Limited() (timerlog.Key, bool) { return s.limit, s.limit.Due != math.MaxInt64 }

// Close gives the picture back. Writer.
func (s *Scan) Close() {
	for _, v := range s.views {
		v.Release()
	}
	s.views = nil
}

// Each calls fn for every entry that is alive, in order, each once. It is for checks. Writer.
func (l *Lane) Each(fn func(e *timerlog.Entry) error) error {
	s := l.NewScan(timerlog.Key{Due: math.MinInt64}, math.MaxInt)
	defer s.Close()
	var last timerlog.Key
	for {
		e, ok, err := s.Next()
		if err != nil || !ok {
			return err
		}
		alive, err := l.cfg.Alive(&e)
		if err != nil {
			return err
		}
		if alive && e.Key != last {
			last = e.Key
			if err := fn(&e); err != nil {
				return err
			}
		}
	}
}

// copySource reads a copy.
type copySource struct{ entries []timerlog.Entry }

func (s *copySource) head() (*timerlog.Entry, bool, error) {
	if len(s.entries) == 0 {
		return nil, false, nil
	}
	return &s.entries[0], true, nil
}

func (s *copySource) next() { s.entries = s.entries[1:] }

// ringSource reads the slots of a ring one after the other.
type ringSource struct {
	log      *timerlog.Log
	floor    int64 // oldest file of the ring
	view     *timerwheel.View
	from, to int64
	after    timerlog.Key
	slots    []timerwheel.Slot
	groups   merge
}

// slotsAhead is how many slots are looked up at once.
const slotsAhead = 256

func (s *ringSource) head() (*timerlog.Entry, bool, error) {
	if err := s.groups.settle(); err != nil {
		return nil, false, err
	}
	for {
		if e, ok := s.groups.first(); ok {
			return e, true, nil
		}
		if len(s.slots) == 0 {
			if s.slots = s.view.From(s.from, s.to, slotsAhead); len(s.slots) == 0 {
				return nil, false, nil
			}
			s.from = s.slots[len(s.slots)-1].Time + 1
		}
		groups, err := chain(s.log, s.slots[0], s.floor)
		if err != nil {
			return nil, false, err
		}
		s.groups.reset()
		for _, ref := range groups {
			s.groups.add(&runSource{log: s.log, run: Run{ref}, after: s.after})
		}
		if err := s.groups.init(); err != nil {
			return nil, false, err
		}
		s.slots = s.slots[1:]
	}
}

func (s *ringSource) next() { s.groups.step() }
