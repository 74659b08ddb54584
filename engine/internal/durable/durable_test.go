package durable_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/durable"
	"github.com/tidewheel/tidewheel/engine/internal/filetest"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func replace(fsys vfs.FS, name string, content []byte) error {
	return durable.Replace(fsys, name, func(f vfs.File) error {
		_, err := f.WriteAt(content, 0)
		return err
	})
}

// Whenever the power fails, the name holds the old content or the new one, and the new one after a nil.
func TestReplaceIsAtomic(t *testing.T) {
	old, next := bytes.Repeat([]byte("old "), 500), bytes.Repeat([]byte("newer"), 700)
	for seed := range uint64(500) {
		r := newRand(seed)
		disk := crashfs.New(crashfs.Options{})
		if err := disk.MkdirAll("a/b", durable.DirPerm); err != nil {
			t.Fatal(err)
		}
		if err := durable.SyncDirs(disk, "a/b"); err != nil {
			t.Fatal(err)
		}
		if err := replace(disk, "a/b/f", old); err != nil {
			t.Fatal(err)
		}
		if n := r.Int64N(8); n > 0 {
			disk.CrashAt(disk.Ops() + n)
		}
		err := replace(disk, "a/b/f", next)
		policies := crashfs.Policies()
		after := disk.Crash(r, policies[r.IntN(len(policies))])
		got := filetest.Read(t, after, "a/b/f")
		if !bytes.Equal(got, next) && (err == nil || !bytes.Equal(got, old)) {
			t.Fatalf("seed %d: %d bytes after %v", seed, len(got), err)
		}
	}
}

// A failed operation gives an error, and leaves no half of a file in the way of the next call.
func TestReplaceFaults(t *testing.T) {
	old, next := []byte("old"), bytes.Repeat([]byte("newer"), 700)
	count := faultfs.New(crashfs.New(crashfs.Options{}))
	if err := replace(count, "f", old); err != nil {
		t.Fatal(err)
	}
	changes := count.Changes()
	for n := int64(1); n <= changes; n++ {
		for _, rule := range []faultfs.Rule{{Nth: n}, {Nth: n, Err: syscall.ENOSPC, Short: 100}, {Nth: n, After: true}, {Nth: n, Sticky: true}} {
			rule.Changes = true
			disk := crashfs.New(crashfs.Options{})
			if err := replace(disk, "f", old); err != nil {
				t.Fatal(err)
			}
			fsys := faultfs.New(disk, rule)
			if err := replace(fsys, "f", next); err == nil {
				t.Errorf("%v: no error", rule)
			}
			if got := filetest.Read(t, disk, "f"); !bytes.Equal(got, old) && !bytes.Equal(got, next) {
				t.Errorf("%v: %d bytes", rule, len(got))
			}
			fsys.Clear()
			if err := replace(fsys, "f", next); err != nil {
				t.Errorf("%v: again: %v", rule, err)
			}
			if got := filetest.Read(t, disk, "f"); !bytes.Equal(got, next) {
				t.Errorf("%v: again: %d bytes", rule, len(got))
			}
		}
	}
}

// On a full disk half a file is of no use: its space is given back at once.
func TestReplaceOnFullDisk(t *testing.T) {
	disk := crashfs.New(crashfs.Options{Quota: 32 << 10})
	if err := replace(disk, "f", []byte("old")); err != nil {
		t.Fatal(err)
	}
	used := disk.Used()
	if err := replace(disk, "f", make([]byte, 100<<10)); !vfs.IsNoSpace(err) {
		t.Fatalf("got %v", err)
	}
	if disk.Used() != used {
		t.Errorf("%d bytes are used, before it were %d", disk.Used(), used)
	}
	if got := filetest.Read(t, disk, "f"); string(got) != "old" {
		t.Errorf("got %q", got)
	}
}

// Whoever finds a directory knows nothing of how durable it is: every level is synced, every time.
func TestSyncDirsOfDirectoryThatExists(t *testing.T) {
	disk := crashfs.New(crashfs.Options{})
	if err := disk.MkdirAll("a/b/c", durable.DirPerm); err != nil {
		t.Fatal(err)
	}
	disk = disk.Kill() // the process that made it is gone
	if err := durable.SyncDirs(disk, "a/b/c"); err != nil {
		t.Fatal(err)
	}
	if err := replace(disk, "a/b/c/f", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if got := filetest.Read(t, disk.Crash(newRand(1), crashfs.Policy{}), "a/b/c/f"); string(got) != "x" {
		t.Errorf("got %q", got)
	}
}

func TestSyncDirsFails(t *testing.T) {
	for n := int64(1); n <= 3; n++ {
		disk := crashfs.New(crashfs.Options{})
		if err := disk.MkdirAll("a/b", durable.DirPerm); err != nil {
			t.Fatal(err)
		}
		fsys := faultfs.New(disk, faultfs.Rule{Op: faultfs.SyncDir, Nth: n})
		if err := durable.SyncDirs(fsys, "a/b"); !errors.Is(err, syscall.EIO) {
			t.Errorf("sync %d: %v", n, err)
		}
	}
}

func TestRemoveTemps(t *testing.T) {
	disk := crashfs.New(crashfs.Options{})
	if err := durable.RemoveTemps(disk, "none"); err != nil {
		t.Errorf("of a directory that does not exist: %v", err)
	}
	if err := disk.MkdirAll("d/x.tmp", durable.DirPerm); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"d/a", "d/a.tmp", "d/b.tmp", "d/tmp"} {
		f, err := disk.OpenFile(name, os.O_RDWR|os.O_CREATE, durable.FilePerm)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := durable.RemoveTemps(disk, "d"); err != nil {
		t.Fatal(err)
	}
	infos, err := disk.ReadDir("d")
	if err != nil {
		t.Fatal(err)
	}
	if len(infos) != 3 || infos[0].Name != "a" || infos[1].Name != "tmp" || infos[2].Name != "x.tmp" {
		t.Errorf("left: %v", infos)
	}
	fsys := faultfs.New(disk, faultfs.Rule{Op: faultfs.ReadDir})
	if err := durable.RemoveTemps(fsys, "d"); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v", err)
	}
}
