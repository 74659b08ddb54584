package commitlog_test

import (
	"bytes"
	"errors"
	"io/fs"
	"testing"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

func TestLogAppendReopenRead(t *testing.T) {
	x := newTester(t, crashfs.New(crashfs.Options{}), small)
	x.mustOpen()
	if !x.rec.Sealed || x.rec.End != 0 || !x.log.RotateNeeded() {
		t.Fatalf("new log: %+v", x.rec)
	}
	x.fill(4)
	x.readAll()
	x.reopen()
	x.readAll()
	if x.rec.Cut != 0 || x.rec.Incarnation != 2 || x.rec.End != x.all[len(x.all)-1].end {
		t.Errorf("clean reopen: %+v", x.rec)
	}
	// What is put now follows on: same chain, next incarnation.
	must(t, x.put(10))
	must(t, x.flush())
	x.reopen()
	if got := x.seen[len(x.seen)-1].incarnation; got != 2 {
		t.Errorf("incarnation of the last batch is %d", got)
	}
}

func TestLogPositions(t *testing.T) {
	x := newTester(t, crashfs.New(crashfs.Options{}), small)
	x.mustOpen()
	x.fill(3)
	if first := x.all[0]; first.base != commitlog.SegmentHeaderSize {
		t.Errorf("first batch is at %d", first.base)
	}
	for i, e := range x.all[1:] {
		want := x.all[i].end
		if x.all[i].flags == commitlog.FlagSeal {
			want += commitlog.SegmentHeaderSize
		}
		if e.base != want || e.base%8 != 0 {
			t.Errorf("batch %d is at %d, want %d", i+1, e.base, want)
		}
	}
	segs := x.log.Segments()
	if len(segs) != 3 || segs[0].Base != 0 || segs[0].End != segs[1].Base || !segs[0].Sealed || segs[2].Sealed {
		t.Errorf("segments: %+v", segs)
	}
	if segs[1].Name != segName(segs[1].Base) || segs[1].Bytes != small.SegmentSize {
		t.Errorf("segment: %+v", segs[1])
	}
	if got := x.log.Size(); got != 3*small.SegmentSize {
		t.Errorf("size is %d", got)
	}
	base, end, sealed, ok := x.log.SegmentOf(segs[1].Base + 700)
	if base != segs[1].Base || end != segs[1].End || !sealed || !ok {
		t.Errorf("SegmentOf: %d %d %v %v", base, end, sealed, ok)
	}
	if _, _, _, ok := x.log.SegmentOf(x.log.End()); ok {
		t.Error("SegmentOf knows the end")
	}
}

func TestLogCounters(t *testing.T) {
	x := newTester(t, crashfs.New(crashfs.Options{}), small)
	x.mustOpen()
	must(t, x.put(100))
	l := x.log
	if l.End() == 0 || l.Written() != 0 || l.Durable() != 0 {
		t.Fatalf("appended: %d %d %d", l.End(), l.Written(), l.Durable())
	}
	must(t, l.Commit())
	if l.Written() != l.End() || l.Durable() != 0 {
		t.Fatalf("written: %d %d %d", l.End(), l.Written(), l.Durable())
	}
	end, err := l.Sync()
	if err != nil || end != l.End() || l.Durable() != end {
		t.Fatalf("synced: %d %v", end, err)
	}
}

// An incomplete state record does not count: the durable end stays before it, and so does the log after a power cut.
func TestLogStateRecordCountsWhole(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	x := newTester(t, fsys, small)
	x.mustOpen()
	x.fill(1)
	must(t, x.seal())
	must(t, x.turn())
	at := x.log.Durable()
	for i := range 2 {
		must(t, x.batch(commitlog.FlagState, kindState, 50))
		must(t, x.flush())
		if got := x.log.Durable(); got != at {
			t.Fatalf("part %d: durable end is %d, want %d", i, got, at)
		}
	}
	if room := x.log.Room(1); room != commitlog.NeedsState {
		t.Errorf("room is %v", room)
	}
	if _, err := x.log.Seal(commitlog.BatchInfo{}); !errors.Is(err, commitlog.ErrNeedsState) {
		t.Errorf("seal: %v", err)
	}
	if _, err := x.log.Begin(1, commitlog.BatchInfo{}); !errors.Is(err, commitlog.ErrNeedsState) {
		t.Errorf("begin: %v", err)
	}

	y := newTester(t, fsys.Clone(), small)
	y.mustOpen()
	if y.rec.End != at || !y.rec.Sealed || y.log.RotateNeeded() {
		t.Errorf("recovered: %+v", y.rec)
	}
	must(t, same(y.seen, x.all[:len(x.all)-2]))
	must(t, y.put(10)) // a new state record goes in front
	must(t, y.flush())

	must(t, x.batch(commitlog.FlagState|commitlog.FlagStateEnd, kindState, 50))
	must(t, x.flush())
	if got := x.log.Durable(); got != x.log.End() {
		t.Errorf("durable end is %d, want %d", got, x.log.End())
	}
	x.reopen()
	if _, err := x.log.Begin(1, commitlog.BatchInfo{Flags: commitlog.FlagState}); !errors.Is(err, commitlog.ErrNeedsState) {
		t.Errorf("a state record behind the state record: %v", err)
	}
}

func TestLogRoom(t *testing.T) {
	x := newTester(t, crashfs.New(crashfs.Options{}), small)
	x.mustOpen()
	if room := x.log.Room(0); room != commitlog.NotReady {
		t.Errorf("new log: %v", room)
	}
	if _, err := x.log.Begin(0, commitlog.BatchInfo{}); !errors.Is(err, commitlog.ErrNotReady) {
		t.Errorf("begin: %v", err)
	}
	must(t, x.turn())
	must(t, x.state(1))
	if x.log.SegmentUsed() {
		t.Error("a state record is no use")
	}

	// Behind a state record alone a batch of any length fits, and behind that nothing does.
	if room := x.log.Room(commitlog.MaxBatch - commitlog.BatchHeaderSize); room != commitlog.Fits {
		t.Errorf("largest batch: %v", room)
	}
	must(t, x.put(40<<10))
	if !x.log.SegmentUsed() {
		t.Error("a message is use")
	}
	if room := x.log.Room(0); room != commitlog.NeedsSeal {
		t.Errorf("full: %v", room)
	}
	if _, err := x.log.Begin(0, commitlog.BatchInfo{}); !errors.Is(err, commitlog.ErrNeedsSeal) {
		t.Errorf("begin: %v", err)
	}
	must(t, x.put(10))
	must(t, x.flush())

	// While less than half of a segment is used a batch of more than half is let in, else it would never find a place.
	if room := x.log.Room(int(small.SegmentSize)); room != commitlog.Fits {
		t.Errorf("a segment in a young one: %v", room)
	}
	must(t, x.put(int(small.SegmentSize)/2))

	// Exactly: a batch fits when the seal fits behind it.
	segs := x.log.Segments()
	room := small.SegmentSize - int64(x.log.End()-segs[len(segs)-1].Base) - 2*commitlog.BatchHeaderSize
	if got := x.log.Room(int(room)); got != commitlog.Fits {
		t.Errorf("%d bytes: %v", room, got)
	}
	if got := x.log.Room(int(room) + 1); got != commitlog.NeedsSeal {
		t.Errorf("%d bytes: %v", room+1, got)
	}
	must(t, x.put(int(room)-commitlog.RecordHeaderSize))
	must(t, x.put(10))
	must(t, x.flush())
	if segs = x.log.Segments(); segs[1].End-segs[1].Base != commitlog.Offset(small.SegmentSize) {
		t.Errorf("segment is %d bytes long", segs[1].End-segs[1].Base)
	}
	x.reopen()
}

func TestLogRejectsMisuse(t *testing.T) {
	x := newTester(t, crashfs.New(crashfs.Options{}), small)
	l, err := commitlog.Open(x.fs, logDir, logID, small)
	must(t, err)
	if _, err := l.Begin(1, commitlog.BatchInfo{}); !errors.Is(err, commitlog.ErrNotRecovered) {
		t.Errorf("begin before recover: %v", err)
	}
	if err := l.ReadRaw(0, make([]byte, 1)); !errors.Is(err, commitlog.ErrNotRecovered) {
		t.Errorf("read before recover: %v", err)
	}
	x.mustOpen()
	if _, err := x.log.Recover(commitlog.Start{}, nil); err == nil {
		t.Error("second recover")
	}
	must(t, x.put(10))
	if _, err := x.log.Begin(commitlog.MaxBatch, commitlog.BatchInfo{}); !errors.Is(err, commitlog.ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	w, err := x.log.Begin(10, commitlog.BatchInfo{})
	must(t, err)
	if _, err := x.log.Begin(10, commitlog.BatchInfo{}); !errors.Is(err, commitlog.ErrBatchOpen) {
		t.Errorf("second batch: %v", err)
	}
	w.Abandon()
	if err := x.log.WriteMark(x.log.End(), 0); err == nil {
		t.Error("a mark above the durable end")
	}
	must(t, x.log.Close())
	for name, err := range map[string]error{
		"close": x.log.Close(), "commit": x.log.Commit(), "read": x.log.ReadRaw(600, make([]byte, 1)), "rotate": x.log.Rotate(),
	} {
		if !errors.Is(err, commitlog.ErrClosed) || !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s after close: %v", name, err)
		}
	}
	for _, o := range []commitlog.Options{{SegmentSize: 1}, {SegmentSize: -5}, {TailSize: 1}} {
		if _, err := commitlog.Open(x.fs, logDir, logID, o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

// A batch that takes more than was announced moves to memory of its own, and beyond MaxBatch the log fails.
func TestWriterOutgrowsAnnouncement(t *testing.T) {
	x := newTester(t, crashfs.New(crashfs.Options{}), small)
	x.mustOpen()
	must(t, x.put(100))
	w, err := x.log.Begin(20, x.info(0))
	must(t, err)
	for range 3 {
		w.Open(kindMessage, 7)
		w.Buf = append(w.Buf, payload(x.next, 3000)...)
		pos, size := w.Close()
		p := string(payload(x.next, 3000))
		x.next++
		if len(x.all[len(x.all)-1].recs) == 0 || x.all[len(x.all)-1].end != 0 {
			x.all = append(x.all, entry{base: pos - commitlog.BatchHeaderSize})
		}
		last := &x.all[len(x.all)-1]
		last.recs = append(last.recs, rec{pos, size, kindMessage, p})
	}
	want := w.Len()
	end := w.Finish(0)
	last := &x.all[len(x.all)-1]
	last.end, last.crc, last.incarnation = end, x.log.LastCRC(), 1
	if got := int(end - last.base); got != want {
		t.Errorf("batch is %d bytes long, Len said %d", got, want)
	}
	must(t, x.put(200))
	x.readAll()
	must(t, x.flush())
	x.reopen()
	x.readAll()

	w, err = x.log.Begin(20, x.info(0))
	must(t, err)
	w.Open(kindMessage, 0)
	w.Buf = append(w.Buf, make([]byte, commitlog.MaxBatch)...)
	w.Close()
	before := x.log.End()
	if end := w.Finish(0); end != before {
		t.Errorf("end is %d, was %d", end, before)
	}
	if err := x.log.Commit(); !errors.Is(err, commitlog.ErrFailed) || !errors.Is(err, commitlog.ErrTooLarge) {
		t.Errorf("commit: %v", err)
	}
}

// An abandoned batch leaves nothing, and its positions go to the next one.
func TestWriterAbandon(t *testing.T) {
	x := newTester(t, crashfs.New(crashfs.Options{}), small)
	x.mustOpen()
	must(t, x.put(10))
	w, err := x.log.Begin(1000, commitlog.BatchInfo{})
	must(t, err)
	first := w.Open(kindMessage, 0)
	w.Buf = append(w.Buf, bytes.Repeat([]byte{0xee}, 500)...)
	w.Abandon()
	must(t, x.put(20, 30))
	if got := x.all[len(x.all)-1].recs[0].pos; got != first {
		t.Errorf("record is at %d, want %d", got, first)
	}
	must(t, x.flush())
	x.readAll()
	x.reopen()
}

func TestLogReadOutside(t *testing.T) {
	x := newTester(t, crashfs.New(crashfs.Options{}), small)
	x.mustOpen()
	x.fill(3)
	last := x.all[len(x.all)-1].recs[0]
	segs := x.log.Segments()
	for _, c := range []struct {
		name string
		pos  commitlog.Offset
		size int
	}{
		{"behind the end", x.log.End(), 20},
		{"across the end", last.pos, int(x.log.End()-last.pos) + 1},
		{"across segments", segs[1].Base - 8, 16},
		{"far behind", 1 << 60, 20},
		{"negative", -8, 20},
	} {
		if err := x.log.ReadRaw(c.pos, make([]byte, c.size)); !errors.Is(err, commitlog.ErrOutOfLog) {
			t.Errorf("%s: ReadRaw: %v", c.name, err)
		}
		if _, _, err := x.log.ReadRecord(c.pos, c.size, nil); !errors.Is(err, commitlog.ErrOutOfLog) {
			t.Errorf("%s: ReadRecord: %v", c.name, err)
		}
	}
	for _, size := range []int{1, commitlog.RecordHeaderSize - 1, commitlog.MaxRecord + 1, -3} {
		if _, _, err := x.log.ReadRecord(last.pos, size, nil); err == nil {
			t.Errorf("size %d was accepted", size)
		}
	}
	// A wrong position or size is damage, not another record.
	if _, _, err := x.log.ReadRecord(last.pos+1, last.size-1, nil); err == nil {
		t.Error("a record one byte later")
	}
	_, _, err := x.log.ReadRecord(last.pos, last.size-1, nil)
	wantCorrupt(t, err, segs[2].Name)
}

// Several records of one read.
func TestLogReadRawAndParse(t *testing.T) {
	x := newTester(t, crashfs.New(crashfs.Options{}), small)
	x.mustOpen()
	must(t, x.put(10, 2000, 30))
	e := x.all[len(x.all)-1]
	b := make([]byte, e.end-e.recs[0].pos)
	must(t, x.log.ReadRaw(e.recs[0].pos, b))
	at := 0
	for _, want := range e.recs {
		got, err := commitlog.ParseRecord(want.pos, b[at:])
		must(t, err)
		if string(got.Payload) != want.payload || got.End() != want.pos+commitlog.Offset(want.size) {
			t.Errorf("record at %d differs", want.pos)
		}
		at += got.Size
	}
	if _, err := commitlog.ParseRecord(e.recs[0].pos+8, b); err == nil {
		t.Error("a record at another position")
	}
}

// Bytes come from the tail or from the file, and nobody can tell.
func TestLogReadsAcrossTailAndFile(t *testing.T) {
	opts := small
	opts.SegmentSize, opts.TailSize = 256<<10, 4<<10
	x := newTester(t, crashfs.New(crashfs.Options{}), opts)
	x.mustOpen()
	for i := range 60 {
		must(t, x.put(100+i*37, 10))
		if i%3 == 0 {
			must(t, x.flush())
		}
	}
	x.readAll()
	whole := make([]byte, x.log.End())
	must(t, x.log.ReadRaw(0, whole))
	must(t, x.flush())
	again := make([]byte, x.log.End())
	f, err := x.fs.OpenFile(segName(0), 0, 0)
	must(t, err)
	_, err = f.ReadAt(again, 0)
	must(t, err)
	if !bytes.Equal(whole, again) {
		t.Error("the tail differs from the file")
	}
}

func TestLogDropBefore(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	x := newTester(t, fsys, small)
	x.mustOpen()
	x.fill(5)
	segs := x.log.Segments()
	must(t, x.log.DropBefore(segs[2].Base+1)) // segment 2 does not lie below
	if got := x.log.First(); got != segs[2].Base {
		t.Errorf("first is %d", got)
	}
	if _, _, err := x.log.ReadRecord(x.all[1].recs[0].pos, 0, nil); !errors.Is(err, commitlog.ErrOutOfLog) {
		t.Errorf("read of a dropped record: %v", err)
	}
	if got := x.log.Size(); got != 3*small.SegmentSize {
		t.Errorf("size is %d", got)
	}
	for len(x.all) > 0 && x.all[0].base < segs[2].Base {
		x.all = x.all[1:]
	}
	x.reopen()
	must(t, x.log.DropBefore(1<<60)) // never the last one
	if got := x.log.Segments(); len(got) != 1 || got[0].Base != segs[4].Base {
		t.Errorf("segments: %+v", got)
	}
}

// Segments that come back after an unlink, also with a gap, do not hurt a recovery from above them.
func TestLogRecoverAboveGap(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	x := newTester(t, fsys, small)
	x.mustOpen()
	x.fill(5)
	segs := x.log.Segments()
	must(t, fsys.Vanish(segs[1].Name))
	must(t, x.log.Close())

	l, err := commitlog.Open(fsys, logDir, logID, small)
	must(t, err)
	var seen []entry
	_, err = l.Recover(commitlog.Start{From: segs[3].Base}, collect(&seen))
	must(t, err)
	for len(x.all) > 0 && x.all[0].base < segs[3].Base {
		x.all = x.all[1:]
	}
	must(t, same(seen, x.all))
	must(t, l.DropBefore(segs[3].Base))
	if got := l.First(); got != segs[3].Base {
		t.Errorf("first is %d", got)
	}
	must(t, l.Close())

	// From below the gap the missing segment is named.
	y := newTester(t, fsys, small)
	z := newTester(t, crashfs.New(crashfs.Options{}), small)
	z.mustOpen()
	z.fill(4)
	gone := z.log.Segments()[1].Name
	must(t, z.fs.(*crashfs.FS).Vanish(gone))
	y.fs = z.fs
	wantCorrupt(t, y.open(), gone)
}

func TestLogScan(t *testing.T) {
	x := newTester(t, crashfs.New(crashfs.Options{}), small)
	x.mustOpen()
	x.fill(3)
	must(t, x.put(77))
	must(t, x.log.Commit())
	must(t, x.put(78)) // appended, not written: not scanned
	want := x.all[:len(x.all)-1]
	var got []entry
	must(t, x.log.Scan(0, 0, true, collect(&got)))
	must(t, same(got, want))

	mid := len(want) / 2
	got = nil
	must(t, x.log.Scan(want[mid].base, want[mid-1].crc, true, collect(&got)))
	must(t, same(got, want[mid:]))
	err := x.log.Scan(want[mid].base, want[mid-1].crc+1, true, collect(&got))
	base, _, _, _ := x.log.SegmentOf(want[mid].base)
	wantCorrupt(t, err, segName(base))

	n := 0
	must(t, x.log.Scan(0, 0, false, func(*commitlog.Batch) error {
		if n++; n == 3 {
			return fs.SkipAll
		}
		return nil
	}))
	stop := errors.New("stop")
	if err := x.log.Scan(0, 0, false, func(*commitlog.Batch) error { return stop }); err != stop || n != 3 {
		t.Errorf("scan: %v after %d", err, n)
	}

	// Offline: without Recover, nothing is written.
	must(t, x.log.Close())
	fsys := x.fs.(*crashfs.FS)
	ops := fsys.Ops()
	ro := small
	ro.ReadOnly = true
	l, err := commitlog.Open(fsys, logDir, logID, ro)
	must(t, err)
	got = nil
	must(t, l.Scan(0, 0, true, collect(&got)))
	must(t, same(got, want))
	if fsys.Ops() != ops {
		t.Error("an offline scan changed something")
	}
	must(t, fsys.Rot(segName(0), (int64(want[2].base)+200)*8))
	wantCorrupt(t, l.Scan(0, 0, true, collect(&got)), segName(0))
}

func TestLogReadOnly(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	x := newTester(t, fsys, small)
	x.mustOpen()
	x.fill(3)
	must(t, x.log.Close())
	ops := fsys.Ops()
	y := newTester(t, fsys, small)
	y.opts.ReadOnly = true
	y.mustOpen()
	must(t, same(y.seen, x.all))
	y.all = x.all
	y.readAll()
	for name, err := range map[string]error{
		"commit": y.log.Commit(), "rotate": y.log.Rotate(), "spare": y.log.PrepareSpare(), "drop": y.log.DropBefore(1 << 40),
		"mark": y.log.WriteMark(0, 0), "reserve": y.log.PrepareReserve(),
	} {
		if !errors.Is(err, commitlog.ErrReadOnly) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if y.log.RotateNeeded() || y.log.SpareNeeded() || y.log.ReserveMissing() != 0 {
		t.Error("a read-only log has jobs")
	}
	must(t, y.log.Close())
	if fsys.Ops() != ops {
		t.Error("a read-only log changed something")
	}
	// A directory that is not there is an empty log.
	z := newTester(t, crashfs.New(crashfs.Options{}), y.opts)
	z.mustOpen()
	if z.rec.End != 0 || len(z.seen) != 0 {
		t.Errorf("recovery: %+v", z.rec)
	}
}

func TestLogSpare(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	x := newTester(t, fsys, small)
	x.mustOpen()
	if !x.log.SpareNeeded() {
		t.Error("a new log wants a spare")
	}
	must(t, x.put(10))
	if x.log.SpareNeeded() {
		t.Error("an empty segment wants no spare")
	}
	must(t, x.put(11<<10))
	must(t, x.put(2<<10))
	if !x.log.SpareNeeded() {
		t.Error("three quarters are used")
	}
	must(t, x.log.PrepareSpare())
	if info, err := fsys.Stat(logDir + "/next"); err != nil || info.Size != small.SegmentSize {
		t.Errorf("spare: %+v %v", info, err)
	}
	if x.log.SpareNeeded() {
		t.Error("there is a spare")
	}
	x.fill(2)
	if _, err := fsys.Stat(logDir + "/next"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the spare was not used: %v", err)
	}
	must(t, x.log.PrepareSpare())
	x.reopen() // what an earlier life prepared is not trusted
	if _, err := fsys.Stat(logDir + "/next"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old spare is there: %v", err)
	}
}

func TestLogForeignFiles(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	x := newTester(t, fsys, small)
	x.mustOpen()
	x.fill(2)
	for _, name := range []string{"lost+found", "0000000000000000000x", "-0000000000000000000", "00000000000000000007", "notes.txt"} {
		f, err := fsys.OpenFile(logDir+"/"+name, 0x42, 0o600)
		must(t, err)
		must(t, f.Close())
	}
	x.reopen()

	if _, err := commitlog.Open(fsys, logDir, logID+1, small); err == nil {
		t.Error("the segments of another log were accepted")
	} else {
		wantCorrupt(t, err, segName(0))
	}
}
