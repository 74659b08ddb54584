package osfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// FS is a directory of the operating system. It implements vfs.FS and every capability of package vfs. It is safe for
// concurrent use. Whoever made it closes it.
type FS struct {
	root *os.Root
}

var (
	_ vfs.FS         = (*FS)(nil)
	_ vfs.DirSyncer  = (*FS)(nil)
	_ vfs.Locker     = (*FS)(nil)
	_ vfs.FreeSpacer = (*FS)(nil)
)

// New returns the directory dir as an FS. A directory that does not exist is made, with those above it, with mode 0700.
// The error is that of package os.
func New(dir string) (*FS, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("osfs: make the directory: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("osfs: open the directory: %w", err)
	}
	return NewRoot(root), nil
}

// NewRoot returns root as an FS, which closes root when it is closed.
func NewRoot(root *os.Root) *FS { return &FS{root: root} }

// Close gives the directory back to the system. Files opened before go on working. Closing twice is no error, as for
// an os.Root.
func (f *FS) Close() error { return f.root.Close() }

// OpenFile implements vfs.FS.
func (f *FS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if err := vfs.CheckOpen(name, flag); err != nil {
		return nil, err
	}
	osf, err := f.root.OpenFile(filepath.FromSlash(name), flag, perm)
	if err != nil {
		if flag&os.O_CREATE == 0 || !errors.Is(err, fs.ErrExist) {
			err = f.orIsDir(name, err)
		}
		return nil, vfs.WrapError("open", name, err)
	}
	file, err := NewFile(osf, name, flag&os.O_RDWR != 0)
	if err != nil {
		return nil, err // and not a nil *File, which is no nil vfs.File
	}
	return file, nil
}

// orIsDir returns errIsDir if that explains err, which systems put in different words.
func (f *FS) orIsDir(name string, err error) error {
	if info, statErr := f.root.Stat(filepath.FromSlash(name)); statErr == nil && info.IsDir() {
		return errIsDir
	}
	return err
}

var errIsDir = fmt.Errorf("is a directory: %w", fs.ErrInvalid)

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	if err := vfs.CheckName("remove", name); err != nil {
		return err
	}
	if name == "." {
		return vfs.WrapError("remove", name, fs.ErrInvalid)
	}
	return vfs.WrapError("remove", name, f.root.Remove(filepath.FromSlash(name)))
}

// Rename implements vfs.FS.
func (f *FS) Rename(oldName, newName string) error {
	for _, name := range []string{oldName, newName} {
		if err := vfs.CheckName("rename", name); err != nil {
			return err
		}
		info, err := f.root.Stat(filepath.FromSlash(name))
		switch {
		case err == nil && info.IsDir():
			return vfs.WrapError("rename", name, errIsDir)
		case err != nil && name == oldName: // WASM hosts rename nothing to itself without an error
			return vfs.WrapError("rename", name, err)
		}
	}
	err := f.root.Rename(filepath.FromSlash(oldName), filepath.FromSlash(newName))
	var link *os.LinkError
	if errors.As(err, &link) {
		err = link.Err
	}
	return vfs.WrapError("rename", oldName, err)
}

// MkdirAll implements vfs.FS.
func (f *FS) MkdirAll(name string, perm fs.FileMode) error {
	if err := vfs.CheckName("mkdir", name); err != nil {
		return err
	}
	return vfs.WrapError("mkdir", name, f.root.MkdirAll(filepath.FromSlash(name), perm))
}

// ReadDir implements vfs.FS.
func (f *FS) ReadDir(name string) ([]vfs.Info, error) {
	if err := vfs.CheckName("readdir", name); err != nil {
		return nil, err
	}
	dir, err := f.root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, vfs.WrapError("readdir", name, err)
	}
	entries, err := dir.ReadDir(-1)
	_ = dir.Close() // read only: nothing can get lost
	if err != nil {
		return nil, vfs.WrapError("readdir", name, err)
	}
	list := make([]vfs.Info, 0, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // removed meanwhile
		case err != nil:
			return nil, vfs.WrapError("readdir", name, err)
		}
		list = append(list, NewInfo(info))
	}
	sortByName(list)
	return list, nil
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (vfs.Info, error) {
	if err := vfs.CheckName("stat", name); err != nil {
		return vfs.Info{}, err
	}
	info, err := f.root.Stat(filepath.FromSlash(name))
	if err != nil {
		return vfs.Info{}, vfs.WrapError("stat", name, err)
	}
	i := NewInfo(info)
	i.Name = path.Base(name)
	return i, nil
}

// SyncDir implements vfs.DirSyncer.
func (f *FS) SyncDir(name string) error {
	if err := vfs.CheckName("syncdir", name); err != nil {
		return err
	}
	dir, err := f.root.Open(filepath.FromSlash(name))
	if err != nil {
		return vfs.WrapError("syncdir", name, err)
	}
	err = SyncDirFile(dir, name)
	_ = dir.Close() // read only: nothing can get lost
	return err
}

// Lock implements vfs.Locker. The file is made with mode 0600.
func (f *FS) Lock(name string) (io.Closer, error) {
	if err := vfs.CheckName("lock", name); err != nil {
		return nil, err
	}
	if !canLock {
		return nil, errors.ErrUnsupported // and no file is made
	}
	osf, err := f.root.OpenFile(filepath.FromSlash(name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, vfs.WrapError("lock", name, f.orIsDir(name, err))
	}
	return LockFile(osf, name)
}

// Free implements vfs.FreeSpacer: what an unprivileged user may still write.
func (f *FS) Free() (uint64, error) {
	dir, err := f.root.Open(".")
	if err != nil {
		return 0, vfs.WrapError("free", ".", err)
	}
	defer dir.Close()
	return FreeAt(dir)
}
