package engine_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

// faultWorkload is what the fault sweep runs: it makes the store, fills segments, flushes, compacts, checkpoints, rolls,
// deletes the head of the log, delivers, cancels, and decides about what is in a stage.
const faultWorkload = `level 5 8, sane 0 0, put 2 9, batch 3 17, sane 0 0, delay 4 14, delay 5 15, moves 3 14, jobs 0 0, sane 0 0,
	fill 1 1, sane 0 0, jobs 0 0, delay 8 7, delay 8 8, delay 7 9, delay 7 10, delay 7 11, sane 0 0, jobs 0 0, pass 40 3, sane 0 0,
	cancel 1 0, fill 2 3, sane 0 0, jobs 0 0, moves 4 14, sane 0 0, cancel 0 0, sane 0 0, undo 0 0, settle 0 0, level 4 9, level 5 9,
	sane 0 0, moves 2 7, settle 0 0, offset 9 1, define 5 2, pass 30 4, fill 2 4, settle 0 0, pass 90 3, fill 2 4, settle 0 0,
	level 1 9, list 1 1, pass 10 3, settle 0 0, pull 3 1, level 5 9, sane 0 0, delete 1 0, pass 20 3, settle 0 0,
	stage 2 1, put 8 9, put 9 12, put 10 15, delay 8 19, sane 0 0, settle 0 0, decide 2 1, sane 0 0, decide 2 3, sane 0 0, judge 2 2, judge 2 3, pass 9 3,
	settle 0 0, decide 2 5, fill 8 2, sane 0 0, stage 2 0, put 8 9, decide 2 1, settle 0 0`

// faultConfig are the options of the workload.
func faultConfig(wrap func(*crashfs.FS) vfs.FS) enginetest.SimConfig {
	o := slow()
	o.CheckpointEvery, o.LooseEntries, o.SecondsEntries, o.HoursEntries, o.LooseRuns, o.Reserve = 4<<10, 2, 3, 3, 1, 1
	o.Retention, o.RollAfter = time.Second, 100*time.Second
	return enginetest.SimConfig{Seed: 1, Options: o, Wrap: wrap}
}

// faults are what an operation can fail with.
var faults = []struct {
	name string
	rule faultfs.Rule
}{
	{"EIO", faultfs.Rule{Err: syscall.EIO}},
	{"ENOSPC", faultfs.Rule{Err: syscall.ENOSPC}},
	{"EMFILE", faultfs.Rule{Err: syscall.EMFILE}},
	{"short write", faultfs.Rule{Op: faultfs.Write, Short: 100, Err: syscall.EIO}},
}

// TestFaultSweep lets each operation of a workload fail, alone and with all that follow. Nothing that was acknowledged may
// be lost; a store that does not give up goes on as if nothing had happened; one that does is there again after it was
// opened on a disk that is well.
func TestFaultSweep(t *testing.T) {
	ops, err := enginetest.ParseOps(faultWorkload)
	if err != nil {
		t.Fatal(err)
	}
	all, writes := countOps(t, ops)
	step := int64(1)
	if enginetest.ReadVolume(t) == enginetest.Plain {
		step = 7
	}
	if testing.Short() {
		step = 29
	}
	// point is one fault at one operation.
	type point struct {
		fault  int
		nth    int64
		sticky bool
	}
	var points []point
	for f := range faults {
		total := all
		if faults[f].rule.Op == faultfs.Write {
			total = writes
		}
		for nth := 1 + int64(f)%step; nth <= total; nth += step {
			points = append(points, point{f, nth, false}, point{f, nth, true})
		}
	}
	var failed, survived atomic.Int64
	enginetest.Seeds(t, 0, len(points), func(seed uint64) error {
		p := points[seed%uint64(len(points))]
		rule := faults[p.fault].rule
		rule.Nth, rule.Sticky = p.nth, p.sticky
		gaveUp, err := faultRun(t, ops, rule, seed)
		if gaveUp {
			failed.Add(1)
		} else {
			survived.Add(1)
		}
		if err != nil {
			return fmt.Errorf("%s at operation %d, sticky %v: %w", faults[p.fault].name, p.nth, p.sticky, err)
		}
		return nil
	})
	t.Logf("%d operations, %d faults: the store went on after %d and gave up, to be opened again, after %d",
		all, len(points), survived.Load(), failed.Load())
}

// countOps says how many operations the workload has without faults, and how many of them are writes.
func countOps(t *testing.T, ops []enginetest.Op) (all, writes int64) {
	t.Helper()
	var disk *faultfs.FS
	s, err := enginetest.NewSim(faultConfig(func(d *crashfs.FS) vfs.FS {
		disk = faultfs.New(d)
		return disk
	}))
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range ops {
		s.Do(op)
	}
	all, writes = disk.Ops(), disk.Ops(faultfs.Write)
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	met := &coverage{counts: s.Cover()}
	met.want(t, "flush", "compaction", "group of seconds", "group of hours", "checkpoint", "rolled message", "deleted head", "fired", "answer Moved", "answer Cancelled", "answer Restored",
		"dropped message", "settled message", "kept message", "settled for a group")
	t.Logf("the workload met: %v", met)
	if all < 200 {
		t.Fatalf("the workload has %d operations, it should have some hundred", all)
	}
	return all, writes
}

// faultRun runs the workload with a rule, mends the disk, and sees that all is there.
func faultRun(t *testing.T, ops []enginetest.Op, rule faultfs.Rule, seed uint64) (gaveUp bool, err error) {
	var disk *faultfs.FS
	s, err := enginetest.NewSim(faultConfig(func(d *crashfs.FS) vfs.FS {
		if disk == nil {
			disk = faultfs.New(d, rule)
			return disk
		}
		return faultfs.New(d) // of a later life: the disk is mended
	}))
	s.Failing, s.Model.Faulty, s.Model.Lenient = true, true, true
	if _, ok := enginetest.Seed(t); ok {
		s.Log = t.Logf
	}
	if err == nil {
		for _, op := range ops {
			s.Do(op)
		}
		if err := s.Model.Err(); err != nil {
			return false, err
		}
	}
	if disk.Fired() == 0 {
		return false, fmt.Errorf("the rule %v never fired", rule)
	}
	gaveUp = s.GaveUp()
	if !gaveUp && !rule.Sticky {
		return false, s.Finish() // in the same process
	}
	disk.Clear()
	r := rand.New(rand.NewPCG(seed, 5))
	all := crashfs.Policies()
	switch r.IntN(3) {
	case 0:
		s.Mend(s.FS.Crash(r, all[r.IntN(len(all))]))
	case 1:
		s.Mend(s.FS.Kill())
	default:
		s.Mend(nil)
	}
	if err := s.Err(); err != nil {
		return gaveUp, fmt.Errorf("after the disk was mended: %w", err)
	}
	return gaveUp, s.Finish()
}
