package segment

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Bounds of what an array may be asked for. They keep every product of a size and an index inside int64.
const (
	maxIndex   = int64(1) << 62
	maxCell    = 4096
	maxPerFile = math.MaxInt32
	maxTail    = 1 << 30 // bytes of a State's Tail
)

// Params describe an array. They must be the same each time it is opened.
type Params struct {
	Magic   [8]byte   // kind of array
	Cell    int       // bytes of a cell, 1 to 4096
	PerFile int       // cells of a file, 1 to 2^31 - 1
	Ident   [2]uint64 // names the array among those of its kind
	Handles *Handles  // shared by many arrays; nil: one of its own, of 4 files
}

// Array is the array of cells. One goroutine, the writer, calls Append, Mark, Installed, Trim and Unflushed; one job at
// a time calls Flush, Delete, Files, Verify and RemoveAll; any goroutine calls First, Len and Read. The owner calls
// Close when nobody else uses the array.
type Array struct {
	fsys vfs.FS // set by Open, then read-only
	dir  string // set by Open, then read-only
	p    Params // set by Open, then read-only

	// Invariant: first <= length, and cells [first, length) are in tail or in files: in tail from its first index on,
	// in files below it, and all of them in files when tail is nil. The writer stores a cell, then tail, then length;
	// a reader loads length, then tail: it finds the cell there, or the tail has since moved on and the file has it.
	first  atomic.Int64
	length atomic.Int64
	tail   atomic.Pointer[tail]
	closed atomic.Bool

	// owned by the writer
	room    []byte // unused end of the last block
	flushed int64  // cells below are in files, as Installed was told

	// owned by the job
	durable int64 // cells [max(held, first), durable) are in synced files; it runs ahead of flushed until Installed
	held    int64 // First at Open
	deleted int64 // no file below this index; -1 before the first look
	failed  error // of the first failed sync
	hasDir  bool  // the directory and those above it are durable
}

// Open returns the array in the directory dir as a checkpoint knew it. It touches no file: what is missing or damaged
// shows in Verify and Read. The State's Tail is copied.
func Open(fsys vfs.FS, dir string, p Params, at State) (*Array, error) {
	if p.Cell < 1 || p.Cell > maxCell || p.PerFile < 1 || p.PerFile > maxPerFile {
		return nil, fmt.Errorf("segment: open %s: cells of %d bytes, %d per file", dir, p.Cell, p.PerFile)
	}
	if err := at.check(p.Cell); err != nil {
		return nil, fmt.Errorf("segment: open %s: %w", dir, err)
	}
	if p.Handles == nil {
		p.Handles = NewHandles(4)
	}
	a := &Array{
		fsys: fsys, dir: dir, p: p,
		flushed: at.Flushed, durable: at.Flushed, held: at.First, deleted: -1,
	}
	a.first.Store(at.First)
	a.length.Store(at.Flushed)
	for b := at.Tail; len(b) > 0; b = b[p.Cell:] {
		a.Append(b[:p.Cell])
	}
	return a, nil
}

// Append adds a cell, in memory. Its length must be that of a cell; it is copied.
func (a *Array) Append(cell []byte) {
	if len(a.room) == 0 {
		a.makeRoom()
	}
	copy(a.room[:a.p.Cell], cell)
	a.room = a.room[a.p.Cell:]
	a.length.Add(1)
}

// First is the lowest index that Read answers.
func (a *Array) First() int64 { return a.first.Load() }

// Len is one more than the highest index.
func (a *Array) Len() int64 { return a.length.Load() }

// Unflushed is the number of bytes of cells that no installed checkpoint has in a file.
func (a *Array) Unflushed() int {
	return int(a.length.Load()-max(a.flushed, a.first.Load())) * a.p.Cell
}

// Read copies cells from index i into dst, as many as there are and fit, and returns how many: 0 at the array's end
// and beyond. Below First the error is ErrTrimmed. A file that is missing, too short or not the array's is a
// *corrupt.Error. With an error, cells counts the good ones before it.
func (a *Array) Read(i int64, dst []byte) (cells int, err error) {
	n := a.length.Load()
	if i < a.first.Load() {
		return 0, ErrTrimmed
	}
	want := int(min(int64(len(dst)/a.p.Cell), n-i))
	for cells < want {
		got, err := a.readPart(i+int64(cells), dst[cells*a.p.Cell:want*a.p.Cell])
		cells += got
		if err != nil {
			return cells, err
		}
	}
	return cells, nil
}

// readPart copies cells from index i that are all in memory or all in one file. dst ends within the array.
func (a *Array) readPart(i int64, dst []byte) (cells int, err error) {
	end := i + int64(len(dst)/a.p.Cell)
	if t := a.tail.Load(); t != nil {
		if i >= t.first {
			t.copyTo(dst, i, &a.p)
			return len(dst) / a.p.Cell, nil
		}
		end = min(end, t.first)
	}
	if a.closed.Load() {
		return 0, ErrClosed
	}
	first := a.fileOf(i)
	end = min(end, first+int64(a.p.PerFile))
	n, err := a.readFile(first, i, dst[:int(end-i)*a.p.Cell])
	switch {
	case i < a.first.Load():
		// While we looked the file may have gone, or have got a hole where cells were trimmed before they were flushed.
		return 0, ErrTrimmed
	case err != nil && a.closed.Load():
		err = ErrClosed
	}
	return n / a.p.Cell, err
}

// readFile fills dst from index i on out of the file that begins at first.
func (a *Array) readFile(first, i int64, dst []byte) (n int, err error) {
	h, err := a.p.Handles.acquire(a, first)
	if err != nil {
		return 0, err
	}
	defer a.p.Handles.release(h)
	at := a.offset(i)
	n, err = h.file.ReadAt(dst, at)
	switch {
	case n == len(dst):
		return n, nil
	case err == nil || errors.Is(err, io.EOF):
		return n, corrupt.Errorf(a.path(first), at+int64(n), "the file ends where cell %d was flushed",
			i+int64(n/a.p.Cell))
	}
	return n, fmt.Errorf("segment: read cell %d: %w", i, err)
}

// Locate says which byte of which file cell i is at, once it is flushed: for the error of who finds it damaged.
func (a *Array) Locate(i int64) (file string, offset int64) {
	return a.path(a.fileOf(i)), a.offset(i)
}

// fileOf is the index of the first cell of the file that holds cell i.
func (a *Array) fileOf(i int64) int64 { return i - i%int64(a.p.PerFile) }

// offset is where cell i is in its file.
func (a *Array) offset(i int64) int64 {
	return headerSize + i%int64(a.p.PerFile)*int64(a.p.Cell)
}

func (a *Array) path(first int64) string { return a.dir + "/" + fileName(first) }

// Trim gives up the cells below first; it never takes back and does not go beyond Len. Their files stay until Delete.
func (a *Array) Trim(first int64) {
	first = min(first, a.length.Load())
	if first <= a.first.Load() {
		return
	}
	a.first.Store(first)
	a.forget(first)
}

// Installed tells the array that a checkpoint with the state s, which came from Flush, is durable: the memory of cells
// below s.Flushed goes.
func (a *Array) Installed(s State) {
	a.flushed = max(a.flushed, s.Flushed)
	a.forget(a.flushed)
}

// Close closes the array's files. It writes nothing. A second Close returns ErrClosed.
func (a *Array) Close() error {
	if a.closed.Swap(true) {
		return ErrClosed
	}
	a.p.Handles.drop(a, math.MaxInt64)
	return nil
}
