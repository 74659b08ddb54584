package commitlog

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// SpareNeeded says that the job PrepareSpare is due: three quarters of the segment are used, or there is none. It is
// for the writer.
func (l *Log) SpareNeeded() bool {
	w := &l.writer
	if l.opts.ReadOnly || l.spareReady.Load() || l.haveNext() {
		return false
	}
	return w.seg == nil || w.sealed || int64(w.at-w.seg.base) >= l.opts.SegmentSize/4*3
}

func (l *Log) haveNext() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next != nil
}

// PrepareSpare makes the file that will be the next segment: created, preallocated if the file system can, synced. It
// does nothing when there is one. After an error, of a full disk for instance, it may be called again, except when the
// log has failed. It is a job: safe beside everything.
func (l *Log) PrepareSpare() error {
	if err := l.writable(); err != nil {
		return err
	}
	l.jobMu.Lock()
	defer l.jobMu.Unlock()
	return l.job(l.prepareSpare())
}

func (l *Log) prepareSpare() error {
	if l.spare {
		return nil
	}
	if err := l.create(nextName); err != nil {
		return err
	}
	l.setSpare(true)
	return nil
}

func (l *Log) setSpare(ready bool) {
	l.spare = ready
	l.spareReady.Store(ready)
}

// create makes an empty file of the size of a segment. When that fails nothing is left of it.
func (l *Log) create(base string) error {
	name := path.Join(l.dir, base)
	f, err := l.fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, filePerm)
	if err != nil {
		return fmt.Errorf("commitlog: create %s: %w", name, err)
	}
	err = l.preallocate(f)
	if err == nil {
		if serr := f.Sync(); serr != nil {
			err = syncError{fmt.Errorf("commitlog: sync %s: %w", name, serr)}
		}
	}
	if cerr := f.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("commitlog: close %s: %w", name, cerr)
	}
	if err != nil {
		// Its blocks are needed elsewhere; a file that cannot be removed is made anew by the next try.
		return errors.Join(err, removeFile(l.fs, name))
	}
	return nil
}

func (l *Log) preallocate(f vfs.File) error {
	if l.noPrealloc {
		return nil
	}
	err := vfs.Preallocate(f, l.opts.SegmentSize)
	if errors.Is(err, errors.ErrUnsupported) {
		// The file grows as it is written, and a reserve would reserve nothing.
		l.noPrealloc = true
		l.countReserve()
		return nil
	}
	if err != nil {
		return fmt.Errorf("commitlog: preallocate: %w", err)
	}
	return nil
}

// RotateNeeded says that the job Rotate is due: the segment is sealed, or the log is new, and there is no next one.
// Safe for concurrent use.
func (l *Log) RotateNeeded() bool {
	if l.opts.ReadOnly {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sealEnd >= 0
}

// Rotate makes the next segment of a sealed log, or the first one of a new log: it takes the spare file, made now if
// there is none or taken from the reserve if the disk is full, writes the header, syncs, gives it its name and syncs
// the directory. A file with the name of a segment so has a header always. It does nothing when it is not needed. After
// an error it may be called again, except when the log has failed. It is a job: safe beside everything.
func (l *Log) Rotate() error {
	if err := l.writable(); err != nil {
		return err
	}
	l.jobMu.Lock()
	defer l.jobMu.Unlock()
	l.mu.Lock()
	base := l.sealEnd
	l.mu.Unlock()
	if base < 0 {
		return nil
	}
	return l.job(l.rotate(base))
}

func (l *Log) rotate(base Offset) error {
	if l.made == nil {
		if err := l.takeSpare(); err != nil {
			return err
		}
		if err := l.nameSpare(base); err != nil {
			return err
		}
	}
	s := l.made
	if err := vfs.SyncDir(l.fs, l.dir); err != nil {
		return syncError{fmt.Errorf("commitlog: sync directory: %w", err)}
	}
	f, err := l.fs.OpenFile(s.name, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("commitlog: open segment: %w", err)
	}
	l.made = nil
	l.mu.Lock()
	l.pinLocked(s, f)
	l.segs = append(l.segs, s)
	l.next, l.sealEnd = s, -1
	idle := l.evictLocked()
	l.mu.Unlock()
	closeIdle(idle)
	return nil
}

// pinLocked gives a segment the file to which the writer writes.
func (l *Log) pinLocked(s *segment, f vfs.File) {
	s.file, s.pinned = f, true
	l.open = append(l.open, s)
}

// takeSpare sees that the file next is there.
func (l *Log) takeSpare() error {
	err := l.prepareSpare()
	if !vfs.IsNoSpace(err) {
		return err
	}
	for i, there := range l.reserved {
		if !there {
			continue
		}
		if rerr := l.fs.Rename(path.Join(l.dir, reserveName(i)), path.Join(l.dir, nextName)); rerr != nil {
			return fmt.Errorf("commitlog: take reserve: %w", errors.Join(rerr, err))
		}
		l.reserved[i] = false
		l.countReserve()
		l.setSpare(true)
		return nil
	}
	return err
}

// nameSpare turns the file next into the segment at base. Whatever fails, the file is made anew by the next try, since
// nothing is known of what it holds.
func (l *Log) nameSpare(base Offset) error {
	next := path.Join(l.dir, nextName)
	s := &segment{base: base, name: segmentName(l.dir, base)}
	l.setSpare(false)
	size, err := l.writeHeader(next, base)
	if err != nil {
		return err
	}
	// The file is closed: not every system renames an open one.
	if err := l.fs.Rename(next, s.name); err != nil {
		return fmt.Errorf("commitlog: rename segment: %w", err)
	}
	s.bytes = size
	l.made = s
	return nil
}

// writeHeader writes and syncs the header of a segment and returns the length of its file.
func (l *Log) writeHeader(name string, base Offset) (size int64, err error) {
	f, err := l.fs.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return 0, fmt.Errorf("commitlog: open spare segment: %w", err)
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("commitlog: close spare segment: %w", cerr)
		}
	}()
	if _, err := f.WriteAt(encodeSegmentHeader(l.id, base), 0); err != nil {
		return 0, fmt.Errorf("commitlog: write header: %w", err)
	}
	if err := f.Sync(); err != nil {
		return 0, syncError{fmt.Errorf("commitlog: sync header: %w", err)}
	}
	size, err = f.Size()
	if err != nil {
		return 0, fmt.Errorf("commitlog: size of segment: %w", err)
	}
	return size, nil
}

func reserveName(i int) string { return reservePrefix + strconv.Itoa(i) }

// countReserve tells the writer how many reserve segments are missing.
func (l *Log) countReserve() {
	n := int32(0)
	for _, there := range l.reserved {
		if !there && !l.noPrealloc {
			n++
		}
	}
	l.reserveMissing.Store(n)
}

// ReserveMissing is how many reserve segments are to be made by PrepareReserve. Where nothing can be preallocated there
// is no reserve, and none is missing once that is known. Safe for concurrent use.
func (l *Log) ReserveMissing() int {
	if l.opts.ReadOnly || l.failure.Load() != nil {
		return 0
	}
	return int(l.reserveMissing.Load())
}

// PrepareReserve makes one reserve segment. After an error, of a full disk for instance, it may be called again, except
// when the log has failed. It is a job: safe beside everything.
func (l *Log) PrepareReserve() error {
	if err := l.writable(); err != nil {
		return err
	}
	l.jobMu.Lock()
	defer l.jobMu.Unlock()
	for i, there := range l.reserved {
		if !there && !l.noPrealloc {
			return l.job(l.makeReserve(i))
		}
	}
	return nil
}

// makeReserve makes a reserve segment under another name first: a file with the name of one is whole and synced.
func (l *Log) makeReserve(i int) error {
	temp := reserveName(i) + newSuffix
	if err := l.create(temp); err != nil {
		return err
	}
	if l.noPrealloc {
		return removeFile(l.fs, path.Join(l.dir, temp))
	}
	if err := l.fs.Rename(path.Join(l.dir, temp), path.Join(l.dir, reserveName(i))); err != nil {
		return fmt.Errorf("commitlog: rename reserve: %w", err)
	}
	if err := vfs.SyncDir(l.fs, l.dir); err != nil {
		return syncError{fmt.Errorf("commitlog: sync directory: %w", err)}
	}
	l.reserved[i] = true
	l.countReserve()
	return nil
}
