package crashfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// maxFile is the longest a file can be. It bounds the index of the chunks (32 MiB).
const maxFile = 1 << 40

var errTooLarge = fmt.Errorf("file too large: %w", fs.ErrInvalid)

// file is an open file.
type file struct {
	fs       *FS
	ino      *inode
	name     string
	writable bool
	closed   bool // guarded by fs.mu
}

var (
	_ vfs.File         = (*file)(nil)
	_ vfs.Preallocator = (*file)(nil)
	_ vfs.DataSyncer   = (*file)(nil)
)

// check says why an operation of the file can't be, with fs.mu held.
func (h *file) check(changes bool, off int64) error {
	switch {
	case h.fs.off:
		return ErrCrashed
	case h.closed:
		return fs.ErrClosed
	case changes && !h.writable:
		return fs.ErrPermission
	case off < 0:
		return fs.ErrInvalid
	}
	return nil
}

// ReadAt implements vfs.File.
func (h *file) ReadAt(p []byte, off int64) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	err := h.check(false, off)
	if err == nil {
		err = h.fs.step(Op{Kind: Read, Name: h.name, Off: off, Len: len(p)})
	}
	data := &h.ino.data
	n := int(min(int64(len(p)), max(data.size-off, 0)))
	if err == nil && len(h.ino.bad) > 0 && h.ino.isBad(off, off+int64(n)) {
		err = syscall.EIO
	}
	if err != nil {
		return 0, pathError("read", h.name, err)
	}
	data.readAt(p[:n], off)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements vfs.File.
func (h *file) WriteAt(p []byte, off int64) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	err := h.check(true, off)
	if err == nil && off > maxFile-int64(len(p)) {
		err = errTooLarge
	}
	if err == nil {
		err = h.fs.step(Op{Kind: Write, Name: h.name, Off: off, Len: len(p)})
	}
	n := 0
	if err == nil {
		n, err = h.write(p, off)
	} else if part, cause, short := shortWrite(err); short {
		n, _ = h.write(p[:min(part, len(p))], off)
		err = cause
	}
	if err != nil {
		return n, pathError("write", h.name, err)
	}
	return n, nil
}

// shortWrite looks for a ShortWrite in what the hook answered. (Apart from WriteAt, because errors.As makes garbage.)
func shortWrite(err error) (n int, cause error, ok bool) {
	var s ShortWrite
	if !errors.As(err, &s) {
		return 0, nil, false
	}
	if s.Err == nil {
		s.Err = io.ErrShortWrite
	}
	return max(s.N, 0), s.Err, true
}

// write writes p, or as much as there is room for.
func (h *file) write(p []byte, off int64) (int, error) {
	if h.fs.opts.Quota > 0 {
		if fit := h.fits(len(p), off); fit < len(p) {
			n, _ := h.write(p[:fit], off)
			return n, vfs.ErrNoSpace
		}
	}
	if len(p) > 0 {
		before := h.ino.data.charge()
		h.ino.write(h.fs.own, p, off)
		h.fs.used += h.ino.data.charge() - before
	}
	return len(p), nil
}

// fits is how many of n bytes at off there is room for.
func (h *file) fits(n int, off int64) int {
	room := h.fs.room() / chunkSize
	end := off + int64(n)
	for i := off / chunkSize; i < chunksOf(end); i++ {
		if i < h.ino.data.reserved || h.ino.data.chunk(i) != nil {
			continue
		}
		if room == 0 {
			return int(max(i*chunkSize, off) - off)
		}
		room--
	}
	return n
}

// Size implements vfs.File.
func (h *file) Size() (int64, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	err := h.check(false, 0)
	if err == nil {
		err = h.fs.step(Op{Kind: Size, Name: h.name})
	}
	if err != nil {
		return 0, pathError("size", h.name, err)
	}
	return h.ino.data.size, nil
}

// Truncate implements vfs.File.
func (h *file) Truncate(size int64) error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	err := h.check(true, size)
	if err == nil && size > maxFile {
		err = errTooLarge
	}
	if err == nil {
		err = h.fs.step(Op{Kind: Truncate, Name: h.name, Off: size})
	}
	if err != nil {
		return pathError("truncate", h.name, err)
	}
	h.fs.resize(h.ino, size)
	return nil
}

// Preallocate implements vfs.Preallocator.
func (h *file) Preallocate(size int64) error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	err := h.check(true, size)
	if err == nil && size > maxFile {
		err = errTooLarge
	}
	if err == nil {
		err = h.fs.step(Op{Kind: Preallocate, Name: h.name, Off: size})
	}
	if err == nil && h.fs.opts.Quota > 0 && h.ino.data.toReserve(size) > h.fs.room() {
		err = vfs.ErrNoSpace
	}
	if err != nil {
		return pathError("preallocate", h.name, err)
	}
	before := h.ino.data.charge()
	h.ino.preallocate(size)
	h.fs.used += h.ino.data.charge() - before
	return nil
}

// Sync implements vfs.File.
func (h *file) Sync() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	err := h.check(false, 0)
	if err != nil {
		return pathError("sync", h.name, err)
	}
	err = h.fs.step(Op{Kind: Sync, Name: h.name})
	if h.fs.off {
		return pathError("sync", h.name, err)
	}
	if err != nil {
		h.ino.forget()
		return pathError("sync", h.name, err)
	}
	h.ino.sync(h.fs.own)
	return nil
}

// SyncData implements vfs.DataSyncer; it is Sync.
func (h *file) SyncData() error { return h.Sync() }

// FailSync does what a Sync that fails with err does: it loses what was pending and returns err. Package faultfs calls
// it for a Sync that it lets fail.
func (h *file) FailSync(err error) error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.fs.off {
		return pathError("sync", h.name, ErrCrashed)
	}
	h.ino.forget()
	return err
}

// Close implements vfs.File. It works when the power is off, too.
func (h *file) Close() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.closed {
		return pathError("close", h.name, fs.ErrClosed)
	}
	h.closed = true
	h.ino.opens--
	if h.ino.opens == 0 && !h.ino.linked {
		h.fs.used -= h.ino.data.charge()
	}
	return nil
}
