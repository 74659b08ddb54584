package fsadapter

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/spf13/afero"

	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/engine/vfs/osfs"
)

// newFile returns a file of a back end as a vfs.File.
func newFile(back afero.File, name string, writable bool) (vfs.File, error) {
	if f, ok := unwrap(back).(*os.File); ok {
		file, err := osfs.NewFile(f, name, writable)
		if err != nil {
			return nil, err // and not a nil *osfs.File, which is no nil vfs.File
		}
		return file, nil
	}
	return &serialFile{back: back, name: name, writable: writable}, nil
}

// serialFile is a file that is no *os.File. All calls of one handle go one at a time: back ends keep a cursor in it, which
// even ReadAt moves.
type serialFile struct {
	name     string
	writable bool

	mu     sync.Mutex
	back   afero.File // guarded by mu
	closed bool       // guarded by mu
}

var (
	_ vfs.File         = (*serialFile)(nil)
	_ vfs.Preallocator = (*serialFile)(nil)
	_ vfs.DataSyncer   = (*serialFile)(nil)
)

// check says why an operation can't be, with mu held.
func (f *serialFile) check(changes bool, off int64) error {
	switch {
	case f.closed:
		return fs.ErrClosed
	case changes && !f.writable:
		return fs.ErrPermission
	case off < 0:
		return fs.ErrInvalid
	}
	return nil
}

// ReadAt implements vfs.File.
func (f *serialFile) ReadAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.check(false, off); err != nil {
		return 0, wrapError("read", f.name, err)
	}
	n := 0
	for n < len(p) {
		m, err := f.back.ReadAt(p[n:], off+int64(n))
		n += m
		switch {
		case n == len(p):
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), err == nil && m == 0:
			return n, io.EOF
		case err != nil:
			return n, wrapError("read", f.name, err)
		}
	}
	return n, nil
}

// WriteAt implements vfs.File.
func (f *serialFile) WriteAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.check(true, off); err != nil {
		return 0, wrapError("write", f.name, err)
	}
	if len(p) == 0 {
		return 0, nil // some back ends would lengthen the file
	}
	n, err := f.back.WriteAt(p, off)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, wrapError("write", f.name, err)
}

// Size implements vfs.File.
func (f *serialFile) Size() (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.check(false, 0); err != nil {
		return 0, wrapError("size", f.name, err)
	}
	info, err := f.back.Stat()
	if err != nil {
		return 0, wrapError("size", f.name, err)
	}
	return info.Size(), nil
}

// Truncate implements vfs.File.
func (f *serialFile) Truncate(size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.check(true, size); err != nil {
		return wrapError("truncate", f.name, err)
	}
	return wrapError("truncate", f.name, f.back.Truncate(size))
}

// Preallocate implements vfs.Preallocator. It needs a back end whose file has the method.
func (f *serialFile) Preallocate(size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.check(true, size); err != nil {
		return wrapError("preallocate", f.name, err)
	}
	if p, ok := unwrap(f.back).(vfs.Preallocator); ok {
		return wrapError("preallocate", f.name, p.Preallocate(size))
	}
	return errors.ErrUnsupported
}

// Sync implements vfs.File.
func (f *serialFile) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.check(false, 0); err != nil {
		return wrapError("sync", f.name, err)
	}
	return wrapError("sync", f.name, f.back.Sync())
}

// SyncData implements vfs.DataSyncer. It needs a back end whose file has the method.
func (f *serialFile) SyncData() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.check(false, 0); err != nil {
		return wrapError("sync", f.name, err)
	}
	if d, ok := unwrap(f.back).(vfs.DataSyncer); ok {
		return wrapError("sync", f.name, d.SyncData())
	}
	return errors.ErrUnsupported
}

// Close implements vfs.File.
func (f *serialFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return wrapError("close", f.name, fs.ErrClosed)
	}
	f.closed = true
	return wrapError("close", f.name, f.back.Close())
}
