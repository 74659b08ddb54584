package wasifs

import (
	"errors"
	"hash/fnv"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	wasys "github.com/tetratelabs/wazero/sys"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// FS is a vfs.FS as the runtime wants one for a guest. It is safe for concurrent use, so that several guests may share it;
// the files it opens are for one guest each. Closing the FS below, where it can be closed, is the caller's.
type FS struct {
	sys.UnimplementedFS // no links, modes and times: ENOSYS
	back                vfs.FS
}

var _ sys.FS = (*FS)(nil)

// New returns back as a guest's file system.
func New(back vfs.FS) *FS { return &FS{back: back} }

// Mount is a configuration in which the guest finds back at guestPath and nothing else.
func Mount(back vfs.FS, guestPath string) wazero.FSConfig {
	return wazero.NewFSConfig().(sysfs.FSConfig).WithSysFSMount(New(back), guestPath)
}

// local is the name of package vfs for a guest's path. One that leads out of the mount, or that no FS takes, is EPERM. The
// runtime puts a slash before names in a mount that the guest has opened as a directory: the root is the mount.
func local(p string) (string, sys.Errno) {
	name := path.Clean(strings.TrimLeft(p, "/"))
	if vfs.CheckName("", name) != nil { // ".." at its beginning too
		return "", sys.EPERM
	}
	return name, 0
}

// errno is the number of the runtime for an error of package vfs.
func errno(err error) sys.Errno {
	var number syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.Is(err, fs.ErrNotExist):
		return sys.ENOENT
	case errors.Is(err, fs.ErrExist):
		return sys.EEXIST
	case errors.Is(err, fs.ErrInvalid):
		return sys.EINVAL
	case errors.Is(err, fs.ErrClosed):
		return sys.EBADF
	case errors.Is(err, fs.ErrPermission):
		return sys.EPERM
	case errors.Is(err, errors.ErrUnsupported):
		return sys.ENOSYS
	case errors.As(err, &number):
		return sys.UnwrapOSError(number)
	}
	return sys.EIO
}

// OpenFile implements sys.FS.
func (f *FS) OpenFile(p string, flag sys.Oflag, perm fs.FileMode) (sys.File, sys.Errno) {
	name, bad := local(p)
	if bad != 0 {
		return nil, bad
	}
	write := flag&(sys.O_RDWR|sys.O_WRONLY) != 0
	info, err := f.back.Stat(name)
	switch {
	case err == nil && flag&(sys.O_CREAT|sys.O_EXCL) == sys.O_CREAT|sys.O_EXCL:
		return nil, sys.EEXIST
	case err == nil && info.Dir:
		if write || flag&(sys.O_CREAT|sys.O_TRUNC) != 0 {
			return nil, sys.EISDIR
		}
		return &dir{fs: f, name: name}, 0
	case err == nil && (flag&sys.O_DIRECTORY != 0 || strings.HasSuffix(p, "/")):
		return nil, sys.ENOTDIR
	case err != nil && (flag&sys.O_CREAT == 0 || !errors.Is(err, fs.ErrNotExist)):
		return nil, errno(err)
	case flag&(sys.O_CREAT|sys.O_DIRECTORY) == sys.O_CREAT|sys.O_DIRECTORY:
		return nil, sys.EINVAL
	}
	how := os.O_RDONLY
	for _, o := range []struct {
		guest sys.Oflag
		host  int
	}{{sys.O_CREAT, os.O_CREATE}, {sys.O_EXCL, os.O_EXCL}, {sys.O_TRUNC, os.O_TRUNC}} {
		if flag&o.guest != 0 && (o.guest != sys.O_EXCL || flag&sys.O_CREAT != 0) {
			how |= o.host | os.O_RDWR // an FS makes a file only for writing
		}
	}
	if write {
		how |= os.O_RDWR
	}
	file, err := f.back.OpenFile(name, how, perm)
	if err != nil {
		return nil, errno(err)
	}
	return &openFile{f: file, name: name, read: flag&sys.O_WRONLY == 0, write: write, end: flag&sys.O_APPEND != 0,
		synced: flag&(sys.O_SYNC|sys.O_DSYNC) != 0}, 0
}

// Stat implements sys.FS.
func (f *FS) Stat(p string) (wasys.Stat_t, sys.Errno) {
	name, bad := local(p)
	if bad != 0 {
		return wasys.Stat_t{}, bad
	}
	info, err := f.back.Stat(name)
	if err == nil && !info.Dir && strings.HasSuffix(p, "/") {
		return wasys.Stat_t{}, sys.ENOTDIR
	}
	return stat(name, info), errno(err)
}

// Lstat implements sys.FS: there are no links, so it is Stat.
func (f *FS) Lstat(p string) (wasys.Stat_t, sys.Errno) { return f.Stat(p) }

func stat(name string, info vfs.Info) wasys.Stat_t {
	st := wasys.Stat_t{Ino: inode(name), Mode: 0o600, Nlink: 1, Size: info.Size}
	if info.Dir {
		st.Mode, st.Size = fs.ModeDir|0o700, 0
	}
	return st
}

// inode tells files apart, for guests that compare them.
func inode(name string) wasys.Inode {
	h := fnv.New64a()
	h.Write([]byte(name)) // never fails
	return h.Sum64() | 1  // 0 would be unknown
}

// Mkdir implements sys.FS.
func (f *FS) Mkdir(p string, perm fs.FileMode) sys.Errno {
	name, bad := local(p)
	if bad != 0 {
		return bad
	}
	if _, err := f.back.Stat(name); err == nil {
		return sys.EEXIST
	}
	switch above, err := f.back.Stat(path.Dir(name)); {
	case err != nil:
		return errno(err)
	case !above.Dir:
		return sys.ENOTDIR
	}
	return errno(f.back.MkdirAll(name, perm))
}

// Rename implements sys.FS.
func (f *FS) Rename(from, to string) sys.Errno {
	a, bad := local(from)
	if bad != 0 {
		return bad
	}
	b, bad := local(to)
	if bad != 0 {
		return bad
	}
	return errno(f.back.Rename(a, b))
}

// Rmdir implements sys.FS.
func (f *FS) Rmdir(p string) sys.Errno { return f.remove(p, true, sys.ENOTDIR) }

// Unlink implements sys.FS.
func (f *FS) Unlink(p string) sys.Errno { return f.remove(p, false, sys.EISDIR) }

func (f *FS) remove(p string, dir bool, other sys.Errno) sys.Errno {
	name, bad := local(p)
	if bad != 0 {
		return bad
	}
	info, err := f.back.Stat(name)
	switch {
	case err != nil:
		return errno(err)
	case info.Dir != dir:
		return other
	case name == ".":
		return sys.EINVAL
	}
	if err = f.back.Remove(name); dir && errors.Is(err, fs.ErrExist) {
		return sys.ENOTEMPTY
	}
	return errno(err)
}
