package osfs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// File is a file of the operating system. It implements vfs.File, vfs.Preallocator and vfs.DataSyncer.
type File struct {
	f        *os.File
	name     string
	writable bool
}

var (
	_ vfs.File         = (*File)(nil)
	_ vfs.Preallocator = (*File)(nil)
	_ vfs.DataSyncer   = (*File)(nil)
)

// NewFile returns f, opened by whatever way, as a File that errors call name; writable says that it was opened with
// os.O_RDWR. What is not a regular file is closed and refused with fs.ErrInvalid. Closing the File closes f.
func NewFile(f *os.File, name string, writable bool) (*File, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = errIsDir
	case !info.Mode().IsRegular():
		err = fmt.Errorf("not a regular file: %w", fs.ErrInvalid)
	default:
		return &File{f: f, name: name, writable: writable}, nil
	}
	_ = f.Close() // nothing was written
	return nil, vfs.WrapError("open", name, err)
}

// NewInfo returns info as a vfs.Info.
func NewInfo(info fs.FileInfo) vfs.Info {
	i := vfs.Info{Name: info.Name(), Dir: info.IsDir()}
	if !i.Dir {
		i.Size = info.Size()
	}
	return i
}

func sortByName(list []vfs.Info) {
	slices.SortFunc(list, func(a, b vfs.Info) int { return cmp.Compare(a.Name, b.Name) })
}

// ReadAt implements vfs.File.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, f.err("read", f.orClosed(fs.ErrInvalid))
	}
	n, err := f.f.ReadAt(p, off)
	if err == io.EOF {
		return n, err
	}
	return n, f.err("read", err)
}

// WriteAt implements vfs.File.
func (f *File) WriteAt(p []byte, off int64) (int, error) {
	if err := f.mayChange(off); err != nil {
		return 0, f.err("write", err)
	}
	n, err := f.f.WriteAt(p, off)
	return n, f.err("write", err)
}

// Size implements vfs.File.
func (f *File) Size() (int64, error) {
	info, err := f.f.Stat()
	if err != nil {
		return 0, f.err("size", err)
	}
	return info.Size(), nil
}

// Truncate implements vfs.File.
func (f *File) Truncate(size int64) error {
	if err := f.mayChange(size); err != nil {
		return f.err("truncate", err)
	}
	return f.err("truncate", f.f.Truncate(size))
}

// Preallocate implements vfs.Preallocator.
func (f *File) Preallocate(size int64) error {
	if err := f.mayChange(size); err != nil {
		return f.err("preallocate", err)
	}
	if size == 0 {
		return f.err("preallocate", f.orClosed(nil)) // the system call refuses a length of 0
	}
	return f.err("preallocate", f.control(func(fd uintptr) error { return preallocate(fd, size) }))
}

// Sync implements vfs.File.
func (f *File) Sync() error { return f.err("sync", f.f.Sync()) }

// SyncData implements vfs.DataSyncer.
func (f *File) SyncData() error { return f.err("sync", f.control(syncData)) }

// Close implements vfs.File.
func (f *File) Close() error { return f.err("close", f.f.Close()) }

// mayChange says why a change at off can't be.
func (f *File) mayChange(off int64) error {
	switch {
	case !f.writable:
		return f.orClosed(fs.ErrPermission)
	case off < 0:
		return f.orClosed(fs.ErrInvalid)
	}
	return nil
}

// orClosed returns fs.ErrClosed if the file is closed, and otherwise err.
func (f *File) orClosed(err error) error {
	if closed := f.control(func(uintptr) error { return nil }); errors.Is(closed, fs.ErrClosed) {
		return fs.ErrClosed
	}
	return err
}

// control calls fn with the descriptor, which stays open meanwhile.
func (f *File) control(fn func(fd uintptr) error) error { return control(f.f, fn) }

func (f *File) err(op string, err error) error { return vfs.WrapError(op, f.name, err) }

// control calls fn with the descriptor of f, and again if a signal came in between.
func control(f *os.File, fn func(fd uintptr) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = conn.Control(func(fd uintptr) {
		for {
			if inner = fn(fd); !interrupted(inner) {
				return
			}
		}
	})
	if err != nil {
		return fs.ErrClosed // the only reason there is; package os has another error for it here
	}
	return inner
}

// SyncDirFile syncs an open directory, which errors call name. Where the system has no such thing it returns
// errors.ErrUnsupported.
func SyncDirFile(dir *os.File, name string) error {
	info, err := dir.Stat()
	switch {
	case err != nil:
	case !info.IsDir():
		err = errors.New("not a directory")
	default:
		err = syncDir(dir)
	}
	return vfs.WrapError("syncdir", name, err)
}

// LockFile locks an open file, which errors call name, against every other open file of that name, in this process or
// another: then the error is vfs.ErrLocked. Closing what it returns closes f and lets go. After an error f is closed.
func LockFile(f *os.File, name string) (io.Closer, error) {
	if err := control(f, lock); err != nil {
		_ = f.Close() // nothing was written
		return nil, vfs.WrapError("lock", name, err)
	}
	return &File{f: f, name: name}, nil
}

// FreeAt is how many bytes an unprivileged user may still write to the file system of an open directory.
func FreeAt(dir *os.File) (n uint64, err error) {
	err = control(dir, func(fd uintptr) (err error) {
		n, err = free(fd, dir.Name())
		return err
	})
	return n, vfs.WrapError("free", ".", err)
}
