package crashfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Options is the tuning of an FS. The zero Options is a disk without a limit.
type Options struct {
	Quota int64 // bytes of disk, counted in chunks of 4 KiB; 0 is no limit
	Trace int   // how many of the last operations Trace tells
}

// FS is a disk and the machine it is in. It implements vfs.FS and every capability of package vfs. It is safe for
// concurrent use; with more than one goroutine the order of the operations, and so the outcome, is not determined.
type FS struct {
	mu sync.Mutex

	// guarded by mu
	opts      Options
	own       *owner
	root      *inode
	lastID    uint64
	pend      []dirTx // pending changes of directories, in order
	used      int64   // bytes of disk
	locks     map[string]bool
	off       bool
	ops       int64
	crashAt   int64
	inject    func(Op) error
	watch     func(Op, func(*rand.Rand, Policy) *FS)
	trace     []Op
	traceNext int
}

var (
	_ vfs.FS         = (*FS)(nil)
	_ vfs.DirSyncer  = (*FS)(nil)
	_ vfs.Locker     = (*FS)(nil)
	_ vfs.FreeSpacer = (*FS)(nil)
)

// New returns an empty disk.
func New(opts Options) *FS {
	f := &FS{opts: opts, own: new(owner)}
	f.root = f.newInode(true)
	f.root.linked = true
	return f
}

func (f *FS) newInode(dir bool) *inode {
	f.lastID++
	i := &inode{id: f.lastID, dir: dir}
	if dir {
		i.ents = map[string]*inode{}
	}
	return i
}

// Ops is how many changes were tried since the FS was made: the operations whose Kind changes something.
func (f *FS) Ops() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ops
}

// CrashAt makes the power fail just before change n: that operation and all after it answer ErrCrashed. Changes are
// counted from 1; 0 means never. What Crash then returns is what the changes before n left.
func (f *FS) CrashAt(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crashAt = n
}

// SetInject sets the function that is called before each operation, nil for none. An error it returns is the outcome of
// the operation, wrapped in a *fs.PathError; nothing happens then, except that a ShortWrite writes a part, and that a
// Sync or SyncDir that fails loses what was pending. The function must not call the FS.
func (f *FS) SetInject(fn func(Op) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inject = fn
}

// SetWatch sets the function that is called before each change that will be tried, nil for none. By crash it can have
// what Snapshot would return at that moment, as often as it likes: one run visits every state that CrashAt would
// need a run each for. It may use what crash returns, but must not call the FS it is called by.
func (f *FS) SetWatch(fn func(op Op, crash func(r *rand.Rand, p Policy) *FS)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch = fn
}

// SetQuota changes the size of the disk, 0 for no limit. A quota below what is used takes nothing away.
func (f *FS) SetQuota(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opts.Quota = bytes
}

// Used is how many bytes of disk are taken: chunks of 4 KiB that were written or preallocated and belong to a file
// that has a name or a handle.
func (f *FS) Used() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.used
}

// Free is how many bytes of disk are left.
func (f *FS) Free() (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.step(Op{Kind: Free, Name: "."}); err != nil {
		return 0, pathError("free", ".", err)
	}
	return uint64(f.room()), nil
}

// room is how many bytes of disk are left, at least 0.
func (f *FS) room() int64 {
	if f.opts.Quota <= 0 {
		return math.MaxInt64 - f.used
	}
	return max(f.opts.Quota-f.used, 0)
}

// walk finds the directory that name lies in, the last element, and what has that name, if any.
func (f *FS) walk(name string) (dir *inode, last string, ino *inode, err error) {
	if name == "." {
		return nil, ".", f.root, nil
	}
	dir = f.root
	for {
		elem, rest, more := strings.Cut(name, "/")
		if !more {
			return dir, elem, dir.ents[elem], nil
		}
		next := dir.ents[elem]
		if next == nil {
			return nil, "", nil, fs.ErrNotExist
		}
		if !next.dir {
			return nil, "", nil, errNotDir
		}
		dir, name = next, rest
	}
}

var (
	errNotDir   = errors.New("not a directory")
	errIsDir    = fmt.Errorf("is a directory: %w", fs.ErrInvalid)
	errNotEmpty = fmt.Errorf("directory not empty: %w", fs.ErrExist)
)

// change makes the volatile entries of ops true, and leaves them pending.
func (f *FS) change(ops ...dirOp) {
	var tx dirTx
	tx.n = copy(tx.ops[:], ops)
	f.pend = append(f.pend, tx)
	for _, op := range ops {
		op.dir.set(op.name, op.ino)
	}
}

// OpenFile implements vfs.FS. perm is ignored.
func (f *FS) OpenFile(name string, flag int, _ fs.FileMode) (vfs.File, error) {
	if err := vfs.CheckOpen(name, flag); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	ino, err := f.open(name, flag)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	ino.opens++
	return &file{fs: f, ino: ino, name: name, writable: flag&os.O_RDWR != 0}, nil
}

func (f *FS) open(name string, flag int) (*inode, error) {
	if f.off {
		return nil, ErrCrashed
	}
	dir, last, ino, err := f.walk(name)
	switch {
	case err != nil:
		return nil, err
	case ino == nil && flag&os.O_CREATE == 0:
		return nil, fs.ErrNotExist
	case ino == nil:
		if err := f.step(Op{Kind: Create, Name: name}); err != nil {
			return nil, err
		}
		ino = f.newInode(false)
		ino.linked = true
		f.change(dirOp{dir, last, ino})
	case flag&os.O_EXCL != 0:
		return nil, fs.ErrExist
	case ino.dir:
		return nil, errIsDir
	case flag&os.O_TRUNC != 0:
		if err := f.step(Op{Kind: Clear, Name: name}); err != nil {
			return nil, err
		}
		f.resize(ino, 0)
	default:
		return ino, f.step(Op{Kind: Open, Name: name})
	}
	return ino, nil
}

// resize truncates and keeps the account.
func (f *FS) resize(ino *inode, size int64) {
	f.used -= ino.data.charge()
	ino.truncate(f.own, size)
	f.used += ino.data.charge()
}

// unlink takes the last name of ino away; its space is free when nobody has it open.
func (f *FS) unlink(ino *inode) {
	ino.linked = false
	if ino.opens == 0 {
		f.used -= ino.data.charge()
	}
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	if err := vfs.CheckName("remove", name); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.remove(name); err != nil {
		return pathError("remove", name, err)
	}
	return nil
}

func (f *FS) remove(name string) error {
	if f.off {
		return ErrCrashed
	}
	dir, last, ino, err := f.walk(name)
	switch {
	case err != nil:
		return err
	case ino == nil:
		return fs.ErrNotExist
	case ino == f.root:
		return fs.ErrInvalid
	case len(ino.ents) > 0:
		return errNotEmpty
	}
	if err := f.step(Op{Kind: Remove, Name: name}); err != nil {
		return err
	}
	f.change(dirOp{dir, last, nil})
	f.unlink(ino)
	return nil
}

// Rename implements vfs.FS.
func (f *FS) Rename(oldName, newName string) error {
	if err := vfs.CheckName("rename", oldName); err != nil {
		return err
	}
	if err := vfs.CheckName("rename", newName); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.rename(oldName, newName); err != nil {
		return pathError("rename", oldName, err)
	}
	return nil
}

func (f *FS) rename(oldName, newName string) error {
	if f.off {
		return ErrCrashed
	}
	from, oldLast, ino, err := f.walk(oldName)
	switch {
	case err != nil:
		return err
	case ino == nil:
		return fs.ErrNotExist
	case ino.dir:
		return errIsDir
	}
	to, newLast, replaced, err := f.walk(newName)
	switch {
	case err != nil:
		return err
	case replaced != nil && replaced.dir:
		return errIsDir
	}
	if err := f.step(Op{Kind: Rename, Name: oldName, NewName: newName}); err != nil {
		return err
	}
	if replaced == ino {
		return nil
	}
	f.change(dirOp{to, newLast, ino}, dirOp{from, oldLast, nil})
	if replaced != nil {
		f.unlink(replaced)
	}
	return nil
}

// MkdirAll implements vfs.FS. perm is ignored.
func (f *FS) MkdirAll(name string, _ fs.FileMode) error {
	if err := vfs.CheckName("mkdir", name); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.off {
		return pathError("mkdir", name, ErrCrashed)
	}
	if name == "." {
		return nil
	}
	dir := f.root
	for at := 0; at < len(name); at++ {
		elem, _, _ := strings.Cut(name[at:], "/")
		at += len(elem)
		next := dir.ents[elem]
		if next == nil {
			if err := f.step(Op{Kind: Mkdir, Name: name[:at]}); err != nil {
				return pathError("mkdir", name, err)
			}
			next = f.newInode(true)
			next.linked = true
			f.change(dirOp{dir, elem, next})
		} else if !next.dir {
			return pathError("mkdir", name, errNotDir)
		}
		dir = next
	}
	return nil
}

// ReadDir implements vfs.FS.
func (f *FS) ReadDir(name string) ([]vfs.Info, error) {
	if err := vfs.CheckName("readdir", name); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, err := f.directory(name)
	if err == nil {
		err = f.step(Op{Kind: ReadDir, Name: name})
	}
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	list := make([]vfs.Info, 0, len(dir.ents))
	for _, n := range slices.Sorted(maps.Keys(dir.ents)) {
		list = append(list, dir.ents[n].info(n))
	}
	return list, nil
}

func (f *FS) directory(name string) (*inode, error) {
	if f.off {
		return nil, ErrCrashed
	}
	_, _, ino, err := f.walk(name)
	switch {
	case err != nil:
		return nil, err
	case ino == nil:
		return nil, fs.ErrNotExist
	case !ino.dir:
		return nil, errNotDir
	}
	return ino, nil
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (vfs.Info, error) {
	if err := vfs.CheckName("stat", name); err != nil {
		return vfs.Info{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.off {
		return vfs.Info{}, pathError("stat", name, ErrCrashed)
	}
	_, _, ino, err := f.walk(name)
	if err == nil && ino == nil {
		err = fs.ErrNotExist
	}
	if err == nil {
		err = f.step(Op{Kind: Stat, Name: name})
	}
	if err != nil {
		return vfs.Info{}, pathError("stat", name, err)
	}
	return ino.info(path.Base(name)), nil
}

// SyncDir implements vfs.DirSyncer.
func (f *FS) SyncDir(name string) error {
	if err := vfs.CheckName("syncdir", name); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, err := f.directory(name)
	if err != nil {
		return pathError("syncdir", name, err)
	}
	err = f.step(Op{Kind: SyncDir, Name: name})
	if f.off {
		return pathError("syncdir", name, err)
	}
	f.settle(dir, err == nil)
	if err != nil {
		return pathError("syncdir", name, err)
	}
	return nil
}

// FailSyncDir does what a SyncDir that fails with err does: it loses what was pending and returns err. Package faultfs
// calls it for a SyncDir that it lets fail.
func (f *FS) FailSyncDir(name string, err error) error {
	if err := vfs.CheckName("syncdir", name); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, notFound := f.directory(name)
	if notFound != nil {
		return pathError("syncdir", name, notFound)
	}
	f.settle(dir, false)
	return err
}

// settle ends the pending changes of dir: they are on the disk, or lost for ever. A rename is settled whole, and whatever
// came before it in its other directory with it; otherwise a file whose old name was given to another could be without
// a name.
func (f *FS) settle(dir *inode, durable bool) {
	if len(f.pend) == 0 {
		return
	}
	dirs := map[*inode]bool{dir: true}
	settled := make([]bool, len(f.pend))
	for i := len(f.pend) - 1; i >= 0; i-- {
		tx := &f.pend[i]
		if settled[i] = tx.touches(dirs); settled[i] && durable {
			for _, op := range tx.ops[:tx.n] {
				dirs[op.dir] = true
			}
		}
	}
	rest := f.pend[:0]
	for i, tx := range f.pend {
		if !settled[i] {
			rest = append(rest, tx)
			continue
		}
		if durable {
			for _, op := range tx.ops[:tx.n] {
				op.dir.settle(op.name, op.ino)
			}
		}
	}
	clear(f.pend[len(rest):])
	f.pend = rest
}

// Lock implements vfs.Locker. The lock goes by Close, and with Crash and Kill.
func (f *FS) Lock(name string) (io.Closer, error) {
	if err := vfs.CheckName("lock", name); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.lock(name); err != nil {
		return nil, pathError("lock", name, err)
	}
	return &lock{fs: f, name: name}, nil
}

func (f *FS) lock(name string) error {
	if f.off {
		return ErrCrashed
	}
	dir, last, ino, err := f.walk(name)
	switch {
	case err != nil:
		return err
	case ino != nil && ino.dir:
		return errIsDir
	case f.locks[name]:
		return vfs.ErrLocked
	}
	if err := f.step(Op{Kind: Lock, Name: name}); err != nil {
		return err
	}
	if ino == nil {
		ino = f.newInode(false)
		ino.linked = true
		f.change(dirOp{dir, last, ino})
	}
	if f.locks == nil {
		f.locks = map[string]bool{}
	}
	f.locks[name] = true
	return nil
}

// lock is a held lock.
type lock struct {
	fs     *FS
	name   string
	closed bool // guarded by fs.mu
}

// Close releases the lock.
func (l *lock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	if l.closed {
		return pathError("unlock", l.name, fs.ErrClosed)
	}
	l.closed = true
	delete(l.fs.locks, l.name)
	return nil
}
