package commitlog_test

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

// failAt lets the n-th change fail, and with sticky all after it.
func failAt(fsys *crashfs.FS, n int64, sticky bool) {
	i := int64(0)
	fsys.SetInject(func(op crashfs.Op) error {
		if !op.Changes() {
			return nil
		}
		if i++; i == n || sticky && i > n {
			return syscall.EIO
		}
		return nil
	})
}

// starts are file systems from which a log goes on, with what it holds and what of it was promised.
func starts(t *testing.T) map[string]*tester {
	opts := commitlog.Options{SegmentSize: 4 << 10, TailSize: 4 << 10, Reserve: -1}
	list := map[string]*tester{"new": newTester(t, crashfs.New(crashfs.Options{}), opts)}
	add := func(name string, do func(x *tester)) {
		fsys := crashfs.New(crashfs.Options{})
		x := newTester(t, fsys, opts)
		x.mustOpen()
		do(x)
		x.fs = fsys.Kill()
		list[name] = x
	}
	add("unwitnessed", func(x *tester) { must(t, x.put(300)); must(t, x.flush()) })
	add("not synced", func(x *tester) { must(t, x.put(300)); must(t, x.log.Commit()) })
	// The next segment is there, and the old one has no seal: the seal batch was never written.
	add("no seal", func(x *tester) {
		must(t, x.put(300))
		must(t, x.flush())
		must(t, x.seal())
		must(t, x.log.Rotate())
	})
	add("next is blank", func(x *tester) { x.fill(2) })
	add("half a state record", func(x *tester) {
		must(t, x.put(300))
		must(t, x.seal())
		must(t, x.turn())
		must(t, x.batch(commitlog.FlagState, kindState, 700))
		must(t, x.flush())
	})
	return list
}

// goOn opens the log and appends into the next segment and the one after it; it returns what was promised.
func goOn(x *tester) (promised commitlog.Offset, err error) {
	if err := x.open(); err != nil {
		return 0, err
	}
	x.all = slices.Clone(x.seen)
	promised = x.log.Durable()
	for i := 0; i < 9; i++ {
		if err := x.put(600, 100); err != nil {
			return promised, err
		}
		if err := x.flush(); err != nil {
			return promised, err
		}
		promised = x.log.Durable()
	}
	return promised, nil
}

// wantPromised opens what is left and wants all that was promised, and nothing that was not appended.
func wantPromised(x *tester, fsys *crashfs.FS, all []entry, promised commitlog.Offset) error {
	y := newTester(x.t, fsys, x.opts)
	if err := y.open(); err != nil {
		return err
	}
	if y.rec.End < promised {
		return fmt.Errorf("the log ends at %d, promised was %d; %+v", y.rec.End, promised, y.rec)
	}
	if len(y.seen) > len(all) {
		return fmt.Errorf("%d batches, only %d were appended", len(y.seen), len(all))
	}
	return same(y.seen, all[:len(y.seen)])
}

// TestFaultThenKillThenPowerCut lets each operation fail in turn. The process dies over it, the next one goes on, on
// top of a page cache that shows what the failed sync has lost; then the power fails. Nothing promised is lost.
func TestFaultThenKillThenPowerCut(t *testing.T) {
	policies := []crashfs.Policy{{}, {KeepPct: 50, MetaPct: 50, MetaAny: true}, {KeepPct: 90, Garbage: true}}
	for name, start := range starts(t) {
		t.Run(name, func(t *testing.T) {
			for n := int64(1); ; n++ {
				done := false
				for _, sticky := range []bool{false, true} {
					x := newTester(t, nil, start.opts)
					fsys := start.fs.(*crashfs.FS).Clone()
					failAt(fsys, n, sticky)
					x.fs = fsys
					promised, err := goOn(x)
					done = err == nil
					if err != nil && !errors.Is(err, syscall.EIO) {
						t.Fatalf("operation %d: %v", n, err)
					}
					first := x.all
					again := fsys.Kill()
					x = newTester(t, again, start.opts)
					more, err := goOn(x)
					if err != nil {
						t.Fatalf("operation %d, then a kill: %v", n, err)
					}
					if len(first) > 0 && x.all[0].base != first[0].base || more < promised {
						t.Fatalf("operation %d, then a kill: promised %d, then %d", n, promised, more)
					}
					for i, p := range policies {
						if err := wantPromised(x, again.Snapshot(random(uint64(n)), p), x.all, more); err != nil {
							t.Fatalf("operation %d, sticky %v, then a kill, then policy %d: %v", n, sticky, i, err)
						}
					}
				}
				if done {
					return
				}
			}
		})
	}
}

// TestCrashInRecoveryTwice ends a recovery before each of its operations, by a kill or a power cut, and the next one
// too: what was promised before survives. A batch whose sync has succeeded, and that has no witness, may be torn neither
// by the first one that writes it again nor by the second.
func TestCrashInRecoveryTwice(t *testing.T) {
	garbage := []crashfs.Policy{{Garbage: true}, {KeepPct: 50, MetaPct: 100, Garbage: true}}
	all := starts(t)
	for _, name := range []string{"unwitnessed", "next is blank"} {
		t.Run(name, func(t *testing.T) {
			start := all[name]
			promised := start.log.Durable()
			recovers := func(fsys *crashfs.FS, n int64) bool {
				fsys.CrashAt(fsys.Ops() + n)
				x := newTester(t, fsys, start.opts)
				err := x.open()
				if err != nil && !errors.Is(err, crashfs.ErrCrashed) {
					t.Fatalf("operation %d: %v", n, err)
				}
				return err == nil
			}
			for n := int64(1); ; n++ {
				one := start.fs.(*crashfs.FS).Clone()
				last := recovers(one, n)
				for i := range len(garbage) + 1 {
					between := one.Clone
					if i > 0 {
						between = func() *crashfs.FS { return one.Snapshot(random(uint64(i)), garbage[i-1]) }
					}
					for m := int64(1); ; m++ {
						two := between()
						last := recovers(two, m)
						for seed := range uint64(4) {
							for j, p := range garbage {
								if err := wantPromised(start, two.Snapshot(random(seed), p), start.all, promised); err != nil {
									t.Fatalf("operation %d, then %d, then operation %d, then policy %d: %v", n, i, m, j, err)
								}
							}
						}
						if last {
							break
						}
					}
				}
				if last {
					return
				}
			}
		})
	}
}

// The mark is durable when WriteMark returns, and with the new incarnation when Recover does.
func TestMarkSurvivesPowerCut(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	x := newTester(t, fsys, small)
	x.mustOpen()
	after := fsys.Snapshot(random(1), crashfs.Policy{})
	y := newTester(t, after, small)
	y.mustOpen()
	if y.rec.Incarnation != 2 {
		t.Errorf("incarnation is %d", y.rec.Incarnation)
	}
	must(t, x.put(100))
	must(t, x.flush())
	must(t, x.log.WriteMark(x.log.Durable(), 77))
	after = fsys.Crash(random(1), crashfs.Policy{})
	l, err := commitlog.Open(after, logDir, logID, small)
	must(t, err)
	if m := l.Mark(); m.Durable != x.log.Durable() || m.LogMs != 77 {
		t.Errorf("mark is %+v", m)
	}
}

func TestFailedWriteIsFinal(t *testing.T) {
	ffs := faultfs.New(crashfs.New(crashfs.Options{}))
	x := newTester(t, ffs, small)
	x.mustOpen()
	must(t, x.put(100))
	must(t, x.flush())
	durable := x.log.Durable()
	must(t, x.put(100))
	must(t, x.log.Commit())
	must(t, x.put(100))
	ffs.Add(faultfs.Rule{Op: faultfs.Write, Short: 50})
	first := x.log.Commit()
	if !errors.Is(first, commitlog.ErrFailed) || !errors.Is(first, syscall.EIO) {
		t.Fatalf("commit: %v", first)
	}
	ffs.Clear()
	wantFinal(t, x, first, durable)
}

func TestFailedSyncIsFinal(t *testing.T) {
	ffs := faultfs.New(crashfs.New(crashfs.Options{}))
	x := newTester(t, ffs, small)
	x.mustOpen()
	must(t, x.put(100))
	must(t, x.flush())
	durable := x.log.Durable()
	must(t, x.put(100))
	must(t, x.log.Commit())
	ffs.Add(faultfs.Rule{Op: faultfs.Sync})
	_, first := x.log.Sync()
	if !errors.Is(first, commitlog.ErrFailed) || !errors.Is(first, syscall.EIO) {
		t.Fatalf("sync: %v", first)
	}
	ffs.Clear()
	wantFinal(t, x, first, durable)
}

// wantFinal wants the first failure from every call that writes, no operation on the disk, and readers at work.
func wantFinal(t *testing.T, x *tester, first error, durable commitlog.Offset) {
	t.Helper()
	ffs := x.fs.(*faultfs.FS)
	ops := ffs.Changes()
	_, syncErr := x.log.Sync()
	_, sealErr := x.log.Seal(commitlog.BatchInfo{})
	_, beginErr := x.log.Begin(1, commitlog.BatchInfo{})
	for name, err := range map[string]error{
		"commit": x.log.Commit(), "sync": syncErr, "seal": sealErr, "begin": beginErr, "rotate": x.log.Rotate(),
		"spare": x.log.PrepareSpare(), "mark": x.log.WriteMark(0, 0), "drop": x.log.DropBefore(1 << 40),
	} {
		if err != first {
			t.Errorf("%s: %v, want %v", name, err, first)
		}
	}
	if got := ffs.Changes(); got != ops {
		t.Errorf("%d operations after the failure", got-ops)
	}
	if got := x.log.Durable(); got != durable {
		t.Errorf("durable end is %d, was %d", got, durable)
	}
	x.readAll()
	must(t, x.log.Close())
	x.mustOpen()
	if x.rec.End < durable {
		t.Errorf("the log ends at %d", x.rec.End)
	}
}

// A failed sync of a file that is not yet part of the log is as final as any.
func TestFailedSyncOfJobIsFinal(t *testing.T) {
	for name, rule := range map[string]faultfs.Rule{
		"spare":     {Op: faultfs.Sync, Path: "next"},
		"directory": {Op: faultfs.SyncDir},
		"mark":      {Op: faultfs.Sync, Path: "mark"},
	} {
		ffs := faultfs.New(crashfs.New(crashfs.Options{}))
		x := newTester(t, ffs, small)
		x.mustOpen()
		must(t, x.put(100))
		must(t, x.flush())
		must(t, x.seal())
		ffs.Add(rule)
		err := x.log.Rotate()
		if err == nil {
			err = x.log.WriteMark(0, 0)
		}
		if !errors.Is(err, commitlog.ErrFailed) || x.log.Commit() != err {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Any other failure of a job is its own, and the next try succeeds.
func TestJobsAreRetried(t *testing.T) {
	for _, op := range []faultfs.Op{faultfs.Create, faultfs.Open, faultfs.Preallocate, faultfs.Write, faultfs.Rename, faultfs.Stat} {
		for nth := int64(1); nth <= 3; nth++ {
			t.Run(fmt.Sprint(op, nth), func(t *testing.T) {
				ffs := faultfs.New(crashfs.New(crashfs.Options{}))
				x := newTester(t, ffs, small)
				x.mustOpen()
				must(t, x.put(100))
				must(t, x.flush())
				must(t, x.seal())
				ffs.Add(faultfs.Rule{Op: op, Nth: nth, Err: syscall.EMFILE})
				if err := x.log.Rotate(); (err != nil) != (ffs.Fired() > 0) || errors.Is(err, commitlog.ErrFailed) {
					t.Fatalf("rotate: %v after %d failures", err, ffs.Fired())
				}
				ffs.Clear()
				must(t, x.log.Rotate())
				must(t, x.put(100))
				must(t, x.flush())
				x.reopen()
			})
		}
	}
	// The same for marks and the unlinking of segments.
	ffs := faultfs.New(crashfs.New(crashfs.Options{}))
	x := newTester(t, ffs, small)
	x.mustOpen()
	x.fill(4)
	ffs.Add(faultfs.Rule{Op: faultfs.Write, Path: "mark", Short: 20})
	if err := x.log.WriteMark(x.log.Durable(), 0); err == nil || errors.Is(err, commitlog.ErrFailed) {
		t.Errorf("mark: %v", err)
	}
	must(t, x.log.WriteMark(x.log.Durable(), 0))
	ffs.Clear()
	ffs.Add(faultfs.Rule{Op: faultfs.Remove, Nth: 2})
	base := x.log.Segments()[3].Base
	if err := x.log.DropBefore(base); err == nil || errors.Is(err, commitlog.ErrFailed) {
		t.Errorf("drop: %v", err)
	}
	must(t, x.log.DropBefore(base))
	if got := len(x.log.Segments()); got != 1 {
		t.Errorf("%d segments are left", got)
	}
}

// On a full disk the spare cannot be made, Rotate takes from the reserve, and when there is space again all is made up
// for.
func TestFullDisk(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	opts := small
	opts.Reserve = 2
	x := newTester(t, fsys, opts)
	x.mustOpen()
	must(t, x.put(100))
	must(t, x.flush())
	if got := x.log.ReserveMissing(); got != 2 {
		t.Fatalf("%d reserve segments are missing", got)
	}
	must(t, x.log.PrepareReserve())
	must(t, x.log.PrepareReserve())
	if got := x.log.ReserveMissing(); got != 0 {
		t.Fatalf("%d reserve segments are missing", got)
	}
	fsys.SetQuota(fsys.Used() + 4096)
	for i := range 2 {
		must(t, x.put(9<<10))
		must(t, x.put(3<<10))
		must(t, x.flush())
		if !x.log.SpareNeeded() {
			t.Fatal("no spare is needed")
		}
		if err := x.log.PrepareSpare(); !vfs.IsNoSpace(err) || errors.Is(err, commitlog.ErrFailed) {
			t.Fatalf("spare: %v", err)
		}
		must(t, x.seal())
		must(t, x.turn())
		if got := x.log.ReserveMissing(); got != i+1 {
			t.Errorf("%d reserve segments are missing", got)
		}
		if err := x.log.PrepareReserve(); !vfs.IsNoSpace(err) || errors.Is(err, commitlog.ErrFailed) {
			t.Fatalf("reserve: %v", err)
		}
	}
	must(t, x.put(9<<10))
	must(t, x.put(3<<10))
	must(t, x.seal())
	if err := x.log.Rotate(); !vfs.IsNoSpace(err) || errors.Is(err, commitlog.ErrFailed) {
		t.Fatalf("rotate without a reserve: %v", err)
	}
	must(t, x.log.Commit())
	if room := x.log.Room(1); room != commitlog.NotReady {
		t.Errorf("room is %v", room)
	}

	// A restart on the full disk, also after a power cut.
	for _, after := range []*crashfs.FS{fsys.Clone(), fsys.Snapshot(random(3), crashfs.Policy{})} {
		y := newTester(t, after, opts)
		y.mustOpen()
		if y.rec.End < x.log.Durable() {
			t.Errorf("recovery: %+v", y.rec)
		}
	}

	// Segments go, and the log goes on.
	must(t, x.log.DropBefore(x.log.Segments()[2].Base))
	must(t, x.log.Rotate())
	must(t, x.put(100))
	must(t, x.flush())
	x.readTail(t)
	fsys.SetQuota(0)
	must(t, x.log.PrepareReserve())
	must(t, x.log.PrepareReserve())
	must(t, x.log.Close())
	x.mustOpen()
	if got := x.log.ReserveMissing(); got != 0 {
		t.Errorf("%d reserve segments are missing", got)
	}
}

// readTail reads the last record.
func (x *tester) readTail(t *testing.T) {
	t.Helper()
	want := x.all[len(x.all)-1].recs[0]
	got, _, err := x.log.ReadRecord(want.pos, want.size, nil)
	must(t, err)
	if string(got.Payload) != want.payload {
		t.Errorf("record at %d differs", want.pos)
	}
}

// Where nothing can be preallocated there is no reserve, and files grow as they are written.
func TestNoPreallocation(t *testing.T) {
	opts := small
	opts.Reserve = 3
	ffs := faultfs.New(crashfs.New(crashfs.Options{}), faultfs.Rule{Op: faultfs.Preallocate, Sticky: true, Err: errors.ErrUnsupported})
	x := newTester(t, ffs, opts)
	x.mustOpen()
	must(t, x.put(100))
	must(t, x.flush())
	must(t, x.log.PrepareReserve())
	if got := x.log.ReserveMissing(); got != 0 {
		t.Errorf("%d reserve segments are missing", got)
	}
	x.fill(3)
	if got := x.log.Segments()[2]; got.Bytes != int64(got.End-got.Base) {
		t.Errorf("segment: %+v", got)
	}
	x.reopen()
	x.readAll()
}

// An open segment is not enough handles: at most so many sealed ones stay open.
func TestHandlesAreBounded(t *testing.T) {
	ffs := faultfs.New(crashfs.New(crashfs.Options{}))
	opts := commitlog.Options{SegmentSize: 4 << 10, TailSize: 4 << 10, Reserve: -1}
	x := newTester(t, ffs, opts)
	x.mustOpen()
	for len(x.log.Segments()) < 200 {
		must(t, x.put(3000))
		must(t, x.flush())
	}
	x.reopen()
	opens := ffs.Ops(faultfs.Open)
	x.readAll()
	first := ffs.Ops(faultfs.Open) - opens
	if first < 190 || first > 205 {
		t.Errorf("%d opens for 200 segments read in order", first)
	}
	// The last ones are open, the first ones are not.
	opens = ffs.Ops(faultfs.Open)
	for i := range x.all {
		e := x.all[len(x.all)-1-i]
		if len(e.recs) == 0 {
			continue
		}
		if _, _, err := x.log.ReadRecord(e.recs[0].pos, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	if again := ffs.Ops(faultfs.Open) - opens; again < 65 || again > 80 {
		t.Errorf("%d opens on the way back", again)
	}
}

// A recovery was interrupted while it wrote the tail again, and sectors there were torn. A read-only log says so
// instead of taking it for a torn tail; one that may write brings it to its end.
func TestReadOnlyAfterInterruptedRecovery(t *testing.T) {
	start := starts(t)["unwitnessed"]
	interrupted := 0
	for n := int64(1); n < 20; n++ {
		fsys := start.fs.(*crashfs.FS).Clone()
		fsys.CrashAt(fsys.Ops() + n)
		x := newTester(t, fsys, start.opts)
		if err := x.open(); err == nil {
			break
		}
		for seed := range uint64(8) {
			after := fsys.Snapshot(random(seed), crashfs.Policy{MetaPct: 100, Garbage: true})
			y := newTester(t, after, start.opts)
			y.opts.ReadOnly = true
			switch err := y.open(); {
			case errors.Is(err, commitlog.ErrInterrupted):
				interrupted++
			case err != nil:
				t.Fatal(err)
			case y.rec.End < start.log.Durable():
				t.Fatalf("operation %d: read-only it ends at %d", n, y.rec.End)
			}
			if err := wantPromised(start, after, start.all, start.log.Durable()); err != nil {
				t.Fatalf("operation %d: %v", n, err)
			}
		}
	}
	if interrupted == 0 {
		t.Error("no recovery was interrupted")
	}
}

// A segment whose file has gone, under a log that is open, is damage with the file's name.
func TestReadOfVanishedSegment(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	x := newTester(t, fsys, small)
	x.mustOpen()
	x.fill(5)
	x.reopen()
	name := x.log.Segments()[1].Name
	must(t, fsys.Vanish(name))
	for _, e := range x.all {
		if base, _, _, _ := x.log.SegmentOf(e.base); segName(base) == name && len(e.recs) > 0 {
			_, _, err := x.log.ReadRecord(e.recs[0].pos, 0, nil)
			wantCorrupt(t, err, name)
		}
	}
}

// A dropped segment is there for the reader that is in it, and for no other.
func TestDropUnderReader(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	x := newTester(t, fsys, small)
	x.mustOpen()
	x.fill(3)
	x.reopen()
	e := x.all[1].recs[0]
	base := x.log.Segments()[1].Base
	seen := 0
	err := x.log.Scan(0, 0, true, func(b *commitlog.Batch) error {
		if seen++; seen == 1 {
			must(t, x.log.DropBefore(base))
			if _, _, err := x.log.ReadRecord(e.pos, 0, nil); !errors.Is(err, commitlog.ErrOutOfLog) {
				t.Errorf("read: %v", err)
			}
		}
		return nil
	})
	if err != nil || seen != len(x.all) {
		t.Errorf("%d batches of %d: %v", seen, len(x.all), err)
	}
}
