package commitlog_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

const (
	logDir = "commitlog"
	logID  = 0x1122334455667788

	kindState   commitlog.Kind = 10
	kindMessage commitlog.Kind = 1
)

var small = commitlog.Options{SegmentSize: 16 << 10, TailSize: 16 << 10, Reserve: -1}

// payload makes n bytes that say which record they are of.
func payload(seq uint64, n int) []byte {
	b := binary.BigEndian.AppendUint64(nil, seq)
	for len(b) < n {
		h := fnv.New64a()
		h.Write(b)
		b = h.Sum(b)
	}
	return b[:n]
}

// rec is a record as a test remembers it.
type rec struct {
	pos     commitlog.Offset
	size    int
	kind    commitlog.Kind
	payload string
}

// entry is a batch as a test remembers it.
type entry struct {
	base, end   commitlog.Offset
	crc         uint32
	flags       uint16
	incarnation uint32
	recs        []rec
}

// read turns a batch into an entry.
func read(b *commitlog.Batch) (entry, error) {
	e := entry{base: b.Base, end: b.End(), crc: b.CRC, flags: b.Flags, incarnation: b.Incarnation}
	rs := b.Records()
	for {
		r, ok, err := rs.Next()
		if err != nil || !ok {
			return e, err
		}
		e.recs = append(e.recs, rec{r.Pos, r.Size, r.Kind, string(r.Payload)})
	}
}

// collect is a fold that remembers all batches.
func collect(into *[]entry) func(*commitlog.Batch) error {
	return func(b *commitlog.Batch) error {
		e, err := read(b)
		*into = append(*into, e)
		return err
	}
}

// tester drives a log the way an engine does, inline, and remembers what it wrote.
type tester struct {
	t         testing.TB
	fs        vfs.FS
	opts      commitlog.Options
	log       *commitlog.Log
	rec       commitlog.Recovery
	seen      []entry // by the fold of the last open
	all       []entry // what must be in the log
	next      uint64
	stateSize int // of one part, in bytes
}

func newTester(t testing.TB, fsys vfs.FS, opts commitlog.Options) *tester {
	return &tester{t: t, fs: fsys, opts: opts, stateSize: 40}
}

// open opens and recovers from the head.
func (x *tester) open() error {
	x.t.Helper()
	l, err := commitlog.Open(x.fs, logDir, logID, x.opts)
	if err != nil {
		return err
	}
	x.log, x.seen = l, nil
	x.rec, err = l.Recover(commitlog.Start{From: l.First()}, collect(&x.seen))
	return err
}

func (x *tester) mustOpen() {
	x.t.Helper()
	must(x.t, x.open())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// random is a source of chance for a seed.
func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// info is what the tester says of each batch.
func (x *tester) info(flags uint16) commitlog.BatchInfo {
	return commitlog.BatchInfo{AppendMs: 1000 + int64(x.next), LogMs: int64(x.next), BaseID: x.next, Flags: flags}
}

// batch appends a batch with records of these payload sizes; flags as for Begin.
func (x *tester) batch(flags uint16, kind commitlog.Kind, sizes ...int) error {
	n := 0
	for _, s := range sizes {
		n += commitlog.RecordHeaderSize + s
	}
	w, err := x.log.Begin(n, x.info(flags))
	if err != nil {
		return err
	}
	var e entry
	for _, s := range sizes {
		p := payload(x.next, s)
		x.next++
		w.Open(kind, 0)
		w.Buf = append(w.Buf, p...)
		pos, size := w.Close()
		e.recs = append(e.recs, rec{pos, size, kind, string(p)})
	}
	e.end = w.Finish(0)
	e.base = e.recs[0].pos - commitlog.BatchHeaderSize
	e.flags = flags
	x.remember(e)
	return nil
}

func (x *tester) remember(e entry) {
	e.crc, e.incarnation = x.log.LastCRC(), x.log.Incarnation()
	x.all = append(x.all, e)
}

// state appends the state record of a segment, in parts.
func (x *tester) state(parts int) error {
	for i := range parts {
		flags := commitlog.FlagState
		if i == parts-1 {
			flags |= commitlog.FlagStateEnd
		}
		if err := x.batch(flags, kindState, x.stateSize); err != nil {
			return err
		}
	}
	return nil
}

func (x *tester) seal() error {
	end, err := x.log.Seal(x.info(0))
	if err == nil {
		x.remember(entry{base: end - commitlog.BatchHeaderSize, end: end, flags: commitlog.FlagSeal})
	}
	return err
}

// put appends a batch, whatever must happen before.
func (x *tester) put(sizes ...int) error {
	n := 0
	for _, s := range sizes {
		n += commitlog.RecordHeaderSize + s
	}
	for {
		switch room := x.log.Room(n); room {
		case commitlog.Fits:
			return x.batch(0, kindMessage, sizes...)
		case commitlog.NeedsState:
			if err := x.state(1); err != nil {
				return err
			}
		case commitlog.NeedsSeal:
			if err := x.seal(); err != nil {
				return err
			}
		case commitlog.NotReady:
			if err := x.turn(); err != nil {
				return err
			}
		default:
			x.t.Fatalf("room is %v", room)
		}
	}
}

// turn brings the next segment.
func (x *tester) turn() error {
	if x.log.RotateNeeded() {
		if err := x.log.Rotate(); err != nil {
			return err
		}
	}
	return x.flush()
}

// flush makes all durable that can be.
func (x *tester) flush() error {
	if err := x.log.Commit(); err != nil {
		return err
	}
	_, err := x.log.Sync()
	return err
}

// fill puts batches, each made durable, until the log has n segments.
func (x *tester) fill(segments int) {
	x.t.Helper()
	for len(x.log.Segments()) < segments {
		must(x.t, x.put(300, 500))
		must(x.t, x.flush())
	}
}

// same compares batches.
func same(got, want []entry) error {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Errorf("batch %d of %d, at %d, is missing", i, len(want), want[i].base)
		case i >= len(want):
			return fmt.Errorf("batch %d at %d is too much", i, got[i].base)
		case fmt.Sprint(got[i]) != fmt.Sprint(want[i]):
			return fmt.Errorf("batch %d is %+v, want %+v", i, got[i], want[i])
		}
	}
	return nil
}

// reopen closes the log, opens it again and compares what the fold saw with what was written.
func (x *tester) reopen() {
	x.t.Helper()
	must(x.t, x.log.Close())
	x.mustOpen()
	must(x.t, same(x.seen, x.all))
}

// readAll reads every record by position.
func (x *tester) readAll() {
	x.t.Helper()
	var buf []byte
	for _, e := range x.all {
		for _, want := range e.recs {
			for _, size := range []int{want.size, 0} {
				got, b, err := x.log.ReadRecord(want.pos, size, buf)
				must(x.t, err)
				buf = b
				if string(got.Payload) != want.payload || got.Size != want.size || got.Kind != want.kind || got.Pos != want.pos {
					x.t.Fatalf("record at %d differs", want.pos)
				}
			}
		}
	}
}

// wantCorrupt checks that err names the file.
func wantCorrupt(t testing.TB, err error, file string) *corrupt.Error {
	t.Helper()
	var c *corrupt.Error
	if !errors.As(err, &c) {
		t.Fatalf("error is %v, want a *corrupt.Error", err)
	}
	if c.File != file {
		t.Fatalf("error is %v, want one for %s", err, file)
	}
	return c
}

func segName(base commitlog.Offset) string { return fmt.Sprintf("%s/%020d", logDir, base) }
