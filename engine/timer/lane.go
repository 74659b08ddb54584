package timer

import (
	"fmt"
	"slices"

	"github.com/tidewheel/tidewheel/engine/schedule"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// Config is what a lane stands on.
type Config struct {
	Entries int // capacity of the loose memtable
	Runs    int // more loose runs than this are compacted
	Queues  *schedule.Set
	Log     *timerlog.Log // its family "loose"
	// Alive asks the fold whether an entry still waits.
	Alive func(e *timerlog.Entry) (bool, error)
}

// Lane is the scheduler of the messages of one lane.
type Lane struct {
	cfg    Config
	active *memtable
	frozen *frozen
	levels map[int64]*levelSource // by delay
	runs   []*runSource
	merge  merge
	stale  bool           // the merge must look at its sources again
	entry  timerlog.Entry // the one that Take asks about

	// Wait runs when a put finds both memtables full: it ends the flush under way. It is set during a replay, where
	// nobody can be asked to come again; else it is nil, and the caller asks Room before it begins a batch.
	Wait func() error
}

// frozen is a full memtable while it is flushed. Its entries do not change.
type frozen struct {
	table   *memtable
	entries []timerlog.Entry // all of them, in order
	at      int              // the merge's place
}

// New returns an empty lane.
func New(cfg Config) *Lane {
	return &Lane{cfg: cfg, active: &memtable{}, levels: map[int64]*levelSource{}, stale: true}
}

// Put takes in a waiting message. delayMs names the schedule queue, whose tail it must not precede; 0 sends it to the
// loose memtable.
func (l *Lane) Put(e timerlog.Entry, delayMs int64) error {
	if delayMs > 0 {
		q, err := l.cfg.Queues.Ensure(delayMs)
		if err != nil {
			return fmt.Errorf("timer: put: %w", err)
		}
		if l.levels[delayMs] == nil {
			l.levels[delayMs] = newLevelSource(q, q.Len())
			l.stale = true
		}
		if src := l.levels[delayMs]; !src.have {
			l.stale = true
		}
		return q.Append(e)
	}
	if l.active.n >= l.cfg.Entries {
		if err := l.freeze(); err != nil {
			return err
		}
	}
	l.active.put(e)
	if len(l.active.fresh) > 2*l.cfg.Entries {
		l.active.keepFresh()
	}
	l.stale = true
	return nil
}

// freeze makes room: the full memtable waits for its flush, an empty one takes its place.
func (l *Lane) freeze() error {
	if l.frozen != nil {
		if l.Wait == nil {
			return nil // one batch may go beyond the capacity; then Room says 0 until the flush is installed
		}
		if err := l.Wait(); err != nil {
			return err
		}
	}
	l.active.keepFresh()
	l.frozen = &frozen{table: l.active, entries: l.active.sorted(make([]timerlog.Entry, 0, l.active.n))}
	l.active = &memtable{}
	return nil
}

// Room is how many loose entries can be put before a flush has to end.
func (l *Lane) Room() int {
	room := max(l.cfg.Entries-l.active.n, 0)
	if l.frozen == nil {
		room += l.cfg.Entries
	}
	return room
}

// Gone tells that the message with this key was delivered, cancelled or moved: if it is in the loose memtable its place
// is free. Other sources find out when they come to it.
func (l *Lane) Gone(k timerlog.Key) {
	if l.active.remove(k) {
		l.stale = true
	}
}

// deadPerTake bounds how many dead entries one Take passes, so that a queue of cancelled messages stops nobody.
const deadPerTake = 16384

// Take appends to dst the entries that are due at now, smallest first, at most most, and takes them out of their
// sources: the caller delivers them at once, also those that come with an error, and may then try again. more says that
// it stopped before the last one that is due.
func (l *Lane) Take(now int64, most int, dst []timerlog.Entry) (out []timerlog.Entry, more bool, err error) {
	if err := l.refresh(); err != nil {
		return dst, false, err
	}
	taken, dead := 0, 0
	for {
		e, ok := l.merge.first()
		if !ok || e.Due > now {
			return dst, false, nil
		}
		if taken == most || dead == deadPerTake {
			return dst, true, nil
		}
		l.entry = *e
		alive, err := l.cfg.Alive(&l.entry)
		if err != nil {
			return dst, false, fmt.Errorf("timer: take: %w", err)
		}
		// Two sources may hold the same entry while a job's result is linked: the second is dropped.
		switch {
		case !alive || taken > 0 && dst[len(dst)-1].Key == l.entry.Key:
			dead++
		default:
			dst = append(dst, l.entry)
			taken++
		}
		if err := l.merge.advance(); err != nil {
			return dst, false, fmt.Errorf("timer: take: %w", err)
		}
	}
}

// Next is the due time of the first entry. It may be dead: then the caller wakes up for nothing, once.
func (l *Lane) Next() (due int64, ok bool, err error) {
	if err := l.refresh(); err != nil {
		return 0, false, err
	}
	e, ok := l.merge.first()
	if !ok {
		return 0, false, nil
	}
	return e.Due, true, nil
}

// refresh rebuilds the merge after a source got or lost its head.
func (l *Lane) refresh() error {
	if !l.stale {
		return nil
	}
	l.merge.reset()
	l.merge.add(&activeSource{l.active})
	if l.frozen != nil {
		l.merge.add(l.frozen)
	}
	for q := range l.cfg.Queues.All() {
		if src := l.levels[q.DelayMs()]; src != nil {
			l.merge.add(src)
		}
	}
	l.runs = slices.DeleteFunc(l.runs, func(r *runSource) bool { return len(r.left()) == 0 })
	for _, r := range l.runs {
		l.merge.add(r)
	}
	if err := l.merge.init(); err != nil {
		return fmt.Errorf("timer: merge: %w", err)
	}
	l.stale = false
	return nil
}

// Find returns the entry with this key that is alive, for a caller who knows that there is one.
func (l *Lane) Find(k timerlog.Key) (timerlog.Entry, bool, error) {
	if e, ok := l.active.get(k); ok {
		return e, true, nil
	}
	if l.frozen != nil {
		if i, ok := slices.BinarySearchFunc(l.frozen.entries, k, func(e timerlog.Entry, k timerlog.Key) int { return e.Compare(k) }); ok {
			e := l.frozen.entries[i]
			if alive, err := l.cfg.Alive(&e); alive || err != nil {
				return e, alive, err
			}
		}
	}
	found := func(s source) (e timerlog.Entry, ok bool, err error) {
		head, ok, err := s.head()
		if err != nil || !ok || head.Key != k {
			return timerlog.Entry{}, false, err
		}
		e = *head
		ok, err = l.cfg.Alive(&e)
		return e, ok, err
	}
	before := timerlog.Key{Due: k.Due, ID: k.ID - 1} // ids begin at 1
	for q := range l.cfg.Queues.All() {
		at, err := q.Search(before)
		if err != nil {
			return timerlog.Entry{}, false, err
		}
		if e, ok, err := found(newLevelSource(q, at)); ok || err != nil {
			return e, ok, err
		}
	}
	for _, r := range l.runs {
		for _, ref := range r.left() {
			if e, ok, err := found(&runSource{log: l.cfg.Log, run: Run{ref}, after: before}); ok || err != nil {
				return e, ok, err
			}
		}
	}
	return timerlog.Entry{}, false, nil
}

// Each calls fn for every entry that is alive, in order, each once. It reads all sources from their beginning and leaves
// the lane as it was; it is for checks.
func (l *Lane) Each(fn func(e *timerlog.Entry) error) error {
	var m merge
	m.add(&sliceSource{entries: l.active.sorted(nil)})
	if l.frozen != nil {
		m.add(&sliceSource{entries: l.frozen.entries})
	}
	for q := range l.cfg.Queues.All() {
		m.add(newLevelSource(q, q.First()))
	}
	for _, r := range l.runs {
		m.add(&runSource{log: l.cfg.Log, run: r.run})
	}
	if err := m.init(); err != nil {
		return err
	}
	var last timerlog.Key
	for {
		e, ok := m.first()
		if !ok {
			return nil
		}
		entry := *e
		if err := m.advance(); err != nil {
			return err
		}
		alive, err := l.cfg.Alive(&entry)
		if err != nil {
			return err
		}
		if alive && entry.Key != last {
			last = entry.Key
			if err := fn(&entry); err != nil {
				return err
			}
		}
	}
}
