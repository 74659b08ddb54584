package fsadapter

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/afero"

	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/engine/vfs/osfs"
)

// OpenRoot returns the directory dir as an afero.Fs that nothing leads out of: not "..", not a symbolic link. A leading
// slash in a name means dir. A directory that does not exist is made, with those above it, with mode 0700. The files are
// *os.File. The afero.Fs is safe for concurrent use, and is also an io.Closer; files opened before Close go on working.
// It also has the methods of vfs.DirSyncer, vfs.Locker and vfs.FreeSpacer.
func OpenRoot(dir string) (afero.Fs, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("fsadapter: make the directory: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("fsadapter: open the directory: %w", err)
	}
	return &rootFs{root: root, caps: osfs.NewRoot(root)}, nil
}

// rootFs is an afero.Fs over an os.Root.
type rootFs struct {
	root *os.Root
	caps *osfs.FS // the same root, for what afero has no method for
}

var (
	_ afero.Fs       = (*rootFs)(nil)
	_ afero.Lstater  = (*rootFs)(nil)
	_ vfs.DirSyncer  = (*rootFs)(nil)
	_ vfs.Locker     = (*rootFs)(nil)
	_ vfs.FreeSpacer = (*rootFs)(nil)
	_ io.Closer      = (*rootFs)(nil)
)

// local makes a name relative. What it leaves of it, the os.Root judges.
func local(name string) string {
	name = strings.TrimLeftFunc(name, func(r rune) bool { return r == '/' || r == filepath.Separator })
	if name == "" {
		return "."
	}
	return name
}

// file keeps a nil *os.File from becoming an afero.File that is not nil.
func file(f *os.File, err error) (afero.File, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (r *rootFs) Name() string { return "RootFs" }

func (r *rootFs) Create(name string) (afero.File, error) { return file(r.root.Create(local(name))) }

func (r *rootFs) Open(name string) (afero.File, error) { return file(r.root.Open(local(name))) }

func (r *rootFs) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	return file(r.root.OpenFile(local(name), flag, perm))
}

func (r *rootFs) Mkdir(name string, perm os.FileMode) error { return r.root.Mkdir(local(name), perm) }

func (r *rootFs) MkdirAll(name string, perm os.FileMode) error {
	return r.root.MkdirAll(local(name), perm)
}

func (r *rootFs) Remove(name string) error { return r.root.Remove(local(name)) }

func (r *rootFs) RemoveAll(name string) error { return r.root.RemoveAll(local(name)) }

func (r *rootFs) Rename(oldName, newName string) error {
	return r.root.Rename(local(oldName), local(newName))
}

func (r *rootFs) Stat(name string) (os.FileInfo, error) { return r.root.Stat(local(name)) }

func (r *rootFs) LstatIfPossible(name string) (os.FileInfo, bool, error) {
	info, err := r.root.Lstat(local(name))
	return info, true, err
}

func (r *rootFs) Chmod(name string, mode os.FileMode) error { return r.root.Chmod(local(name), mode) }

func (r *rootFs) Chown(name string, uid, gid int) error { return r.root.Chown(local(name), uid, gid) }

func (r *rootFs) Chtimes(name string, atime, mtime time.Time) error {
	return r.root.Chtimes(local(name), atime, mtime)
}

func (r *rootFs) Close() error { return r.root.Close() }

// SyncDir implements vfs.DirSyncer.
func (r *rootFs) SyncDir(name string) error { return r.caps.SyncDir(name) }

// Lock implements vfs.Locker.
func (r *rootFs) Lock(name string) (io.Closer, error) { return r.caps.Lock(name) }

// Free implements vfs.FreeSpacer.
func (r *rootFs) Free() (uint64, error) { return r.caps.Free() }
