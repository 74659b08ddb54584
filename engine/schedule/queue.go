package schedule

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/segment"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// cellSize is the length of an encoded cell. It is part of the file format, do not change.
const cellSize = timerlog.EntrySize + 4

// ErrOrder is returned by Append for an entry that is not above the last one.
var ErrOrder = errors.New("schedule: entry out of order")

// ErrTrimmed is returned by reads below First.
var ErrTrimmed = segment.ErrTrimmed

// ErrCell is returned by DecodeCell for bytes that are not the cell of that index.
var ErrCell = errors.New("schedule: bad cell")

// AppendCell appends an entry to b as it stands at index i of a schedule queue.
func AppendCell(b []byte, i int64, e timerlog.Entry) []byte {
	start := len(b)
	b = e.Append(b)
	return binary.BigEndian.AppendUint32(b, segment.Checksum(i, b[start:]))
}

// DecodeCell reads the cell that b begins with, which stood at index i of a schedule queue. The error, of kind ErrCell,
// says that b is too short or was not written there.
func DecodeCell(b []byte, i int64) (timerlog.Entry, error) {
	if len(b) < cellSize {
		return timerlog.Entry{}, fmt.Errorf("%w: %d bytes of %d", ErrCell, len(b), cellSize)
	}
	crc := binary.BigEndian.Uint32(b[timerlog.EntrySize:])
	if got := segment.Checksum(i, b[:timerlog.EntrySize]); got != crc {
		return timerlog.Entry{}, fmt.Errorf("%w: CRC is %08x, its bytes and index %d give %08x", ErrCell, crc, i, got)
	}
	return timerlog.DecodeEntry(b)
}

// Queue is the schedule queue of one delay: entries that ascend strictly by key. One goroutine, the writer, calls
// Append, Last and Trim; any goroutine calls the others. The Set that made it closes it.
type Queue struct {
	delayMs int64 // set once, then read-only
	cells   *segment.Array

	// owned by the writer
	last   timerlog.Key // of the last entry, if loaded
	loaded bool
	cell   [cellSize]byte // what Append encodes into
}

// DelayMs is the delay that the queue is for, in milliseconds.
func (q *Queue) DelayMs() int64 { return q.delayMs }

// Append adds an entry, in memory. If its key is not above that of the last entry the error is ErrOrder and nothing was
// added. The first Append after opening may read the last entry from its file and return that error.
func (q *Queue) Append(e timerlog.Entry) error {
	last, ok, err := q.Last()
	if err != nil {
		return err
	}
	if ok && !last.Less(e.Key) {
		return fmt.Errorf("%w: delay %d ms: (due %d, id %d) after (due %d, id %d)",
			ErrOrder, q.delayMs, e.Due, e.ID, last.Due, last.ID)
	}
	q.cells.Append(AppendCell(q.cell[:0], q.cells.Len(), e))
	q.last, q.loaded = e.Key, true
	return nil
}

// Last is the key of the last entry; not ok if there is none, or if it was trimmed before the queue was opened.
func (q *Queue) Last() (k timerlog.Key, ok bool, err error) {
	n := q.cells.Len()
	if q.loaded || n == q.cells.First() {
		return q.last, q.loaded, nil
	}
	e, err := q.Entry(n - 1)
	if err != nil {
		return timerlog.Key{}, false, err
	}
	q.last, q.loaded = e.Key, true
	return q.last, true, nil
}

// First is the lowest index that was not trimmed.
func (q *Queue) First() int64 { return q.cells.First() }

// Len is the index that the next entry gets.
func (q *Queue) Len() int64 { return q.cells.Len() }

// Entry returns the entry at index i, which must be below Len. Below First the error is ErrTrimmed. A damaged cell, or
// a file that is damaged or missing, is a *corrupt.Error with the file and the byte.
func (q *Queue) Entry(i int64) (timerlog.Entry, error) {
	return q.entry(i, make([]byte, cellSize))
}

// entry is Entry with a buffer for the cell.
func (q *Queue) entry(i int64, cell []byte) (timerlog.Entry, error) {
	n, err := q.read(i, cell)
	if err != nil {
		return timerlog.Entry{}, err
	}
	if n == 0 {
		return timerlog.Entry{}, fmt.Errorf("schedule: delay %d ms: entry %d of %d", q.delayMs, i, q.Len())
	}
	return q.decode(cell, i)
}

// read copies cells from index i into b, as many as there are and fit.
func (q *Queue) read(i int64, b []byte) (cells int, err error) {
	cells, err = q.cells.Read(i, b)
	if err != nil {
		err = fmt.Errorf("schedule: delay %d ms: %w", q.delayMs, err)
	}
	return cells, err
}

// decode is DecodeCell with an error that says where the cell is.
func (q *Queue) decode(cell []byte, i int64) (timerlog.Entry, error) {
	e, err := DecodeCell(cell, i)
	if err != nil {
		file, offset := q.cells.Locate(i)
		err = corrupt.Errorf(file, offset, "cell %d: %v", i, err)
	}
	return e, err
}

// Search returns the lowest index whose entry has a key above k; Len if there is none. It reads as many entries as
// their number has bits.
func (q *Queue) Search(k timerlog.Key) (int64, error) {
	lo, hi := q.First(), q.Len()
	cell := make([]byte, cellSize)
	for lo < hi {
		mid := lo + (hi-lo)/2
		e, err := q.entry(mid, cell)
		switch {
		case errors.Is(err, ErrTrimmed): // while we looked
			lo = max(mid+1, q.First())
		case err != nil:
			return 0, err
		case k.Less(e.Key):
			hi = mid
		default:
			lo = mid + 1
		}
	}
	return lo, nil
}

// Trim gives up the entries below first; it never takes back, and does not go beyond Len.
func (q *Queue) Trim(first int64) { q.cells.Trim(first) }
