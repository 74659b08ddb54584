package commitlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Lost is a range of the log that Repair gave up.
type Lost struct {
	From, To Offset
	File     string
	Reason   string
}

// repair is one run of Repair.
type repair struct {
	fs   vfs.FS
	dir  string
	id   uint64
	segs []*segment

	scan  scanner
	link  link
	last  Header // of the last batch that is right
	known Offset // the log was durable up to here
	lost  []Lost
}

// Repair makes a damaged log one that Recover accepts: where Recover would see damage it writes a hole batch, which
// covers all up to the next batch that is right. A header of a segment is written anew, a missing segment becomes a file
// with a hole. What a hole covers is lost, and is listed; a torn tail is left to Recover. Nothing that can be read is
// overwritten but the first bytes of what is lost. After a crash or an error it may be called again.
//
// s.From is where to begin, a segment or a batch boundary; one before the first segment means the first segment. Nobody
// may have the log open. Repair never runs by itself: losing data is an operator's decision.
func Repair(fsys vfs.FS, dir string, id uint64, s Start) ([]Lost, error) {
	m, err := openMark(fsys, dir, id)
	if err != nil {
		return nil, err
	}
	segs, err := listToRepair(fsys, dir, id)
	if err != nil {
		return nil, err
	}
	if len(segs) == 0 {
		return nil, missing(dir, s.From, "there is no segment")
	}
	redone, err := applyRedo(fsys, dir, id, segs, false)
	if err != nil {
		return nil, err
	}
	from := max(s.From, segs[0].base)
	r := &repair{fs: fsys, dir: dir, id: id, segs: segs, known: max(from, s.Durable, m.mark().Durable, redone)}
	r.link = link{crc: s.PrevCRC, known: from == s.From && s.PrevCRC != 0, incarnation: 0}
	r.scan.tolerant = true
	if err := r.run(from); err != nil {
		return r.lost, err
	}
	if err := syncDirs(fsys, dir); err != nil {
		return r.lost, fmt.Errorf("commitlog: repair: %w", err)
	}
	return r.lost, nil
}

// listToRepair lists the segments that are not void, whatever their headers look like.
func listToRepair(fsys vfs.FS, dir string, id uint64) ([]*segment, error) {
	all, err := listSegments(fsys, dir)
	if err != nil {
		return nil, err
	}
	var segs []*segment
	for _, s := range all {
		void, err := inspect(fsys, s, id)
		if errors.Is(err, ErrNewerFormat) {
			return nil, err
		}
		if !void {
			segs = append(segs, s)
		}
	}
	return segs, nil
}

// run goes from segment to segment.
func (r *repair) run(from Offset) error {
	for i := segmentIndex(r.segs, from); ; i++ {
		at := r.segs[i].base + SegmentHeaderSize
		end, sealed, err := r.segment(i, max(from, at))
		if err != nil || !sealed {
			return err
		}
		switch {
		case i+1 == len(r.segs):
			return r.makeSegment(end, max(r.known, end), false)
		case r.segs[i+1].base < end:
			return corrupt.Errorf(r.segs[i+1].name, 0, "segment begins within the one before it")
		case r.segs[i+1].base > end:
			if err := r.makeSegment(end, r.segs[i+1].base, true); err != nil {
				return err
			}
		}
	}
}

// segment repairs one segment from position at on. It is sealed if it has a seal batch, or got one.
func (r *repair) segment(i int, at Offset) (end Offset, sealed bool, err error) {
	s := r.segs[i]
	f, err := r.fs.OpenFile(s.name, os.O_RDWR, 0)
	if err != nil {
		return 0, false, fmt.Errorf("commitlog: repair: %w", err)
	}
	defer f.Close() // synced after each write
	if err := r.header(f, s); err != nil {
		return 0, false, err
	}
	if err := r.scan.use(f, s.name, s.base); err != nil {
		return 0, false, err
	}
	for {
		b, reason, err := r.scan.next(at, &r.link)
		if err != nil {
			return 0, false, err
		}
		if reason != "" {
			next, seals, err := r.damage(i, f, at, reason)
			if err != nil {
				return 0, false, err
			}
			if next == at {
				return 0, false, r.blank(f, s, int64(at-s.base))
			}
			if seals {
				return next, true, nil
			}
			at = next
			continue
		}
		r.last = b.Header
		r.known = max(r.known, b.DurableUpTo)
		at = b.End()
		if b.Has(FlagSeal) {
			return at, true, nil
		}
	}
}

// header writes the header of a segment anew if it is damaged.
func (r *repair) header(f vfs.File, s *segment) error {
	b := make([]byte, SegmentHeaderSize)
	n, err := f.ReadAt(b, 0)
	if n == len(b) || errors.Is(err, io.EOF) {
		err = checkSegmentHeader(s.name, b[:n], r.id, s.base)
	}
	if err == nil {
		return nil
	}
	if _, err := f.WriteAt(encodeSegmentHeader(r.id, s.base), 0); err != nil {
		return fmt.Errorf("commitlog: repair: write header: %w", err)
	}
	r.lose(s.name, s.base, s.base+SegmentHeaderSize, err.Error())
	return r.sync(f)
}

// damage covers what is lost from position at of segment i on, up to the next batch that is right, and returns that
// position; at itself when nothing is lost but a torn tail.
func (r *repair) damage(i int, f vfs.File, at Offset, reason string) (next Offset, seals bool, err error) {
	s := r.segs[i]
	w, err := r.scan.witness(at, r.segs[i+1:], r.open)
	if err != nil {
		return 0, false, err
	}
	known := r.known
	if w.found {
		known = max(known, w.header.DurableUpTo)
	}
	if known <= at {
		return at, false, nil
	}
	if err := r.scan.use(f, s.name, s.base); err != nil {
		return 0, false, err
	}
	next, found, err := r.nextGood(at)
	switch {
	case err != nil:
		return 0, false, err
	case found:
	case i+1 < len(r.segs):
		next, seals = r.segs[i+1].base, true
	default:
		next = known
	}
	if next-at < BatchHeaderSize {
		return 0, false, corrupt.Errorf(s.name, int64(at-s.base), "%s, and there is no room for a hole up to %d", reason, next)
	}
	if err := r.holes(f, s.base, at, next, seals); err != nil {
		return 0, false, err
	}
	r.lose(s.name, at, next, reason)
	return next, seals, nil
}

// nextGood looks for the next batch that is right.
func (r *repair) nextGood(at Offset) (Offset, bool, error) {
	off := int64(at-r.scan.base) + BatchHeaderSize
	for {
		h, ok, err := r.scan.find(off)
		if !ok || err != nil {
			return 0, false, err
		}
		_, reason, err := r.scan.next(h.Base, &link{incarnation: r.link.incarnation})
		if err != nil {
			return 0, false, err
		}
		if reason == "" {
			return h.Base, true, nil
		}
		off = int64(h.Base-r.scan.base) + batchAlign
	}
}

// open opens a segment for a scanner.
func (r *repair) open(s *segment) (vfs.File, func(), error) {
	f, err := r.fs.OpenFile(s.name, os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("commitlog: repair: %w", err)
	}
	return f, func() { f.Close() }, nil // only read
}

// holes writes hole batches that cover [from, to) into the file of the segment at base, and syncs it.
func (r *repair) holes(f vfs.File, base, from, to Offset, seal bool) error {
	for from < to {
		n := to - from
		if n > maxHole {
			n = maxHole - BatchHeaderSize // so that the last one has room for its header
		}
		h := r.last
		h.Base, h.Length, h.PrevCRC = from, int64(n), r.link.crc
		h.BaseID, h.Count = 0, 0
		h.DurableUpTo, h.Incarnation = from, r.link.incarnation
		h.Flags = FlagHole | FlagMustUnderstand
		if seal && from+n == to {
			h.Flags |= FlagSeal
		}
		// To the end of the page: a sector that cannot be read heals only if it is written whole.
		off := int64(from - base)
		end := min(int64(n), (off+BatchHeaderSize+scanPage-1)/scanPage*scanPage-off)
		b := make([]byte, end)
		h.CRC = encodeBatch(b[:BatchHeaderSize], &h)
		if _, err := f.WriteAt(b, off); err != nil {
			return fmt.Errorf("commitlog: repair: write hole: %w", err)
		}
		r.last = h
		r.link.follow(&h)
		from += n
	}
	return r.sync(f)
}

// blank overwrites with zeros what cannot be read behind the end of the log, since Recover reads that too.
func (r *repair) blank(f vfs.File, s *segment, from int64) error {
	page := make([]byte, scanPage)
	wrote := false
	for off := from; off < s.bytes; {
		n := min(scanPage-off%scanPage, s.bytes-off)
		if _, err := f.ReadAt(page[:n], off); err != nil && !errors.Is(err, io.EOF) {
			if _, err := f.WriteAt(zeroPage[:n], off); err != nil {
				return fmt.Errorf("commitlog: repair: blank the tail: %w", err)
			}
			wrote = true
		}
		off += n
	}
	if !wrote {
		return nil
	}
	return r.sync(f)
}

// makeSegment makes the file of a missing segment, whose batches lie up to the position to and are lost.
func (r *repair) makeSegment(base, to Offset, seal bool) error {
	next := path.Join(r.dir, nextName)
	name := segmentName(r.dir, base)
	f, err := r.fs.OpenFile(next, os.O_RDWR|os.O_CREATE|os.O_TRUNC, filePerm)
	if err != nil {
		return fmt.Errorf("commitlog: repair: make segment: %w", err)
	}
	defer f.Close() // synced below
	if _, err := f.WriteAt(encodeSegmentHeader(r.id, base), 0); err != nil {
		return fmt.Errorf("commitlog: repair: write header: %w", err)
	}
	from := base + SegmentHeaderSize
	if to-from < BatchHeaderSize {
		if seal {
			return corrupt.Errorf(name, 0, "segment is missing, and there is no room for a hole up to %d", to)
		}
		to = from // it had no batch that was durable
	}
	if err := r.holes(f, base, from, to, seal); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("commitlog: repair: close segment: %w", err)
	}
	if err := r.fs.Rename(next, name); err != nil {
		return fmt.Errorf("commitlog: repair: rename segment: %w", err)
	}
	r.lose(name, base, to, "segment is missing")
	return nil
}

func (r *repair) lose(file string, from, to Offset, reason string) {
	r.lost = append(r.lost, Lost{From: from, To: to, File: file, Reason: reason})
}

func (r *repair) sync(f vfs.File) error {
	if err := f.Sync(); err != nil {
		return fmt.Errorf("commitlog: repair: sync: %w", err)
	}
	return nil
}
