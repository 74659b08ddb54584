package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"reflect"
	"strings"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/handle"
	"github.com/tidewheel/tidewheel/engine/internal/checkpoint"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/durable"
	"github.com/tidewheel/tidewheel/engine/internal/guard"
	"github.com/tidewheel/tidewheel/engine/internal/meta"
	"github.com/tidewheel/tidewheel/engine/schedule"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Names in a data directory.
const (
	lockName    = "lock"
	keysName    = "keys"
	logDir      = "commitlog"
	queueDir    = "consumequeue"
	scheduleDir = "schedule"
	timerDir    = "timerlog"
	bitsDir     = "statebits"
	seenDir     = "seenbits"
	wheelDir    = "timerwheel"
	keyedDir    = "idempotency"
)

// CacheDir is the name of a directory that a host may keep in a data directory, for what can be made anew, as compiled plugins.
// The engine does not look at it.
const CacheDir = "plugin-cache"

// ours are the names that a directory may hold before it has a meta.
var ours = []string{lockName, keysName, keysName + durable.TempSuffix, probeName, CacheDir}

// Open opens the store in a directory of env.FS, "." for its root, and recovers it; an empty or missing directory becomes
// a new store. It returns ErrLocked, ErrForeign, ErrNewer, an error of kind ErrCorrupt that names file and byte, or what
// the file system says. Nothing that was acknowledged is ever cut: damage in it is an error.
func Open(env Env, dir string, opts Options) (*Engine, error) {
	e, err := prepare(env, dir, opts)
	if err != nil {
		return nil, err
	}
	if err := e.open(false); err != nil {
		e.closed.Store(true)
		_ = e.closeFiles()
		return nil, err
	}
	return e, nil
}

// prepare checks what the caller says.
func prepare(env Env, dir string, opts Options) (*Engine, error) {
	if err := env.validate(); err != nil {
		return nil, err
	}
	e := &Engine{env: env.withDefaults(), dir: path.Clean(dir), fs: guard.New(env.FS), turns: map[uint32]uint32{}}
	e.given, e.prealloc = opts, opts.SegmentSize == 0 && canPreallocate(env.FS, e.dir)
	e.opts = opts.withDefaults(e.prealloc)
	if err := e.opts.validate(); err != nil {
		return nil, err
	}
	e.levels, _ = schedule.ParseLevels(e.opts.Levels) // validated
	e.fire.bound = deliverBound(e.opts.FireChunk)
	return e, nil
}

// path names a file of the data directory.
func (e *Engine) path(name string) string { return path.Join(e.dir, name) }

const probeName = "probe.tmp"

// canPreallocate asks the file system by doing it. On any trouble the answer is no: Open will meet it again and say so.
func canPreallocate(fsys vfs.FS, dir string) bool {
	if _, err := meta.Load(fsys, dir, ours...); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false // not ours to write to
	}
	if err := fsys.MkdirAll(dir, durable.DirPerm); err != nil {
		return false
	}
	name := path.Join(dir, probeName)
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, durable.FilePerm)
	if err != nil {
		return false
	}
	err = vfs.Preallocate(f, 4096)
	_ = f.Close()
	_ = fsys.Remove(name)
	return err == nil
}

// open identifies the store and recovers it. With readOnly nothing is changed.
func (e *Engine) open(readOnly bool) error {
	if err := e.identify(readOnly); err != nil {
		return err
	}
	f, problems, err := checkpoint.Load(e.fs, e.path(checkpointDir))
	if errors.Is(err, checkpoint.ErrNewerFormat) {
		return fmt.Errorf("%w: %w", ErrNewer, err)
	}
	if err != nil {
		return fmt.Errorf("engine: open: %w", err)
	}
	for _, p := range problems {
		if !errors.Is(p, fs.ErrNotExist) {
			e.env.Log.Warn("a copy of the checkpoint cannot be used", "error", p)
		}
	}
	if f != nil && (f.StoreID != e.meta.StoreID || f.LogID != e.meta.LogID) {
		e.env.Log.Warn("the checkpoint is of another store", "store", f.StoreID)
		f = nil
	}
	if f != nil {
		err := e.recoverFrom(f, readOnly)
		if err == nil || !derivedDamage(err) || readOnly {
			return err
		}
		e.env.Log.Error("derived files are damaged: rebuilding all of them from the log", "error", err)
		e.releaseFiles()
	}
	return e.recoverAll(readOnly)
}

// identify finds out whose directory it is, or makes it ours: lock, keys, and last the meta, which makes it a store.
func (e *Engine) identify(readOnly bool) error {
	m, err := meta.Load(e.fs, e.dir, ours...)
	isNew := errors.Is(err, fs.ErrNotExist)
	switch {
	case errors.Is(err, meta.ErrForeign):
		return fmt.Errorf("%w: %w", ErrForeign, err)
	case errors.Is(err, meta.ErrNewerFormat):
		return fmt.Errorf("%w: %w", ErrNewer, err)
	case isNew && readOnly, err != nil && !isNew:
		return fmt.Errorf("engine: open: %w", err)
	}
	if !readOnly {
		if err := e.fs.MkdirAll(e.dir, durable.DirPerm); err != nil {
			return fmt.Errorf("engine: open: %w", err)
		}
	}
	if !e.opts.NoLock && !readOnly {
		if e.lock, err = vfs.Lock(e.fs, e.path(lockName)); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return fmt.Errorf("engine: open %s: %w", e.dir, err)
		}
	}
	if isNew {
		return e.found()
	}
	if !readOnly { // its maker may have been killed before it was durable
		if err := durable.SyncDirs(e.fs, e.dir); err != nil {
			return fmt.Errorf("engine: open: %w", err)
		}
	}
	if m.Lanes < 1 || m.Lanes >= maxLanes {
		return corrupt.Errorf(e.path(meta.Name), 0, "%d lanes, allowed are 1 to %d", m.Lanes, maxLanes-1)
	}
	e.meta = m
	e.given.Lanes = int(m.Lanes) // memory is divided among the lanes that there are
	e.opts = e.given.withDefaults(e.prealloc)
	if e.keys, err = handle.Load(e.fs, e.path(keysName)); err != nil {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return corrupt.Errorf(e.path(keysName), 0, "the keys of the store's handles are gone")
		case errors.Is(err, handle.ErrNewerFormat):
			return fmt.Errorf("%w: %w", ErrNewer, err)
		}
		return fmt.Errorf("engine: open: %w", err)
	}
	return nil
}

// found makes a new store's identity. Keys that a crash left without a meta signed nothing and are used.
func (e *Engine) found() (err error) {
	name := e.path(keysName)
	if e.keys, err = handle.Load(e.fs, name); errors.Is(err, fs.ErrNotExist) {
		e.keys, err = handle.Create(e.fs, name, e.env.Rand)
	}
	if err != nil {
		return fmt.Errorf("engine: open: keys: %w", err)
	}
	var ids [16]byte
	if _, err := io.ReadFull(e.env.Rand, ids[:]); err != nil {
		return fmt.Errorf("engine: open: random store id: %w", err)
	}
	e.meta = meta.Meta{
		StoreID: binary.BigEndian.Uint64(ids[:]), LogID: binary.BigEndian.Uint64(ids[8:]),
		Lanes: uint32(e.opts.Lanes), CreatedMs: e.env.Wall(),
	}
	if err := meta.Create(e.fs, e.dir, e.meta, ours...); err != nil {
		return fmt.Errorf("engine: open: %w", err)
	}
	return nil
}

// derivedDamage says whether an error is about a file that Rebuild can make again.
func derivedDamage(err error) bool {
	var c *corrupt.Error
	if !errors.As(err, &c) {
		return false
	}
	return !strings.Contains(c.File, logDir+"/") && path.Base(c.File) != keysName && path.Base(c.File) != meta.Name
}

// releaseFiles closes what a failed attempt opened, except the lock.
func (e *Engine) releaseFiles() {
	lock := e.lock
	e.lock = nil
	_ = e.closeFiles()
	e.log, e.queues, e.schedule, e.bits, e.seen, e.lanes = nil, nil, nil, nil, nil, nil
	e.rings, e.families, e.idem = nil, nil, nil
	e.lock = lock
	e.ck, e.visible.touched = checkpoints{}, nil
	clear(e.visible.mark)
}

// wipe removes the caches of the fold, the checkpoint first, which refers to the others.
func (e *Engine) wipe() error {
	for _, dir := range []string{checkpointDir, queueDir, scheduleDir, timerDir, wheelDir, bitsDir, seenDir, keyedDir} {
		if err := removeTree(e.fs, e.path(dir)); err != nil {
			return fmt.Errorf("engine: rebuild: %w", err)
		}
	}
	return nil
}

// removeTree removes a directory with what is in it, durably; one that does not exist is no error.
func removeTree(fsys vfs.FS, dir string) error {
	infos, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, info := range infos {
		name := path.Join(dir, info.Name)
		if info.Dir {
			err = removeTree(fsys, name)
		} else {
			err = fsys.Remove(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := vfs.SyncDir(fsys, dir); err != nil {
		return err
	}
	if err := fsys.Remove(dir); err != nil {
		return err
	}
	return vfs.SyncDir(fsys, path.Dir(dir))
}

// isNil says whether an interface holds a nil pointer: a part that was not opened.
func isNil(c io.Closer) bool {
	v := reflect.ValueOf(c)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// newLog opens the CommitLog.
func (e *Engine) newLog(readOnly bool) error {
	l, err := commitlog.Open(e.fs, e.path(logDir), e.meta.LogID, commitlog.Options{
		SegmentSize: e.opts.SegmentSize, TailSize: e.opts.TailBytes, Reserve: e.opts.Reserve, ReadOnly: readOnly,
	})
	if errors.Is(err, commitlog.ErrNewerFormat) {
		return fmt.Errorf("%w: %w", ErrNewer, err)
	}
	if err != nil {
		return fmt.Errorf("engine: open: %w", err)
	}
	e.log = l
	return nil
}
