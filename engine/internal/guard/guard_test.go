package guard_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/guard"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

var errDisk = errors.New("the disk said no")

// bare is a file system without a capability, whose files have none.
type bare struct{ vfs.FS }

func (b bare) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := b.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return bareFile{f}, nil
}

type bareFile struct{ vfs.File }

func create(t *testing.T, fsys vfs.FS, name string) vfs.File {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// A sync that failed is remembered by whatever way it came, and stays the answer when later ones succeed.
func TestFailedSyncIsRemembered(t *testing.T) {
	for name, c := range map[string]struct {
		op   faultfs.Op
		sync func(f vfs.File, fsys vfs.FS) error
	}{
		"Sync":     {faultfs.Sync, func(f vfs.File, _ vfs.FS) error { return f.Sync() }},
		"SyncData": {faultfs.Sync, func(f vfs.File, _ vfs.FS) error { return vfs.SyncData(f) }},
		"SyncDir":  {faultfs.SyncDir, func(_ vfs.File, fsys vfs.FS) error { return vfs.SyncDir(fsys, ".") }},
	} {
		t.Run(name, func(t *testing.T) {
			below := faultfs.New(crashfs.New(crashfs.Options{}))
			g := guard.New(below)
			f := create(t, g, "file")
			if err := c.sync(f, g); err != nil || g.Err() != nil {
				t.Fatalf("a sync that succeeds: %v, %v", err, g.Err())
			}
			below.Add(faultfs.Rule{Op: c.op, Sticky: true, Err: errDisk})
			if err := c.sync(f, g); !errors.Is(err, errDisk) {
				t.Fatalf("the sync: %v", err)
			}
			below.Clear()
			first := g.Err()
			if !errors.Is(first, errDisk) {
				t.Fatalf("remembered: %v", first)
			}
			if err := c.sync(f, g); err != nil || g.Err() != first {
				t.Errorf("a later sync: %v, %v", err, g.Err())
			}
			below.Add(faultfs.Rule{Op: c.op, Sticky: true, Err: fs.ErrPermission})
			if err := c.sync(f, g); !errors.Is(err, fs.ErrPermission) || g.Err() != first {
				t.Errorf("a second failure: %v, %v", err, g.Err())
			}
		})
	}
}

// What is no failure of a sync is not taken for one.
func TestNoFailedSync(t *testing.T) {
	below := faultfs.New(crashfs.New(crashfs.Options{}))
	g := guard.New(below)
	if err := g.SyncDir("nowhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory that is not there: %v", err)
	}
	f := create(t, g, "file")
	for _, op := range []faultfs.Op{faultfs.Write, faultfs.Create, faultfs.Preallocate} {
		below.Add(faultfs.Rule{Op: op, Sticky: true, Err: errDisk})
	}
	if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, errDisk) {
		t.Errorf("write: %v", err)
	}
	if _, err := g.OpenFile("other", os.O_RDWR|os.O_CREATE, 0o600); !errors.Is(err, errDisk) {
		t.Errorf("open: %v", err)
	}
	if err := vfs.Preallocate(f, 100); !errors.Is(err, errDisk) {
		t.Errorf("preallocate: %v", err)
	}
	if err := g.Err(); err != nil {
		t.Errorf("remembered: %v", err)
	}
}

// The guard has the capabilities of what is below, no more and no less.
func TestCapabilities(t *testing.T) {
	full := guard.New(crashfs.New(crashfs.Options{}))
	f := create(t, full, "file")
	if err := vfs.Preallocate(f, 8192); err != nil {
		t.Errorf("preallocate: %v", err)
	}
	if n, err := f.Size(); n != 8192 || err != nil {
		t.Errorf("size %d, %v", n, err)
	}
	lock, err := vfs.Lock(full, "lock")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := vfs.Lock(full, "lock"); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("second lock: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
	if _, err := vfs.Free(guard.New(crashfs.New(crashfs.Options{Quota: 1 << 20}))); err != nil {
		t.Errorf("free: %v", err)
	}

	none := guard.New(bare{crashfs.New(crashfs.Options{})})
	f = create(t, none, "file")
	if err := vfs.Preallocate(f, 8192); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("preallocate without the capability: %v", err)
	}
	if _, err := vfs.Lock(none, "lock"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("lock without the capability: %v", err)
	}
	if _, err := vfs.Free(none); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("free without the capability: %v", err)
	}
	for name, err := range map[string]error{"data sync": vfs.SyncData(f), "directory sync": vfs.SyncDir(none, ".")} {
		if err != nil || none.Err() != nil {
			t.Errorf("%s without the capability: %v, %v", name, err, none.Err())
		}
	}
}

// What is written through the guard is below it, and durable when its sync says so.
func TestPassesThrough(t *testing.T) {
	disk := crashfs.New(crashfs.Options{})
	g := guard.New(disk)
	f := create(t, g, "file")
	if _, err := f.WriteAt([]byte("bytes"), 3); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(vfs.SyncData(f), vfs.SyncDir(g, ".")); err != nil {
		t.Fatal(err)
	}
	b, err := disk.Durable("file")
	if err != nil || string(b) != "\x00\x00\x00bytes" {
		t.Errorf("durable: %q, %v", b, err)
	}
	got := make([]byte, 6)
	if n, err := f.ReadAt(got, 3); n != 5 || err != io.EOF {
		t.Errorf("read %q, %v", got[:n], err)
	}
}

// Several goroutines sync at once; one failure is the first, for all.
func TestHammer(t *testing.T) {
	below := faultfs.New(crashfs.New(crashfs.Options{}), faultfs.Rule{Op: faultfs.Sync, Sticky: true, Err: errDisk})
	g := guard.New(below)
	f := create(t, g, "file")
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			for range 100 {
				_ = f.Sync()
			}
			errs[i] = g.Err()
		})
	}
	wg.Wait()
	for _, err := range errs {
		if !errors.Is(err, errDisk) || err != errs[0] {
			t.Errorf("remembered: %v", err)
		}
	}
}
