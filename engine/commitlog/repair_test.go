package commitlog_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// repairAndCheck repairs, recovers, and wants every batch to be there or within what was listed as lost; and a second
// Repair to find nothing. It returns what was lost.
func repairAndCheck(t *testing.T, x *tester, fsys *crashfs.FS, start commitlog.Start) []commitlog.Lost {
	t.Helper()
	lost, err := commitlog.Repair(fsys, logDir, logID, start)
	must(t, err)
	again, err := commitlog.Repair(fsys, logDir, logID, start)
	if err != nil || len(again) != 0 {
		t.Fatalf("second repair: %+v %v", again, err)
	}
	// What was repaired survives a power cut.
	fsys = fsys.Crash(random(1), crashfs.Policy{})
	l, err := commitlog.Open(fsys, logDir, logID, small)
	must(t, err)
	var seen []entry
	start.From = max(start.From, l.First())
	rec, err := l.Recover(start, collect(&seen))
	must(t, err)
	isLost := func(e entry) bool {
		return slices.ContainsFunc(lost, func(r commitlog.Lost) bool { return r.From < e.end && e.base < r.To })
	}
	var want []entry
	for _, e := range x.all {
		if e.base >= start.From && !isLost(e) && (e.end <= rec.End || e.end <= start.Durable) {
			want = append(want, e)
		}
	}
	var holes []entry
	seen = slices.DeleteFunc(seen, func(e entry) bool {
		if e.flags&commitlog.FlagHole != 0 {
			holes = append(holes, e)
		}
		return e.flags&commitlog.FlagHole != 0
	})
	if err := same(seen, want); err != nil {
		t.Fatalf("after repair, lost %+v: %v", lost, err)
	}
	for _, h := range holes {
		if !isLost(h) {
			t.Fatalf("hole %+v is not listed in %+v", h, lost)
		}
	}
	// A hole holds no record, and says so.
	for _, e := range x.all {
		if len(e.recs) > 0 && isLost(e) {
			if _, _, err := l.ReadRecord(e.recs[0].pos, e.recs[0].size, nil); err == nil && len(holes) > 0 {
				continue // the bytes are right, only the batch around them was not
			} else if !errors.Is(err, corrupt.ErrCorrupt) && !errors.Is(err, commitlog.ErrOutOfLog) && !strings.Contains(err.Error(), "input/output") {
				t.Fatalf("read in a hole: %v", err)
			}
		}
	}
	// The log goes on.
	y := newTester(t, fsys, small)
	y.log, y.next = l, 9000
	must(t, y.put(50))
	must(t, y.flush())
	must(t, l.Close())
	l, err = commitlog.Open(fsys, logDir, logID, small)
	must(t, err)
	_, err = l.Recover(start, func(*commitlog.Batch) error { return nil })
	must(t, err)
	return lost
}

func TestRepairDamagedBatch(t *testing.T) {
	for _, c := range []struct {
		name string
		at   int
	}{{"magic", 0}, {"length", 5}, {"header", 50}, {"local part", 90}, {"content", 200}} {
		t.Run(c.name, func(t *testing.T) {
			x, fsys := logWith(t, 3, 1)
			e := x.all[5]
			file := flip(t, x, fsys, e, c.at)
			wantDamage(t, fsys.Clone(), file, "durable up to")
			lost := repairAndCheck(t, x, fsys, commitlog.Start{})
			if len(lost) != 1 || lost[0].From != e.base || lost[0].To != e.end || lost[0].File != file || lost[0].Reason == "" {
				t.Errorf("lost: %+v", lost)
			}
		})
	}
}

func TestRepairSeveralPlaces(t *testing.T) {
	x, fsys := logWith(t, 3, 1)
	at := []int{2, 5, 6, len(x.all) - 4}
	for _, i := range at {
		flip(t, x, fsys, x.all[i], 20)
	}
	// The two that are neighbours are one hole.
	if lost := repairAndCheck(t, x, fsys, commitlog.Start{}); len(lost) != 3 || lost[1].From != x.all[5].base || lost[1].To != x.all[6].end {
		t.Errorf("lost: %+v", lost)
	}
}

func TestRepairSeal(t *testing.T) {
	x, fsys := logWith(t, 3, 0)
	i := slices.IndexFunc(x.all, func(e entry) bool { return e.flags == commitlog.FlagSeal })
	flip(t, x, fsys, x.all[i], 60)
	flip(t, x, fsys, x.all[i-1], 60)
	lost := repairAndCheck(t, x, fsys, commitlog.Start{})
	if len(lost) != 1 || lost[0].From != x.all[i-1].base || lost[0].To != x.all[i].end {
		t.Errorf("lost: %+v", lost)
	}
}

func TestRepairStateRecord(t *testing.T) {
	x, fsys := logWith(t, 3, 0)
	must(t, x.log.WriteMark(x.log.Durable(), 0))
	last := x.log.Segments()[2]
	i := slices.IndexFunc(x.all, func(e entry) bool { return e.base > last.Base })
	flip(t, x, fsys, x.all[i], 120)
	lost := repairAndCheck(t, x, fsys, commitlog.Start{})
	if len(lost) != 1 || lost[0].From != last.Base+commitlog.SegmentHeaderSize {
		t.Errorf("lost: %+v", lost)
	}
}

func TestRepairTail(t *testing.T) {
	x, fsys := logWith(t, 2, 0)
	must(t, x.log.WriteMark(x.log.Durable(), 0))
	n := len(x.all)
	flip(t, x, fsys, x.all[n-1], 60)
	lost := repairAndCheck(t, x, fsys, commitlog.Start{})
	if len(lost) != 1 || lost[0].From != x.all[n-1].base || lost[0].To != x.all[n-1].end {
		t.Errorf("lost: %+v", lost)
	}
}

// A torn tail is Recover's business: nothing is lost, nothing is written.
func TestRepairLeavesTornTail(t *testing.T) {
	x, fsys := logWith(t, 2, 2)
	n := len(x.all)
	flip(t, x, fsys, x.all[n-2], 60)
	lost, err := commitlog.Repair(fsys, logDir, logID, commitlog.Start{})
	if err != nil || len(lost) != 0 {
		t.Errorf("lost: %+v %v", lost, err)
	}
	wantTorn(t, x, fsys, n-2)
}

func TestRepairMissingSegment(t *testing.T) {
	for _, gone := range [][]int{{1}, {2}, {1, 2}, {3}, {2, 3}} {
		x, fsys := logWith(t, 4, 0)
		must(t, x.log.WriteMark(x.log.Durable(), 0))
		segs := x.log.Segments()
		for _, i := range gone {
			must(t, fsys.Vanish(segs[i].Name))
		}
		lost := repairAndCheck(t, x, fsys, commitlog.Start{})
		if len(lost) != 1 || lost[0].From != segs[gone[0]].Base || lost[0].File != segs[gone[0]].Name {
			t.Errorf("%v: lost %+v", gone, lost)
		}
		want := x.log.End()
		if last := gone[len(gone)-1]; last < 3 {
			want = segs[last+1].Base
		}
		if lost[0].To != want {
			t.Errorf("%v: lost up to %d, want %d", gone, lost[0].To, want)
		}
	}
	if _, err := commitlog.Repair(crashfs.New(crashfs.Options{}), logDir, logID, commitlog.Start{}); !errors.Is(err, corrupt.ErrCorrupt) {
		t.Errorf("nothing at all: %v", err)
	}
}

func TestRepairTruncatedSegment(t *testing.T) {
	x, fsys := logWith(t, 3, 0)
	segs := x.log.Segments()
	must(t, fsys.Cut(segs[1].Name, 5000))
	lost := repairAndCheck(t, x, fsys, commitlog.Start{})
	if len(lost) != 1 || lost[0].To != segs[1].End || lost[0].From > segs[1].Base+5000 {
		t.Errorf("lost: %+v", lost)
	}
}

func TestRepairHeader(t *testing.T) {
	x, fsys := logWith(t, 3, 1)
	segs := x.log.Segments()
	must(t, fsys.Rot(segs[1].Name, 30*8))
	lost := repairAndCheck(t, x, fsys, commitlog.Start{})
	if len(lost) != 1 || lost[0].From != segs[1].Base || lost[0].To != segs[1].Base+commitlog.SegmentHeaderSize {
		t.Errorf("lost: %+v", lost)
	}
}

// Sectors that cannot be read are lost, and nothing but them: the rest of the block is.
func TestRepairUnreadableSector(t *testing.T) {
	x, fsys := logWith(t, 3, 0)
	e := x.all[4]
	must(t, fsys.SetBad(segName(0), int64(e.base+300)/512))
	if err := newTester(t, fsys.Clone(), small).open(); err == nil {
		t.Error("recovered in spite of it")
	}
	lost := repairAndCheck(t, x, fsys, commitlog.Start{})
	if len(lost) != 1 || lost[0].From > e.base+300 || lost[0].To < e.base+300 || lost[0].To-lost[0].From > 3000 {
		t.Errorf("lost: %+v", lost)
	}
}

// From a checkpoint on: what lies below is not looked at.
func TestRepairFrom(t *testing.T) {
	x, fsys := logWith(t, 4, 0)
	must(t, x.log.WriteMark(x.log.Durable(), 0))
	segs := x.log.Segments()
	must(t, fsys.Vanish(segs[1].Name))
	e := x.all[len(x.all)-2]
	flip(t, x, fsys, e, 60)
	lost := repairAndCheck(t, x, fsys, commitlog.Start{From: segs[2].Base})
	if len(lost) != 1 || lost[0].From != e.base {
		t.Errorf("lost: %+v", lost)
	}
}

// TestNoSilentDamage flips a bit anywhere in the files of a log whose mark is up to date. Either nothing is missed by
// it, or it is told; and Repair lists what is gone.
func TestNoSilentDamage(t *testing.T) {
	x, fsys := logWith(t, 3, 0)
	must(t, x.log.WriteMark(x.log.Durable(), 0))
	segs := x.log.Segments()
	r := random(5)
	told := 0
	for range 600 {
		after := fsys.Clone()
		s := segs[r.IntN(len(segs))]
		must(t, after.Rot(s.Name, r.Int64N(s.Bytes*8)))
		y := newTester(t, after.Clone(), small)
		if err := y.open(); err == nil {
			must(t, same(y.seen, x.all))
			continue
		} else if !errors.Is(err, corrupt.ErrCorrupt) && !errors.Is(err, commitlog.ErrNewerFormat) {
			t.Fatal(err)
		}
		told++
		repairAndCheck(t, x, after, commitlog.Start{})
	}
	if told < 300 {
		t.Errorf("only %d of 600 were told", told)
	}
}

// TestNoSilentDamageOfOtherKinds: sectors that changed places, files cut short, zeros.
func TestNoSilentDamageOfOtherKinds(t *testing.T) {
	x, fsys := logWith(t, 3, 0)
	must(t, x.log.WriteMark(x.log.Durable(), 0))
	segs := x.log.Segments()
	r := random(6)
	for range 200 {
		after := fsys.Clone()
		s := segs[r.IntN(len(segs))]
		switch r.IntN(3) {
		case 0:
			must(t, after.SwapSectors(s.Name, r.Int64N(s.Bytes/512), r.Int64N(s.Bytes/512)))
		case 1:
			must(t, after.Cut(s.Name, r.Int64N(s.Bytes)))
		case 2:
			must(t, after.SetBad(s.Name, r.Int64N(s.Bytes/512)))
		}
		y := newTester(t, after.Clone(), small)
		if err := y.open(); err == nil {
			must(t, same(y.seen, x.all))
			continue
		}
		repairAndCheck(t, x, after, commitlog.Start{})
	}
}
