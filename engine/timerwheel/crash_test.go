package timerwheel_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/timerwheel"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

const (
	crashSlots = 1000
	crashTries = 10 // of each policy at each operation
)

// committed is the newest checkpoint of which both copies are there: it survives everything.
type committed struct {
	saved
	ring  map[int64]timerwheel.Slot
	front int64
}

func newCommitted() *committed {
	return &committed{saved: saved{table: timerwheel.AppendTable(nil, nil)}, ring: map[int64]timerwheel.Slot{}}
}

// life recovers, compares the ring with that of the checkpoint, and goes on for some steps.
func (c *committed) life(r *rand.Rand, fsys vfs.FS, steps int) error {
	w, err := timerwheel.Open(fsys, name, params(crashSlots))
	if err != nil {
		return err
	}
	if err := c.load(w); err != nil {
		return err
	}
	o := newOracle(crashSlots)
	o.at = maps.Clone(c.ring)
	if err := o.same(w); err != nil {
		return fmt.Errorf("after recovery %w", err)
	}
	front := c.front
	for step := range steps {
		if what := r.IntN(100); what < 90 || step == steps-1 {
			if err := wheelStep(w, o, what%90, front, r.Int64N(crashSlots), r.Int64N(crashSlots), r.Uint32N(1000)); err != nil {
				return err
			}
			if r.IntN(5) == 0 {
				front += r.Int64N(40)
			}
			continue
		}
		pages := w.Freeze()
		*c = committed{save(w, pages), maps.Clone(o.at), front}
		for range r.IntN(10) { // the writer goes on while the job runs
			if err := wheelStep(w, o, r.IntN(50), front, r.Int64N(crashSlots), 0, r.Uint32N(1000)); err != nil {
				return err
			}
		}
		if err := w.Write(pages); err != nil {
			return err
		}
		w.Thaw(pages)
	}
	return nil
}

// Lives end with a power cut at any operation, or with the death of the process, which makes nothing durable that was
// not. The newest checkpoint, with what lies in the file, is always the ring of its moment.
func TestCrash(t *testing.T) {
	seeds := 100
	if large() {
		seeds = 5000
	}
	policies := crashfs.Policies()
	for seed := range uint64(seeds) {
		r := newRand(seed)
		disk := newFS()
		c := newCommitted()
		for range 8 {
			if r.IntN(4) > 0 {
				disk.CrashAt(disk.Ops() + 1 + r.Int64N(30))
			}
			err := c.life(r, disk, r.IntN(120))
			if err != nil && !errors.Is(err, crashfs.ErrCrashed) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if err == nil && r.IntN(2) == 0 {
				disk = disk.Kill()
			} else {
				disk = disk.Crash(r, policies[r.IntN(len(policies))])
			}
		}
	}
}

// One Write is torn at each of its operations, under each policy; recovery itself is torn the same way.
func TestCrashInEveryOperationOfWrite(t *testing.T) {
	for n := int64(1); ; n++ {
		ended := false
		for i := range crashTries * len(crashfs.Policies()) {
			policy := crashfs.Policies()[i/crashTries]
			r := newRand(uint64(n)*1000 + uint64(i))
			disk := newFS()
			c := newCommitted()
			if err := c.life(r, disk, 60); err != nil {
				t.Fatal(err)
			}
			w := open(t, disk, crashSlots)
			if err := c.load(w); err != nil {
				t.Fatal(err)
			}
			for range 3 { // most pages stay as the file has them
				w.Set(slot(c.front+r.Int64N(crashSlots), 77))
			}
			pages := w.Freeze()
			now := committed{save(w, pages), map[int64]timerwheel.Slot{}, c.front}
			for _, s := range all(t, w) {
				now.ring[newOracle(crashSlots).index(s.Time)] = s
			}
			disk.CrashAt(disk.Ops() + n)
			err := w.Write(pages)
			if ended = err == nil; !ended && !errors.Is(err, crashfs.ErrCrashed) {
				t.Fatal(err)
			}
			after := disk.Crash(r, policy)
			if err := now.life(r, after, 0); err != nil {
				t.Fatalf("operation %d, %v: %v", n, policy, err)
			}
		}
		if ended {
			if n < 6 {
				t.Errorf("a Write has %d operations only", n-1)
			}
			return
		}
	}
}

// Each operation fails in turn. An error comes back, and the newest checkpoint survives a power cut.
func TestFaults(t *testing.T) {
	const steps = 150
	count := faultfs.New(newFS())
	if err := newCommitted().life(newRand(3), count, steps); err != nil {
		t.Fatal(err)
	}
	if n := count.Changes(); n < 25 {
		t.Fatalf("%d changes; the workload is too small", n)
	}
	for n := int64(1); n <= count.Ops(); n++ {
		for _, rule := range []faultfs.Rule{
			{Nth: n},
			{Nth: n, Err: syscall.ENOSPC, Short: 100},
			{Nth: n, After: true},
			{Nth: n, Sticky: true},
		} {
			disk := newFS()
			fsys := faultfs.New(disk, rule)
			c := newCommitted()
			err := c.life(newRand(3), fsys, steps)
			if fsys.Fired() > 0 && err == nil && !rule.After { // what fails after it failed is no news
				t.Errorf("%v: no error", rule)
			}
			if errors.Is(err, corrupt.ErrCorrupt) {
				t.Errorf("%v: %v", rule, err)
			}
			after := disk.Snapshot(newRand(uint64(n)), crashfs.Policy{KeepPct: 50, MetaPct: 50})
			if err := c.life(newRand(4), after, 0); err != nil {
				t.Fatalf("%v: the next life: %v", rule, err)
			}
		}
	}
}

// Reading fails: an error that is no damage, so that nobody rebuilds for it.
func TestLoadFaults(t *testing.T) {
	disk := newFS()
	w := open(t, disk, crashSlots)
	w.Set(slot(1, 0))
	w.Set(slot(900, 0))
	s := checkpoint(t, w)
	s.redo = nil
	for n := int64(1); ; n++ {
		fsys := faultfs.New(disk, faultfs.Rule{Nth: n})
		err := s.load(open(t, fsys, crashSlots))
		if fsys.Fired() == 0 {
			if err != nil || n < 4 {
				t.Fatalf("after %d operations: %v", n, err)
			}
			return
		}
		if err != nil && (errors.Is(err, corrupt.ErrCorrupt) || !errors.Is(err, syscall.EIO)) {
			t.Errorf("operation %d: %v", n, err)
		}
	}
}

// Write that failed is repeated with the same pages, unless it was a sync that failed, which is final.
func TestWriteAgain(t *testing.T) {
	final := 0
	for n := int64(1); ; n++ {
		disk := newFS()
		fsys := faultfs.New(disk, faultfs.Rule{Changes: true, Nth: n, Err: syscall.ENOSPC, Short: 50})
		w := open(t, fsys, crashSlots)
		for _, number := range []int64{0, 500, 999} {
			w.Set(slot(number, 1))
		}
		pages := w.Freeze()
		s := save(w, pages)
		err := w.Write(pages)
		if fsys.Fired() == 0 {
			if err != nil || final < 2 {
				t.Fatalf("%d errors of syncs, then %v", final, err)
			}
			return
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("change %d: %v", n, err)
		}
		if err := w.Write(pages); err != nil {
			if !errors.Is(err, syscall.ENOSPC) { // the first error, again and again
				t.Errorf("change %d: again: %v", n, err)
			}
			final++
			continue
		}
		w.Thaw(pages)
		s.redo = nil
		again := open(t, disk.Crash(newRand(1), crashfs.Policy{}), crashSlots)
		if err := s.load(again); err != nil {
			t.Errorf("change %d: after a power cut: %v", n, err)
		}
	}
}

// The writer changes slots, freezes and takes views while jobs read them: the race detector and the contents say that
// what a job holds does not change.
func TestHammer(t *testing.T) {
	rounds := 20
	if large() {
		rounds = 300
	}
	r := newRand(9)
	w, o := open(t, newFS(), 4096), newOracle(4096)
	front := int64(0)
	for range rounds {
		change := func() {
			for range 300 {
				if err := wheelStep(w, o, r.IntN(100), front, r.Int64N(4096), r.Int64N(4096), r.Uint32N(1000)); err != nil {
					t.Fatal(err)
				}
			}
			front += r.Int64N(300)
		}
		change()
		pages, v := w.Freeze(), w.View()
		want := string(timerwheel.AppendPages(nil, pages))
		seen, at := o.in(front, front+4096), front
		var jobs sync.WaitGroup
		jobs.Go(func() {
			if err := w.Write(pages); err != nil {
				t.Error(err)
			}
			if string(timerwheel.AppendPages(nil, pages)) != want {
				t.Error("a frozen page changed")
			}
		})
		jobs.Go(func() {
			for _, s := range seen {
				if got, ok := v.Slot(s.Time); !ok || got != s {
					t.Errorf("slot %d is %v in the view, was %v", s.Time, got, s)
				}
			}
			if got := v.From(at, at+4096, 5000); len(got) != len(seen) {
				t.Errorf("the view lists %d slots of %d", len(got), len(seen))
			}
		})
		change()
		jobs.Wait()
		w.Thaw(pages)
		v.Release()
	}
	if err := o.same(w); err != nil {
		t.Fatal(err)
	}
}

func TestRemoveAll(t *testing.T) {
	disk := newFS()
	w := open(t, disk, crashSlots)
	if err := w.RemoveAll(); err != nil {
		t.Fatalf("a file that never was: %v", err)
	}
	w.Set(slot(1, 1))
	checkpoint(t, w)
	if err := w.RemoveAll(); err != nil {
		t.Fatal(err)
	}
	after := disk.Crash(newRand(1), crashfs.Policy{})
	if _, err := after.Stat(name); err == nil {
		t.Error("the file came back")
	}
}
