// Package guard watches the syncs of a file system. After a sync that failed nothing is known of what was written, and no
// later sync can be believed; whoever works through a guard finds out that there was one, whichever package it happened
// in.
package guard

import (
	"errors"
	"io"
	"io/fs"
	"sync/atomic"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// FS is a file system whose failed syncs are remembered. It has the capabilities of the one below. It is safe for
// concurrent use.
type FS struct {
	vfs.FS
	failed atomic.Pointer[error]
}

// New watches a file system.
func New(fsys vfs.FS) *FS { return &FS{FS: fsys} }

// Err is the first error of a sync, nil while there was none.
func (g *FS) Err() error {
	if p := g.failed.Load(); p != nil {
		return *p
	}
	return nil
}

func (g *FS) note(err error) error {
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		g.failed.CompareAndSwap(nil, &err)
	}
	return err
}

// OpenFile opens a watched file.
func (g *FS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := g.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &file{f, g}, nil
}

// SyncDir syncs a directory of the file system below. One that was never made is no failure.
func (g *FS) SyncDir(name string) error {
	err := vfs.SyncDir(g.FS, name)
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return g.note(err)
}

// Lock locks in the file system below.
func (g *FS) Lock(name string) (io.Closer, error) { return vfs.Lock(g.FS, name) }

// Free asks the file system below.
func (g *FS) Free() (uint64, error) { return vfs.Free(g.FS) }

type file struct {
	vfs.File
	fs *FS
}

func (f *file) Sync() error { return f.fs.note(f.File.Sync()) }

func (f *file) SyncData() error { return f.fs.note(vfs.SyncData(f.File)) }

func (f *file) Preallocate(size int64) error { return vfs.Preallocate(f.File, size) }
