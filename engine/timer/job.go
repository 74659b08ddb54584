package timer

import (
	"fmt"
	"slices"

	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// Flush writes the frozen memtable as one run.
type Flush struct {
	log    *timerlog.Log
	source *frozen
	run    Run
}

// NewFlush returns the job for the frozen memtable; nil when there is none. Writer.
func (l *Lane) NewFlush() *Flush {
	if l.frozen == nil {
		return nil
	}
	return &Flush{log: l.cfg.Log, source: l.frozen}
}

// Run writes the run. It may be repeated after an error.
func (f *Flush) Run() error {
	f.run = nil
	if len(f.source.entries) == 0 {
		return nil
	}
	ref, err := f.log.WriteGroup(timerlog.RingLoose, timerlog.NoSlot, timerlog.Ref{}, f.source.entries)
	if err != nil {
		return fmt.Errorf("timer: flush: %w", err)
	}
	f.run = Run{ref}
	return nil
}

// InstallFlush puts the run in the place of the frozen memtable. Writer.
func (l *Lane) InstallFlush(f *Flush) {
	if len(f.run) > 0 {
		l.runs = append(l.runs, &runSource{log: l.cfg.Log, run: f.run})
	}
	l.frozen = nil
	l.stale = true
}

// Compaction merges the loose runs into one. It holds no more entries in memory than a memtable does: its run is a
// sequence of groups.
type Compaction struct {
	log     *timerlog.Log
	size    int          // entries of a group
	sources []*runSource // those of the lane, only to know them again
	inputs  []*runSource // copies that stand at the same entries, read by Run
	run     Run
}

// NewCompaction returns the job when there are more runs than the lane may have; else nil. Writer.
func (l *Lane) NewCompaction() *Compaction {
	if len(l.runs) <= l.cfg.Runs {
		return nil
	}
	c := &Compaction{log: l.cfg.Log, size: l.cfg.Entries}
	for _, r := range l.runs {
		c.sources = append(c.sources, r)
		c.inputs = append(c.inputs, r.again())
	}
	return c
}

// Run reads the runs and writes the new one. It may be repeated after an error.
func (c *Compaction) Run() error {
	var m merge
	for _, r := range c.inputs {
		m.add(r.again())
	}
	if err := m.init(); err != nil {
		return fmt.Errorf("timer: compact: %w", err)
	}
	c.run = nil
	entries := make([]timerlog.Entry, 0, c.size)
	for {
		e, ok := m.first()
		if n := len(entries); ok && n > 0 && entries[n-1].Key == e.Key {
			// Two copies of one message: the roll wrote the one that lies higher, the other is stale.
			if e.Position > entries[n-1].Position {
				entries[n-1] = *e
			}
			if err := m.advance(); err != nil {
				return fmt.Errorf("timer: compact: %w", err)
			}
			continue
		}
		if !ok || len(entries) == c.size {
			ref, err := c.log.WriteGroup(timerlog.RingLoose, timerlog.NoSlot, timerlog.Ref{}, entries)
			if err != nil {
				return fmt.Errorf("timer: compact: %w", err)
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
			return fmt.Errorf("timer: compact: %w", err)
		}
	}
}

// InstallCompaction puts the new run in the place of those it read. Writer.
func (l *Lane) InstallCompaction(c *Compaction) {
	l.runs = slices.DeleteFunc(l.runs, func(r *runSource) bool { return slices.Contains(c.sources, r) })
	l.runs = append(l.runs, &runSource{log: l.cfg.Log, run: c.run})
	l.stale = true
}

// Spill saves for a checkpoint what the memtables hold and no spill has.
type Spill struct {
	log    *timerlog.Log
	tables []spillTable
	runs   []Run
}

type spillTable struct {
	table   *memtable
	entries []timerlog.Entry
	whole   bool // the table's older spills go
	ref     timerlog.Ref
}

// NewSpill takes what is to be saved out of the memtables' lists of fresh entries: the spill must be installed before
// the next one is made. Writer, at the checkpoint's batch boundary.
func (l *Lane) NewSpill() *Spill {
	s := &Spill{log: l.cfg.Log}
	for _, r := range l.runs {
		if left := r.left(); len(left) > 0 {
			s.runs = append(s.runs, left)
		}
	}
	tables := []*memtable{l.active}
	if l.frozen != nil {
		tables = append(tables, l.frozen.table)
	}
	for _, m := range tables {
		m.keepFresh()
		t := spillTable{table: m, entries: m.fresh}
		if t.whole = m.held+len(m.fresh) > 2*l.cfg.Entries; t.whole {
			t.entries = m.sorted(nil)
		}
		m.fresh = nil
		s.tables = append(s.tables, t)
	}
	return s
}

// Run writes the spills. It may be repeated after an error.
func (s *Spill) Run() (err error) {
	for i := range s.tables {
		t := &s.tables[i]
		if len(t.entries) == 0 {
			continue
		}
		if t.ref, err = s.log.WriteSpill(t.entries); err != nil {
			return fmt.Errorf("timer: spill: %w", err)
		}
	}
	return nil
}

// State is what the checkpoint records of the lane, after Run.
func (s *Spill) State() State {
	st := State{Runs: s.runs}
	for _, t := range s.tables {
		st.Spills = append(st.Spills, t.after()...)
	}
	return st
}

// after lists the table's spills as they are when the checkpoint counts.
func (t *spillTable) after() []timerlog.Ref {
	var refs []timerlog.Ref
	if !t.whole {
		refs = append(refs, t.table.spills...)
	}
	if t.ref.Count > 0 {
		refs = append(refs, t.ref)
	}
	return refs
}

// InstallSpill tells the memtables what is saved. Writer.
func (l *Lane) InstallSpill(s *Spill) {
	for i := range s.tables {
		t := &s.tables[i]
		t.table.spills = t.after()
		t.table.held = 0
		for _, ref := range t.table.spills {
			t.table.held += ref.Count
		}
	}
}
