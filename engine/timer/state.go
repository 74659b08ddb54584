package timer

import (
	"fmt"

	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// State is what a checkpoint records of a lane: where in the TimerLog its entries lie. The schedule queues record
// themselves.
type State struct {
	Runs   []Run
	Spills []timerlog.Ref
}

// Refs lists all parts of the TimerLog that the state names.
func (s State) Refs() []timerlog.Ref {
	refs := append([]timerlog.Ref(nil), s.Spills...)
	for _, run := range s.Runs {
		refs = append(refs, run...)
	}
	return refs
}

// Refs lists all parts of the TimerLog that the lane needs now. Writer.
func (l *Lane) Refs() []timerlog.Ref {
	var refs []timerlog.Ref
	for _, r := range l.runs {
		refs = append(refs, r.run...)
	}
	refs = append(refs, l.active.spills...)
	if l.frozen != nil {
		refs = append(refs, l.frozen.table.spills...)
	}
	return refs
}

// Load fills a new lane from a checkpoint, after the fold's state was loaded: Alive must answer for the checkpoint's
// position. Schedule queues are read from the frontier on.
func (l *Lane) Load(s State, frontier timerlog.Key) error {
	for _, run := range s.Runs {
		l.runs = append(l.runs, &runSource{log: l.cfg.Log, run: run})
	}
	for q := range l.cfg.Queues.All() {
		at, err := q.Search(frontier)
		if err != nil {
			return fmt.Errorf("timer: load: %w", err)
		}
		l.levels[q.DelayMs()] = newLevelSource(q, at)
	}
	m := l.active
	for _, ref := range s.Spills {
		m.spills = append(m.spills, ref)
		m.held += ref.Count
		err := l.cfg.Log.Each(ref, func(e timerlog.Entry) error {
			alive, err := l.cfg.Alive(&e)
			if alive {
				m.insert(e)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("timer: load: %w", err)
		}
	}
	l.stale = true
	return nil
}

// Passed is, for each delay, the index in its schedule queue before which every entry is dead: what lies there may go.
func (l *Lane) Passed() map[int64]int64 {
	passed := make(map[int64]int64, len(l.levels))
	for delay, src := range l.levels {
		passed[delay] = src.at
	}
	return passed
}

// RunCount is how many loose runs there are.
func (l *Lane) RunCount() int { return len(l.runs) }

// Loose is how many entries the memtables hold.
func (l *Lane) Loose() int {
	n := l.active.n
	if l.frozen != nil {
		n += len(l.frozen.entries) - l.frozen.at
	}
	return n
}
