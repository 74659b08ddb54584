package segment_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/segment"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

// flushed makes n arrays that share handles, each with cells in 3 files.
func flushed(t testing.TB, fsys vfs.FS, handles *segment.Handles, n int) []*segment.Array {
	t.Helper()
	arrays := make([]*segment.Array, n)
	for i := range arrays {
		p := params()
		p.Handles, p.Ident[1] = handles, uint64(i)
		a, err := segment.Open(fsys, fmt.Sprintf("queues/%d", i), p, segment.State{})
		if err != nil {
			t.Fatal(err)
		}
		appendTo(a, 20)
		flush(t, a, 0)
		arrays[i] = a
	}
	return arrays
}

func TestHandlesKeepTheMostRecent(t *testing.T) {
	fsys := faultfs.New(crashfs.New(crashfs.Options{}))
	handles := segment.NewHandles(3)
	arrays := flushed(t, fsys, handles, 5)
	read := func(i int) (opened int64) {
		before := fsys.Ops(faultfs.Open)
		if _, err := arrays[i].Read(0, make([]byte, cellSize)); err != nil {
			t.Fatal(err)
		}
		return fsys.Ops(faultfs.Open) - before
	}
	for _, c := range []struct {
		array  int
		opened int64
	}{
		{0, 1}, {0, 0}, {1, 1}, {2, 1}, {0, 0}, {3, 1}, // 1 goes
		{0, 0}, {2, 0}, {3, 0}, {1, 1}, // 0 goes
		{2, 0}, {3, 0}, {0, 1},
	} {
		if got := read(c.array); got != c.opened {
			t.Errorf("read of array %d opened %d files, want %d", c.array, got, c.opened)
		}
		if got := handles.Open(); got > 3 {
			t.Errorf("%d files are open", got)
		}
	}
	for _, a := range arrays {
		checkCells(t, a, 3, firstLife)
	}
	for _, a := range arrays {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := handles.Open(); got != 0 {
		t.Errorf("%d files are open after all arrays were closed", got)
	}
}

func TestHandlesGoWithTheirFiles(t *testing.T) {
	handles := segment.NewHandles(0)
	a := flushed(t, faultfs.New(crashfs.New(crashfs.Options{})), handles, 1)[0]
	checkCells(t, a, 20, firstLife)
	if got := handles.Open(); got != 3 {
		t.Fatalf("%d files are open, want 3", got)
	}
	a.Trim(17)
	if err := a.Delete(17); err != nil {
		t.Fatal(err)
	}
	if got := handles.Open(); got != 1 {
		t.Errorf("%d files are open after Delete, want 1", got)
	}
	if err := a.RemoveAll(); err != nil {
		t.Fatal(err)
	}
	if got := handles.Open(); got != 0 {
		t.Errorf("%d files are open after RemoveAll", got)
	}
}

// The array is trimmed or closed, and the file goes, while a reader is on its way to it.
func TestReadMeetsTheEndOfAFile(t *testing.T) {
	for _, c := range []struct {
		name   string
		end    func(a *segment.Array)
		answer error
		want   error
		cells  int
	}{
		{"trimmed, file gone", trimAll, fs.ErrNotExist, segment.ErrTrimmed, 0},
		{"trimmed, file there", trimAll, nil, segment.ErrTrimmed, 0},
		{"closed, file gone", closeArray, fs.ErrNotExist, segment.ErrClosed, 0},
		{"closed, file there", closeArray, nil, nil, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := crashfs.New(crashfs.Options{})
			handles := segment.NewHandles(0)
			p := params()
			p.Handles = handles
			a := open(t, disk, p, segment.State{})
			appendTo(a, 20)
			flush(t, a, 0)
			disk.SetInject(func(op crashfs.Op) error {
				if op.Kind == crashfs.Open {
					c.end(a)
					return c.answer
				}
				return nil
			})
			n, err := a.Read(3, make([]byte, cellSize))
			if n != c.cells || !errors.Is(err, c.want) {
				t.Errorf("read %d cells, %v; want %d, %v", n, err, c.cells, c.want)
			}
			if got := handles.Open(); got != 0 {
				t.Errorf("%d files stay open", got)
			}
		})
	}
}

func trimAll(a *segment.Array)    { a.Trim(a.Len()) }
func closeArray(a *segment.Array) { a.Close() }

// One writer, one job and many readers, under -race: each cell that is read is the right one, or trimmed.
func TestHammer(t *testing.T) {
	const total = 40_000
	p := params()
	p.PerFile = 500
	p.Handles = segment.NewHandles(2)
	a := open(t, crashfs.New(crashfs.Options{}), p, segment.State{})

	type result struct {
		s   segment.State
		err error
	}
	marks, results := make(chan segment.Mark), make(chan result)
	var done atomic.Bool
	var running sync.WaitGroup
	running.Go(func() { // the job
		for m := range marks {
			s, err := a.Flush(m, 10*cellSize)
			if err == nil {
				err = a.Delete(s.First - 300)
			}
			results <- result{s, err}
		}
	})
	var read atomic.Int64
	for reader := range 4 {
		running.Go(func() {
			r := rand.New(rand.NewPCG(uint64(reader), 1))
			buf := make([]byte, 700*cellSize)
			for !done.Load() {
				first, n := a.First(), a.Len()
				if n == first {
					continue
				}
				i := first + r.Int64N(n-first)
				cells, err := a.Read(i, buf[:(1+r.IntN(700))*cellSize])
				if err != nil && !errors.Is(err, segment.ErrTrimmed) {
					t.Errorf("read at %d of [%d, %d): %v", i, first, n, err)
					return
				}
				for j := range cells {
					if !bytes.Equal(buf[j*cellSize:(j+1)*cellSize], cellAt(i+int64(j), 0)) {
						t.Errorf("cell %d is %x", i+int64(j), buf[j*cellSize:(j+1)*cellSize])
						return
					}
				}
				read.Add(int64(cells))
			}
		})
	}
	busy := false
	for a.Len() < total { // the writer
		appendTo(a, a.Len()+37)
		a.Trim(a.Len() - 3000)
		if !busy {
			marks <- a.Mark()
			busy = true
			continue
		}
		select {
		case got := <-results:
			if got.err != nil {
				t.Error(got.err)
			}
			a.Installed(got.s)
			busy = false
		default:
		}
	}
	if busy {
		<-results
	}
	close(marks)
	done.Store(true)
	running.Wait()
	t.Logf("%d cells read beside %d written", read.Load(), total)
}

// hookedFS calls onRead before each read of cells.
type hookedFS struct {
	vfs.FS
	onRead func()
}

type hookedFile struct {
	vfs.File
	fsys *hookedFS
}

func (h *hookedFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := h.FS.OpenFile(name, flag, perm)
	return hookedFile{f, h}, err
}

func (h hookedFile) ReadAt(p []byte, off int64) (int, error) {
	if off > 0 && h.fsys.onRead != nil {
		h.fsys.onRead()
	}
	return h.File.ReadAt(p, off)
}

// Cells that are trimmed before they are flushed leave a hole in their file. A reader on its way, whose read takes in
// the hole, gets ErrTrimmed and not the hole's zeros.
func TestReadMeetsAHole(t *testing.T) {
	fsys := &hookedFS{FS: crashfs.New(crashfs.Options{})}
	a := open(t, fsys, params(), segment.State{})
	appendTo(a, 3)
	flush(t, a, 0)
	appendTo(a, 6)
	fsys.onRead = func() {
		fsys.onRead = nil
		a.Trim(5)
		flush(t, a, 0)
	}
	n, err := a.Read(1, make([]byte, 4*cellSize))
	if n != 0 || !errors.Is(err, segment.ErrTrimmed) {
		t.Errorf("read %d cells, %v; want 0, %v", n, err, segment.ErrTrimmed)
	}
}

// A file that is evicted, or whose array is closed, while a reader uses it is closed when the reader is done.
func TestHandlesInUseStayOpen(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, self, other *segment.Array)
		left int
	}{
		{"evicted", func(t *testing.T, self, other *segment.Array) { checkCells(t, other, 1, firstLife) }, 1},
		{"closed", func(t *testing.T, self, other *segment.Array) {
			if err := self.Close(); err != nil {
				t.Error(err)
			}
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := &hookedFS{FS: crashfs.New(crashfs.Options{})}
			handles := segment.NewHandles(1)
			arrays := flushed(t, fsys, handles, 2)
			fsys.onRead = func() {
				fsys.onRead = nil
				c.do(t, arrays[0], arrays[1])
			}
			buf := make([]byte, cellSize)
			if n, err := arrays[0].Read(3, buf); n != 1 || err != nil || !bytes.Equal(buf, cellAt(3, 0)) {
				t.Errorf("read %d cells, %x, %v", n, buf, err)
			}
			if got := handles.Open(); got != c.left {
				t.Errorf("%d files are open, want %d", got, c.left)
			}
		})
	}
}
