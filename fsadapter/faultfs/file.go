package faultfs

import (
	"errors"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// file is a file of an FS.
type file struct {
	fs    *FS
	inner vfs.File
	name  string
}

var (
	_ vfs.File         = (*file)(nil)
	_ vfs.Preallocator = (*file)(nil)
	_ vfs.DataSyncer   = (*file)(nil)
)

// ReadAt implements vfs.File.
func (h *file) ReadAt(p []byte, off int64) (int, error) {
	r, fails := h.fs.decide(Read, h.name)
	if !fails {
		return h.inner.ReadAt(p, off)
	}
	return 0, r.pathError(Read, h.name)
}

// WriteAt implements vfs.File.
func (h *file) WriteAt(p []byte, off int64) (int, error) {
	r, fails := h.fs.decide(Write, h.name)
	if !fails {
		return h.inner.WriteAt(p, off)
	}
	n, err := min(max(r.Short, 0), len(p)), error(nil)
	if r.After {
		n = len(p)
	}
	if n > 0 {
		if n, err = h.inner.WriteAt(p[:n], off); err != nil {
			return n, err
		}
	}
	return n, r.pathError(Write, h.name)
}

// Size implements vfs.File.
func (h *file) Size() (n int64, err error) {
	err = h.fs.do(Stat, h.name, func() (err error) {
		n, err = h.inner.Size()
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// Truncate implements vfs.File.
func (h *file) Truncate(size int64) error {
	return h.fs.do(Truncate, h.name, func() error { return h.inner.Truncate(size) })
}

// Preallocate implements vfs.Preallocator.
func (h *file) Preallocate(size int64) error {
	return h.fs.do(Preallocate, h.name, func() error { return vfs.Preallocate(h.inner, size) })
}

// Sync implements vfs.File.
func (h *file) Sync() error { return h.sync(h.inner.Sync) }

// SyncData implements vfs.DataSyncer.
func (h *file) SyncData() error {
	d, ok := h.inner.(vfs.DataSyncer)
	if !ok {
		return errors.ErrUnsupported // vfs.SyncData calls Sync then, which counts
	}
	return h.sync(d.SyncData)
}

// syncFailer is a file that forgets on a failed Sync what was written, as a kernel does: crashfs.
type syncFailer interface{ FailSync(err error) error }

func (h *file) sync(fn func() error) error {
	r, fails := h.fs.decide(Sync, h.name)
	if !fails {
		return fn()
	}
	err := r.pathError(Sync, h.name)
	if r.After {
		if inner := fn(); inner != nil {
			return inner
		}
		return err
	}
	if l, ok := h.inner.(syncFailer); ok {
		return l.FailSync(err)
	}
	return err
}

// Close closes the file inside.
func (h *file) Close() error { return h.inner.Close() }
