package commitlog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// maxHandles is how many sealed segments have an open file at a time.
const maxHandles = 128

// segment is one file of the log.
type segment struct {
	// set when made, then read-only
	base Offset
	name string // within the FS

	// guarded by Log.mu
	end     Offset // of a sealed segment: behind its seal batch, which is the base of the next one
	sealed  bool
	bytes   int64    // length of the file
	file    vfs.File // nil: not open
	users   int      // of file, at the moment
	pinned  bool     // the writer's: stays open
	used    uint64   // when file was last asked for, in Log.uses
	dropped bool     // no longer part of the log; users finish
}

// SegmentInfo describes a segment.
type SegmentInfo struct {
	Base   Offset
	End    Offset // behind its last batch
	Sealed bool
	Bytes  int64  // length of the file
	Name   string // of the file, within the file system
}

// segmentName is the name of the file of the segment at base.
func segmentName(dir string, base Offset) string {
	return path.Join(dir, fmt.Sprintf("%020d", base))
}

// parseSegmentName says whether a file is a segment by its name, and gives its base.
func parseSegmentName(name string) (Offset, bool) {
	if len(name) != 20 {
		return 0, false
	}
	base, err := strconv.ParseInt(name, 10, 64)
	if err != nil || base%batchAlign != 0 || segmentName("", Offset(base)) != name {
		return 0, false
	}
	return Offset(base), true
}

// acquire gives the file of s, opened if needed, until release. A dropped segment gives ErrOutOfLog.
func (l *Log) acquire(s *segment) (vfs.File, error) {
	l.mu.Lock()
	if f, err := l.useLocked(s); f != nil || err != nil {
		l.mu.Unlock()
		return f, err
	}
	l.mu.Unlock()

	// Opening may take long; nobody waits for it but who needs the file.
	mine, err := l.fs.OpenFile(s.name, os.O_RDONLY, 0)

	l.mu.Lock()
	f, gone := l.useLocked(s)
	if f == nil && gone == nil && err == nil {
		s.file, mine = mine, nil
		l.open = append(l.open, s)
		f, gone = l.useLocked(s)
	}
	idle := l.evictLocked()
	l.mu.Unlock()

	closeIdle(mine) // somebody else has opened the file, or it is of no use any more
	closeIdle(idle)
	switch {
	case gone != nil:
		return nil, gone
	case f != nil:
		return f, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, missing(l.dir, s.base, "it was there when the log was opened")
	}
	return nil, fmt.Errorf("commitlog: open segment: %w", err)
}

// closeIdle closes a file, if any, that was only read, or whose writes are durable; so an error means nothing.
func closeIdle(f vfs.File) {
	if f != nil {
		f.Close()
	}
}

// useLocked counts one more user of an open file; nil when it is not open.
func (l *Log) useLocked(s *segment) (vfs.File, error) {
	switch {
	case l.closed:
		return nil, ErrClosed
	case s.dropped:
		return nil, ErrOutOfLog
	case s.file == nil:
		return nil, nil
	}
	l.uses++
	s.used = l.uses
	s.users++
	return s.file, nil
}

// release ends the use of a file. The last user closes it when the segment, or the log, is gone.
func (l *Log) release(s *segment) {
	l.mu.Lock()
	s.users--
	var f vfs.File
	if s.users == 0 && (s.dropped || l.closed) {
		f = l.forgetLocked(s)
	}
	l.mu.Unlock()
	closeIdle(f)
}

// evictLocked takes one file off the open ones when there are too many: the one that nobody uses and that was used
// longest ago.
func (l *Log) evictLocked() vfs.File {
	if len(l.open) <= maxHandles {
		return nil
	}
	var oldest *segment
	for _, s := range l.open {
		if s.users == 0 && !s.pinned && (oldest == nil || s.used < oldest.used) {
			oldest = s
		}
	}
	if oldest == nil {
		return nil
	}
	return l.forgetLocked(oldest)
}

// forgetLocked takes the file off a segment; the caller closes it.
func (l *Log) forgetLocked(s *segment) vfs.File {
	f := s.file
	s.file = nil
	if i := slices.Index(l.open, s); i >= 0 {
		l.open = slices.Delete(l.open, i, i+1)
	}
	return f
}

// findLocked returns the segment that holds pos, whether or not it goes that far; nil when pos is before the first.
func (l *Log) findLocked(pos Offset) *segment {
	i, found := slices.BinarySearchFunc(l.segs, pos, func(s *segment, pos Offset) int {
		return cmp.Compare(s.base, pos)
	})
	if !found {
		i--
	}
	if i < 0 || l.segs[i].dropped {
		return nil
	}
	return l.segs[i]
}

// endLocked is where the batches of the segment end.
func (l *Log) endLocked(s *segment) Offset {
	if s.sealed {
		return s.end
	}
	// The last one, with batches or still without.
	return max(l.end.Load(), s.base+SegmentHeaderSize)
}

// SegmentOf describes the segment that holds pos: its base, the end of its batches, whether it is sealed. It is not
// ok for a position that the log does not have. Safe for concurrent use.
func (l *Log) SegmentOf(pos Offset) (base, end Offset, sealed, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.findLocked(pos)
	if s == nil || pos >= l.endLocked(s) {
		return 0, 0, false, false
	}
	return s.base, l.endLocked(s), s.sealed, true
}

// Segments lists the segments in order. Before Recover the end of a segment is the base of the next one, and that of
// the last one is not known: it is given as the end of its header. Safe for concurrent use.
func (l *Log) Segments() []SegmentInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]SegmentInfo, 0, len(l.segs))
	for _, s := range l.segs {
		if !s.dropped {
			list = append(list, SegmentInfo{Base: s.base, End: l.endLocked(s), Sealed: s.sealed, Bytes: s.bytes, Name: s.name})
		}
	}
	return list
}

// First is the base of the first segment; without one it is where the first will begin. Safe for concurrent use.
func (l *Log) First() Offset {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.segs {
		if !s.dropped {
			return s.base
		}
	}
	return l.end.Load()
}

// Size is the length of all segment files in bytes, preallocated space included; the spare segment and the reserve
// are not. Safe for concurrent use.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var n int64
	for _, s := range l.segs {
		if !s.dropped {
			n += s.bytes
		}
	}
	return n
}

// DropBefore unlinks the segments that lie whole below base, oldest first, and makes that durable. A reader that is in
// one of them finishes; later ones get ErrOutOfLog. After an error it may be called again, except when the log has
// failed. It is a job: safe beside everything.
func (l *Log) DropBefore(base Offset) error {
	if err := l.writable(); err != nil {
		return err
	}
	l.jobMu.Lock()
	defer l.jobMu.Unlock()
	for {
		s := l.dropFirst(base)
		if s == nil {
			break
		}
		if err := removeFile(l.fs, s.name); err != nil {
			return fmt.Errorf("commitlog: drop segment: %w", err)
		}
		l.dropUnsynced = true
		l.mu.Lock()
		l.segs = slices.Delete(l.segs, 0, 1)
		var f vfs.File
		if s.users == 0 && s.file != nil {
			f = l.forgetLocked(s)
		}
		l.mu.Unlock()
		closeIdle(f)
	}
	if !l.dropUnsynced {
		return nil
	}
	if err := vfs.SyncDir(l.fs, l.dir); err != nil {
		return l.fail(fmt.Errorf("commitlog: sync directory: %w", err))
	}
	l.dropUnsynced = false
	return nil
}

// dropFirst hides the first segment from new readers if it is sealed and ends at base or below.
func (l *Log) dropFirst(base Offset) *segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.segs) < 2 || !l.segs[0].sealed || l.segs[0].end > base {
		return nil
	}
	l.segs[0].dropped = true
	return l.segs[0]
}

// inspect reads the head of a segment file and checks its header. A segment that begins with a seal is void: it was
// given up by giveUp.
func inspect(fsys vfs.FS, s *segment, id uint64) (void bool, err error) {
	f, err := fsys.OpenFile(s.name, os.O_RDONLY, 0)
	if err != nil {
		return false, fmt.Errorf("commitlog: open segment: %w", err)
	}
	defer closeIdle(f)
	b := make([]byte, SegmentHeaderSize+BatchHeaderSize)
	n, err := f.ReadAt(b, 0)
	if n < len(b) && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("commitlog: read header: %w", err)
	}
	if err := checkSegmentHeader(s.name, b[:n], id, s.base); err != nil {
		return false, err
	}
	h, reason := decodeHeader(b[SegmentHeaderSize:n], s.base+SegmentHeaderSize)
	void = reason == "" && h.Has(FlagSeal) && h.Length == BatchHeaderSize && batchSum(b[SegmentHeaderSize:n]) == h.CRC
	return void, nil
}

// giveUp makes a segment void, that never got a state record, before it is unlinked: should the file come back after a
// power cut, when the one before it has gone on where this one begins, nobody takes it for a part of the log. A file
// that has no room for that is unlinked without.
func giveUp(fsys vfs.FS, s *segment) error {
	f, err := fsys.OpenFile(s.name, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("commitlog: open segment: %w", err)
	}
	defer closeIdle(f) // synced below
	b := make([]byte, BatchHeaderSize)
	encodeBatch(b, &Header{Base: s.base + SegmentHeaderSize, Length: BatchHeaderSize, Flags: FlagSeal})
	if _, err := f.WriteAt(b, SegmentHeaderSize); err != nil {
		if vfs.IsNoSpace(err) {
			return nil
		}
		return fmt.Errorf("commitlog: give segment up: %w", err)
	}
	if err := f.Sync(); err != nil {
		return syncError{fmt.Errorf("commitlog: sync segment: %w", err)}
	}
	return nil
}

// missing says that the file of a segment is not there.
func missing(dir string, base Offset, why string) error {
	return corrupt.Errorf(segmentName(dir, base), 0, "segment is missing: %s", why)
}
