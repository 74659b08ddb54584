package commitlog

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Names beside those of the segments.
const (
	nextName      = "next"
	reservePrefix = "reserve."
	newSuffix     = ".new" // of a reserve segment that is not yet one
)

// Permissions of what is made: messages are nobody else's business.
const (
	filePerm fs.FileMode = 0o600
	dirPerm  fs.FileMode = 0o700
)

// atomicOffset is an Offset for several goroutines.
type atomicOffset struct{ v atomic.Int64 }

func (a *atomicOffset) Load() Offset   { return Offset(a.v.Load()) }
func (a *atomicOffset) Store(p Offset) { a.v.Store(int64(p)) }

// Log is the CommitLog: an append-only log of batches in segment files.
//
// Its methods belong to threads, as the package comment lists them; beside each stands what it may be called with.
// Close ends the use of the log.
type Log struct {
	// set by Open, then read-only
	fs   vfs.FS
	dir  string
	id   uint64
	opts Options
	mark *markFile

	// Invariant: durable <= written <= end. Only the writer moves end and written, only Sync moves durable.
	end     atomicOffset // behind the last appended batch
	written atomicOffset // behind the last batch in its file
	durable atomicOffset // behind the last batch that survives a power cut, and will be there after recovery

	failure     atomic.Pointer[error] // the first failed write or sync, in an ErrFailed
	void        []*segment            // were given up; for Recover to remove
	recovered   atomic.Bool
	incarnation uint32 // set by Recover

	mu sync.Mutex
	// guarded by mu
	closed   bool
	segs     []*segment // in order; the last one may still be empty
	open     []*segment // those with an open file
	uses     uint64     // clock of the open files
	next     *segment   // made by Rotate, until the writer goes there
	sealEnd  Offset     // base of the segment that Rotate must make; -1: none
	toSync   *segment   // holds what is written and not durable
	syncable Offset     // how far toSync makes the log durable; never into a state record
	tail     tail

	writer writerState // owned by the writer

	jobMu sync.Mutex // one job that makes or drops segments at a time
	// guarded by jobMu
	spare        bool     // the file next is ready
	made         *segment // renamed by Rotate, not yet in use
	noPrealloc   bool     // the file system cannot
	reserved     []bool   // which reserve segments are there
	dropUnsynced bool     // segments were unlinked and the directory not synced
	// copies for the writer, which does not wait for jobs
	spareReady     atomic.Bool
	reserveMissing atomic.Int32
}

// Open opens the log in directory dir, which is made if needed. It lists the segments and checks their headers; a
// damaged one is a *corrupt.Error, a later version ErrNewerFormat. Recover must be called before anything is written
// or read. id names the log: the segments of another one are refused.
func Open(fsys vfs.FS, dir string, id uint64, opts Options) (*Log, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	l := &Log{fs: fsys, dir: dir, id: id, opts: opts, sealEnd: -1}
	l.tail = tail{blockSize: opts.blockSize(), limit: opts.TailSize}
	l.reserved = make([]bool, opts.Reserve)
	l.writer.log = l
	if !opts.ReadOnly {
		if err := makeDir(fsys, dir); err != nil {
			return nil, err
		}
	}
	segs, err := listSegments(fsys, dir)
	if err != nil {
		return nil, err
	}
	for _, s := range segs {
		void, err := inspect(fsys, s, id)
		if err != nil {
			return nil, err
		}
		if void {
			l.void = append(l.void, s)
		} else {
			l.segs = append(l.segs, s)
		}
	}
	sealAllButLast(l.segs)
	l.mark, err = openMark(fsys, dir, id)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// makeDir makes the directory of the log. An empty one is made anew: if the process before died over a failed sync of
// the directory above, its name is in memory only, and no sync will bring it to the disk.
func makeDir(fsys vfs.FS, dir string) error {
	if files, err := fsys.ReadDir(dir); err == nil && len(files) == 0 {
		if err := fsys.Remove(dir); err != nil {
			return fmt.Errorf("commitlog: make directory anew: %w", err)
		}
	}
	if err := fsys.MkdirAll(dir, dirPerm); err != nil {
		return fmt.Errorf("commitlog: make directory: %w", err)
	}
	return nil
}

// listSegments lists the segment files of a directory by base, as their names say.
func listSegments(fsys vfs.FS, dir string) ([]*segment, error) {
	files, err := fsys.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("commitlog: list segments: %w", err)
	}
	var segs []*segment
	for _, f := range files {
		if base, ok := parseSegmentName(f.Name); ok && !f.Dir {
			segs = append(segs, &segment{base: base, name: segmentName(dir, base), bytes: f.Size})
		}
	}
	return segs, nil
}

// sealAllButLast lets each segment end where the next one begins, until its seal was read.
func sealAllButLast(segs []*segment) {
	for i := 1; i < len(segs); i++ {
		segs[i-1].end, segs[i-1].sealed = segs[i].base, true
	}
}

// clean removes what an earlier life left: a spare segment, and reserve segments that are not whole or too many. What
// such a file holds beyond its header was perhaps never synced.
func (l *Log) clean() error {
	files, err := l.fs.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("commitlog: list segments: %w", err)
	}
	var keep []string
	for i := range l.reserved {
		keep = append(keep, reserveName(i))
	}
	for _, f := range files {
		i := slices.Index(keep, f.Name)
		switch {
		case i >= 0 && f.Size >= l.opts.SegmentSize:
			l.reserved[i] = true
		case f.Name == nextName || strings.HasPrefix(f.Name, reservePrefix):
			if err := removeFile(l.fs, path.Join(l.dir, f.Name)); err != nil {
				return fmt.Errorf("commitlog: remove leftover: %w", err)
			}
		}
	}
	l.countReserve()
	return nil
}

// removeFile unlinks a file; one that is gone is no error.
func removeFile(fsys vfs.FS, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// syncDirs makes the names in a directory durable, its own too, and those above it.
func syncDirs(fsys vfs.FS, dir string) error {
	for {
		if err := vfs.SyncDir(fsys, dir); err != nil {
			return fmt.Errorf("commitlog: sync directory %s: %w", dir, err)
		}
		if dir == "." {
			return nil
		}
		dir = path.Dir(dir)
	}
}

// Mark returns the mark of the end of the log, as it was read by Open or written since; the zero Mark if there is none.
// Safe for concurrent use.
func (l *Log) Mark() Mark { return l.mark.mark() }

// WriteMark records in the mark file that the log is durable up to a position, and its running time. It closes the
// window in which the loss of the last batch would look like a torn tail. After a failed write it may be called again;
// a failed sync is final. It is a job: safe beside everything.
func (l *Log) WriteMark(durableEnd Offset, logMs int64) error {
	if err := l.writable(); err != nil {
		return err
	}
	if known := l.durable.Load(); durableEnd > known {
		return fmt.Errorf("commitlog: write mark: %d is above the durable end %d", durableEnd, known)
	}
	return l.job(l.mark.write(durableEnd, logMs, l.incarnation))
}

// End is the position behind the last appended batch. Safe for concurrent use.
func (l *Log) End() Offset { return l.end.Load() }

// Written is the position behind the last batch that is in its file. Safe for concurrent use.
func (l *Log) Written() Offset { return l.written.Load() }

// Durable is the position up to which the log survives a power cut. It does not move into a state record before that
// is durable as a whole, since recovery removes a part of one. Safe for concurrent use.
func (l *Log) Durable() Offset { return l.durable.Load() }

// Incarnation counts the times the log was opened for writing; it is chosen by Recover. Safe for concurrent use after
// that.
func (l *Log) Incarnation() uint32 { return l.incarnation }

// fail remembers the first failure and returns it, which every later call returns too.
func (l *Log) fail(err error) error {
	wrapped := fmt.Errorf("%w: %w", ErrFailed, err)
	l.failure.CompareAndSwap(nil, &wrapped)
	return *l.failure.Load()
}

// job turns the error of a job into a final one when it is that of a sync.
func (l *Log) job(err error) error {
	var s syncError
	if errors.As(err, &s) {
		return l.fail(s.error)
	}
	return err
}

// writable says why nothing can be written.
func (l *Log) writable() error {
	switch err := l.failure.Load(); {
	case err != nil:
		return *err
	case l.opts.ReadOnly:
		return ErrReadOnly
	}
	return l.readable()
}

// readable says why nothing can be read.
func (l *Log) readable() error {
	if !l.recovered.Load() {
		return ErrNotRecovered
	}
	return l.usable()
}

func (l *Log) usable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	return nil
}

// Close gives up the files. It does not write or sync: what is not durable may be lost. Readers in flight finish; the
// second Close returns ErrClosed. The caller ends its writer, Sync and jobs first.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	l.closed = true
	var idle []vfs.File
	for _, s := range slices.Clone(l.open) {
		if s.users == 0 {
			idle = append(idle, l.forgetLocked(s))
		}
	}
	l.mu.Unlock()
	errs := []error{l.mark.close()}
	for _, f := range idle {
		errs = append(errs, f.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("commitlog: close: %w", err)
	}
	return nil
}
