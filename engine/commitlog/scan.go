package commitlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

const (
	scanBlock = 1 << 20 // what is read at a time
	scanPage  = 4 << 10 // what is looked at at a time when it may be all zero

	scanSector = 512 // what is read at a time where not all can be read
)

// scanner reads the batches of one file after another. Not safe for concurrent use.
type scanner struct {
	file vfs.File
	name string
	base Offset
	size int64

	buf  []byte // the bytes of the file from off on
	off  int64
	last int64 // behind the last byte that find has seen and that is not zero

	batch Batch
	small [BatchHeaderSize]byte

	tolerant bool // what cannot be read counts as zeros
}

// link is what a batch must follow.
type link struct {
	crc         uint32
	known       bool // crc is that of the batch before
	incarnation uint32
}

// follow moves the link on to a batch. Behind a hole the chain begins anew.
func (k *link) follow(h *Header) {
	k.crc, k.known, k.incarnation = h.CRC, h.Flags&FlagHole == 0, h.Incarnation
}

// use turns to another file.
func (s *scanner) use(f vfs.File, name string, base Offset) error {
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("commitlog: size of segment: %w", err)
	}
	s.file, s.name, s.base, s.size = f, name, base, size
	s.buf, s.off, s.last = s.buf[:0], 0, 0
	return nil
}

// window gives n bytes of the file from off on, which must be there. They are valid until the next call.
func (s *scanner) window(off int64, n int) ([]byte, error) {
	if off < s.off || off+int64(n) > s.off+int64(len(s.buf)) {
		if err := s.fill(off, n); err != nil {
			return nil, err
		}
	}
	return s.buf[off-s.off:][:n:n], nil
}

// fill reads n bytes from off on, and what else makes up a block, if that can be read.
func (s *scanner) fill(off int64, n int) error {
	block := int(max(int64(n), min(scanBlock, s.size-off)))
	err := s.read(off, block)
	switch {
	case err == nil:
		return nil
	case s.tolerant:
		s.fillPages(off, block)
		return nil
	case 0 < n && n < block:
		err = s.read(off, n) // what is unreadable may lie behind the batch, where nobody need look
	}
	if err != nil {
		return fmt.Errorf("commitlog: read segment: %w", err)
	}
	return nil
}

// read reads n bytes from off on into the buffer.
func (s *scanner) read(off int64, n int) error {
	s.buf, s.off = slices.Grow(s.buf[:0], n)[:n], off
	k, err := s.file.ReadAt(s.buf, off)
	if k == n {
		return nil
	}
	s.buf = s.buf[:0]
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // it was longer a moment ago
	}
	return err
}

// fillPages reads of n bytes from off on what can be read.
func (s *scanner) fillPages(off int64, n int) {
	s.buf, s.off = slices.Grow(s.buf[:0], n)[:n], off
	for i := 0; i < len(s.buf); {
		page := s.buf[i:min(len(s.buf), i+scanSector)]
		if k, _ := s.file.ReadAt(page, s.off+int64(i)); k < len(page) {
			clear(page)
		}
		i += len(page)
	}
}

// next reads the batch at position at, which must follow on k. When there is none that is right it says why; an error
// is another matter. The batch is valid until the next call.
func (s *scanner) next(at Offset, k *link) (b *Batch, reason string, err error) {
	off := int64(at - s.base)
	if off+BatchHeaderSize > s.size {
		return nil, "file ends here", nil
	}
	buf, err := s.window(off, BatchHeaderSize)
	if err != nil {
		return nil, "", err
	}
	if allZero(buf) {
		return nil, reasonBlank, nil
	}
	h, reason := decodeHeader(buf, at)
	if reason == "" {
		reason = h.checkLength()
	}
	if reason != "" {
		return nil, reason, nil
	}
	if off+h.stored() > s.size {
		return nil, "file ends within the batch", nil
	}
	if buf, err = s.window(off, int(h.stored())); err != nil {
		return nil, "", err
	}
	switch {
	case batchSum(buf) != h.CRC:
		return nil, "CRC of the batch does not match", nil
	case k.known && h.PrevCRC != k.crc:
		return nil, "batch does not follow on the one before it", nil
	case h.Incarnation < k.incarnation:
		// Left by an earlier life of the log, whose end was blanked in the page cache and not on the disk.
		return nil, fmt.Sprintf("batch is of incarnation %d, the one before of %d", h.Incarnation, k.incarnation), nil
	}
	if err := h.checkFlags(s.name); err != nil {
		return nil, "", err
	}
	k.follow(&h)
	s.batch = Batch{Header: h, file: s.name, segment: s.base, content: buf[BatchHeaderSize:]}
	return &s.batch, "", nil
}

// reasonBlank is why there is no batch where nothing was written.
const reasonBlank = "nothing is written here"

var zeroPage [scanPage]byte

// allZero says whether b, at most a page, is.
func allZero(b []byte) bool { return bytes.Equal(b, zeroPage[:len(b)]) }

// find looks for the next header of a batch in the file, from off on, at every aligned byte: magic and position are
// looked at before the CRC of the local part, and pages of zeros are passed over, so it costs what reading costs. The
// rest of the batch need not be right. It returns false at the end of the file, and notes where the last byte stands
// that is not zero.
func (s *scanner) find(off int64) (Header, bool, error) {
	off = (off + batchAlign - 1) &^ (batchAlign - 1)
	for off < s.size {
		if off < s.off || off >= s.off+int64(len(s.buf)) {
			if err := s.fill(off, 0); err != nil {
				return Header{}, false, err
			}
		}
		page := s.buf[off-s.off:]
		page = page[:min(len(page), scanPage)]
		if !allZero(page) {
			s.last = max(s.last, off+int64(lastNonZero(page)))
			h, found, err := s.findIn(page, off)
			if found || err != nil {
				return h, found, err
			}
		}
		off += int64(len(page))
	}
	return Header{}, false, nil
}

// findIn looks in a page of the buffer.
func (s *scanner) findIn(page []byte, off int64) (Header, bool, error) {
	for i := 0; i+4 <= len(page); i += batchAlign {
		if binary.BigEndian.Uint32(page[i:]) != batchMagic {
			continue
		}
		at := off + int64(i)
		if at+BatchHeaderSize > s.size {
			break
		}
		b := s.buf[at-s.off:]
		if len(b) < BatchHeaderSize {
			// Across the end of the buffer.
			b = s.small[:]
			if n, err := s.file.ReadAt(b, at); n < len(b) {
				if s.tolerant {
					continue
				}
				return Header{}, false, fmt.Errorf("commitlog: read segment: %w", err)
			}
		}
		if h, reason := decodeHeader(b, s.base+Offset(at)); reason == "" {
			return h, true, nil
		}
	}
	return Header{}, false, nil
}

// lastNonZero is the index behind the last byte of b that is not zero.
func lastNonZero(b []byte) int {
	for i := len(b); i > 0; i-- {
		if b[i-1] != 0 {
			return i
		}
	}
	return 0
}

// witness looks for a batch behind position at, in the file and then in the later segments, that knew the log durable
// beyond it. Any header counts whose local part is right, even if its batch is torn: it could be written only when what
// lies before was durable. It returns the greatest incarnation met, and the last byte of the first file that is not
// zero.
func (s *scanner) witness(at Offset, later []*segment, open func(*segment) (vfs.File, func(), error)) (w witnessed, err error) {
	off := int64(at - s.base)
	s.last = off
	if w.found, err = s.witnessIn(off, at, &w); err != nil || w.found {
		return w, err
	}
	w.last = s.last
	for _, seg := range later {
		f, done, err := open(seg)
		if err != nil {
			return w, err
		}
		err = s.use(f, seg.name, seg.base)
		if err == nil {
			s.last = SegmentHeaderSize
			w.found, err = s.witnessIn(SegmentHeaderSize, at, &w)
			w.later += s.last - SegmentHeaderSize
		}
		done()
		if err != nil || w.found {
			return w, err
		}
	}
	return w, nil
}

type witnessed struct {
	found       bool
	header      Header
	incarnation uint32
	last        int64 // in the first file, behind the last byte that is not zero
	later       int64 // bytes that are not blank in later files
}

func (s *scanner) witnessIn(off int64, at Offset, w *witnessed) (bool, error) {
	for {
		h, ok, err := s.find(off)
		if !ok || err != nil {
			return false, err
		}
		w.incarnation = max(w.incarnation, h.Incarnation)
		if h.DurableUpTo > at {
			w.header = h
			return true, nil
		}
		off = int64(h.Base-s.base) + batchAlign
	}
}

// Scan calls fn for each batch from a position on: a batch boundary, or the base of a segment. With checkChain the
// first batch must follow on one with prevCRC. It stops at the end of the log, and with a *corrupt.Error where no batch
// is; fn may stop it with fs.SkipAll, and any other error of fn is returned. It judges no state records and writes
// nothing.
//
// Behind Recover it goes to what was written when it was called, and is safe for concurrent use. Before, the end is
// where nothing is written and no later batch says otherwise; a torn tail is an error too.
func (l *Log) Scan(from Offset, prevCRC uint32, checkChain bool, fn func(*Batch) error) error {
	end := Offset(-1)
	if l.recovered.Load() {
		end = l.written.Load()
	}
	l.mu.Lock()
	segs := slices.DeleteFunc(slices.Clone(l.segs), func(s *segment) bool { return s.dropped })
	l.mu.Unlock()
	i := segmentIndex(segs, from)
	if i < 0 {
		if len(segs) == 0 && from == l.end.Load() {
			return nil
		}
		return fmt.Errorf("%w: %d", ErrOutOfLog, from)
	}
	if from == segs[i].base {
		from += SegmentHeaderSize
	}
	s := scanner{}
	k := link{crc: prevCRC, known: checkChain}
	for ; i < len(segs); i++ {
		sealed, err := l.scanSegment(&s, segs[i:], from, end, &k, fn)
		if err != nil || !sealed {
			if errors.Is(err, fs.SkipAll) {
				return nil
			}
			return err
		}
		from = s.batch.End()
		switch {
		case from == end:
			return nil
		case i+1 == len(segs), segs[i+1].base > from:
			return missing(l.dir, from, "the segment before it is sealed")
		case segs[i+1].base < from:
			return corrupt.Errorf(segs[i+1].name, 0, "segment begins within the one before it")
		}
		from += SegmentHeaderSize
	}
	return nil
}

// scanSegment scans the first of segs from a position on and says whether it ends with a seal.
func (l *Log) scanSegment(s *scanner, segs []*segment, at, end Offset, k *link, fn func(*Batch) error) (sealed bool, err error) {
	seg := segs[0]
	f, err := l.acquire(seg)
	if err != nil {
		return false, err
	}
	defer l.release(seg)
	if err := s.use(f, seg.name, seg.base); err != nil {
		return false, err
	}
	if end >= 0 {
		s.size = min(s.size, int64(end-seg.base)) // who follows the log reads what is new, not the blank rest of the file
	}
	for end < 0 || at < end {
		b, reason, err := s.next(at, k)
		if err != nil {
			return false, err
		}
		if reason != "" {
			return false, l.scanEnd(s, segs, at, end, reason)
		}
		if err := fn(b); err != nil {
			return false, err
		}
		at = b.End()
		if b.Has(FlagSeal) {
			return true, nil
		}
	}
	return false, nil
}

// scanEnd says whether the log may end where there is no batch.
func (l *Log) scanEnd(s *scanner, segs []*segment, at, end Offset, reason string) error {
	damage := corrupt.Errorf(s.name, int64(at-s.base), "%s", reason)
	if end >= 0 || (reason != reasonBlank && int64(at-s.base) < s.size) {
		return damage
	}
	w, err := s.witness(at, segs[1:], l.openForScan)
	if err != nil {
		return err
	}
	if w.found {
		return damage
	}
	return nil
}

// openForScan opens a segment for a scanner.
func (l *Log) openForScan(s *segment) (vfs.File, func(), error) {
	f, err := l.acquire(s)
	return f, func() { l.release(s) }, err
}

// segmentIndex is the index of the segment that holds pos, or would if it went that far; -1 when pos is before all.
func segmentIndex(segs []*segment, pos Offset) int {
	i := len(segs) - 1
	for i >= 0 && segs[i].base > pos {
		i--
	}
	return i
}
