package commitlog_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

var (
	seeds    = flag.Uint64("seeds", 400, "how many histories the crash tests run")
	seedFrom = flag.Uint64("seed", 1, "the first of them")
)

// history is a log through several lives on one disk, and what must be true of it.
type history struct {
	*tester
	r  *rand.Rand
	fs *crashfs.FS

	durable commitlog.Offset // what was promised
	base    commitlog.Offset // of the first segment that is needed
	check   commitlog.Start  // a checkpoint
	faults  bool
	crashes int
}

// TestCrashHistories runs a log through lives that end by power cuts, kills and failed operations at any moment, in
// Recover too. After each: all that was promised is there, in order, nothing that was not written is, nothing of a
// state record that is not whole.
func TestCrashHistories(t *testing.T) {
	crashes := 0
	for seed := *seedFrom; seed < *seedFrom+*seeds; seed++ {
		n, err := crashHistory(t, seed)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		crashes += n
	}
	t.Logf("%d crashes", crashes)
}

func crashHistory(t *testing.T, seed uint64) (crashes int, err error) {
	r := random(seed)
	opts := commitlog.Options{SegmentSize: 4<<10 + 1024*r.Int64N(13), TailSize: 4 << 10 << r.IntN(4), Reserve: r.IntN(3) - 1}
	h := &history{tester: newTester(t, nil, opts), r: r, fs: crashfs.New(crashfs.Options{}), faults: r.IntN(2) == 0}
	for range 8 {
		if err := h.life(); err != nil {
			return h.crashes, fmt.Errorf("life %d: %w", h.crashes, err)
		}
		h.end()
	}
	return h.crashes, nil
}

// life opens the log and does things until the power fails or something else does.
func (h *history) life() error {
	if h.r.IntN(6) > 0 {
		h.fs.CrashAt(h.fs.Ops() + 1 + h.r.Int64N(1<<h.r.IntN(10)))
	}
	if h.faults && h.r.IntN(2) == 0 {
		h.inject()
	}
	h.tester.fs = h.fs
	if err := h.recover(); err != nil {
		return h.ended(err)
	}
	for range h.r.IntN(150) {
		if err := h.step(); err != nil {
			return h.ended(err)
		}
	}
	return nil
}

// end ends a life.
func (h *history) end() {
	h.crashes++
	if h.r.IntN(4) == 0 {
		h.fs = h.fs.Kill()
		return
	}
	h.fs = h.fs.Crash(h.r, crashfs.Policies()[h.r.IntN(len(crashfs.Policies()))])
}

// inject lets operations of some kind fail, one or all from it on.
func (h *history) inject() {
	kinds := []crashfs.Kind{crashfs.Sync, crashfs.Write, crashfs.SyncDir, crashfs.Rename, crashfs.Open, crashfs.Preallocate, crashfs.Remove, crashfs.Create}
	kind := kinds[h.r.IntN(len(kinds))]
	after, sticky := h.r.IntN(60), h.r.IntN(2) == 0
	h.fs.SetInject(func(op crashfs.Op) error {
		if op.Kind != kind {
			return nil
		}
		if after--; after < 0 && (sticky || after == -1) {
			return syscall.EIO
		}
		return nil
	})
}

// ended says whether an error is one that ends a life: a failure that was made.
func (h *history) ended(err error) error {
	if errors.Is(err, crashfs.ErrCrashed) || errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENOSPC) {
		return nil
	}
	return err
}

func (h *history) recover() error {
	l, err := commitlog.Open(h.fs, logDir, logID, h.opts)
	if err != nil {
		return err
	}
	h.log = l
	start := commitlog.Start{From: h.base}
	if h.r.IntN(2) == 0 && h.check.From > h.base {
		start = h.check
	}
	if h.r.IntN(2) == 0 {
		start.Durable = h.check.From
	}
	var seen []entry
	rec, err := l.Recover(start, collect(&seen))
	if err != nil {
		return err
	}
	want := h.all
	for len(want) > 0 && want[0].base < start.From {
		want = want[1:]
	}
	if len(seen) > len(want) {
		return fmt.Errorf("%d batches, only %d were appended", len(seen), len(want))
	}
	if err := same(seen, want[:len(seen)]); err != nil {
		return fmt.Errorf("from %d: %w", start.From, err)
	}
	if rec.End < h.durable {
		return fmt.Errorf("the log ends at %d, promised was %d; %+v", rec.End, h.durable, rec)
	}
	h.all = h.all[:len(h.all)-len(want)+len(seen)]
	if k := len(h.all); k > 0 {
		last := h.all[k-1]
		if last.end != rec.End || last.crc != rec.LastCRC {
			return fmt.Errorf("the log ends at %d with %08x, the last batch at %d with %08x", rec.End, rec.LastCRC, last.end, last.crc)
		}
		if last.flags&commitlog.FlagState != 0 && last.flags&commitlog.FlagStateEnd == 0 {
			return errors.New("the log ends within a state record")
		}
	}
	h.durable = rec.End
	return l.DropBefore(h.base)
}

// step does one thing that an engine may do.
func (h *history) step() error {
	switch l := h.log; h.r.IntN(16) {
	default:
		return h.append()
	case 0, 1, 2:
		return l.Commit()
	case 3, 4, 5:
		return h.sync()
	case 6:
		if l.SpareNeeded() {
			return h.retried(l.PrepareSpare())
		}
	case 7:
		return h.retried(l.Rotate())
	case 8:
		if l.ReserveMissing() > 0 {
			return h.retried(l.PrepareReserve())
		}
	case 9:
		return h.retried(l.WriteMark(h.durable, int64(h.next)))
	case 10:
		return h.checkpoint()
	case 11:
		return h.readSome()
	}
	return nil
}

// retried forgives a job what is not final.
func (h *history) retried(err error) error {
	if errors.Is(err, syscall.EIO) && !errors.Is(err, commitlog.ErrFailed) {
		return nil
	}
	return err
}

func (h *history) append() error {
	sizes := make([]int, 1+h.r.IntN(3))
	n := 0
	for i := range sizes {
		sizes[i] = h.r.IntN(1 << h.r.IntN(11))
		n += sizes[i] + commitlog.RecordHeaderSize
	}
	switch h.log.Room(n) {
	case commitlog.NotReady:
		return nil
	case commitlog.NeedsSeal:
		return h.seal()
	case commitlog.NeedsState:
		flags := commitlog.FlagState
		if h.r.IntN(2) == 0 {
			flags |= commitlog.FlagStateEnd
		}
		return h.batch(flags, kindState, 1+h.r.IntN(800))
	}
	if h.r.IntN(20) == 0 {
		return h.seal()
	}
	return h.batch(0, kindMessage, sizes...)
}

func (h *history) sync() error {
	end, err := h.log.Sync()
	if err != nil {
		if again := h.log.Commit(); !errors.Is(again, commitlog.ErrFailed) {
			return fmt.Errorf("commit after a failed sync: %v", again)
		}
		return err
	}
	h.durable = max(h.durable, end)
	return nil
}

// checkpoint takes a checkpoint at a batch boundary and drops what lies before its segment, or less.
func (h *history) checkpoint() error {
	var ends []entry
	for i, e := range h.all {
		inState := e.flags&commitlog.FlagState != 0 && e.flags&commitlog.FlagStateEnd == 0
		if e.end <= h.durable && !inState && (i == 0 || e.end > h.check.From) {
			ends = append(ends, e)
		}
	}
	if len(ends) == 0 {
		return nil
	}
	e := ends[h.r.IntN(len(ends))]
	h.check = commitlog.Start{From: e.end, PrevCRC: e.crc, Incarnation: h.log.Incarnation()}
	if h.r.IntN(2) == 0 {
		return nil
	}
	base, _, _, ok := h.log.SegmentOf(e.base)
	if !ok {
		return fmt.Errorf("no segment holds %d", e.base)
	}
	h.base = base
	h.all = slices.DeleteFunc(h.all, func(e entry) bool { return e.base < base })
	return h.retried(h.log.DropBefore(base))
}

// readSome reads records by position.
func (h *history) readSome() error {
	for range 3 {
		if len(h.all) == 0 {
			return nil
		}
		e := h.all[h.r.IntN(len(h.all))]
		for _, want := range e.recs {
			got, _, err := h.log.ReadRecord(want.pos, h.r.IntN(2)*want.size, nil)
			if err != nil {
				return err
			}
			if string(got.Payload) != want.payload {
				return fmt.Errorf("record at %d differs", want.pos)
			}
		}
	}
	return nil
}

// TestCrashEveryOperation cuts the power before each operation of one run, with each policy.
func TestCrashEveryOperation(t *testing.T) {
	run := func(fsys *crashfs.FS) (*tester, commitlog.Offset, error) {
		x := newTester(t, fsys, commitlog.Options{SegmentSize: 4 << 10, TailSize: 4 << 10, Reserve: 1})
		promised := commitlog.Offset(0)
		err := x.open()
		for i := 0; err == nil && i < 30; i++ {
			if err = x.put(100+i*20, 300); err == nil {
				err = x.flush()
				promised = x.log.Durable()
			}
			if err == nil && x.log.SpareNeeded() {
				err = x.log.PrepareSpare()
			}
			if err == nil && x.log.ReserveMissing() > 0 {
				err = x.log.PrepareReserve()
			}
			if err == nil && i%7 == 6 {
				err = x.log.WriteMark(x.log.Durable(), int64(i))
			}
		}
		return x, promised, err
	}
	whole := crashfs.New(crashfs.Options{})
	if _, _, err := run(whole); err != nil {
		t.Fatal(err)
	}
	for n := int64(1); n <= whole.Ops(); n++ {
		fsys := crashfs.New(crashfs.Options{})
		fsys.CrashAt(n)
		x, promised, err := run(fsys)
		if !errors.Is(err, crashfs.ErrCrashed) {
			t.Fatalf("operation %d: %v", n, err)
		}
		for i, p := range crashfs.Policies() {
			y := newTester(t, fsys.Snapshot(random(uint64(n)), p), x.opts)
			if err := y.open(); err != nil {
				t.Fatalf("operation %d, policy %d: %v", n, i, err)
			}
			if len(y.seen) > len(x.all) || y.rec.End < promised {
				t.Fatalf("operation %d, policy %d: %+v, promised was %d", n, i, y.rec, promised)
			}
			if err := same(y.seen, x.all[:len(y.seen)]); err != nil {
				t.Fatalf("operation %d, policy %d: %v", n, i, err)
			}
		}
	}
	t.Logf("%d operations", whole.Ops())
}
