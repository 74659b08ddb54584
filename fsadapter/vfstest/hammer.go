package vfstest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// parallel runs fn in n goroutines, which start as close together as can be, and waits for them.
func parallel(n int, fn func(i int)) {
	var wg sync.WaitGroup
	var ready atomic.Int32
	for i := range n {
		wg.Go(func() {
			for ready.Add(1); int(ready.Load()) < n; {
				runtime.Gosched()
			}
			fn(i)
		})
	}
	wg.Wait()
}

var hammerCases = []testCase{
	{"HammerReadAt_row4", func(t *tester) {
		const block, blocks = 512, 64
		w := t.create("f", "")
		for i := range blocks {
			t.write(w, string(bytes.Repeat([]byte{byte(i)}, block)), int64(i)*block)
		}
		f := t.open("f", os.O_RDONLY)
		parallel(4, func(g int) {
			p := make([]byte, block)
			for k := range 500 {
				i := (k*7 + g*13) % blocks
				if n, err := f.ReadAt(p, int64(i)*block); err != nil || n != block {
					t.Errorf("ReadAt of block %d: %d, %v", i, n, err)
					return
				}
				if p[0] != byte(i) || !bytes.Equal(p[1:], p[:block-1]) {
					t.Errorf("block %d reads as %d…", i, p[0])
					return
				}
			}
		})
	}},
	{"HammerReadAtBesideWriteAt", func(t *tester) {
		const block, blocks = 256, 200
		f := t.create("f", "")
		var written atomic.Int64 // blocks that readers may look at
		parallel(3, func(g int) {
			if g == 0 {
				for i := range blocks {
					if _, err := f.WriteAt(bytes.Repeat([]byte{byte(i)}, block), int64(i)*block); err != nil {
						t.Error(err)
					}
					written.Store(int64(i) + 1)
				}
				return
			}
			p := make([]byte, block)
			for k := range 600 {
				n := written.Load()
				if n == 0 {
					continue
				}
				i := int64(k*31+g) % n
				if _, err := f.ReadAt(p, i*block); err != nil || p[0] != byte(i) || !bytes.Equal(p[1:], p[:block-1]) {
					t.Errorf("block %d of %d reads as %d…, %v", i, n, p[0], err)
					return
				}
			}
		})
	}},
	{"HammerExclusiveCreate_row7", func(t *tester) {
		for round := range 50 {
			var winners atomic.Int32
			parallel(4, func(int) {
				f, err := t.fs.OpenFile(fmt.Sprint("f", round), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
				switch {
				case err == nil:
					winners.Add(1)
					if err := f.Close(); err != nil {
						t.Error(err)
					}
				case !errors.Is(err, fs.ErrExist):
					t.Error(err)
				}
			})
			if n := winners.Load(); n != 1 {
				t.Fatalf("round %d: %d winners", round, n)
			}
		}
	}},
	{"HammerRename_row14", func(t *tester) {
		for round := range 50 {
			t.put("from", fmt.Sprint(round))
			var winners atomic.Int32
			parallel(4, func(g int) {
				err := t.fs.Rename("from", fmt.Sprint("to", g))
				switch {
				case err == nil:
					winners.Add(1)
				case !errors.Is(err, fs.ErrNotExist):
					t.Error(err)
				}
			})
			if n := winners.Load(); n != 1 {
				t.Fatalf("round %d: %d winners", round, n)
			}
		}
	}},
	{"HammerTree", func(t *tester) {
		parallel(4, func(g int) {
			dir := fmt.Sprint("d", g)
			for range 20 {
				if err := churn(t.fs, dir); err != nil {
					t.Error(err)
					return
				}
			}
		})
		t.wantList(".")
	}},
	{"HammerCloseBesideReadAt", func(t *tester) {
		t.put("f", "abc")
		for range 20 {
			f := t.open("f", os.O_RDONLY)
			parallel(3, func(g int) {
				if g == 0 {
					if err := f.Close(); err != nil {
						t.Error(err)
					}
					return
				}
				p := make([]byte, 3)
				if _, err := f.ReadAt(p, 0); err == nil && string(p) != "abc" {
					t.Errorf("read %q", p)
				} else if err != nil && !errors.Is(err, fs.ErrClosed) {
					t.Error(err)
				}
			})
		}
	}},
}

// churn makes a directory with a file, moves the file, looks, and removes all of it.
func churn(fsys vfs.FS, dir string) error {
	if err := fsys.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := fsys.OpenFile(dir+"/a", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt([]byte(dir), 0); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := fsys.Rename(dir+"/a", dir+"/b"); err != nil {
		return err
	}
	list, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(list) != 1 || list[0] != (vfs.Info{Name: "b", Size: int64(len(dir))}) {
		return fmt.Errorf("%s lists %v", dir, list)
	}
	if err := fsys.Remove(dir + "/b"); err != nil {
		return err
	}
	return fsys.Remove(dir)
}
