package commitlog

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Start says from where a log is recovered, and what is known of its end.
type Start struct {
	// From is a batch boundary from which on the log is read: that of a checkpoint, or the base of a segment. It must
	// not lie within a state record, and the log must be known durable up to it.
	From Offset

	// PrevCRC is the CRC of the batch that ends at From. Zero at the base of a segment: not known.
	PrevCRC uint32

	// Durable is the greatest position up to which the log is known durable; what the mark file says is added.
	Durable Offset

	// Incarnation is the greatest one known; what the mark file and the batches say is added.
	Incarnation uint32
}

// Recovery is what Recover found and did.
type Recovery struct {
	End         Offset // of the log
	LastCRC     uint32 // of its last batch; Start.PrevCRC when there is none behind Start.From
	Incarnation uint32 // the new one; with ReadOnly the last one
	LogMs       int64  // the greatest running time met in a batch or the mark
	Sealed      bool   // the last segment is sealed, or there is none: the next batch opens a new one

	// Of a torn tail; zero if there is none.
	Cut     int64    // bytes that no one was promised, blanked
	CutAt   Offset   // where they began
	Reason  string   // why no batch is there
	Removed []string // segments that never got a state record

	Rewritten int64 // bytes that may have been in the page cache only, and were written and synced again
	MarkLost  bool  // the mark file holds no mark
}

// recovery is one run of Recover.
type recovery struct {
	log   *Log
	start Start
	fold  func(*Batch) error
	known Offset // durable up to here for certain

	scan scanner
	link link
	res  Recovery

	first     int // index of the segment with start.From
	tail      int // of the segment that holds the last batch; -1: none
	blank     int // of the segment whose rest is to be blank; -1: none
	blankFrom int64
	blankTo   int64
	remove    []*segment
	onlyState bool // the last segment holds nothing but its state record
	files     map[int]vfs.File
}

// Recover finds the end of the log and makes it ready for use. It reads the batches from s.From on and calls fold for
// each in order, never for one of a segment without a complete state record; an error of fold is returned as it is.
//
// At the first place without a right batch it decides: damage in what was durable is a *corrupt.Error and changes
// nothing, a torn tail is cut and blanked (the package comment has the rule). What may be in the page cache only is
// written again, all is synced, and the mark gets a new incarnation. With ReadOnly the decision is the same and nothing
// is written. It must be called once, before the log is written or read; after an error the log is closed and opened
// again.
func (l *Log) Recover(s Start, fold func(*Batch) error) (Recovery, error) {
	if l.recovered.Load() {
		return Recovery{}, errors.New("commitlog: recover: done already")
	}
	if err := l.failure.Load(); err != nil {
		return Recovery{}, *err
	}
	if err := l.usable(); err != nil {
		return Recovery{}, err
	}
	m := l.mark.mark()
	s.Incarnation = max(s.Incarnation, m.Incarnation)
	r := &recovery{log: l, start: s, fold: fold, files: map[int]vfs.File{}, tail: -1, blank: -1}
	defer r.close()
	r.known = max(s.From, s.Durable, m.Durable)
	redone, err := applyRedo(l.fs, l.dir, l.id, l.segs, l.opts.ReadOnly)
	if err != nil {
		return Recovery{}, l.job(err)
	}
	r.known = max(r.known, redone)
	r.link.crc = s.PrevCRC
	r.res = Recovery{End: s.From, LastCRC: s.PrevCRC, LogMs: m.LogMs, Incarnation: s.Incarnation, MarkLost: l.mark.bad}
	if err := r.run(); err != nil {
		return Recovery{}, err
	}
	if !l.opts.ReadOnly {
		r.res.Incarnation++
		if err := r.write(); err != nil {
			return Recovery{}, l.job(err)
		}
	}
	r.install()
	return r.res, nil
}

// run reads the log and decides; it changes nothing.
func (r *recovery) run() error {
	segs := r.log.segs
	if len(segs) == 0 {
		if r.known > 0 {
			return missing(r.log.dir, r.start.From, fmt.Sprintf("the log was durable up to %d", r.known))
		}
		r.res.Sealed = true
		return nil
	}
	at, err := r.locate()
	if err != nil {
		return err
	}
	for i := r.first; ; i++ {
		sealed, err := r.segment(i, at)
		if err != nil || !sealed {
			return err
		}
		at = r.res.End
		if i+1 == len(segs) || segs[i+1].base > at {
			return missing(r.log.dir, at, "the segment before it is sealed")
		}
		if segs[i+1].base < at {
			return corrupt.Errorf(segs[i+1].name, 0, "segment begins within the one before it")
		}
		at += SegmentHeaderSize
	}
}

// locate finds the segment of start.From and the position of the first batch to read.
func (r *recovery) locate() (Offset, error) {
	from := r.start.From
	r.first = segmentIndex(r.log.segs, from)
	if r.first < 0 {
		return 0, missing(r.log.dir, from, fmt.Sprintf("the log begins at %d", r.log.segs[0].base))
	}
	s := r.log.segs[r.first]
	r.link.known = from > s.base || from == 0 || r.start.PrevCRC != 0
	if from == s.base {
		return from + SegmentHeaderSize, nil
	}
	off := int64(from - s.base)
	if off < SegmentHeaderSize || off%batchAlign != 0 {
		return 0, fmt.Errorf("commitlog: recover: %d is not a batch boundary", from)
	}
	if err := r.open(r.first); err != nil {
		return 0, err
	}
	if off > r.scan.size {
		return 0, corrupt.Errorf(s.name, r.scan.size, "file ends here, the log was durable up to %d", r.known)
	}
	// Behind a seal there is another segment, and from is its base; but that was not found.
	if off >= SegmentHeaderSize+BatchHeaderSize {
		b, reason, err := r.scan.next(from-BatchHeaderSize, &link{})
		if err != nil {
			return 0, err
		}
		if reason == "" && b.Has(FlagSeal) {
			return 0, missing(r.log.dir, from, "the segment before it is sealed")
		}
	}
	return from, nil
}

// segment reads a segment from position at to its seal, or to where the log ends.
func (r *recovery) segment(i int, at Offset) (sealed bool, err error) {
	if err := r.open(i); err != nil {
		return false, err
	}
	s := r.log.segs[i]
	head := at == s.base+SegmentHeaderSize
	if head {
		x, reason, err := r.stateRecord(at)
		if err != nil {
			return false, err
		}
		if reason != "" {
			return false, r.stop(i, x, reason, true)
		}
	}
	r.tail, r.onlyState = i, head
	r.res.End = at
	for {
		b, reason, err := r.scan.next(at, &r.link)
		if err != nil {
			return false, err
		}
		if reason != "" {
			return false, r.stop(i, at, reason, false)
		}
		r.note(b)
		if err := r.fold(b); err != nil {
			return false, err
		}
		at = b.End()
		r.onlyState = r.onlyState && b.Has(FlagState)
		if b.Has(FlagSeal) {
			return true, nil
		}
	}
}

// note takes from a batch what it says of the log.
func (r *recovery) note(b *Batch) {
	r.res.End, r.res.LastCRC = b.End(), b.CRC
	r.res.LogMs = max(r.res.LogMs, b.LogMs)
	r.res.Incarnation = max(r.res.Incarnation, b.Incarnation)
	r.known = max(r.known, b.DurableUpTo)
	if b.Has(FlagHole) {
		r.known = max(r.known, b.End()) // Repair has synced it, and what it covers may be unreadable
	}
}

// stateRecord reads the state record at the head of a segment without folding it. When it is not complete it returns
// where and why. A hole in its place counts: Repair knew what it did.
func (r *recovery) stateRecord(at Offset) (x Offset, reason string, err error) {
	k := r.link
	for {
		b, reason, err := r.scan.next(at, &k)
		if reason != "" || err != nil {
			return at, reason, err
		}
		if b.Has(FlagHole) || b.Has(FlagState|FlagStateEnd) {
			return 0, "", nil
		}
		if !b.Has(FlagState) {
			return 0, "", corrupt.Errorf(r.scan.name, int64(at-r.scan.base), "segment begins without a state record")
		}
		at = b.End()
	}
}

// stop decides what it means that there is no right batch at position at of segment i. In a head the log stands where
// the segment begins, since its state record is not complete.
func (r *recovery) stop(i int, at Offset, reason string, head bool) error {
	s := r.log.segs[i]
	damage := func(format string, args ...any) error {
		return corrupt.Errorf(s.name, int64(at-s.base), "%s, but %s", reason, fmt.Sprintf(format, args...))
	}
	end := at
	if head {
		end = s.base
	}
	if r.known > end {
		return damage("the log was durable up to %d", r.known)
	}
	w, err := r.scan.witness(at, r.log.segs[i+1:], func(seg *segment) (vfs.File, func(), error) {
		f, err := r.log.fs.OpenFile(seg.name, os.O_RDONLY, 0)
		if err != nil {
			return nil, nil, fmt.Errorf("commitlog: open segment: %w", err)
		}
		return f, func() { f.Close() }, nil // only read
	})
	if err != nil {
		return err
	}
	if w.found {
		return damage("the batch at %d says the log was durable up to %d", w.header.Base, w.header.DurableUpTo)
	}
	if head && i == 0 && s.base > 0 {
		return damage("the log begins with this segment, and without its state record there is no state")
	}
	r.remove = r.log.segs[i+1:]
	r.res.End, r.res.Sealed = end, head
	r.res.Incarnation = max(r.res.Incarnation, w.incarnation)
	r.blank, r.blankFrom, r.blankTo = i, int64(at-s.base), w.last
	if head {
		r.blankFrom = SegmentHeaderSize
		r.tail = i - 1
	}
	if r.res.Cut = r.blankTo - r.blankFrom + w.later; r.res.Cut > 0 {
		r.res.CutAt, r.res.Reason = at, reason
	}
	if head && i == 0 {
		// The log is new. Its one segment is made anew, with its name.
		r.blank, r.remove = -1, r.log.segs
	}
	for _, seg := range r.remove {
		r.res.Removed = append(r.res.Removed, seg.name)
	}
	return nil
}

// open opens segment i, for writing if that is to come, and turns the scanner to it.
func (r *recovery) open(i int) error {
	s := r.log.segs[i]
	f := r.files[i]
	if f == nil {
		flag := os.O_RDWR
		if r.log.opts.ReadOnly {
			flag = os.O_RDONLY
		}
		var err error
		if f, err = r.log.fs.OpenFile(s.name, flag, 0); err != nil {
			return fmt.Errorf("commitlog: open segment: %w", err)
		}
		r.files[i] = f
	}
	// Three files are enough to keep: this one, the one before, in which the tail may lie, and no more.
	if old := r.files[i-2]; old != nil {
		closeIdle(old)
		delete(r.files, i-2)
	}
	return r.scan.use(f, s.name, s.base)
}

// close gives up the files that install has not taken.
func (r *recovery) close() {
	for _, f := range r.files {
		closeIdle(f)
	}
}

// write makes the disk hold what was decided, and nothing more. Its order matters: the copy of the tail before its place
// is written, that before the copy goes, and all names before the mark that says the log is durable up to its end.
func (r *recovery) write() error {
	l := r.log
	if err := l.clean(); err != nil {
		return err
	}
	if err := r.removeSegments(); err != nil {
		return err
	}
	if err := r.blankRest(); err != nil {
		return err
	}
	if err := r.rewriteTail(); err != nil {
		return err
	}
	for _, f := range r.files {
		if err := f.Sync(); err != nil {
			return syncError{fmt.Errorf("commitlog: sync segment: %w", err)}
		}
	}
	if err := removeRedo(l.fs, l.dir); err != nil {
		return err
	}
	// All names, whether made now or found: the process before may have been killed between making one and syncing it.
	if err := syncDirs(l.fs, l.dir); err != nil {
		return syncError{err}
	}
	if err := l.mark.write(r.res.End, r.res.LogMs, r.res.Incarnation); err != nil {
		return err
	}
	if !l.mark.made {
		return nil // its name is among those synced before
	}
	if err := vfs.SyncDir(l.fs, l.dir); err != nil {
		return syncError{fmt.Errorf("commitlog: sync directory: %w", err)}
	}
	return nil
}

// removeSegments gives up and unlinks the segments that are no part of the log, those that are void already once more:
// the page cache may show what a failed sync has not brought to the disk. The last one is first, so that never is one
// left that no longer has the one before it.
func (r *recovery) removeSegments() error {
	l := r.log
	gone := slices.Concat(r.remove, l.void)
	slices.SortFunc(gone, func(a, b *segment) int { return cmp.Compare(b.base, a.base) })
	for _, s := range gone {
		if err := giveUp(l.fs, s); err != nil {
			return err
		}
	}
	for _, s := range gone {
		if err := removeFile(l.fs, s.name); err != nil {
			return fmt.Errorf("commitlog: remove segment: %w", err)
		}
	}
	return nil
}

// blankRest overwrites what lies behind the end with zeros, so that no part of it is ever taken for a batch.
func (r *recovery) blankRest() error {
	if r.blank < 0 {
		return nil
	}
	for off := r.blankFrom; off < r.blankTo; {
		n := min(r.blankTo-off, int64(len(zeroPage)))
		if _, err := r.files[r.blank].WriteAt(zeroPage[:n], off); err != nil {
			return fmt.Errorf("commitlog: blank the tail: %w", err)
		}
		off += n
	}
	return nil
}

// rewriteTail writes what is not known durable again: after a failed sync, or a kill, the page cache may show what the
// disk does not have and no sync will bring there.
func (r *recovery) rewriteTail() error {
	if r.tail < 0 || r.known >= r.res.End {
		return nil
	}
	s, f := r.log.segs[r.tail], r.files[r.tail]
	from := max(r.known, s.base+SegmentHeaderSize)
	if err := r.saveTail(s, f, from); err != nil {
		return err
	}
	off := int64(from - s.base)
	r.res.Rewritten = int64(r.res.End - from)
	err := copyBlocks(f, off, r.res.Rewritten, func(b []byte, at int64) error {
		_, err := f.WriteAt(b, off+at)
		return err
	})
	if err != nil {
		return fmt.Errorf("commitlog: write the tail again: %w", err)
	}
	return nil
}

// saveTail puts a copy of the tail beside the log. On a full disk the reserve gives way; without one the tail is written
// in its place without a copy, since a log that cannot be opened is worse than one that a second power cut may hurt.
func (r *recovery) saveTail(s *segment, f vfs.File, from Offset) error {
	l := r.log
	for {
		err := saveRedo(l.fs, l.dir, l.id, f, int64(from-s.base), redo{pos: from, length: int64(r.res.End - from)})
		if !vfs.IsNoSpace(err) {
			return err
		}
		i := slices.Index(l.reserved, true)
		if i < 0 {
			return nil
		}
		if err := removeFile(l.fs, path.Join(l.dir, reserveName(i))); err != nil {
			return fmt.Errorf("commitlog: take reserve: %w", err)
		}
		l.reserved[i] = false
		l.countReserve()
	}
}

// install makes the log what was found.
func (r *recovery) install() {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segs = l.segs[:max(r.tail, r.blank)+1]
	end := r.res.End
	l.end.Store(end)
	l.written.Store(end)
	l.durable.Store(end)
	l.incarnation = r.res.Incarnation
	w := &l.writer
	w.at, w.prevCRC, w.sealed, w.onlyState = end, r.res.LastCRC, r.res.Sealed, r.onlyState
	if r.tail >= 0 {
		w.seg = l.segs[r.tail]
		w.seg.sealed = r.res.Sealed
		w.seg.end = end
		r.pin(r.tail)
	}
	switch {
	case !r.res.Sealed:
	case r.blank >= 0:
		s := l.segs[r.blank]
		s.sealed = false
		l.next = s
		r.pin(r.blank)
	default:
		l.sealEnd = end
	}
	l.recovered.Store(true)
}

// pin hands a file over to the log.
func (r *recovery) pin(i int) {
	s, f := r.log.segs[i], r.files[i]
	if f == nil {
		return // not read: the segment before the one with start.From
	}
	delete(r.files, i)
	if r.log.opts.ReadOnly {
		closeIdle(f)
		return
	}
	r.log.pinLocked(s, f)
}
