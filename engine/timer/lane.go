package timer

import (
	"fmt"
	"math"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/schedule"
	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/engine/timerwheel"
)

// Config is what a lane stands on.
type Config struct {
	Runs   int           // more loose runs than this are compacted
	Queues *schedule.Set // of the levels' lane; nil: the lane has none
	Loose  Table
	// Seconds and Hours are the rings of a lane of arbitrary times; without them everything is loose.
	Seconds, Hours *Ring
	NearMs         int64 // what is due this soon goes to seconds, beside what is due before the end of the next full hour

	// Alive asks the fold whether an entry still waits, Frontier how far the lane has delivered, Rolled below which position
	// no entry is alive; nil: none was rolled.
	Alive    func(e *timerlog.Entry) (bool, error)
	Frontier func() timerlog.Key
	Rolled   func() commitlog.Offset
}

// Table is the capacity of a memtable, in entries, and the family of files that it is flushed to.
type Table struct {
	Entries int
	Log     *timerlog.Log
}

// Ring is a table with its TimerWheel.
type Ring struct {
	Table
	Wheel *timerwheel.Wheel
}

// Lane is the scheduler of the messages of one lane.
type Lane struct {
	cfg    Config
	tables []*table // loose, and seconds and hours if there are rings
	levels map[int64]*levelSource
	merge  merge
	stale  bool  // the merge must look at its sources again
	begin  int64 // of the first slot that is not open; unknownBegin: find out

	patience int // no compaction before there are more loose runs than this

	entry timerlog.Entry // the one that Take asks about

	// Wait runs when a put finds both memtables full: it ends the flush under way. It is set during a replay, where
	// nobody can be asked to come again; else it is nil, and the caller asks Room before it begins a batch.
	Wait func() error
}

// New returns an empty lane.
func New(cfg Config) *Lane {
	l := &Lane{cfg: cfg, levels: map[int64]*levelSource{}, stale: true, begin: unknownBegin}
	l.tables = append(l.tables, newTable(timerlog.RingLoose, cfg.Loose.Entries, cfg.Loose.Log))
	for kind, r := range []*Ring{timerlog.RingSeconds: cfg.Seconds, timerlog.RingHours: cfg.Hours} {
		if r != nil {
			t := newTable(uint8(kind), r.Entries, r.Log)
			start := r.Wheel.Number(cfg.Frontier().Due)
			t.ring = &ring{wheel: r.Wheel, log: r.Log, opened: start, swept: start, ends: map[int64]fileEnd{}}
			l.tables = append(l.tables, t)
		}
	}
	return l
}

func (l *Lane) rolled() commitlog.Offset {
	if l.cfg.Rolled == nil {
		return 0
	}
	return l.cfg.Rolled()
}

// unknownBegin is before every slot.
const unknownBegin = math.MinInt64

const hourMs = 3600 * 1000

// Put takes in a waiting message at a moment (ms since 1970). delayMs names the schedule queue, whose tail it must not
// precede; 0 sends it to the ring that its due time fits, or to the loose memtable.
func (l *Lane) Put(e timerlog.Entry, delayMs, now int64) error {
	if delayMs > 0 {
		return l.putLevel(e, delayMs)
	}
	t := l.tableFor(&e, now)
	if t.active.n >= t.capacity || t.active.length+t.active.held > 2*t.capacity+slack {
		if err := l.freeze(t); err != nil {
			return err
		}
	}
	if t.active.put(e) {
		l.stale = true
	}
	return nil
}

// slack lets a small table whose entries come and go be spilled a few times before that makes a run.
const slack = 64

func (l *Lane) putLevel(e timerlog.Entry, delayMs int64) error {
	q, err := l.cfg.Queues.Ensure(delayMs)
	if err != nil {
		return fmt.Errorf("timer: put: %w", err)
	}
	src := l.levels[delayMs]
	if src == nil {
		src = newLevelSource(q, q.Len())
		l.levels[delayMs] = src
	}
	if !src.have {
		l.stale = true // it stands at its end, or is new to the merge
	}
	return q.Append(e)
}

// tableFor chooses the ring by due time: seconds for what is due before the end of the next full hour, hours for the
// rest, and no ring for what is late or would lie a lap ahead of the frontier.
func (l *Lane) tableFor(e *timerlog.Entry, now int64) *table {
	if e.Late() || len(l.tables) == 1 {
		return l.tables[0]
	}
	frontier := l.cfg.Frontier()
	for _, t := range l.tables[1:] {
		near := e.Due < (now/hourMs+2)*hourMs || e.Due < now+l.cfg.NearMs
		if (t.kind != timerlog.RingSeconds || near) && t.ring.fits(e.Due, frontier) {
			return t
		}
	}
	return l.tables[0]
}

// freeze makes room: the memtable waits for its flush, an empty one takes its place. One may be frozen at a time.
func (l *Lane) freeze(t *table) error {
	if l.frozenTable() != nil {
		if l.Wait == nil {
			return nil // one batch may go beyond the capacity; then Room says 0 until the flush is installed
		}
		if err := l.Wait(); err != nil {
			return err
		}
	}
	t.frozen = &frozen{memtable: t.active, tableSource: t.active.all()}
	t.active = &memtable{}
	l.stale = true
	return nil
}

func (l *Lane) frozenTable() *table {
	for _, t := range l.tables {
		if t.frozen != nil {
			return t
		}
	}
	return nil
}

// Room is how many entries can be put, whatever table they go to, before a flush has to end.
func (l *Lane) Room() int {
	room, spare := math.MaxInt, l.frozenTable() == nil
	for _, t := range l.tables {
		n := max(t.capacity-t.active.n, 0)
		if spare {
			n += t.capacity
		}
		room = min(room, n)
	}
	return room
}

// Gone tells that the message with this key was delivered, cancelled or moved: if it is in a memtable its place is free.
// Other sources find out when they come to it.
func (l *Lane) Gone(k timerlog.Key) {
	for _, t := range l.tables {
		if t.active.remove(k) {
			l.stale = true
		}
	}
}

// deadPerTake bounds how many dead entries one Take passes, so that a queue of cancelled messages stops nobody.
const deadPerTake = 4096

// Take appends to dst the entries that are due at now, smallest first, at most most, and takes them out of their
// sources: the caller delivers them at once, also those that come with an error, and may then try again. more says that
// it stopped before the last one that is due.
func (l *Lane) Take(now int64, most int, dst []timerlog.Entry) (out []timerlog.Entry, more bool, err error) {
	if err := l.refresh(); err != nil {
		return dst, false, err
	}
	taken, dead := 0, 0
	for {
		e, ok, err := l.first(now)
		if err != nil {
			return dst, false, err
		}
		if !ok {
			l.sweep()
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

// first is the smallest entry that is due, after the slots that begin before it are open.
func (l *Lane) first(now int64) (e *timerlog.Entry, ok bool, err error) {
	for {
		e, ok = l.merge.first()
		limit := now
		if ok = ok && e.Due <= now; ok {
			limit = e.Due
		}
		if l.begin > limit {
			return e, ok, nil
		}
		if err := l.openSlots(limit); err != nil {
			return nil, false, err
		}
	}
}

// openSlots opens the next slot of each ring that begins at or before limit.
func (l *Lane) openSlots(limit int64) error {
	frontier := l.cfg.Frontier()
	l.begin = math.MaxInt64
	for _, t := range l.tables[1:] {
		sources, err := t.ring.openNext(limit, frontier)
		if err == nil {
			err = l.merge.join(sources)
		}
		if err != nil {
			l.begin, l.stale = unknownBegin, true
			return fmt.Errorf("timer: open slot: %w", err)
		}
		l.begin = min(l.begin, t.ring.nextBegin(frontier))
	}
	return nil
}

func (l *Lane) sweep() {
	frontier := l.cfg.Frontier()
	for _, t := range l.tables[1:] {
		t.ring.sweep(frontier)
	}
}

// Next is when the lane has to be looked at again: the due time of its first entry, which may be dead, or the begin of a
// slot that is to be opened.
func (l *Lane) Next() (due int64, ok bool, err error) {
	if err := l.refresh(); err != nil {
		return 0, false, err
	}
	if l.begin == unknownBegin {
		l.begin = math.MaxInt64
		frontier := l.cfg.Frontier()
		for _, t := range l.tables[1:] {
			l.begin = min(l.begin, t.ring.nextBegin(frontier))
		}
	}
	due = l.begin
	if e, ok := l.merge.first(); ok {
		due = min(due, e.Due)
	}
	return due, due != math.MaxInt64, nil
}

// refresh rebuilds the merge after a source got or lost its head.
func (l *Lane) refresh() error {
	if !l.stale {
		return nil
	}
	l.merge.reset()
	for _, t := range l.tables {
		t.prune()
		t.sources(&l.merge)
	}
	if l.cfg.Queues != nil {
		for q := range l.cfg.Queues.All() {
			if src := l.levels[q.DelayMs()]; src != nil {
				l.merge.add(src)
			}
		}
	}
	if err := l.merge.init(); err != nil {
		return fmt.Errorf("timer: merge: %w", err)
	}
	l.stale = false
	return nil
}
