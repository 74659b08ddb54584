package timer

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/engine/timerwheel"
)

// Flush writes a frozen memtable to the TimerLog: a loose one as one run, that of a ring as a group for each slot.
type Flush struct {
	table    *table
	source   *frozen
	frontier timerlog.Key     // at the start: what is not above it was delivered
	rolled   commitlog.Offset // and what lies below has a copy
	slots    *timerwheel.View // of a ring: where the older groups of each slot are
	groups   []timerlog.Ref
	top      commitlog.Offset // the greatest position of an entry
	linked   int
}

// NewFlush returns the job for the frozen memtable; nil when there is none. Writer.
func (l *Lane) NewFlush() *Flush {
	t := l.frozenTable()
	if t == nil {
		return nil
	}
	f := &Flush{table: t, source: t.frozen, frontier: l.cfg.Frontier(), rolled: l.rolled()}
	if t.ring != nil {
		f.slots = t.ring.wheel.View()
	}
	return f
}

// Run writes the groups. It may be repeated after an error.
func (f *Flush) Run() error {
	f.groups, f.top = f.groups[:0], 0
	if err := f.writeAll(); err != nil {
		giveBack(f.table.log, f.groups)
		f.groups = f.groups[:0]
		return err
	}
	return nil
}

// giveBack drops the groups of a job that failed: it is tried again, and on a full disk they would take the room that the
// next try needs. When that fails too they stay until their file is deleted.
func giveBack(log *timerlog.Log, groups []timerlog.Ref) {
	if len(groups) > 0 {
		_ = log.Rewind(groups[0].Place())
	}
}

func (f *Flush) writeAll() error {
	var entries []timerlog.Entry
	var number int64
	for src := f.source.memtable.all(); ; src.next() {
		e, ok, _ := src.head()
		if !ok {
			return f.write(number, entries)
		}
		if !e.Late() && !f.frontier.Less(e.Key) || e.Position < f.rolled {
			continue
		}
		if n := f.number(e.Due); n != number {
			if err := f.write(number, entries); err != nil {
				return err
			}
			number, entries = n, entries[:0]
		}
		entries = append(entries, *e)
	}
}

// number is the slot of a due time, always the same for the loose table.
func (f *Flush) number(due int64) int64 {
	if f.table.ring == nil {
		return timerlog.NoSlot
	}
	return f.table.ring.wheel.Number(due)
}

func (f *Flush) write(number int64, entries []timerlog.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	var prev timerlog.Ref
	if f.slots != nil {
		if s, ok := f.slots.Slot(number); ok {
			prev = timerlog.Ref{File: s.Last.File, Offset: s.Last.Offset}
		}
	}
	ref, err := f.table.log.WriteGroup(f.table.kind, number, prev, entries)
	if err != nil {
		return fmt.Errorf("timer: flush: %w", err)
	}
	for i := range entries {
		f.top = max(f.top, entries[i].Position)
	}
	f.groups = append(f.groups, ref)
	if !timerwheel.CanName(ref.Place()) {
		return fmt.Errorf("timer: flush: a slot cannot name byte %d of file %d", ref.Offset, ref.File)
	}
	return nil
}

// FlushFailed gives back what a flush that failed held; the next try is another one. Writer.
func (l *Lane) FlushFailed(f *Flush) {
	if f.slots != nil {
		f.slots.Release()
	}
}

// linkPerInstall is how many groups one InstallFlush links: about half a millisecond.
const linkPerInstall = 8192

// InstallFlush links the groups, some at a time; it is called until it says done. The memtable leaves with the last: in
// between an entry may be found twice, and the merge drops the second. Writer.
func (l *Lane) InstallFlush(f *Flush) (done bool) {
	t := f.table
	l.stale, l.begin = true, unknownBegin
	if t.ring == nil {
		if len(f.groups) > 0 {
			t.runs = append(t.runs, &runSource{log: t.log, run: slices.Clone(f.groups)})
		}
		t.frozen = nil
		return true
	}
	frontier := l.cfg.Frontier()
	end := min(f.linked+linkPerInstall, len(f.groups))
	for ; f.linked < end; f.linked++ {
		t.ring.link(f.groups[f.linked], f.top, frontier)
	}
	if f.linked < len(f.groups) {
		return false
	}
	f.slots.Release()
	t.frozen = nil
	return true
}

// Compaction merges loose runs into one. It holds no more entries in memory than a memtable does: its run is a sequence of
// groups.
type Compaction struct {
	log     *timerlog.Log
	size    int          // entries of a group
	sources []*runSource // those of the lane, only to know them again
	inputs  []*runSource // copies that stand at the same entries, read by Run
	rolled  commitlog.Offset
	run     Run
}

// NewCompaction returns the job when there are more loose runs than the lane may have; else nil. Writer.
func (l *Lane) NewCompaction() *Compaction {
	t := l.tables[0]
	t.runs = pruned(t.runs)
	if len(t.runs) <= max(l.cfg.Runs, l.patience) {
		return nil
	}
	c := &Compaction{log: t.log, size: t.capacity, sources: small(t.runs), rolled: l.rolled()}
	for _, r := range c.sources {
		c.inputs = append(c.inputs, r.again())
	}
	return c
}

// small chooses which runs become one: the two smallest, and on from there each that is no larger than those before it
// together. So an entry is written again only when its run at least doubles; with all of them each time, a month of late
// messages would be written anew for every few that come.
func small(runs []*runSource) []*runSource {
	sorted := slices.Clone(runs)
	slices.SortStableFunc(sorted, func(a, b *runSource) int { return cmp.Compare(a.count(), b.count()) })
	total := 0
	for i, r := range sorted {
		if i >= 2 && r.count() > total {
			return sorted[:i]
		}
		total += r.count()
	}
	return sorted
}

// Run reads the runs and writes the new one. It may be repeated after an error.
func (c *Compaction) Run() error {
	c.run = nil
	if err := c.write(); err != nil {
		giveBack(c.log, c.run)
		c.run = nil
		return fmt.Errorf("timer: compact: %w", err)
	}
	return nil
}

func (c *Compaction) write() error {
	var m merge
	for _, r := range c.inputs {
		m.add(r.again())
	}
	if err := m.init(); err != nil {
		return err
	}
	entries := make([]timerlog.Entry, 0, c.size)
	for {
		e, ok := m.first()
		n := len(entries)
		double := ok && n > 0 && entries[n-1].Key == e.Key
		if double && e.Position > entries[n-1].Position {
			entries[n-1] = *e // two copies of one message: the roll wrote the one that lies higher, the other is stale
		}
		if double || ok && e.Position < c.rolled {
			if err := m.advance(); err != nil {
				return err
			}
			continue
		}
		if !ok || len(entries) == c.size {
			ref, err := c.log.WriteGroup(timerlog.RingLoose, timerlog.NoSlot, timerlog.Ref{}, entries)
			if err != nil {
				return err
			}
			if ref.Count > 0 {
				c.run = append(c.run, ref)
			}
			entries = entries[:0]
		}
		if !ok {
			return nil
		}
		entries = append(entries, *e)
		if err := m.advance(); err != nil {
			return err
		}
	}
}

// InstallCompaction puts the new run in the place of those it read. Writer.
func (l *Lane) InstallCompaction(c *Compaction) {
	t := l.tables[0]
	t.runs = slices.DeleteFunc(t.runs, func(r *runSource) bool { return slices.Contains(c.sources, r) })
	t.runs = append(t.runs, &runSource{log: t.log, run: c.run})
	l.stale, l.patience = true, 0
}

// CompactionFailed puts the next one off until more runs have come: one that comes to damage reads and writes all that lies
// before it, in vain. Writer.
func (l *Lane) CompactionFailed() { l.patience = len(l.tables[0].runs) + l.cfg.Runs/2 }

// Spill saves for a checkpoint what the memtables hold and no spill has.
type Spill struct {
	frontier timerlog.Key
	rolled   commitlog.Offset
	tables   []spillTable
	state    State // without the new spills
}

type spillTable struct {
	log      *timerlog.Log
	kind     int // index in State.Tables
	memtable *memtable
	entries  unspilled
	refs     []timerlog.Ref
	written  bool
}

// NewSpill takes over what is to be saved: the spill must be installed before the next one is made. Writer, at the
// checkpoint's batch boundary.
func (l *Lane) NewSpill() *Spill {
	s := &Spill{frontier: l.cfg.Frontier(), rolled: l.rolled(), state: l.state()}
	for i, t := range l.tables {
		memtables := []*memtable{t.active}
		if t.frozen != nil {
			memtables = append(memtables, t.frozen.memtable)
		}
		for _, m := range memtables {
			s.tables = append(s.tables, spillTable{log: t.log, kind: i, memtable: m, entries: m.takeUnspilled()})
		}
	}
	return s
}

// spillEntries is how many entries one spill holds at most: what a job has in memory.
const spillEntries = 65536

// Run writes the spills, without what was delivered meanwhile, and syncs. It may be repeated after an error, its own or that
// of what follows it: nothing is written twice.
func (s *Spill) Run() error {
	waits := func(e *timerlog.Entry) bool {
		return (e.Late() || s.frontier.Less(e.Key)) && e.Position >= s.rolled
	}
	for i := range s.tables {
		t := &s.tables[i]
		if err := t.write(waits); err != nil {
			return fmt.Errorf("timer: spill: %w", err)
		}
		if err := t.log.Sync(); err != nil {
			return fmt.Errorf("timer: spill: %w", err)
		}
	}
	return nil
}

func (t *spillTable) write(waits func(e *timerlog.Entry) bool) error {
	if t.written {
		return nil
	}
	t.refs = nil
	err := t.entries.parts(spillEntries, waits, func(entries []timerlog.Entry) error {
		ref, err := t.log.WriteSpill(entries)
		if err == nil {
			t.refs = append(t.refs, ref)
		}
		return err
	})
	if err != nil {
		giveBack(t.log, t.refs)
		t.refs = nil
		return err
	}
	t.written = true
	return nil
}

// State is what the checkpoint records of the lane, after Run.
func (s *Spill) State() State {
	st := State{Tables: slices.Clone(s.state.Tables)}
	for i := range s.tables {
		t := &s.tables[i]
		at := &st.Tables[t.kind]
		at.Spills = append(slices.Clip(at.Spills), t.refs...)
		at.Files = t.log.State()
	}
	return st
}

// InstallSpill tells the memtables what is saved. Writer.
func (l *Lane) InstallSpill(s *Spill) {
	for i := range s.tables {
		t := &s.tables[i]
		for _, ref := range t.refs {
			t.memtable.spills = append(t.memtable.spills, ref)
			t.memtable.held += ref.Count
		}
	}
}
