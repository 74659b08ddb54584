package segment_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/segment"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

const (
	cellSize   = 16
	headerSize = 64
	dir        = "queues/7/0"
)

func params() segment.Params {
	return segment.Params{Magic: [8]byte{'t', 'e', 's', 't'}, Cell: cellSize, PerFile: 8, Ident: [2]uint64{7, 1}}
}

// cellAt is the content of cell i; after a crash, cells that were lost are written with another life.
func cellAt(i int64, life uint32) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(i))
	b = binary.BigEndian.AppendUint32(b, life)
	return binary.BigEndian.AppendUint32(b, segment.Checksum(i, b))
}

func open(t testing.TB, fsys vfs.FS, p segment.Params, at segment.State) *segment.Array {
	t.Helper()
	a, err := segment.Open(fsys, dir, p, at)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// appendTo appends cells until the array has the length n.
func appendTo(a *segment.Array, n int64) {
	for i := a.Len(); i < n; i++ {
		a.Append(cellAt(i, 0))
	}
}

// checkCells reads [First, Len) in pieces of the given number of cells.
func checkCells(t testing.TB, a *segment.Array, piece int, life func(i int64) uint32) {
	t.Helper()
	buf := make([]byte, piece*cellSize)
	for i := a.First(); i < a.Len(); {
		n, err := a.Read(i, buf)
		if err != nil {
			t.Fatalf("read %d cells from %d of [%d, %d): %v", piece, i, a.First(), a.Len(), err)
		}
		if want := min(int64(piece), a.Len()-i); int64(n) != want {
			t.Fatalf("read %d cells from %d of [%d, %d), want %d", n, i, a.First(), a.Len(), want)
		}
		for j := range n {
			want := cellAt(i, life(i))
			if got := buf[j*cellSize : (j+1)*cellSize]; !bytes.Equal(got, want) {
				t.Fatalf("cell %d is %x, want %x", i, got, want)
			}
			i++
		}
	}
}

func firstLife(int64) uint32 { return 0 }

// flush makes the array durable up to now, and tells it.
func flush(t testing.TB, a *segment.Array, least int) segment.State {
	t.Helper()
	s, err := a.Flush(a.Mark(), least)
	if err != nil {
		t.Fatal(err)
	}
	a.Installed(s)
	return s
}

func wantCorrupt(t testing.TB, err error, file string, offset int64, reason string) {
	t.Helper()
	var bad *corrupt.Error
	if !errors.As(err, &bad) || bad.File != file || bad.Offset != offset || !strings.Contains(bad.Reason, reason) {
		t.Errorf("got %v; want damage of %s at byte %d: %s", err, file, offset, reason)
	}
}

func file(first int64) string { return fmt.Sprintf("%s/%020d", dir, first) }

func TestReadSpansMemoryAndFiles(t *testing.T) {
	a := open(t, crashfs.New(crashfs.Options{}), params(), segment.State{})
	for n := int64(0); n < 60; n += 7 {
		appendTo(a, n)
		if n%2 == 0 {
			flush(t, a, 0)
		}
		for _, piece := range []int{1, 3, 8, 100} {
			checkCells(t, a, piece, firstLife)
		}
	}
	for _, i := range []int64{a.Len(), a.Len() + 1, 1 << 60} {
		if n, err := a.Read(i, make([]byte, cellSize)); n != 0 || err != nil {
			t.Errorf("read beyond the end at %d: %d cells, %v", i, n, err)
		}
	}
	if n, err := a.Read(0, make([]byte, cellSize-1)); n != 0 || err != nil {
		t.Errorf("read of less than a cell: %d cells, %v", n, err)
	}
	if n, err := a.Read(-1, make([]byte, cellSize)); n != 0 || !errors.Is(err, segment.ErrTrimmed) {
		t.Errorf("read of cell -1: %d cells, %v", n, err)
	}
}

func TestTailOfManyBlocks(t *testing.T) {
	const n = 30_000 // 8 blocks of 64 KiB
	p := params()
	p.PerFile = 10_000
	a := open(t, crashfs.New(crashfs.Options{}), p, segment.State{})
	appendTo(a, n/2)
	m := a.Mark()
	appendTo(a, n)
	checkCells(t, a, 777, firstLife)
	s, err := a.Flush(m, 0)
	if err != nil {
		t.Fatal(err)
	}
	if s.Flushed != n/2 || len(s.Tail) != 0 {
		t.Fatalf("flushed up to %d with a tail of %d bytes", s.Flushed, len(s.Tail))
	}
	a.Installed(s)
	if got, want := a.Unflushed(), n/2*cellSize; got != want {
		t.Errorf("%d bytes are unflushed, want %d", got, want)
	}
	checkCells(t, a, 777, firstLife)
	appendTo(a, n+100)
	flush(t, a, 0)
	checkCells(t, a, 777, firstLife)
	if got := a.Unflushed(); got != 0 {
		t.Errorf("%d bytes are unflushed", got)
	}
}

func TestFlushLeavesLittleInTheState(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	a := open(t, fsys, params(), segment.State{})
	appendTo(a, 3)
	s := flush(t, a, 4*cellSize)
	if s.Flushed != 0 || s.Len(cellSize) != 3 {
		t.Fatalf("flushed %d, length %d", s.Flushed, s.Len(cellSize))
	}
	if fsys.Ops() != 0 {
		t.Errorf("%d operations changed files for three cells", fsys.Ops())
	}
	if got := a.Unflushed(); got != 3*cellSize {
		t.Errorf("%d bytes are unflushed", got)
	}

	// The state is all there is: what the array appends later must not show in it.
	b := open(t, fsys, params(), s)
	s.Tail[0] ^= 0xff
	checkCells(t, b, 2, firstLife)
	appendTo(b, 4)
	if s = flush(t, b, 4*cellSize); s.Flushed != 4 || len(s.Tail) != 0 {
		t.Fatalf("flushed %d with a tail of %d bytes", s.Flushed, len(s.Tail))
	}
	checkCells(t, open(t, fsys, params(), s), 3, firstLife)
}

func TestFlushTouchesNothingWhenNothingIsNew(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	a := open(t, fsys, params(), segment.State{})
	appendTo(a, 10)
	want := flush(t, a, 0)
	ops := fsys.Ops()
	if got := flush(t, a, 0); got.First != want.First || got.Flushed != want.Flushed || got.Tail != nil {
		t.Errorf("state is %+v, was %+v", got, want)
	}
	if fsys.Ops() != ops {
		t.Errorf("%d operations for nothing", fsys.Ops()-ops)
	}
}

// A checkpoint that was flushed but could not be written must not be flushed again in place: one of its copies may
// stand, and refer to the cells.
func TestFlushGoesOnWhereTheLastOneEnded(t *testing.T) {
	fsys := faultfs.New(crashfs.New(crashfs.Options{}))
	a := open(t, fsys, params(), segment.State{})
	appendTo(a, 6)
	if _, err := a.Flush(a.Mark(), 0); err != nil { // never installed
		t.Fatal(err)
	}
	appendTo(a, 7)
	s, err := a.Flush(a.Mark(), 2*cellSize)
	if err != nil {
		t.Fatal(err)
	}
	if s.Flushed != 6 || s.Len(cellSize) != 7 {
		t.Errorf("flushed %d, length %d, want 6 and 7", s.Flushed, s.Len(cellSize))
	}
	if got := fsys.Ops(faultfs.Write); got != 2 { // the header and the first six cells
		t.Errorf("%d writes, want 2", got)
	}
	checkCells(t, a, 3, firstLife)
}

func TestMarkFreezesTheLength(t *testing.T) {
	a := open(t, crashfs.New(crashfs.Options{}), params(), segment.State{})
	appendTo(a, 5)
	m := a.Mark()
	appendTo(a, 500)
	if m.Len() != 5 {
		t.Errorf("mark at %d, want 5", m.Len())
	}
	s, err := a.Flush(m, 0)
	if err != nil {
		t.Fatal(err)
	}
	if s.Len(cellSize) != 5 {
		t.Errorf("state of length %d, want 5", s.Len(cellSize))
	}
	a.Installed(s)
	checkCells(t, a, 33, firstLife)
}

func TestOpenStartsAnywhere(t *testing.T) {
	for _, n := range []int64{1, 7, 8, 9, 1_000_003} {
		fsys := crashfs.New(crashfs.Options{})
		a := open(t, fsys, params(), segment.State{First: n, Flushed: n})
		if a.First() != n || a.Len() != n {
			t.Fatalf("bounds are [%d, %d), want %d", a.First(), a.Len(), n)
		}
		appendTo(a, n+20)
		s := flush(t, a, 0)
		if err := a.Verify(); err != nil {
			t.Error(err)
		}
		b := open(t, fsys, params(), s)
		checkCells(t, b, 5, firstLife)
		if err := b.Verify(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		p    func(*segment.Params)
		at   segment.State
	}{
		{"no cell", func(p *segment.Params) { p.Cell = 0 }, segment.State{}},
		{"huge cell", func(p *segment.Params) { p.Cell = 4097 }, segment.State{}},
		{"no cells per file", func(p *segment.Params) { p.PerFile = 0 }, segment.State{}},
		{"negative first", nil, segment.State{First: -1}},
		{"first above flushed", nil, segment.State{First: 3, Flushed: 2}},
		{"part of a cell", nil, segment.State{Tail: make([]byte, cellSize+1)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := params()
			if c.p != nil {
				c.p(&p)
			}
			if _, err := segment.Open(crashfs.New(crashfs.Options{}), dir, p, c.at); err == nil {
				t.Error("should be refused")
			}
		})
	}
}

func TestTrimAndDelete(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	a := open(t, fsys, params(), segment.State{})
	appendTo(a, 30)
	flush(t, a, 0)
	checkCells(t, a, 4, firstLife)
	a.Trim(17)
	a.Trim(3) // never back
	if a.First() != 17 {
		t.Fatalf("first is %d", a.First())
	}
	if _, err := a.Read(16, make([]byte, cellSize)); !errors.Is(err, segment.ErrTrimmed) {
		t.Errorf("read below first: %v", err)
	}
	names := func() (list []string) {
		infos, err := fsys.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range infos {
			list = append(list, strings.TrimLeft(info.Name, "0"))
		}
		return list
	}
	if got := fmt.Sprint(names()); got != "[ 8 16 24]" {
		t.Errorf("files before Delete: %s", got)
	}
	if err := a.Delete(15); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(names()); got != "[8 16 24]" {
		t.Errorf("files after Delete(15): %s", got)
	}
	if err := a.Delete(1000); err != nil { // First bounds it
		t.Fatal(err)
	}
	if got := fmt.Sprint(names()); got != "[16 24]" {
		t.Errorf("files after Delete: %s", got)
	}
	if err := a.Verify(); err != nil {
		t.Error(err)
	}
	checkCells(t, a, 4, firstLife)
}

func TestTrimBeyondWhatWasFlushed(t *testing.T) {
	for _, first := range []int64{21, 22, 24, 25, 29, 30} {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			fsys := crashfs.New(crashfs.Options{})
			a := open(t, fsys, params(), segment.State{})
			appendTo(a, 21)
			flush(t, a, 0)
			appendTo(a, 30)
			a.Trim(first)
			if got, want := a.Unflushed(), int(30-first)*cellSize; got != want {
				t.Errorf("%d bytes unflushed, want %d", got, want)
			}
			s := flush(t, a, 0)
			if s.First != first || s.Flushed != 30 || len(s.Tail) != 0 {
				t.Fatalf("state %+v", s)
			}
			if err := a.Delete(first); err != nil {
				t.Fatal(err)
			}
			appendTo(a, 40)
			checkCells(t, a, 3, firstLife)
			s = flush(t, a, 0)
			if err := a.Verify(); err != nil {
				t.Error(err)
			}
			b := open(t, fsys, params(), s)
			if err := b.Verify(); err != nil {
				t.Error(err)
			}
			checkCells(t, b, 3, firstLife)
		})
	}
}

func TestDeleteIsDurableAndLooksOnce(t *testing.T) {
	disk := crashfs.New(crashfs.Options{})
	fsys := faultfs.New(disk)
	a := open(t, fsys, params(), segment.State{})
	appendTo(a, 30)
	flush(t, a, 0)
	for _, first := range []int64{3, 20, 22} {
		a.Trim(first)
		if err := a.Delete(first); err != nil {
			t.Fatal(err)
		}
	}
	if got := fsys.Ops(faultfs.ReadDir); got != 1 {
		t.Errorf("listed %d times, want 1: only Delete(20) has something to find", got)
	}
	after := disk.Crash(newRand(1), crashfs.Policy{})
	for _, first := range []int64{0, 8} {
		if _, err := after.Stat(file(first)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("file %d is back after a power cut: %v", first, err)
		}
	}
}

// The cells of a file were all trimmed when the checkpoint was written, but its older copy may refer to them.
func TestFlushKeepsTrimmedCellsOfAFile(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	a := open(t, fsys, params(), segment.State{})
	appendTo(a, 12)
	older := flush(t, a, 0)
	a.Trim(12)
	newer := flush(t, a, 0)
	if newer.First != 12 || newer.Flushed != 12 {
		t.Fatalf("state %+v", newer)
	}
	a = open(t, fsys, params(), newer)
	appendTo(a, 20)
	flush(t, a, 0)
	b := open(t, fsys, params(), older)
	if err := b.Verify(); err != nil {
		t.Error(err)
	}
	checkCells(t, b, 5, firstLife)
}

func TestMemoryOfFlushedCellsGoes(t *testing.T) {
	const n = 500_000 // 8 MB
	a := open(t, crashfs.New(crashfs.Options{}), params(), segment.State{})
	before := heap()
	appendTo(a, n)
	if got := heap() - before; got < n*cellSize {
		t.Fatalf("%d cells take %d bytes, which cannot be", n, got)
	}
	a.Trim(n - 10_000)
	if got := heap() - before; got > 400_000 {
		t.Errorf("10,000 cells take %d bytes", got)
	}
	a.Trim(n - 10)
	if got := heap() - before; got > 10_000 {
		t.Errorf("10 cells take %d bytes", got)
	}
	checkCells(t, a, 3, firstLife)
	runtime.KeepAlive(a)
}

// heap is how many bytes are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestDeleteRemovesWhatCameBack(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	a := open(t, fsys, params(), segment.State{})
	appendTo(a, 30)
	a.Trim(20)
	s := flush(t, a, 0)
	for _, name := range []string{file(0), file(8), dir + "/note"} {
		f, err := fsys.OpenFile(name, createFlags, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	a = open(t, fsys, params(), s)
	if err := a.Delete(s.First); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file(0), file(8)} {
		if _, err := fsys.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", name, err)
		}
	}
	for _, name := range []string{file(16), dir + "/note"} {
		if _, err := fsys.Stat(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a crash left beyond the flushed cells counts for nothing: it is not read, and is overwritten.
func TestStaleCellsAreNeverRead(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	a := open(t, fsys, params(), segment.State{})
	appendTo(a, 5)
	s := flush(t, a, 0)
	appendTo(a, 20)
	if _, err := a.Flush(a.Mark(), 0); err != nil { // and then the power fails, before the checkpoint
		t.Fatal(err)
	}
	fsys = fsys.Kill()
	a = open(t, fsys, params(), s)
	if a.Len() != 5 {
		t.Fatalf("length is %d", a.Len())
	}
	life := func(i int64) uint32 {
		if i < 5 {
			return 0
		}
		return 1
	}
	for i := int64(5); i < 12; i++ {
		a.Append(cellAt(i, 1))
		checkCells(t, a, 3, life)
	}
	s = flush(t, a, 0)
	checkCells(t, a, 3, life)
	checkCells(t, open(t, fsys, params(), s), 3, life)
}

func TestReadErrorIsNotDamage(t *testing.T) {
	for _, op := range []faultfs.Op{faultfs.Open, faultfs.Read} {
		t.Run(string(op), func(t *testing.T) {
			fsys := faultfs.New(crashfs.New(crashfs.Options{}))
			a := open(t, fsys, params(), segment.State{})
			appendTo(a, 20)
			flush(t, a, 0)
			fsys.Add(faultfs.Rule{Op: op, Err: syscall.EMFILE})
			_, err := a.Read(0, make([]byte, cellSize))
			if !errors.Is(err, syscall.EMFILE) || errors.Is(err, corrupt.ErrCorrupt) {
				t.Errorf("got %v", err)
			}
			checkCells(t, a, 20, firstLife) // the next try is as good as any
		})
	}
}

func TestRemoveAll(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	a := open(t, fsys, params(), segment.State{})
	appendTo(a, 20)
	flush(t, a, 0)
	checkCells(t, a, 20, firstLife)
	if err := a.RemoveAll(); err != nil {
		t.Fatal(err)
	}
	if _, err := fsys.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is there: %v", err)
	}
	if err := a.RemoveAll(); err != nil {
		t.Errorf("again: %v", err)
	}
	if _, err := a.Read(0, make([]byte, cellSize)); !errors.Is(err, segment.ErrClosed) {
		t.Errorf("read: %v", err)
	}
	if _, err := a.Flush(a.Mark(), 0); !errors.Is(err, segment.ErrClosed) {
		t.Errorf("flush: %v", err)
	}
	if err := open(t, fsys, params(), segment.State{}).RemoveAll(); err != nil {
		t.Errorf("of an array without files: %v", err)
	}
	after := fsys.Crash(newRand(1), crashfs.Policy{})
	if _, err := after.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is back after a power cut: %v", err)
	}
}

func TestCloseTwice(t *testing.T) {
	a := open(t, crashfs.New(crashfs.Options{}), params(), segment.State{})
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := a.Close(); !errors.Is(err, segment.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
}

// Ten thousand idle queues must not cost more than a few megabytes.
func TestIdleArrayIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(segment.Array{}); size > 300 {
		t.Errorf("an array takes %d bytes", size)
	}
	const arrays = 2000
	fsys := crashfs.New(crashfs.Options{})
	handles := segment.NewHandles(0)
	list := make([]*segment.Array, arrays)
	before := heap()
	for i := range list {
		p := params()
		p.Handles = handles
		list[i] = open(t, fsys, p, segment.State{})
		appendTo(list[i], 300)
		list[i].Trim(290)
		list[i].Trim(300)
	}
	if per := (heap() - before) / arrays; per > 300 {
		t.Errorf("an idle array takes %d bytes", per)
	}
	for _, a := range list { // a few cells that are in no file
		appendTo(a, 304)
	}
	if per := (heap() - before) / arrays; per > 600 {
		t.Errorf("an array with four cells takes %d bytes", per)
	}
	runtime.KeepAlive(list)
}

func TestAppendDoesNotAllocate(t *testing.T) {
	a := open(t, crashfs.New(crashfs.Options{}), params(), segment.State{})
	cell := cellAt(0, 0)
	appendTo(a, 5000)
	got := testing.AllocsPerRun(100, func() {
		for range 1000 {
			a.Append(cell)
		}
	})
	if got > 1 { // a block and its place in the list, every 4,096 cells
		t.Errorf("%.2f allocations for 1000 cells", got)
	}
}
