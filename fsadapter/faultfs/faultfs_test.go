package faultfs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// call is one operation, and its kind.
type call struct {
	op   faultfs.Op
	name string
	run  func() error
}

// calls makes one call of each kind on f, in an order that works. The file they are about stays open until the last.
func calls(f *faultfs.FS) []call {
	var h vfs.File
	open := func(flag int) func() error {
		return func() error {
			g, err := f.OpenFile("d/f", flag, 0o600)
			if err != nil {
				return err
			}
			if h == nil {
				h = g
				return nil
			}
			return g.Close()
		}
	}
	onFile := func(fn func() error) func() error {
		return func() error {
			if h == nil {
				return fs.ErrClosed
			}
			return fn()
		}
	}
	return []call{
		{faultfs.Mkdir, "d", func() error { return f.MkdirAll("d", 0o700) }},
		{faultfs.Create, "d/f", open(os.O_RDWR | os.O_CREATE)},
		{faultfs.Open, "d/f", open(os.O_RDONLY)},
		{faultfs.Write, "d/f", onFile(func() error { _, err := h.WriteAt([]byte("abc"), 0); return err })},
		{faultfs.Read, "d/f", onFile(func() error { _, err := h.ReadAt(make([]byte, 3), 0); return err })},
		{faultfs.Stat, "d/f", onFile(func() error { _, err := h.Size(); return err })},
		{faultfs.Truncate, "d/f", onFile(func() error { return h.Truncate(2) })},
		{faultfs.Preallocate, "d/f", onFile(func() error { return vfs.Preallocate(h, 10) })},
		{faultfs.Sync, "d/f", onFile(func() error { return h.Sync() })},
		{faultfs.Sync, "d/f", onFile(func() error { return vfs.SyncData(h) })},
		{faultfs.SyncDir, "d", func() error { return vfs.SyncDir(f, "d") }},
		{faultfs.Stat, "d/f", func() error { _, err := f.Stat("d/f"); return err }},
		{faultfs.ReadDir, "d", func() error { _, err := f.ReadDir("d"); return err }},
		{faultfs.Lock, "LOCK", func() error { _, err := vfs.Lock(f, "LOCK"); return err }},
		{faultfs.Free, ".", func() error { _, err := vfs.Free(f); return err }},
		{faultfs.Rename, "d/g", func() error { return f.Rename("d/f", "d/g") }},
		{faultfs.Remove, "d/g", func() error { return f.Remove("d/g") }},
	}
}

func newFS(rules ...faultfs.Rule) *faultfs.FS {
	return faultfs.New(crashfs.New(crashfs.Options{}), rules...)
}

// Without a rule all works, and is counted.
func TestCounts(t *testing.T) {
	f := newFS()
	list := calls(f)
	kinds := map[faultfs.Op]int64{}
	for i, c := range list {
		must(t, c.run())
		kinds[c.op]++
		if n := f.Ops(); n != int64(i)+1 {
			t.Fatalf("%d operations after %v", n, c.op)
		}
	}
	for op, want := range kinds {
		if n := f.Ops(op); n != want {
			t.Errorf("%d of kind %s, want %d", n, op, want)
		}
	}
	if n := f.Ops(faultfs.Sync, faultfs.SyncDir); n != 3 {
		t.Errorf("%d syncs", n)
	}
	if n := f.Ops(faultfs.Any); n != int64(len(list)) {
		t.Errorf("%d of any kind", n)
	}
	if n := f.Changes(); n != 11 {
		t.Errorf("%d changes", n)
	}
	if n := f.Fired(); n != 0 {
		t.Errorf("%d failed", n)
	}
}

// The sweep: each operation fails alone; and from each on all fail.
func TestSweep(t *testing.T) {
	n := len(calls(newFS()))
	for i := 1; i <= n; i++ {
		f := newFS(faultfs.Rule{Nth: int64(i), Err: syscall.EMFILE})
		for k, c := range calls(f) {
			err := c.run()
			if failed := errors.Is(err, syscall.EMFILE); failed != (k+1 == i) {
				t.Errorf("rule %d, operation %d (%s): %v", i, k+1, c.op, err)
			}
			if k+1 == i {
				var pathErr *fs.PathError
				if !errors.As(err, &pathErr) || pathErr.Op != string(c.op) || pathErr.Path != c.name {
					t.Errorf("operation %s: error %#v", c.op, err)
				}
				break // what follows may need it
			}
		}
		if f.Fired() != 1 {
			t.Errorf("rule %d fired %d times", i, f.Fired())
		}

		f = newFS(faultfs.Rule{Nth: int64(i), Sticky: true})
		for k, c := range calls(f) {
			err := c.run()
			if want := k+1 >= i; want != (err != nil) {
				t.Errorf("from %d on, operation %d (%s): %v", i, k+1, c.op, err)
			}
		}
	}
}

func TestRules(t *testing.T) {
	names := []string{"log/1", "log/2", "queue/1", "top"}
	for _, c := range []struct {
		rule  faultfs.Rule
		fails []string // of: write names, sync names, write names
		text  string
	}{
		{faultfs.Rule{}, []string{"write log/1"}, "any 1: input/output error"},
		{faultfs.Rule{Op: faultfs.Sync}, []string{"sync log/1"}, "sync 1: input/output error"},
		{faultfs.Rule{Op: faultfs.Sync, Nth: 2}, []string{"sync log/2"}, "sync 2: input/output error"},
		{faultfs.Rule{Op: faultfs.Sync, Nth: 3, Sticky: true, Err: vfs.ErrNoSpace}, []string{"sync queue/1", "sync top"},
			"sync 3 and on: vfs: no space left on device"},
		{faultfs.Rule{Path: "log/*", Nth: 2, Sticky: true}, []string{"write log/2", "sync log/1", "sync log/2", "write log/1", "write log/2"},
			"any 2 and on of log/*: input/output error"},
		{faultfs.Rule{Path: "1", Sticky: true, Op: faultfs.Write}, []string{"write log/1", "write queue/1", "write log/1", "write queue/1"},
			"write 1 and on of 1: input/output error"},
		{faultfs.Rule{Path: "t*", Nth: 2}, []string{"sync top"}, "any 2 of t*: input/output error"},
		{faultfs.Rule{Path: "*/[23]", Nth: 3}, []string{"write log/2"}, "any 3 of */[23]: input/output error"},
		{faultfs.Rule{Op: faultfs.Read, Sticky: true}, nil, "read 1 and on: input/output error"},
		{faultfs.Rule{Changes: true, Nth: 5}, []string{"sync log/1"}, "change 5: input/output error"},
		{faultfs.Rule{Nth: 13}, nil, "any 13: input/output error"},
		{faultfs.Rule{Op: faultfs.Write, Short: 7, After: true}, []string{"write log/1"}, "write 1: input/output error after 7 bytes, but done"},
	} {
		t.Run(c.text, func(t *testing.T) {
			if got := c.rule.String(); got != c.text {
				t.Errorf("it prints as %q", got)
			}
			f := newFS()
			must(t, f.MkdirAll("log", 0o700))
			must(t, f.MkdirAll("queue", 0o700))
			files := map[string]vfs.File{}
			for _, name := range names {
				h, err := f.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
				must(t, err)
				files[name] = h
			}
			f.Add(c.rule)
			var fails []string
			try := func(what string, fn func(h vfs.File) error) {
				for _, name := range names {
					if fn(files[name]) != nil {
						fails = append(fails, what+" "+name)
					}
				}
			}
			write := func(h vfs.File) error { _, err := h.WriteAt([]byte("x"), 0); return err }
			try("write", write)
			try("sync", vfs.File.Sync)
			try("write", write)
			if !slices.Equal(fails, c.fails) {
				t.Errorf("failed: %q\nwant    %q", fails, c.fails)
			}
			f.Clear()
			for _, name := range names {
				must(t, write(files[name]))
			}
		})
	}
}

func TestFirstRuleDecidesAndAllCount(t *testing.T) {
	f := newFS(
		faultfs.Rule{Op: faultfs.Mkdir, Nth: 2, Err: syscall.EIO},
		faultfs.Rule{Nth: 2, Err: syscall.EMFILE, Sticky: true})
	for i, want := range []error{nil, syscall.EIO, syscall.EMFILE} {
		if err := f.MkdirAll(fmt.Sprint(i), 0o700); !errors.Is(err, want) {
			t.Errorf("%d: %v, want %v", i, err, want)
		}
	}
}

func TestBadPatternPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	newFS(faultfs.Rule{Path: "["})
}

// A failed operation does not reach the file system inside, unless it is to be done all the same.
func TestAfter(t *testing.T) {
	for i, c := range calls(newFS()) {
		for _, after := range []bool{false, true} {
			inner := crashfs.New(crashfs.Options{})
			f := faultfs.New(inner, faultfs.Rule{Nth: int64(i) + 1, After: after})
			list := calls(f)
			for _, before := range list[:i] {
				must(t, before.run())
			}
			n := inner.Ops()
			if err := list[i].run(); !errors.Is(err, syscall.EIO) {
				t.Errorf("%s: %v", c.op, err)
			}
			changed := inner.Ops() - n
			switch c.op {
			case faultfs.Open, faultfs.Read, faultfs.Stat, faultfs.ReadDir, faultfs.Free:
				after = false
			}
			if want := map[bool]int64{true: 1}[after]; changed != want {
				t.Errorf("%s: %d changes inside, want %d", c.op, changed, want)
			}
			if c.op == faultfs.Lock && after {
				if _, err := inner.Lock("LOCK"); err != nil {
					t.Error("a lock that nobody holds:", err)
				}
			}
		}
	}
}

func TestShortWrites(t *testing.T) {
	f := newFS()
	h, err := f.OpenFile("f", os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	for _, c := range []struct {
		rule faultfs.Rule
		want string
	}{
		{faultfs.Rule{Short: 2, Err: vfs.ErrNoSpace}, "ab"},
		{faultfs.Rule{Short: 100, Err: vfs.ErrNoSpace}, "abcd"},
		{faultfs.Rule{Short: -1, Err: vfs.ErrNoSpace}, ""},
		{faultfs.Rule{After: true, Err: vfs.ErrNoSpace}, "abcd"},
	} {
		f.Clear()
		must(t, h.Truncate(0))
		f.Add(c.rule)
		n, err := h.WriteAt([]byte("abcd"), 0)
		if n != len(c.want) || !errors.Is(err, vfs.ErrNoSpace) {
			t.Errorf("%v: %d, %v", c.rule, n, err)
		}
		p := make([]byte, 10)
		if n, err := h.ReadAt(p, 0); err != io.EOF || string(p[:n]) != c.want {
			t.Errorf("%v: the file holds %q, %v", c.rule, p[:n], err)
		}
	}
	// What the file inside says comes first.
	f.Clear()
	f.Add(faultfs.Rule{Short: 2, Sticky: true})
	if _, err := h.WriteAt([]byte("abcd"), -5); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("short write at a negative offset: %v", err)
	}
}

// A Sync that fails loses what was written, when crashfs is inside; one that fails after it was done does not.
func TestFailedSyncOverCrashfs(t *testing.T) {
	for _, data := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			inner := crashfs.New(crashfs.Options{})
			f := faultfs.New(inner)
			h, err := f.OpenFile("f", os.O_RDWR|os.O_CREATE, 0o600)
			must(t, err)
			must(t, vfs.SyncDir(f, "."))
			_, err = h.WriteAt([]byte("abc"), 0)
			must(t, err)
			f.Add(faultfs.Rule{Op: faultfs.Sync, After: after})
			sync := h.Sync
			if data {
				sync = func() error { return vfs.SyncData(h) }
			}
			if err := sync(); !errors.Is(err, syscall.EIO) {
				t.Error(err)
			}
			must(t, sync())
			b, err := inner.Durable("f")
			if want := map[bool]string{true: "abc"}[after]; err != nil || string(b) != want {
				t.Errorf("after %t: the disk has %q, %v; want %q", after, b, err, want)
			}
		}
	}
}

func TestFailedSyncDirOverCrashfs(t *testing.T) {
	for _, after := range []bool{false, true} {
		inner := crashfs.New(crashfs.Options{})
		f := faultfs.New(inner, faultfs.Rule{Op: faultfs.SyncDir, After: after})
		h, err := f.OpenFile("f", os.O_RDWR|os.O_CREATE, 0o600)
		must(t, err)
		must(t, h.Close())
		if err := vfs.SyncDir(f, "."); !errors.Is(err, syscall.EIO) {
			t.Error(err)
		}
		must(t, vfs.SyncDir(f, "."))
		_, err = inner.Crash(rand.New(rand.NewPCG(1, 1)), crashfs.Policy{}).Stat("f")
		if (err == nil) != after {
			t.Errorf("after %t: %v", after, err)
		}
	}
}

// bare has no capability at all.
type bare struct{ vfs.FS }

type bareFile struct{ vfs.File }

func (b bare) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := b.FS.OpenFile(name, flag, perm)
	return bareFile{f}, err
}

func TestWithoutCapabilities(t *testing.T) {
	f := faultfs.New(bare{crashfs.New(crashfs.Options{})})
	h, err := f.OpenFile("f", os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	unsupported := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
	unsupported("Preallocate", vfs.Preallocate(h, 10))
	unsupported("SyncDir", f.SyncDir("."))
	_, err = vfs.Lock(f, "LOCK")
	unsupported("Lock", err)
	_, err = vfs.Free(f)
	unsupported("Free", err)
	must(t, vfs.SyncData(h)) // by Sync
	must(t, vfs.SyncDir(f, "."))
	f.Add(faultfs.Rule{Op: faultfs.Sync})
	if err := vfs.SyncData(h); !errors.Is(err, syscall.EIO) {
		t.Errorf("SyncData by Sync: %v", err)
	}
	f.Add(faultfs.Rule{Op: faultfs.SyncDir})
	if err := vfs.SyncDir(f, "."); !errors.Is(err, syscall.EIO) {
		t.Errorf("SyncDir that fails without being there: %v", err)
	}
}

func TestHammerRules(t *testing.T) {
	const rounds = 200
	f := newFS(faultfs.Rule{Op: faultfs.Stat, Nth: 10, Sticky: true})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range rounds {
				_, _ = f.Stat(".") // the errors are counted below
				f.Ops()
			}
		})
	}
	wg.Wait()
	if f.Ops() != 4*rounds || f.Fired() != 4*rounds-9 {
		t.Errorf("%d operations, %d failed", f.Ops(), f.Fired())
	}
}

func Example() {
	work := func(fsys vfs.FS) error {
		f, err := fsys.OpenFile("log", os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte("hello"), 0); err != nil {
			return err
		}
		return f.Sync()
	}
	counting := newFS()
	fmt.Println(work(counting))
	for i := range counting.Ops() {
		rule := faultfs.Rule{Nth: i + 1}
		fmt.Printf("%v: %v\n", rule, work(newFS(rule)))
	}
	// Output:
	// <nil>
	// any 1: input/output error: create log: input/output error
	// any 2: input/output error: write log: input/output error
	// any 3: input/output error: sync log: input/output error
}

func BenchmarkStat(b *testing.B) {
	f := newFS(faultfs.Rule{Op: faultfs.Sync, Path: "log/*", Nth: 1000})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Stat("."); err != nil {
			b.Fatal(err)
		}
	}
}
