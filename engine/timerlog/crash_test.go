package timerlog_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

// checkpointed is what a checkpoint would have recorded: it survives everything.
type checkpointed struct {
	state timerlog.State
	refs  map[timerlog.Ref][]timerlog.Entry
}

// verify checks that a new life finds what was recorded.
func (c *checkpointed) verify(t *testing.T, l *timerlog.Log) {
	t.Helper()
	if err := l.Verify(slices.Collect(maps.Keys(c.refs))); err != nil {
		t.Fatal(err)
	}
	for ref, want := range c.refs {
		if ref.Kind == timerlog.KindGroup {
			checkAbove(t, l, ref, before, want)
		} else {
			checkEach(t, l, ref, want)
		}
	}
}

var crashOptions = timerlog.Options{FileSize: 6000, Ident: ident}

// life writes, syncs, records and deletes until the power fails.
func (c *checkpointed) life(t *testing.T, r *rand.Rand, fsys vfs.FS, steps int) error {
	t.Helper()
	l, err := timerlog.Open(fsys, dir, family, crashOptions, c.state)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c.verify(t, l)
	live := make(map[timerlog.Ref][]timerlog.Entry)
	maps.Copy(live, c.refs)
	for range steps {
		switch n := r.IntN(10); {
		case n < 3:
			es := run(r.Int64N(1000), r.Uint64N(1000), 1+r.IntN(60))
			ref, err := l.WriteGroup(timerlog.RingLoose, timerlog.NoSlot, timerlog.Ref{}, es)
			if err != nil {
				return err
			}
			checkAbove(t, l, ref, before, es)
			live[ref] = es
		case n < 5:
			es := reversed(run(r.Int64N(1000), r.Uint64N(1000), 1+r.IntN(20)))
			ref, err := l.WriteSpill(es)
			if err != nil {
				return err
			}
			live[ref] = es
		case n < 7:
			maps.DeleteFunc(live, func(timerlog.Ref, []timerlog.Entry) bool { return r.IntN(3) == 0 })
		default:
			refs := maps.Clone(live)
			if err := l.Sync(); err != nil {
				return err
			}
			if r.IntN(2) == 0 { // a flush goes on between the sync and the state
				if _, err := l.WriteSpill(run(1, 1, 5)); err != nil {
					return err
				}
			}
			c.state, c.refs = l.State(), refs
			needed := func(file int64) bool {
				for _, m := range []map[timerlog.Ref][]timerlog.Entry{refs, live} {
					for ref := range m {
						if ref.File == file {
							return true
						}
					}
				}
				return false
			}
			if err := l.Delete(needed); err != nil {
				return err
			}
		}
	}
	return nil
}

// Lives end with a power cut at any operation, or with the death of the process, which makes nothing durable that was not.
// What a checkpoint recorded is always there.
func TestCrash(t *testing.T) {
	seeds := 600
	if testing.Short() {
		seeds = 60
	}
	policies := crashfs.Policies()
	for seed := range uint64(seeds) {
		r := newRand(seed)
		disk := newFS()
		c := &checkpointed{}
		for range 6 {
			if r.IntN(4) > 0 {
				disk.CrashAt(disk.Ops() + 1 + r.Int64N(60))
			}
			err := c.life(t, r, disk, r.IntN(40))
			if err != nil && !errors.Is(err, crashfs.ErrCrashed) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
			if err == nil && r.IntN(2) == 0 {
				disk = disk.Kill()
			} else {
				disk = disk.Crash(r, policies[r.IntN(len(policies))])
			}
		}
	}
}

// Each operation fails in turn, once and from then on, before and after it is done. An error comes back; after one that is
// not final the same call succeeds; what was recorded survives a power cut.
func TestFaults(t *testing.T) {
	const steps = 60
	count := faultfs.New(newFS())
	if err := new(checkpointed).life(t, newRand(3), count, steps); err != nil {
		t.Fatal(err)
	}
	if n := count.Ops(); n < 100 {
		t.Fatalf("%d operations; the workload is too small", n)
	}
	for n := int64(1); n <= count.Changes(); n++ {
		for _, rule := range []faultfs.Rule{
			{Nth: n},
			{Nth: n, Err: syscall.ENOSPC, Short: 100},
			{Nth: n, After: true},
			{Nth: n, Sticky: true},
		} {
			rule.Changes = true
			disk := newFS()
			fsys := faultfs.New(disk, rule)
			c := &checkpointed{}
			err := c.life(t, newRand(3), fsys, steps)
			if fsys.Fired() > 0 && err == nil {
				t.Errorf("%v: no error", rule)
			}
			if errors.Is(err, corrupt.ErrCorrupt) {
				t.Errorf("%v: %v", rule, err)
			}
			after := disk.Snapshot(newRand(uint64(n)), crashfs.Policy{KeepPct: 50, MetaPct: 50})
			if err := c.life(t, newRand(4), after, 20); err != nil {
				t.Fatalf("%v: the next life: %v", rule, err)
			}
		}
	}
}

// A write that failed can be repeated: the log is as before.
func TestWriteAgainAfterFailure(t *testing.T) {
	for n := int64(1); n <= 5; n++ {
		fsys := faultfs.New(newFS(), faultfs.Rule{Changes: true, Nth: n, Err: syscall.ENOSPC, Short: 50})
		l := open(t, fsys, timerlog.Options{}, timerlog.State{})
		es := run(1, 1, 12_000) // three writes
		ref, err := l.WriteGroup(0, timerlog.NoSlot, timerlog.Ref{}, es)
		if n <= 5 && fsys.Fired() == 1 && (!errors.Is(err, syscall.ENOSPC) || errors.Is(err, timerlog.ErrFailed)) {
			t.Fatalf("operation %d: %v", n, err)
		}
		if s := l.State(); err != nil && len(s.Files) == 1 && s.Files[0].Length != fileHeader {
			t.Errorf("operation %d: state %+v", n, s)
		}
		if err != nil {
			ref = writeGroup(t, l, es)
		}
		checkEach(t, l, ref, es)
		if ref.File != 1 || ref.Offset != fileHeader {
			t.Errorf("operation %d: written at %+v", n, ref)
		}
		syncLog(t, l)
	}
}

// A failed sync is final for what writes, not for what reads.
func TestSyncFailureIsFinal(t *testing.T) {
	for _, op := range []faultfs.Op{faultfs.Sync, faultfs.SyncDir} {
		for nth := int64(1); nth <= 3; nth++ {
			fsys := faultfs.New(newFS(), faultfs.Rule{Op: op, Nth: nth})
			l := open(t, fsys, timerlog.Options{FileSize: 1000}, timerlog.State{})
			es := run(1, 1, 10)
			ref := writeGroup(t, l, es)
			for range uint64(4) {
				writeGroup(t, l, run(2, 2, 10))
			}
			first := l.Sync()
			if fsys.Fired() == 0 {
				t.Fatalf("%s %d never happened", op, nth)
			}
			if !errors.Is(first, timerlog.ErrFailed) || !errors.Is(first, syscall.EIO) {
				t.Fatalf("%s %d: %v", op, nth, first)
			}
			for name, err := range map[string]error{
				"sync":       l.Sync(),
				"delete":     l.Delete(func(int64) bool { return false }),
				"remove all": l.RemoveAll(),
				"spill":      second(0, 0, func() error { _, err := l.WriteSpill(es); return err }()),
			} {
				if err == nil || err.Error() != first.Error() {
					t.Errorf("%s after the failure: %v, want the first error", name, err)
				}
			}
			checkEach(t, l, ref, es)
		}
	}
}

// A directory sync that fails in Delete is final too: it covered the name of a file made since the last Sync.
func TestDeleteSyncFailureIsFinal(t *testing.T) {
	fsys := faultfs.New(newFS())
	l := open(t, fsys, timerlog.Options{FileSize: 1000}, timerlog.State{})
	writeGroup(t, l, run(1, 1, 10))
	syncLog(t, l)
	writeGroup(t, l, run(1, 1, 15))
	fsys.Add(faultfs.Rule{Op: faultfs.SyncDir})
	if err := l.Delete(func(int64) bool { return false }); !errors.Is(err, timerlog.ErrFailed) {
		t.Fatalf("delete: %v", err)
	}
	if err := l.Sync(); !errors.Is(err, timerlog.ErrFailed) {
		t.Fatalf("sync: %v", err)
	}
}
