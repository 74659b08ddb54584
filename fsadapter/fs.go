package fsadapter

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/afero"

	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/engine/vfs/osfs"
)

// FS is an afero.Fs as a vfs.FS. It has every capability of package vfs, and answers errors.ErrUnsupported where the
// back end does not have it. It is safe for concurrent use, as long as all use of the back end goes through it or the
// back end is the operating system's.
type FS struct {
	back afero.Fs
	lead string // put before names

	// tree is held while the back end changes or is asked for names, unless exact is set: then the back end is the
	// operating system, which does all that is checked here, and better.
	tree  sync.Mutex
	exact bool
}

var (
	_ vfs.FS         = (*FS)(nil)
	_ vfs.DirSyncer  = (*FS)(nil)
	_ vfs.Locker     = (*FS)(nil)
	_ vfs.FreeSpacer = (*FS)(nil)
)

// New returns back as a vfs.FS. Names are passed on relative ("a/b"), with one exception: an afero.MemMapFs gets a leading
// slash, since it takes "a" and "/a" for two files. Closing back, where it can be closed, is the caller's.
func New(back afero.Fs) *FS {
	f := &FS{back: back}
	switch back.(type) {
	case *afero.MemMapFs:
		f.lead = "/"
	case *afero.OsFs, *rootFs:
		f.exact = true
	}
	return f
}

// path is the name as the back end has it.
func (f *FS) path(name string) string { return filepath.FromSlash(f.lead + name) }

var (
	errIsDir    = fmt.Errorf("is a directory: %w", fs.ErrInvalid)
	errNotDir   = errors.New("not a directory")
	errNotEmpty = fmt.Errorf("directory not empty: %w", fs.ErrExist)
)

// lock takes the tree for an operation, and returns what gives it back.
func (f *FS) lock() (unlock func()) {
	if f.exact {
		return func() {}
	}
	f.tree.Lock()
	return f.tree.Unlock
}

// isDir looks what name is. It returns fs.ErrNotExist where nothing is, and an error where an element above is a file.
func (f *FS) isDir(name string) (bool, error) {
	info, err := f.back.Stat(f.path(name))
	if err != nil {
		return false, err
	}
	return info.IsDir(), nil
}

// checkParent says why nothing can be made by that name.
func (f *FS) checkParent(name string) error {
	if f.exact {
		return nil
	}
	dir, err := f.isDir(path.Dir(name))
	if err == nil && !dir {
		err = errNotDir
	}
	return err
}

// OpenFile implements vfs.FS.
func (f *FS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if err := vfs.CheckOpen(name, flag); err != nil {
		return nil, err
	}
	defer f.lock()()
	file, err := f.open(name, flag, perm)
	if err != nil {
		return nil, wrapError("open", name, err)
	}
	return file, nil
}

func (f *FS) open(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	dir, err := f.isDir(name)
	switch {
	case err == nil && flag&os.O_EXCL != 0:
		return nil, fs.ErrExist
	case err == nil && dir:
		return nil, errIsDir
	case errors.Is(err, fs.ErrNotExist) && flag&os.O_CREATE != 0:
		if err := f.checkParent(name); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	}
	back, err := f.back.OpenFile(f.path(name), flag, perm)
	if err != nil {
		return nil, err
	}
	return newFile(back, name, flag&os.O_RDWR != 0)
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	if err := vfs.CheckName("remove", name); err != nil {
		return err
	}
	if name == "." {
		return wrapError("remove", name, fs.ErrInvalid)
	}
	defer f.lock()()
	if !f.exact {
		dir, err := f.isDir(name)
		if err == nil && dir {
			var list []os.FileInfo
			if list, err = f.list(name); err == nil && len(list) > 0 {
				err = errNotEmpty
			}
		}
		if err != nil {
			return wrapError("remove", name, err)
		}
	}
	return wrapError("remove", name, f.back.Remove(f.path(name)))
}

// Rename implements vfs.FS.
func (f *FS) Rename(oldName, newName string) error {
	if err := vfs.CheckName("rename", oldName); err != nil {
		return err
	}
	if err := vfs.CheckName("rename", newName); err != nil {
		return err
	}
	defer f.lock()()
	return wrapError("rename", oldName, f.rename(oldName, newName))
}

func (f *FS) rename(oldName, newName string) error {
	dir, err := f.isDir(oldName)
	switch {
	case err != nil:
		return err
	case dir:
		return errIsDir
	}
	if err := f.checkParent(newName); err != nil {
		return err
	}
	dir, err = f.isDir(newName)
	switch {
	case err == nil && dir:
		return errIsDir
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return f.back.Rename(f.path(oldName), f.path(newName))
	}
	return err
}

// MkdirAll implements vfs.FS.
func (f *FS) MkdirAll(name string, perm fs.FileMode) error {
	if err := vfs.CheckName("mkdir", name); err != nil {
		return err
	}
	defer f.lock()()
	if !f.exact {
		for at := 0; at < len(name); at++ {
			elem, _, _ := strings.Cut(name[at:], "/")
			at += len(elem)
			dir, err := f.isDir(name[:at])
			if errors.Is(err, fs.ErrNotExist) {
				break
			}
			if err == nil && !dir {
				err = errNotDir
			}
			if err != nil {
				return wrapError("mkdir", name, err)
			}
		}
	}
	return wrapError("mkdir", name, f.back.MkdirAll(f.path(name), perm))
}

// ReadDir implements vfs.FS.
func (f *FS) ReadDir(name string) ([]vfs.Info, error) {
	if err := vfs.CheckName("readdir", name); err != nil {
		return nil, err
	}
	defer f.lock()()
	list, err := f.list(name)
	if err != nil {
		return nil, wrapError("readdir", name, err)
	}
	infos := make([]vfs.Info, len(list))
	for i, info := range list {
		infos[i] = osfs.NewInfo(info)
	}
	slices.SortFunc(infos, func(a, b vfs.Info) int { return cmp.Compare(a.Name, b.Name) })
	return infos, nil
}

func (f *FS) list(name string) ([]os.FileInfo, error) {
	dir, err := f.isDir(name)
	switch {
	case err != nil:
		return nil, err
	case !dir:
		return nil, errNotDir
	}
	h, err := f.back.Open(f.path(name))
	if err != nil {
		return nil, err
	}
	defer h.Close()
	return h.Readdir(-1)
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (vfs.Info, error) {
	if err := vfs.CheckName("stat", name); err != nil {
		return vfs.Info{}, err
	}
	defer f.lock()()
	info, err := f.back.Stat(f.path(name))
	if err != nil {
		return vfs.Info{}, wrapError("stat", name, err)
	}
	i := osfs.NewInfo(info)
	i.Name = path.Base(name)
	return i, nil
}

// SyncDir implements vfs.DirSyncer. Where the directory of the back end is no *os.File, it is the back end's Sync.
func (f *FS) SyncDir(name string) error {
	if err := vfs.CheckName("syncdir", name); err != nil {
		return err
	}
	if d, ok := f.back.(vfs.DirSyncer); ok {
		return wrapError("syncdir", name, d.SyncDir(name))
	}
	defer f.lock()()
	dir, err := f.isDir(name)
	if err == nil && !dir {
		err = errNotDir
	}
	if err != nil {
		return wrapError("syncdir", name, err)
	}
	h, err := f.back.Open(f.path(name))
	if err != nil {
		return wrapError("syncdir", name, err)
	}
	defer h.Close()
	if osf, ok := unwrap(h).(*os.File); ok {
		return osfs.SyncDirFile(osf, name)
	}
	return wrapError("syncdir", name, h.Sync())
}

// Lock implements vfs.Locker. It needs a back end with the method, or with files that are *os.File.
func (f *FS) Lock(name string) (io.Closer, error) {
	if err := vfs.CheckName("lock", name); err != nil {
		return nil, err
	}
	if l, ok := f.back.(vfs.Locker); ok {
		c, err := l.Lock(name)
		return c, wrapError("lock", name, err)
	}
	defer f.lock()()
	root, err := f.openRoot()
	if err != nil {
		return nil, err // and no file was made
	}
	_ = root.Close() // read only: nothing can get lost
	if dir, err := f.isDir(name); err == nil && dir {
		return nil, wrapError("lock", name, errIsDir)
	}
	if err := f.checkParent(name); err != nil {
		return nil, wrapError("lock", name, err)
	}
	h, err := f.back.OpenFile(f.path(name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, wrapError("lock", name, err)
	}
	if osf, ok := unwrap(h).(*os.File); ok {
		return osfs.LockFile(osf, name)
	}
	_ = h.Close() // nothing was written
	return nil, errors.ErrUnsupported
}

// Free implements vfs.FreeSpacer. It needs a back end with the method, or with files that are *os.File.
func (f *FS) Free() (uint64, error) {
	if s, ok := f.back.(vfs.FreeSpacer); ok {
		n, err := s.Free()
		return n, wrapError("free", ".", err)
	}
	defer f.lock()()
	root, err := f.openRoot()
	if err != nil {
		return 0, err
	}
	defer root.Close()
	return osfs.FreeAt(root)
}

// openRoot opens the root if the back end has *os.File; otherwise it returns errors.ErrUnsupported.
func (f *FS) openRoot() (*os.File, error) {
	h, err := f.back.Open(f.path("."))
	if err != nil {
		return nil, wrapError("open", ".", err)
	}
	if osf, ok := unwrap(h).(*os.File); ok {
		return osf, nil
	}
	_ = h.Close() // read only: nothing can get lost
	return nil, errors.ErrUnsupported
}

// wrapError is vfs.WrapError for what a back end returned.
func wrapError(op, name string, err error) error {
	var link *os.LinkError
	if errors.As(err, &link) {
		err = link.Err
	}
	if errors.Is(err, afero.ErrFileClosed) {
		err = fs.ErrClosed
	}
	return vfs.WrapError(op, name, err)
}

// unwrap looks through the wrappers that hide an *os.File.
func unwrap(f afero.File) afero.File {
	for {
		b, ok := f.(*afero.BasePathFile)
		if !ok {
			return f
		}
		f = b.File
	}
}
