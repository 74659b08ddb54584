// Package vfs is the file system that the engine needs, and nothing more.
//
// Names are slash-separated and relative to the root of the FS, as in io/fs: "commitlog/00000000000000000000".
// A name with "..", a leading slash, an empty element, a backslash, a colon or a zero byte is an error of kind
// fs.ErrInvalid. The root is ".". Upper and lower case may be the same to a file system: use one of them.
//
// Errors follow io/fs: errors.Is(err, fs.ErrNotExist), fs.ErrExist, fs.ErrInvalid, fs.ErrClosed hold where they
// apply, ErrNoSpace where the disk is full, and every error of a named operation is a *fs.PathError.
//
// What a file system cannot do everywhere is a capability: an interface of one method, found by type assertion.
// A value that has the method may still answer errors.ErrUnsupported (a wrapper does not know what it wraps), which
// means the same as not having it. The functions Preallocate, SyncData, SyncDir, Lock and Free look for the
// capability and say beside each what happens without it; the engine calls only those.
//
// The suite fsadapter/vfstest proves each guarantee below for an implementation.
package vfs

import (
	"errors"
	"io"
	"io/fs"
)

// FS is a tree of files. It is safe for concurrent use.
type FS interface {
	// OpenFile opens a file with flags of package os: O_RDONLY, or O_RDWR and any of O_CREATE, O_EXCL (which needs
	// O_CREATE), O_TRUNC. Others, O_APPEND among them, are fs.ErrInvalid. Of several calls with O_EXCL at once, one
	// wins; the others get fs.ErrExist. The parent directory must exist. Two handles of one file see each other's
	// writes at once. A directory cannot be opened: fs.ErrInvalid.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)

	// Remove unlinks a file or an empty directory; one that is not empty is fs.ErrExist. An open handle goes on
	// reading and writing the unlinked file. The removal is durable after SyncDir of the parent; until then the
	// file may come back after a power cut.
	Remove(name string) error

	// Rename gives a file another name, replacing a file that has it. It is atomic: after a power cut the new name
	// holds the old file or the new one, never neither. It is durable after SyncDir of both parents. Open handles
	// stay with their file. Neither name may be a directory: fs.ErrInvalid.
	Rename(oldName, newName string) error

	// MkdirAll makes a directory and those above it; one that exists is no error. A file in its way is.
	MkdirAll(name string, perm fs.FileMode) error

	// ReadDir lists a directory, sorted by name. The list is the caller's.
	ReadDir(name string) ([]Info, error)

	// Stat describes a file or directory at the moment of the call; the answer does not change afterwards.
	Stat(name string) (Info, error)
}

// Info is what the engine asks of a file or directory.
type Info struct {
	Name string // last element
	Size int64  // bytes; 0 for a directory
	Dir  bool
}

// File is an open file. ReadAt may be called from several goroutines at once, also beside one WriteAt to other bytes.
// No method keeps a slice it was given. A method of a closed file, Close too, returns an error of kind fs.ErrClosed;
// one that changes a file opened without O_RDWR, of kind fs.ErrPermission. A negative offset or size is fs.ErrInvalid.
type File interface {
	// ReadAt fills p from offset off, as io.ReaderAt says: n < len(p) comes with an error, the bare io.EOF at and
	// beyond the end of the file; n == len(p) comes with nil.
	io.ReaderAt

	// WriteAt writes p at offset off and lengthens the file if needed; the bytes in between read as zero.
	// n < len(p) comes with an error: then any part of p may have been written. A write is not durable before Sync,
	// and after a power cut each of its sectors may hold the old or the new bytes.
	io.WriterAt

	// Size is the length in bytes.
	Size() (int64, error)

	// Truncate sets the length; bytes beyond the old one read as zero.
	Truncate(size int64) error

	// Sync returns nil only when all that was written before the call, and the length, survive a power cut.
	// After an error nothing is known of what was written since the last success, and a later nil does not change
	// that: the engine never syncs again.
	Sync() error

	io.Closer
}

// Preallocator is a File that can reserve disk space: the file's length becomes at least size and later writes below
// it do not fail for want of space. Unwritten bytes read as zero, written ones keep. Without the space the error is of
// kind ErrNoSpace.
type Preallocator interface {
	Preallocate(size int64) error
}

// DataSyncer is a File with a cheaper Sync: content and length survive, times need not.
type DataSyncer interface {
	SyncData() error
}

// DirSyncer is an FS that can make the entries of a directory durable: what was created, renamed and removed in it. The
// entry of the directory itself stands in its parent.
type DirSyncer interface {
	SyncDir(name string) error
}

// Locker is an FS that can keep a second process away: while the lock is held, Lock of the same name is ErrLocked, also
// in this process. The lock goes with the process that holds it, or by Close; its file stays.
type Locker interface {
	Lock(name string) (io.Closer, error)
}

// FreeSpacer is an FS that knows how many bytes may still be written.
type FreeSpacer interface {
	Free() (uint64, error)
}

// ErrLocked is returned by Lock while another holder has the name.
var ErrLocked = errors.New("vfs: locked by another process")

// Preallocate reserves size bytes for f. Without the capability it returns errors.ErrUnsupported and nothing happens.
func Preallocate(f File, size int64) error {
	if p, ok := f.(Preallocator); ok {
		return p.Preallocate(size)
	}
	return errors.ErrUnsupported
}

// SyncData syncs f, by Sync where there is nothing cheaper.
func SyncData(f File) error {
	if d, ok := f.(DataSyncer); ok {
		if err := d.SyncData(); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return f.Sync()
}

// SyncDir makes the entries of a directory durable. A file system without the capability has nothing that a power cut
// could undo (memory), or offers no way at all (Windows, js): the answer is nil.
func SyncDir(fsys FS, name string) error {
	if d, ok := fsys.(DirSyncer); ok {
		if err := d.SyncDir(name); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return nil
}

// Lock takes an exclusive lock by the name of a file, which it creates. Without the capability it returns
// errors.ErrUnsupported.
func Lock(fsys FS, name string) (io.Closer, error) {
	if l, ok := fsys.(Locker); ok {
		return l.Lock(name)
	}
	return nil, errors.ErrUnsupported
}

// Free says how many bytes may still be written, or errors.ErrUnsupported.
func Free(fsys FS) (uint64, error) {
	if f, ok := fsys.(FreeSpacer); ok {
		return f.Free()
	}
	return 0, errors.ErrUnsupported
}
