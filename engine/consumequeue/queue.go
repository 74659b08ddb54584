package consumequeue

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/segment"
)

// Returned by reads.
var (
	// ErrTrimmed says that the offset is below the queue's minimum.
	ErrTrimmed = segment.ErrTrimmed
	// ErrNotVisible says that readers may not see the offset yet, or that it does not exist.
	ErrNotVisible = errors.New("consumequeue: offset is not visible")
)

// readUnits is how many units are read from a file at once.
const readUnits = 256

// Queue is the ConsumeQueue of one queue of a topic. One goroutine, the writer, calls Append, Release and Trim;
// any goroutine calls the others. The Set that made it closes it.
type Queue struct {
	key     Key // set once, then read-only
	cells   *segment.Array
	buffers *sync.Pool // of *[readUnits * UnitSize]byte, shared by the queues of a Set

	// Invariant: visible <= cells.Len(). Only the writer raises it, when the log is durable up to what the units say.
	visible atomic.Int64

	cell [UnitSize]byte // owned by the writer: what Append encodes into
}

// Key is the topic and queue that the ConsumeQueue belongs to.
func (q *Queue) Key() Key { return q.key }

// Append adds a unit, in memory, and returns its offset. Its LogMs must not be less than that of the unit before.
// Readers do not see it before Release.
func (q *Queue) Append(u Unit) QueueOffset {
	o := QueueOffset(q.cells.Len())
	q.cells.Append(u.Append(q.cell[:0], o))
	return o
}

// Release lets readers see the units below o. It never takes back, and does not go beyond Len.
func (q *Queue) Release(o QueueOffset) {
	if n := min(int64(o), q.cells.Len()); n > q.visible.Load() {
		q.visible.Store(n)
	}
}

// First is the minimum offset: what lies below was trimmed.
func (q *Queue) First() QueueOffset { return QueueOffset(q.cells.First()) }

// Len is the offset that the next unit gets.
func (q *Queue) Len() QueueOffset { return QueueOffset(q.cells.Len()) }

// Visible is the maximum offset of readers: one more than that of the last unit they see.
func (q *Queue) Visible() QueueOffset { return QueueOffset(q.visible.Load()) }

// Unit returns the unit at offset o. The error is ErrTrimmed below First, ErrNotVisible from Visible on, and otherwise
// as for Units.
func (q *Queue) Unit(o QueueOffset) (Unit, error) {
	var one [1]Unit
	n, err := q.Units(o, one[:])
	if err == nil && n == 0 {
		err = ErrNotVisible
	}
	return one[0], err
}

// Units fills dst with visible units from offset o on and returns how many: 0 at Visible and beyond. Below First the
// error is ErrTrimmed. A damaged unit, or a file that is damaged or missing, is a *corrupt.Error with the file and the
// byte; n counts the good units before it.
func (q *Queue) Units(o QueueOffset, dst []Unit) (n int, err error) {
	visible := q.visible.Load() // before First: what is trimmed was visible
	if o < q.First() {
		return 0, ErrTrimmed
	}
	dst = dst[:min(int64(len(dst)), max(0, visible-int64(o)))]
	if len(dst) == 0 {
		return 0, nil
	}
	buffer := q.buffers.Get().(*[readUnits * UnitSize]byte)
	defer q.buffers.Put(buffer)
	for n < len(dst) {
		want := min(readUnits, len(dst)-n)
		cells, readErr := q.cells.Read(int64(o)+int64(n), buffer[:want*UnitSize])
		for i := range cells {
			at := o + QueueOffset(n)
			if dst[n], err = DecodeUnit(buffer[i*UnitSize:], at); err != nil {
				file, offset := q.cells.Locate(int64(at))
				return n, corrupt.Errorf(file, offset, "unit %d: %v", at, err)
			}
			n++
		}
		if readErr != nil {
			return n, fmt.Errorf("consumequeue: topic %d queue %d: %w", q.key.Topic, q.key.Queue, readErr)
		}
	}
	return n, nil
}

// SearchLogTime returns the first visible offset whose unit has a log time of at least ms; Visible if there is none.
// It reads as many units as the number of visible ones has bits.
func (q *Queue) SearchLogTime(ms int64) (QueueOffset, error) {
	lo, hi := q.First(), q.Visible()
	for lo < hi {
		mid := lo + (hi-lo)/2
		u, err := q.Unit(mid)
		switch {
		case errors.Is(err, ErrTrimmed): // while we looked
			lo = max(mid+1, q.First())
		case err != nil:
			return 0, err
		case u.LogMs >= ms:
			hi = mid
		default:
			lo = mid + 1
		}
	}
	return lo, nil
}

// Trim raises the minimum offset; it never takes back, and does not go beyond Len.
func (q *Queue) Trim(first QueueOffset) { q.cells.Trim(int64(first)) }
