package enginetest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// Reopen closes the store and opens it again after a stop.
func (s *Sim) Reopen(down time.Duration) {
	if s.stuck() {
		return
	}
	s.cover["reopen"]++
	s.failed("close", s.e.Close())
	if s.engineErr == nil {
		s.restart(s.FS, down)
	}
}

// Kill is the death of the process: what it wrote is still there. It is opened again after a stop.
func (s *Sim) Kill(down time.Duration) {
	if s.stuck() {
		return
	}
	s.cover["kill"]++
	s.restart(s.FS.Kill(), down)
}

// Crash is a power cut. The store is opened again after a stop.
func (s *Sim) Crash(p crashfs.Policy, down time.Duration) {
	if s.stuck() {
		return
	}
	s.cover["crash"]++
	s.restart(s.FS.Crash(s.rng, p), down)
}

// restart opens what a stop left, and lets the model look at it.
func (s *Sim) restart(disk *crashfs.FS, down time.Duration) {
	s.halt(disk, down)
	if err := s.open(); err != nil {
		s.failed("open after a stop", err)
		return
	}
	s.logf("   opened, the log ends at %d", s.e.Released())
	s.Model.Recovered(s.e) // it hears of calls from before, under the options of then
	s.Model.Tune(s.opts, levelTables[s.table])
}

// GaveUp says that the engine is of no more use: it could not be opened, it said that it failed, or it cannot be read.
func (s *Sim) GaveUp() bool { return s.stuck() }

// Why is the error with which the engine gave up, if it said so.
func (s *Sim) Why() error { return s.engineErr }

// Mend ends an engine that met faults and opens the store on a disk that has none: on disk, or on the same one after a
// Close if disk is nil.
func (s *Sim) Mend(disk *crashfs.FS) {
	if disk == nil {
		disk = s.FS
		if s.e != nil {
			_ = s.e.Close() // it may repeat why it failed
		}
	}
	s.halt(disk, 0)
	s.engineErr, s.Failing = nil, false
	s.Model.Faulty = false
	s.restart(disk, 0) // the model hears of refusals from before
	s.Model.Lenient = false
}

// halt notes that the engine is gone.
func (s *Sim) halt(disk *crashfs.FS, down time.Duration) {
	s.stats()
	if len(s.Model.journal) > 0 {
		s.list = nil // a cancel that hid a message may be undone
	}
	s.ran = max(s.running(), s.ran+1) // a start counts at least 1 ms, as the engine has it
	s.FS = disk
	s.Clock.Restart(down)
	s.opened = s.Clock.Mono()
	s.e = nil
}

// Fork returns a Sim that finds what a power cut at this moment leaves, with a clock and a model of its own; s goes on.
// The store is not open yet. It may be called by Before.
func (s *Sim) Fork(r *rand.Rand, p crashfs.Policy) *Sim {
	return s.fork(s.FS.Snapshot(r, p), r)
}

// ForkKilled is Fork for the death of the process.
func (s *Sim) ForkKilled(r *rand.Rand) *Sim { return s.fork(s.FS.Clone(), r) }

func (s *Sim) fork(disk *crashfs.FS, r *rand.Rand) *Sim {
	f := &Sim{
		Clock: s.Clock.clone(), Log: s.Log, seed: s.seed, dir: s.dir, opts: s.opts, table: s.table, plain: s.plain, wrap: s.wrap,
		opened: s.opened, ran: s.ran, rng: newRand(r.Uint64()), cover: Coverage{},
	}
	if s.sick != nil {
		f.wrap = f.wrapFaulty
	}
	f.Model = s.Model.Clone(f.running)
	f.halt(disk, 0)
	return f
}

// Recover opens a fork, with further power cuts during recovery, depth at most; then the model looks at what is there, and
// files and state are compared with a rebuild. other chooses sizes for the rebuild, 0 for the same.
func (s *Sim) Recover(depth, other int) error {
	for range depth {
		before := s.FS.Ops()
		trial := s.FS.Clone()
		if err := s.open(); err != nil {
			return fmt.Errorf("open after a crash: %w", err)
		}
		n := s.FS.Ops() - before
		s.e = nil
		s.FS = trial
		if n == 0 {
			break
		}
		s.FS.CrashAt(s.FS.Ops() + 1 + s.rng.Int64N(n))
		if err := s.open(); err == nil {
			return fmt.Errorf("open after a crash succeeded, though the power failed in it")
		}
		s.halt(s.FS.Crash(s.rng, policy(s.rng.IntN(256))), 0)
		s.cover["crash in recovery"]++
	}
	if err := s.open(); err != nil {
		return fmt.Errorf("open after a crash: %w", err)
	}
	s.cover["crash"]++
	s.Model.Recovered(s.e)
	if err := s.Err(); err != nil {
		return fmt.Errorf("after a crash: %w", err)
	}
	if err := s.Compare(other); err != nil {
		return fmt.Errorf("after a crash: %w", err)
	}
	return nil
}
