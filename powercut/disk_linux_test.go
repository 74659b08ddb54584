package powercut

import (
	"context"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// event is one thing that happened to a disk, or was promised by the process above it.
type event struct {
	kind byte // 'w' write, 'f' flush, 'p' promise
	off  int64
	data []byte
	note note
}

// disk is a file of the FUSE server that a loop device makes a disk of. Safe for concurrent use.
type disk struct {
	fs.Inode

	mu     sync.Mutex
	mem    *memory // guarded by mu
	record bool    // guarded by mu
	events []event // guarded by mu
}

var (
	_ fs.NodeOpener    = (*disk)(nil)
	_ fs.NodeGetattrer = (*disk)(nil)
	_ fs.NodeSetattrer = (*disk)(nil)
	_ fs.NodeReader    = (*disk)(nil)
	_ fs.NodeWriter    = (*disk)(nil)
	_ fs.NodeFsyncer   = (*disk)(nil)
	_ fs.NodeAllocater = (*disk)(nil)
)

func newDisk(mem *memory) *disk { return &disk{mem: mem} }

// start begins to record and returns the disk as it is.
func (d *disk) start() *memory {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.record = true
	return d.mem.clone()
}

// stop ends the recording and returns it.
func (d *disk) stop() []event {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.record = false
	return d.events
}

func (d *disk) add(e event) {
	if d.record {
		d.events = append(d.events, e)
	}
}

// promise records what the process above was told, or told us, between the writes.
func (d *disk) promise(n note) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.add(event{kind: 'p', note: n})
}

func (d *disk) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) { return nil, 0, 0 }

func (d *disk) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Size, out.Mode = uint64(d.mem.size), 0o600
	return 0
}

func (d *disk) Setattr(ctx context.Context, f fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return d.Getattr(ctx, f, out)
}

func (d *disk) Read(_ context.Context, _ fs.FileHandle, p []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fuse.ReadResultData(p[:d.mem.readAt(p, off)]), 0
}

func (d *disk) Write(_ context.Context, _ fs.FileHandle, p []byte, off int64) (uint32, syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.mem.writeAt(p, off)
	d.add(event{kind: 'w', off: off, data: append([]byte(nil), p[:n]...)})
	return uint32(n), 0
}

// Fsync is what the loop device makes of a flush of its cache.
func (d *disk) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.add(event{kind: 'f'})
	return 0
}

// Allocate refuses holes: the loop device then writes zeros, which are recorded.
func (d *disk) Allocate(context.Context, fs.FileHandle, uint64, uint64, uint32) syscall.Errno {
	return syscall.EOPNOTSUPP
}
