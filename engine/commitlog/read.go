package commitlog

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
)

// ReadRecord reads the record at pos, which is size bytes long, frame included; with size 0 the length is read first.
// The payload lies in the returned slice, which is buf, or a longer one if buf is too short; it belongs to the caller.
// Length, CRC and position are checked: a record that is not right is a *corrupt.Error with file and byte, a position
// that the log does not have is ErrOutOfLog; a sector that cannot be read is the error of the file system. Appended records are found at once, durable or not: what may leave the
// engine is the caller's business. Safe for concurrent use.
func (l *Log) ReadRecord(pos Offset, size int, buf []byte) (Record, []byte, error) {
	if size != 0 && (size < RecordHeaderSize || size > MaxRecord) {
		return Record{}, buf, fmt.Errorf("commitlog: read record at %d: size %d is impossible", pos, size)
	}
	n := size
	if n == 0 {
		n = RecordHeaderSize
	}
	buf, err := l.readSome(pos, n, buf)
	if err != nil {
		return Record{}, buf, err
	}
	if size == 0 {
		n, reason := recordSize(buf)
		if reason != "" {
			return Record{}, buf, l.damaged(pos, reason)
		}
		if buf, err = l.readSome(pos, n, buf); err != nil {
			return Record{}, buf, err
		}
	}
	r, reason := parseRecord(pos, buf)
	if reason == "" && size != 0 && r.Size != size {
		reason = fmt.Sprintf("record is %d bytes long, not %d", r.Size, size)
	}
	if reason != "" {
		return Record{}, buf, l.damaged(pos, reason)
	}
	return r, buf, nil
}

// readSome reads n bytes at pos into buf, or into a longer slice.
func (l *Log) readSome(pos Offset, n int, buf []byte) ([]byte, error) {
	// Before memory is taken: what is not in the log is not worth any.
	if err := l.within(pos, n); err != nil {
		return buf, err
	}
	buf = slices.Grow(buf[:0], n)[:n]
	return buf, l.readRaw(pos, buf)
}

// ReadRaw fills p with the bytes of the log from pos on, whatever they are. They must lie in one segment; else, and
// for a position that the log does not have, it returns ErrOutOfLog. Safe for concurrent use.
func (l *Log) ReadRaw(pos Offset, p []byte) error {
	if err := l.within(pos, len(p)); err != nil {
		return err
	}
	return l.readRaw(pos, p)
}

// within says whether n bytes from pos on are in one segment of the log.
func (l *Log) within(pos Offset, n int) error {
	if err := l.readable(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.findLocked(pos)
	if s == nil || Offset(n) > l.endLocked(s)-pos {
		return fmt.Errorf("%w: %d bytes at %d", ErrOutOfLog, n, pos)
	}
	return nil
}

func (l *Log) readRaw(pos Offset, p []byte) error {
	for len(p) > 0 {
		n, below := l.copyTail(pos, p)
		if n == 0 {
			n = int(min(Offset(len(p)), below-pos))
			if n <= 0 {
				// The header of a segment without a batch: in a file, behind the end.
				n = len(p)
			}
			if err := l.readFile(pos, p[:n]); err != nil {
				return err
			}
		}
		pos += Offset(n)
		p = p[n:]
	}
	return nil
}

// readFile reads from the file of the segment that holds pos.
func (l *Log) readFile(pos Offset, p []byte) error {
	l.mu.Lock()
	s := l.findLocked(pos)
	l.mu.Unlock()
	if s == nil {
		return fmt.Errorf("%w: %d", ErrOutOfLog, pos)
	}
	f, err := l.acquire(s)
	if err != nil {
		return err
	}
	n, err := f.ReadAt(p, int64(pos-s.base))
	l.release(s)
	switch {
	case n == len(p):
		return nil
	case errors.Is(err, io.EOF):
		return corrupt.Errorf(s.name, int64(pos-s.base)+int64(n), "file ends before the log does")
	}
	return fmt.Errorf("commitlog: read %d bytes at %d: %w", len(p), pos, err)
}

// damaged is the error for bytes at pos.
func (l *Log) damaged(pos Offset, reason string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.findLocked(pos)
	if s == nil {
		return fmt.Errorf("%w: %d", ErrOutOfLog, pos) // dropped meanwhile
	}
	return corrupt.Errorf(s.name, int64(pos-s.base), "%s", reason)
}
