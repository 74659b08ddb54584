package commitlog_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// logWith makes a log of n segments whose batches are all durable, and more batches that are appended and written and
// not durable. The mark is the one of the open: it knows nothing.
func logWith(t *testing.T, segments, more int) (*tester, *crashfs.FS) {
	t.Helper()
	fsys := crashfs.New(crashfs.Options{})
	x := newTester(t, fsys, small)
	x.mustOpen()
	x.fill(segments)
	for range more {
		must(t, x.put(200))
		must(t, x.log.Commit())
	}
	return x, fsys
}

// flip flips a bit of the batch.
func flip(t *testing.T, x *tester, fsys *crashfs.FS, e entry, byteInBatch int) string {
	t.Helper()
	base, _, _, ok := x.log.SegmentOf(e.base)
	if !ok {
		t.Fatalf("no segment holds %d", e.base)
	}
	must(t, fsys.Rot(segName(base), int64(e.base-base)*8+int64(byteInBatch)*8))
	return segName(base)
}

// wantTorn opens what is left and wants the first n batches, and the rest cut.
func wantTorn(t *testing.T, x *tester, fsys *crashfs.FS, n int) *tester {
	t.Helper()
	y := newTester(t, fsys, small)
	y.mustOpen()
	must(t, same(y.seen, x.all[:n]))
	if y.rec.Cut == 0 || y.rec.CutAt != x.all[n-1].end || y.rec.Reason == "" {
		t.Errorf("recovery: %+v", y.rec)
	}
	// What was cut is gone for good, and the log goes on.
	y.all, y.next = append([]entry(nil), x.all[:n]...), 1000
	must(t, y.put(33))
	must(t, y.flush())
	y.reopen()
	if y.rec.Cut != 0 {
		t.Errorf("second recovery: %+v", y.rec)
	}
	return y
}

// wantDamage opens what is left, twice, and wants the same refusal and nothing changed.
func wantDamage(t *testing.T, fsys *crashfs.FS, file, why string) {
	t.Helper()
	ops := fsys.Ops()
	for _, readOnly := range []bool{true, false} {
		y := newTester(t, fsys, small)
		y.opts.ReadOnly = readOnly
		err := y.open()
		wantCorrupt(t, err, file)
		if !strings.Contains(err.Error(), why) {
			t.Errorf("error is %v, want %q", err, why)
		}
	}
	// Making a directory that is there is the one thing tried.
	if n := fsys.Ops() - ops; n > 1 {
		t.Errorf("%d changes", n)
	}
}

func TestRecoverTornTail(t *testing.T) {
	for _, c := range []struct {
		name string
		at   int // byte of the batch
	}{{"magic", 0}, {"length", 6}, {"header", 40}, {"local part", 80}, {"record", 120}, {"padding", 323}} {
		t.Run(c.name, func(t *testing.T) {
			x, fsys := logWith(t, 2, 3)
			n := len(x.all)
			// The second of three batches that no one was promised: the third goes too, though it is right.
			flip(t, x, fsys, x.all[n-2], c.at)
			wantTorn(t, x, fsys.Clone(), n-2)
		})
	}
}

func TestRecoverTailNeverWritten(t *testing.T) {
	x, fsys := logWith(t, 2, 3)
	after := fsys.Crash(random(1), crashfs.Policy{})
	y := newTester(t, after, small)
	y.mustOpen()
	must(t, same(y.seen, x.all[:len(x.all)-3]))
	if y.rec.Cut != 0 || y.rec.Rewritten == 0 {
		// The last durable batch has no witness: it is written again.
		t.Errorf("recovery: %+v", y.rec)
	}
}

// The last batch before the crash has no later one that knew it durable: without a mark its damage is a torn tail.
func TestRecoverWindowOfTheLastBatch(t *testing.T) {
	x, fsys := logWith(t, 2, 0)
	n := len(x.all)
	flip(t, x, fsys, x.all[n-1], 130)
	wantTorn(t, x, fsys.Clone(), n-1)
}

// The mark closes that window.
func TestRecoverDamageBelowMark(t *testing.T) {
	x, fsys := logWith(t, 2, 0)
	must(t, x.log.WriteMark(x.log.Durable(), 7))
	n := len(x.all)
	file := flip(t, x, fsys, x.all[n-1], 130)
	wantDamage(t, fsys.Clone(), file, "durable up to")

	// Also when the file ends there.
	flip(t, x, fsys, x.all[n-1], 130)
	base := x.log.Segments()[1].Base
	must(t, fsys.Cut(file, int64(x.all[n-1].base-base)))
	wantDamage(t, fsys.Clone(), file, "durable up to")
}

// So does a checkpoint.
func TestRecoverDamageBelowCheckpoint(t *testing.T) {
	x, fsys := logWith(t, 2, 0)
	n := len(x.all)
	file := flip(t, x, fsys, x.all[n-1], 130)
	l, err := commitlog.Open(fsys.Clone(), logDir, logID, small)
	must(t, err)
	_, err = l.Recover(commitlog.Start{From: 0, Durable: x.all[n-1].end}, func(*commitlog.Batch) error { return nil })
	c := wantCorrupt(t, err, file)
	if base := x.log.Segments()[1].Base; c.Offset != int64(x.all[n-1].base-base) {
		t.Errorf("offset is %d", c.Offset)
	}
}

// A later batch knew the damaged one durable. Its content may be torn: its header was written all the same.
func TestRecoverDamageWithWitness(t *testing.T) {
	for _, c := range []struct {
		name         string
		from, witbit int
	}{{"whole", 2, 0}, {"torn", 1, 130}, {"length of the witness damaged", 1, 5}} {
		t.Run(c.name, func(t *testing.T) {
			x, fsys := logWith(t, 2, 1)
			n := len(x.all)
			if c.witbit != 0 {
				flip(t, x, fsys, x.all[n-1], c.witbit)
			}
			file := flip(t, x, fsys, x.all[n-1-c.from], 125)
			wantDamage(t, fsys.Clone(), file, "says the log was durable up to")
		})
	}
	t.Run("header torn", func(t *testing.T) {
		x, fsys := logWith(t, 2, 1)
		n := len(x.all)
		flip(t, x, fsys, x.all[n-1], 80) // its local part is not to be trusted
		flip(t, x, fsys, x.all[n-2], 125)
		wantTorn(t, x, fsys.Clone(), n-2)
	})
}

// Damage before another segment that counts.
func TestRecoverDamageInSealedSegment(t *testing.T) {
	x, fsys := logWith(t, 3, 0)
	for i, e := range x.all {
		if e.flags == commitlog.FlagSeal {
			file := flip(t, x, fsys, e, 16)
			wantDamage(t, fsys.Clone(), file, "durable up to")
			flip(t, x, fsys, e, 16)
			file = flip(t, x, fsys, x.all[i-1], 200)
			wantDamage(t, fsys.Clone(), file, "durable up to")
			flip(t, x, fsys, x.all[i-1], 200)
		}
	}
	x.log.Close()
	x.mustOpen()
}

// A witness in the next segment counts as well, be its state record complete or not.
func TestRecoverWitnessInNextSegment(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	x := newTester(t, fsys, small)
	x.mustOpen()
	x.fill(1)
	must(t, x.seal())
	must(t, x.turn())
	must(t, x.batch(commitlog.FlagState, kindState, 50))
	must(t, x.log.Commit())
	// All batches of the first segment that could be witnesses are in the lost sectors.
	seal := x.all[len(x.all)-2]
	file := flip(t, x, fsys, seal, 50)
	wantDamage(t, fsys.Clone(), file, "durable up to")
}

func TestRecoverMissingSegment(t *testing.T) {
	for i := range 3 {
		x, fsys := logWith(t, 3, 0)
		must(t, x.log.WriteMark(x.log.Durable(), 0))
		segs := x.log.Segments()
		after := fsys.Clone()
		must(t, after.Vanish(segs[i].Name))
		y := newTester(t, after, small)
		err := y.open()
		if i == 0 {
			// It looks like a deleted head. Whoever knows the head does not begin above it.
			must(t, err)
			after := fsys.Clone()
			must(t, after.Vanish(segs[i].Name))
			l, err := commitlog.Open(after, logDir, logID, small)
			must(t, err)
			_, err = l.Recover(commitlog.Start{}, func(*commitlog.Batch) error { return nil })
			wantCorrupt(t, err, segs[0].Name)
			continue
		}
		wantCorrupt(t, err, segs[i].Name)
	}
	// All of them.
	x, fsys := logWith(t, 2, 0)
	must(t, x.log.WriteMark(x.log.Durable(), 0))
	after := fsys.Clone()
	for _, s := range x.log.Segments() {
		must(t, after.Vanish(s.Name))
	}
	wantCorrupt(t, newTester(t, after, small).open(), segName(0))
	// A checkpoint at the base of a missing last segment.
	x, fsys = logWith(t, 3, 0)
	last := x.log.Segments()[2]
	must(t, fsys.Vanish(last.Name))
	l, err := commitlog.Open(fsys.Clone(), logDir, logID, small)
	must(t, err)
	_, err = l.Recover(commitlog.Start{From: last.Base, PrevCRC: 1}, func(*commitlog.Batch) error { return nil })
	wantCorrupt(t, err, last.Name)
}

func TestRecoverDamagedHeader(t *testing.T) {
	x, fsys := logWith(t, 2, 0)
	name := x.log.Segments()[1].Name
	for _, c := range []func(*crashfs.FS) error{
		func(f *crashfs.FS) error { return f.Rot(name, 0) },
		func(f *crashfs.FS) error { return f.Rot(name, 300*8) },
		func(f *crashfs.FS) error { return f.Cut(name, 0) },
		func(f *crashfs.FS) error { return f.Cut(name, 511) },
	} {
		after := fsys.Clone()
		must(t, c(after))
		wantCorrupt(t, newTester(t, after, small).open(), name)
	}
}

func TestRecoverNewerFormat(t *testing.T) {
	rewrite := func(fsys *crashfs.FS, name string, off int64, b []byte) {
		f, err := fsys.OpenFile(name, os.O_RDWR, 0)
		must(t, err)
		_, err = f.WriteAt(b, off)
		must(t, err)
		must(t, f.Close())
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := func(b []byte) []byte { return binary.BigEndian.AppendUint32(nil, crc32.Checksum(b, table)) }

	x, fsys := logWith(t, 2, 0)
	b := make([]byte, commitlog.SegmentHeaderSize)
	must(t, x.log.ReadRaw(0, b))
	b[11] = 7
	copy(b[508:], sum(b[:508]))
	rewrite(fsys, segName(0), 0, b)
	_, err := commitlog.Open(fsys.Clone(), logDir, logID, small)
	if !errors.Is(err, commitlog.ErrNewerFormat) || !strings.Contains(err.Error(), "version 7") || !strings.Contains(err.Error(), "up to 1") {
		t.Errorf("segment: %v", err)
	}

	_, fsys = logWith(t, 2, 0)
	f, err := fsys.OpenFile(logDir+"/mark", os.O_RDWR, 0)
	must(t, err)
	b = make([]byte, 64)
	_, err = f.ReadAt(b, 4096)
	must(t, err)
	b[7] = 7
	copy(b[60:], sum(b[:60]))
	rewrite(fsys, logDir+"/mark", 4096, b)
	if _, err := commitlog.Open(fsys.Clone(), logDir, logID, small); !errors.Is(err, commitlog.ErrNewerFormat) {
		t.Errorf("mark: %v", err)
	}

	// A batch with a flag of tomorrow that must be understood.
	x, fsys = logWith(t, 2, 0)
	e := x.all[len(x.all)-1]
	base := x.log.Segments()[1].Base
	b = make([]byte, e.end-e.base)
	must(t, x.log.ReadRaw(e.base, b))
	binary.BigEndian.PutUint16(b[30:], 1<<12|commitlog.FlagMustUnderstand)
	crc := crc32.Update(0, table, b[:8])
	crc = crc32.Update(crc, table, b[12:76])
	binary.BigEndian.PutUint32(b[8:], crc32.Update(crc, table, b[112:]))
	crc = crc32.Update(0, table, b[8:12])
	binary.BigEndian.PutUint32(b[108:], crc32.Update(crc, table, b[76:108]))
	rewrite(fsys, segName(base), int64(e.base-base), b)
	y := newTester(t, fsys.Clone(), small)
	if err := y.open(); !errors.Is(err, commitlog.ErrNewerFormat) {
		t.Errorf("batch: %v", err)
	}
}

func TestRecoverMarkLost(t *testing.T) {
	x, fsys := logWith(t, 2, 0)
	must(t, x.log.WriteMark(x.log.Durable(), 5))
	if m := x.log.Mark(); m.Durable != x.log.End() || m.LogMs != 5 || m.Incarnation != 1 || m.Seq != 2 {
		t.Errorf("mark: %+v", m)
	}
	// One slot damaged: the older one counts.
	after := fsys.Clone()
	must(t, after.Rot(logDir+"/mark", 8))
	y := newTester(t, after, small)
	y.mustOpen()
	if y.rec.MarkLost || y.rec.Incarnation != 2 {
		t.Errorf("one slot: %+v", y.rec)
	}
	// Both: that is told, and the incarnation comes from the batches.
	after = fsys.Clone()
	must(t, after.Rot(logDir+"/mark", 8))
	must(t, after.Rot(logDir+"/mark", 4096*8+8))
	y = newTester(t, after, small)
	y.mustOpen()
	must(t, same(y.seen, x.all))
	if !y.rec.MarkLost || y.rec.Incarnation != 2 {
		t.Errorf("both slots: %+v", y.rec)
	}
	// No file: nothing to tell.
	after = fsys.Clone()
	must(t, after.Vanish(logDir+"/mark"))
	y = newTester(t, after, small)
	y.mustOpen()
	if y.rec.MarkLost || y.rec.Incarnation != 2 {
		t.Errorf("no file: %+v", y.rec)
	}
}

// What a checkpoint knows is enough to go on from: position, CRC, incarnation.
func TestRecoverFromCheckpoint(t *testing.T) {
	x, fsys := logWith(t, 3, 0)
	for i, e := range x.all {
		after := fsys.Clone()
		l, err := commitlog.Open(after, logDir, logID, small)
		must(t, err)
		var seen []entry
		rec, err := l.Recover(commitlog.Start{From: e.end, PrevCRC: e.crc, Incarnation: 41}, collect(&seen))
		must(t, err)
		must(t, same(seen, x.all[i+1:]))
		if rec.Incarnation != 42 || rec.LastCRC != x.all[len(x.all)-1].crc {
			t.Errorf("from %d: %+v", e.end, rec)
		}
		// The chain goes on from there.
		y := newTester(t, after, small)
		y.log, y.next = l, 5000
		must(t, y.put(20))
		must(t, y.flush())
		must(t, l.Scan(0, 0, true, func(*commitlog.Batch) error { return nil }))

		// Another history before the checkpoint is noticed.
		if i+1 < len(x.all) && x.all[i].flags != commitlog.FlagSeal {
			l, err := commitlog.Open(fsys.Clone(), logDir, logID, small)
			must(t, err)
			_, err = l.Recover(commitlog.Start{From: e.end, PrevCRC: e.crc + 1}, collect(&seen))
			if err == nil && i+2 < len(x.all) {
				t.Errorf("from %d with a wrong CRC: no error", e.end)
			}
		}
	}
	for _, from := range []commitlog.Offset{8, x.all[3].base + 4, x.log.End() + 1<<20} {
		l, err := commitlog.Open(fsys.Clone(), logDir, logID, small)
		must(t, err)
		if _, err := l.Recover(commitlog.Start{From: from}, func(*commitlog.Batch) error { return nil }); err == nil {
			t.Errorf("from %d: no error", from)
		}
	}
}

func TestRecoverReturnsErrorOfFold(t *testing.T) {
	_, fsys := logWith(t, 2, 0)
	l, err := commitlog.Open(fsys.Clone(), logDir, logID, small)
	must(t, err)
	stop := errors.New("stop")
	if _, err := l.Recover(commitlog.Start{}, func(*commitlog.Batch) error { return stop }); err != stop {
		t.Errorf("error is %v", err)
	}
}

// A batch of an earlier life stands behind the end, since its blanking reached the page cache only: it has the CRC of
// the batch before it as its previous one, and is no batch all the same.
func TestRecoverRefusesResurrectedBatch(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	x := newTester(t, fsys, small)
	x.mustOpen()
	x.fill(1)
	put := func() {
		x.next = 500 // the same bytes in each life
		must(t, x.put(100))
		x.next = 600
		must(t, x.put(100))
		must(t, x.log.Commit())
	}
	n := len(x.all)
	put()
	old := x.all[n+1]
	b := make([]byte, old.end-old.base)
	must(t, x.log.ReadRaw(old.base, b))
	must(t, x.log.Close())

	// The next life cuts both, and writes the first one again.
	x.fs = fsys.Crash(random(1), crashfs.Policy{})
	x.mustOpen()
	must(t, same(x.seen, x.all[:n]))
	x.all = x.all[:n]
	x.next = 500
	must(t, x.put(100))
	if x.all[n].end != old.base {
		t.Fatalf("the old batch is at %d, the new end is %d", old.base, x.all[n].end)
	}
	must(t, x.flush())
	f, err := x.fs.OpenFile(segName(0), os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt(b, int64(old.base))
	must(t, err)

	x.reopen()
	if !strings.Contains(x.rec.Reason, "incarnation") {
		t.Errorf("recovery: %+v", x.rec)
	}
}
