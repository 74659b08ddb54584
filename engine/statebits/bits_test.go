package statebits_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/filetest"
	"github.com/tidewheel/tidewheel/engine/statebits"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

func TestStates(t *testing.T) {
	b := open(t, newFS(), statebits.Options{}, statebits.Table{})
	ids := []uint64{0, 1, 2, 3, 4, 65_535, 65_536, 1 << 40, math.MaxUint64 - 1, math.MaxUint64}
	for _, id := range ids {
		for _, from := range states {
			for _, to := range states {
				set(t, b, id, from)
				set(t, b, id, to)
				checkGet(t, b, id, to)
			}
		}
		set(t, b, id, statebits.Regular)
	}
	for i, id := range ids {
		set(t, b, id, states[i%4])
	}
	for i, id := range ids {
		checkGet(t, b, id, states[i%4])
	}
	if err := b.Set(1, 4); err == nil {
		t.Error("state 4 was set")
	}
	checkGet(t, b, 1, statebits.Cancelled)
	for s, want := range map[statebits.State]string{0: "regular", 1: "cancelled", 2: "superseded", 3: "late and pending", 4: "State(4)"} {
		if got := s.String(); got != want {
			t.Errorf("state %d is %q", s, got)
		}
	}
}

// Where nothing was ever set there is no page, in memory or on disk.
func TestNoPageForRegular(t *testing.T) {
	disk := newFS()
	b := open(t, disk, statebits.Options{}, statebits.Table{})
	for id := range uint64(10) {
		checkGet(t, b, id*statebits.ChunkIDs, statebits.Regular)
		set(t, b, id*statebits.ChunkIDs, statebits.Regular)
	}
	if n := len(b.Table().Ranges); n != 0 || b.DirtyBytes() != 0 || len(b.Freeze()) != 0 {
		t.Errorf("%d ranges, %d dirty bytes", n, b.DirtyBytes())
	}
	set(t, b, 5, statebits.Cancelled)
	checkpoint(t, b)
	set(t, b, 5, statebits.Cancelled) // as it was
	if b.DirtyBytes() != 0 {
		t.Error("a bit set to what it was makes a page dirty")
	}
}

// Random operations against a map, through a cache of a few pages, with checkpoints, lost ones among them, and restarts.
func TestModel(t *testing.T) {
	const chunks = 12
	for seed := range uint64(12) {
		r := newRand(seed)
		disk := newFS()
		opts := statebits.Options{CacheBytes: int(1+r.IntN(4)) * statebits.PageBytes}
		b := open(t, disk, opts, statebits.Table{})
		want := make(map[uint64]statebits.State)
		closed := make(map[uint64]bool)
		chunkOf := func() uint64 { return 254 + r.Uint64N(chunks) } // two files
		for range 3000 {
			switch n := r.IntN(100); {
			case n < 55:
				id, s := first(chunkOf())+r.Uint64N(50), states[r.IntN(4)]
				if !closed[id/statebits.ChunkIDs] {
					set(t, b, id, s)
					want[id] = s
				}
			case n < 90:
				id := first(chunkOf()) + r.Uint64N(50)
				checkGet(t, b, id, want[id])
			case n < 93:
				checkpoint(t, b)
				if b.DirtyBytes() != 0 {
					t.Fatalf("%d bytes are dirty after a checkpoint", b.DirtyBytes())
				}
			case n < 94:
				b.Freeze() // the checkpoint fails
			case n < 95 && r.IntN(4) == 0:
				c := chunkOf()
				closed[c] = true
				b.CloseChunk(c)
				maps.DeleteFunc(want, func(id uint64, _ statebits.State) bool { return id/statebits.ChunkIDs == c })
			case n < 96:
				pages, table := b.Freeze(), b.Table()
				disk = disk.Kill()
				b = open(t, disk, opts, table)
				for _, p := range pages {
					if err := b.Redo(p); err != nil {
						t.Fatal(err)
					}
				}
				if err := b.Verify(); err != nil {
					t.Fatal(err)
				}
			case n < 97:
				if err := b.DeleteClosed(b.Table()); err != nil {
					t.Fatal(err)
				}
			}
		}
		for c := range uint64(chunks) {
			for id := first(254 + c); id < first(254+c)+50; id++ {
				if got, err := b.Get(id); err != nil || got != want[id] {
					t.Fatalf("seed %d: id %d is %v, %v; want %v", seed, id, got, err, want[id])
				}
			}
		}
	}
}

// Clean pages are bounded, whatever is read; the one not used for longest goes.
func TestCacheIsBounded(t *testing.T) {
	disk := newFS()
	b := open(t, disk, statebits.Options{CacheBytes: 3 * statebits.PageBytes}, statebits.Table{})
	for c := range uint64(10) {
		set(t, b, first(c), statebits.Superseded)
	}
	checkpoint(t, b)
	reads := 0
	disk.SetInject(func(o crashfs.Op) error {
		if o.Kind == crashfs.Read {
			reads++
		}
		return nil
	})
	expect := func(chunk uint64, want int) {
		t.Helper()
		reads = 0
		checkGet(t, b, first(chunk), statebits.Superseded)
		if reads != want {
			t.Errorf("chunk %d: %d reads, want %d", chunk, reads, want)
		}
	}
	for c := range uint64(4) {
		b.CloseChunk(9 - c) // whatever stayed after the checkpoint
	}
	expect(0, 2) // header and bits
	expect(1, 2)
	expect(2, 2)
	expect(0, 0)
	expect(3, 2) // pushes out 1
	expect(0, 0)
	expect(2, 0)
	expect(1, 2) // pushes out 3
	expect(3, 2)

	// A page for a digest pushes out none.
	if _, err := b.Page(5); err != nil {
		t.Fatal(err)
	}
	expect(3, 0)
	expect(1, 0)

	// A changed page is not clean: it stays, and the three others too.
	set(t, b, first(4), statebits.Cancelled)
	expect(0, 2)
	expect(1, 0)
	expect(3, 0)
	reads = 0
	checkGet(t, b, first(4), statebits.Cancelled)
	if reads != 0 {
		t.Error("a changed page was dropped")
	}
}

// What Freeze returned does not change, whatever is set afterwards.
func TestFreezeIsASnapshot(t *testing.T) {
	b := open(t, newFS(), statebits.Options{}, statebits.Table{})
	set(t, b, 1, statebits.Cancelled)
	set(t, b, first(3), statebits.Superseded)
	pages := b.Freeze()
	if len(pages) != 2 || pages[0].Chunk != 0 || pages[1].Chunk != 3 {
		t.Fatalf("%d pages", len(pages))
	}
	if n := b.DirtyBytes(); n != 2*statebits.PageBytes {
		t.Errorf("%d dirty bytes", n)
	}
	was := slices.Clone(pages[0].Data)
	set(t, b, 2, statebits.LatePending)
	set(t, b, 1, statebits.Regular)
	if !bytes.Equal(pages[0].Data, was) {
		t.Error("a frozen page changed")
	}
	if n := b.DirtyBytes(); n != 3*statebits.PageBytes {
		t.Errorf("%d dirty bytes with a copy", n)
	}
	b.Thaw(pages)
	if n := b.DirtyBytes(); n != statebits.PageBytes {
		t.Errorf("%d dirty bytes after thawing", n)
	}
	next := b.Freeze()
	if len(next) != 1 || next[0].Chunk != 0 || bytes.Equal(next[0].Data, was) {
		t.Fatalf("the next checkpoint has %d pages", len(next))
	}
	b.Thaw(next)
	if len(b.Freeze()) != 0 {
		t.Error("pages are frozen though nothing changed")
	}
}

// A checkpoint that failed: its pages come again, with what changed since, and its Thaw must not be believed.
func TestFreezeAgain(t *testing.T) {
	b := open(t, newFS(), statebits.Options{}, statebits.Table{})
	set(t, b, 1, statebits.Cancelled)
	set(t, b, first(3), statebits.Superseded)
	lost := b.Freeze()
	set(t, b, 2, statebits.LatePending)
	again := b.Freeze()
	if len(again) != 2 || b.DirtyBytes() != 2*statebits.PageBytes {
		t.Fatalf("%d pages, %d dirty bytes", len(again), b.DirtyBytes())
	}
	b.Thaw(lost[:1])
	if b.DirtyBytes() != 2*statebits.PageBytes {
		t.Error("the old page of a chunk was thawed")
	}
	b.Thaw(again)
	if b.DirtyBytes() != 0 {
		t.Errorf("%d dirty bytes", b.DirtyBytes())
	}
	checkGet(t, b, 1, statebits.Cancelled)
	checkGet(t, b, 2, statebits.LatePending)
}

func TestCloseChunk(t *testing.T) {
	disk := newFS()
	b := open(t, disk, statebits.Options{}, statebits.Table{})
	for _, c := range []uint64{0, 1, 256} {
		set(t, b, first(c)+7, statebits.Cancelled)
	}
	checkpoint(t, b)
	set(t, b, first(1), statebits.Superseded)
	pages := b.Freeze()
	set(t, b, first(1)+1, statebits.Superseded) // frozen and changed
	b.CloseChunk(1)
	checkGet(t, b, first(1)+7, statebits.Regular)
	if b.DirtyBytes() != 0 {
		t.Errorf("%d dirty bytes of a closed chunk", b.DirtyBytes())
	}
	was := filetest.Read(t, disk, file0)
	if err := b.WritePages(pages); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(filetest.Read(t, disk, file0), was) {
		t.Error("the page of a closed chunk was written")
	}
	b.Thaw(pages)
	if data, err := b.Page(1); data != nil || err != nil {
		t.Errorf("a closed chunk has a page: %v", err)
	}

	// The file goes with its last chunk, but not before a checkpoint says so.
	committed := b.Table()
	b.CloseChunk(0)
	filetest.Write(t, disk, dir+"/notes.txt", nil)
	filetest.Write(t, disk, dir+"/00000000000000000007", nil) // no first chunk of a file
	for _, c := range []struct {
		table statebits.Table
		left  []string
	}{
		{committed, []string{"00000000000000000000", "00000000000000000007", "00000000000000000256", "notes.txt"}},
		{b.Table(), []string{"00000000000000000007", "00000000000000000256", "notes.txt"}},
		{statebits.Table{}, []string{"00000000000000000007", "00000000000000000256", "notes.txt"}}, // chunk 256 is alive
	} {
		if err := b.DeleteClosed(c.table); err != nil {
			t.Fatal(err)
		}
		if got := names(t, disk); !slices.Equal(got, c.left) {
			t.Errorf("left %q, want %q", got, c.left)
		}
	}
	checkGet(t, b, first(256)+7, statebits.Cancelled)

	// The removal is durable; the file is made anew for a chunk that was never closed.
	disk = disk.Crash(newRand(1), crashfs.Policy{})
	b = open(t, disk, statebits.Options{}, b.Table())
	if got := names(t, disk); !slices.Equal(got, []string{"00000000000000000007", "00000000000000000256", "notes.txt"}) {
		t.Errorf("after a power cut: %q", got)
	}
	set(t, b, first(5), statebits.LatePending)
	checkpoint(t, b)
	b = open(t, disk, statebits.Options{}, b.Table())
	checkGet(t, b, first(5), statebits.LatePending)
}

// A file that is deleted and made again is read anew, though the old one had been open.
func TestFileMadeAgain(t *testing.T) {
	disk := newFS()
	b := open(t, disk, statebits.Options{CacheBytes: 1}, statebits.Table{})
	set(t, b, first(0), statebits.Cancelled)
	set(t, b, first(300), statebits.Cancelled)
	checkpoint(t, b)
	checkGet(t, b, first(300), statebits.Cancelled)
	checkGet(t, b, first(0), statebits.Cancelled) // opens the first file
	b.CloseChunk(0)
	if err := b.DeleteClosed(b.Table()); err != nil {
		t.Fatal(err)
	}
	set(t, b, first(1), statebits.Superseded)
	checkpoint(t, b)
	checkGet(t, b, first(300), statebits.Cancelled)
	checkGet(t, b, first(1), statebits.Superseded)
}

// A digest sees the bits and nothing else: not whether a page was ever needed, not where it is.
func TestEachPage(t *testing.T) {
	disk := newFS()
	a := open(t, disk, statebits.Options{CacheBytes: 1}, statebits.Table{})
	b := open(t, newFS(), statebits.Options{}, statebits.Table{})
	for _, c := range []uint64{7, 2, 300} {
		set(t, a, first(c)+3, statebits.Superseded)
		set(t, b, first(c)+3, statebits.Superseded)
	}
	set(t, a, first(4), statebits.LatePending)
	checkpoint(t, a)
	set(t, a, first(4), statebits.Regular)
	pages := func(x *statebits.Bits) string {
		var s bytes.Buffer
		err := x.EachPage(func(chunk uint64, data []byte) error {
			fmt.Fprintf(&s, "%d %x\n", chunk, data)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return s.String()
	}
	if pa, pb := pages(a), pages(b); pa != pb || pa == "" {
		t.Error("equal bits have other pages")
	}
	stop := errors.New("stop")
	if err := a.EachPage(func(uint64, []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	disk.SetInject(func(o crashfs.Op) error {
		if o.Kind == crashfs.Read {
			return fs.ErrPermission
		}
		return nil
	})
	if err := a.EachPage(func(uint64, []byte) error { return nil }); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v", err)
	}
}

func TestRedoRefuses(t *testing.T) {
	b := open(t, newFS(), statebits.Options{}, statebits.Table{})
	if err := b.Redo(statebits.Page{Chunk: 1, Data: make([]byte, 5)}); err == nil {
		t.Error("a page of 5 bytes")
	}
	if err := b.Redo(statebits.Page{Chunk: 1 << 48, Data: make([]byte, statebits.PageBytes)}); err == nil {
		t.Error("a chunk without ids")
	}
}

func TestRedoCopies(t *testing.T) {
	b := open(t, newFS(), statebits.Options{}, statebits.Table{})
	data := make([]byte, statebits.PageBytes)
	data[0] = 0b_11_10_01_00
	if err := b.Redo(statebits.Page{Chunk: 2, Data: data}); err != nil {
		t.Fatal(err)
	}
	clear(data)
	for i, s := range states {
		checkGet(t, b, first(2)+uint64(i), s)
	}
	if b.DirtyBytes() != statebits.PageBytes || !b.Table().Has(2) {
		t.Error("a page from a checkpoint does not count as changed")
	}
}

func TestRemoveAll(t *testing.T) {
	disk := newFS()
	b := open(t, disk, statebits.Options{}, statebits.Table{})
	set(t, b, first(0), statebits.Cancelled)
	set(t, b, first(300), statebits.Cancelled)
	checkpoint(t, b)
	b = open(t, disk, statebits.Options{}, b.Table())
	checkGet(t, b, first(0), statebits.Cancelled)
	set(t, b, first(1), statebits.Cancelled)
	if err := b.RemoveAll(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, disk); len(got) != 0 {
		t.Errorf("left %q", got)
	}
	for _, c := range []uint64{0, 1, 300} {
		checkGet(t, b, first(c), statebits.Regular)
	}
	if b.DirtyBytes() != 0 || len(b.Table().Ranges) != 0 {
		t.Errorf("%d dirty bytes, %v", b.DirtyBytes(), b.Table())
	}
	set(t, b, first(1), statebits.Superseded)
	checkpoint(t, b)
	checkGet(t, open(t, disk, statebits.Options{}, b.Table()), first(1), statebits.Superseded)
}

func TestClosed(t *testing.T) {
	b := open(t, newFS(), statebits.Options{CacheBytes: 1}, statebits.Table{})
	set(t, b, first(0), statebits.Cancelled)
	set(t, b, first(1), statebits.Cancelled)
	checkpoint(t, b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); !errors.Is(err, statebits.ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
	var err error
	for c := range uint64(2) {
		if _, e := b.Get(first(c)); e != nil {
			err = e
		}
	}
	if !errors.Is(err, statebits.ErrClosed) {
		t.Errorf("read after closing: %v", err)
	}
}

// Redo over a page that was read already, or came before, is a change as any other.
func TestRedoOverPage(t *testing.T) {
	disk := newFS()
	b := open(t, disk, statebits.Options{}, statebits.Table{})
	set(t, b, first(2), statebits.Cancelled)
	checkpoint(t, b)
	b = open(t, disk, statebits.Options{}, b.Table())
	checkGet(t, b, first(2), statebits.Cancelled)
	for _, s := range []byte{2, 3} {
		data := make([]byte, statebits.PageBytes)
		data[0] = s
		if err := b.Redo(statebits.Page{Chunk: 2, Data: data}); err != nil {
			t.Fatal(err)
		}
		checkGet(t, b, first(2), statebits.State(s))
		if b.DirtyBytes() != statebits.PageBytes {
			t.Errorf("%d dirty bytes", b.DirtyBytes())
		}
	}
}

// countFS counts open files.
type countFS struct {
	vfs.FS
	open int
}

type countFile struct {
	vfs.File
	fs *countFS
}

func (f *countFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	if err == nil {
		f.open++
	}
	return countFile{file, f}, err
}

func (f countFile) Close() error {
	f.fs.open--
	return f.File.Close()
}

func TestOpenFiles(t *testing.T) {
	fsys := &countFS{FS: newFS()}
	b := open(t, fsys, statebits.Options{CacheBytes: 1}, statebits.Table{})
	const files = 20
	for f := range uint64(files) {
		set(t, b, first(256*f), statebits.Cancelled)
	}
	checkpoint(t, b)
	if fsys.open != 0 {
		t.Errorf("%d files are open after writing", fsys.open)
	}
	for range 2 {
		for f := range uint64(files) {
			checkGet(t, b, first(256*f), statebits.Cancelled)
		}
	}
	if fsys.open != 16 {
		t.Errorf("%d files are open after reading", fsys.open)
	}
	b.CloseChunk(256 * (files - 1))
	if fsys.open != 15 {
		t.Errorf("%d files are open after the last chunk of one was closed", fsys.open)
	}
	if err := b.Close(); err != nil || fsys.open != 0 {
		t.Errorf("%d files are open after closing, %v", fsys.open, err)
	}
}
