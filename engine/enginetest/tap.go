package enginetest

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// tap is a vfs.FS that calls a function before each operation that changes something, without a lock held: the
// function may look at the file system below, and take snapshots of it.
type tap struct {
	below  vfs.FS
	before func()
	plain  bool // without preallocation
}

func (t *tap) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if flag&os.O_RDWR != 0 && flag&(os.O_CREATE|os.O_TRUNC) != 0 {
		t.before()
	}
	f, err := t.below.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &tapFile{f, t}, nil
}

func (t *tap) Remove(name string) error {
	t.before()
	return t.below.Remove(name)
}

func (t *tap) Rename(oldName, newName string) error {
	t.before()
	return t.below.Rename(oldName, newName)
}

func (t *tap) MkdirAll(name string, perm fs.FileMode) error {
	t.before()
	return t.below.MkdirAll(name, perm)
}

func (t *tap) ReadDir(name string) ([]vfs.Info, error) { return t.below.ReadDir(name) }
func (t *tap) Stat(name string) (vfs.Info, error)      { return t.below.Stat(name) }
func (t *tap) Lock(name string) (io.Closer, error)     { return vfs.Lock(t.below, name) }
func (t *tap) Free() (uint64, error)                   { return vfs.Free(t.below) }

func (t *tap) SyncDir(name string) error {
	t.before()
	return vfs.SyncDir(t.below, name)
}

// tapFile is an open file of a tap.
type tapFile struct {
	vfs.File
	t *tap
}

func (f *tapFile) WriteAt(p []byte, off int64) (int, error) {
	f.t.before()
	return f.File.WriteAt(p, off)
}

func (f *tapFile) Truncate(size int64) error {
	f.t.before()
	return f.File.Truncate(size)
}

func (f *tapFile) Sync() error {
	f.t.before()
	return f.File.Sync()
}

func (f *tapFile) SyncData() error {
	f.t.before()
	return vfs.SyncData(f.File)
}

func (f *tapFile) Preallocate(size int64) error {
	if f.t.plain {
		return errors.ErrUnsupported
	}
	f.t.before()
	return vfs.Preallocate(f.File, size)
}
