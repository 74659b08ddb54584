package vfs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

func TestCheckName(t *testing.T) {
	for name, good := range map[string]bool{
		".": true, "a": true, "a/b.c/d-e_f": true, "..a": true, "a b": true,
		"": false, "/": false, "/a": false, "a/": false, "a//b": false, "..": false, "a/..": false, "./a": false,
		`a\b`: false, "c:": false, "a\x00": false, "\xff": false,
	} {
		err := vfs.CheckName("stat", name)
		if good != (err == nil) {
			t.Errorf("%q: %v", name, err)
		}
		if pathErr, ok := err.(*fs.PathError); err != nil && (!ok || pathErr.Op != "stat" || pathErr.Path != name || !errors.Is(err, fs.ErrInvalid)) {
			t.Errorf("%q: %#v", name, err)
		}
	}
}

func TestCheckOpen(t *testing.T) {
	for flag, good := range map[int]bool{
		os.O_RDONLY: true, os.O_RDWR: true, os.O_RDWR | os.O_CREATE: true, os.O_RDWR | os.O_TRUNC: true,
		os.O_RDWR | os.O_CREATE | os.O_EXCL: true, os.O_RDWR | os.O_CREATE | os.O_EXCL | os.O_TRUNC: true,
		os.O_WRONLY: false, os.O_RDWR | os.O_APPEND: false, os.O_RDWR | os.O_SYNC: false, os.O_CREATE: false,
		os.O_TRUNC: false, os.O_RDWR | os.O_EXCL: false,
	} {
		err := vfs.CheckOpen("f", flag)
		if good != (err == nil) || err != nil && !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("flags %#x: %v", flag, err)
		}
	}
	if err := vfs.CheckOpen("../f", os.O_RDONLY); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a bad name: %v", err)
	}
}

func TestNoSpace(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false}, {io.EOF, false}, {syscall.EIO, false}, {vfs.ErrNoSpace, true}, {full, true},
		{fmt.Errorf("log: %w", full), true}, {fmt.Errorf("log: %w", vfs.ErrNoSpace), true},
	} {
		if got := vfs.IsNoSpace(c.err); got != c.want {
			t.Errorf("IsNoSpace(%v) is %t", c.err, got)
		}
	}
	if errors.Is(full, vfs.ErrNoSpace) {
		t.Error("the system's error is ErrNoSpace by itself: then WrapError has nothing to do")
	}
	err := vfs.WrapError("write", "f", full)
	if !errors.Is(err, vfs.ErrNoSpace) || !errors.Is(err, syscall.ENOSPC) || err.Error() != full.Error() {
		t.Errorf("wrapped it is %v", err)
	}
}

func TestWrapError(t *testing.T) {
	if err := vfs.WrapError("read", "f", nil); err != nil {
		t.Errorf("of nil: %v", err)
	}
	inner := &fs.PathError{Op: "pread", Path: "/real/f", Err: syscall.EIO}
	err := vfs.WrapError("read", "f", fmt.Errorf("back end: %w", inner))
	if pathErr, ok := err.(*fs.PathError); !ok || *pathErr != (fs.PathError{Op: "read", Path: "f", Err: syscall.EIO}) {
		t.Errorf("of a *fs.PathError: %#v", err)
	}
	err = vfs.WrapError("read", "f", fs.ErrClosed)
	if !errors.Is(err, fs.ErrClosed) || err.Error() != "read f: file already closed" {
		t.Errorf("of a plain error: %v", err)
	}
}

// plain is a file system, and its file, that has nothing that it need not have.
type plain struct {
	vfs.FS
	vfs.File
	syncs int
}

func (p *plain) Sync() error { p.syncs++; return nil }

// rich has every capability; each answers err.
type rich struct {
	plain
	err error
}

func (r *rich) Preallocate(int64) error        { return r.err }
func (r *rich) SyncData() error                { return r.err }
func (r *rich) SyncDir(string) error           { return r.err }
func (r *rich) Lock(string) (io.Closer, error) { return nil, r.err }
func (r *rich) Free() (uint64, error)          { return 7, r.err }

// Not having a capability, and having it and answering ErrUnsupported, is the same.
func TestCapabilities(t *testing.T) {
	wrapped := fmt.Errorf("wrapped: %w", errors.ErrUnsupported)
	for _, c := range []struct {
		name            string
		file            vfs.File
		fsys            vfs.FS
		err, data, dirs error // of those that report, of SyncData, of SyncDir
		syncs           int   // by SyncData
	}{
		{"none", &plain{}, &plain{}, errors.ErrUnsupported, nil, nil, 1},
		{"unsupported", &rich{err: wrapped}, &rich{err: wrapped}, errors.ErrUnsupported, nil, nil, 1},
		{"works", &rich{}, &rich{}, nil, nil, nil, 0},
		{"fails", &rich{err: syscall.EIO}, &rich{err: syscall.EIO}, syscall.EIO, syscall.EIO, syscall.EIO, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := func(what string, err, want error) {
				t.Helper()
				if !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", what, err, want)
				}
			}
			want("Preallocate", vfs.Preallocate(c.file, 1), c.err)
			want("SyncData", vfs.SyncData(c.file), c.data)
			want("SyncDir", vfs.SyncDir(c.fsys, "."), c.dirs)
			_, err := vfs.Lock(c.fsys, "LOCK")
			want("Lock", err, c.err)
			_, err = vfs.Free(c.fsys)
			want("Free", err, c.err)
			syncs := 0
			switch f := c.file.(type) {
			case *plain:
				syncs = f.syncs
			case *rich:
				syncs = f.syncs
			}
			if syncs != c.syncs {
				t.Errorf("SyncData made %d syncs, want %d", syncs, c.syncs)
			}
		})
	}
}

// A write that finds the disk full is told from others whatever the platform.
func ExampleIsNoSpace() {
	_, err := os.OpenFile("no/such/file", os.O_RDONLY, 0)
	fmt.Println(vfs.IsNoSpace(err))
	fmt.Println(vfs.IsNoSpace(&fs.PathError{Op: "write", Path: "log", Err: vfs.ErrNoSpace}))
	// Output:
	// false
	// true
}
