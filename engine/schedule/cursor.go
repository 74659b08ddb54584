package schedule

import "github.com/tidewheel/tidewheel/engine/timerlog"

// readAhead is how many entries a Cursor reads at once: 14 KiB, within the 16 KiB that the merge has for each source.
const readAhead = 256

// Cursor goes over a queue in order. It may stand at the end and go on when more was appended. It is not safe for
// concurrent use. It has nothing to close.
type Cursor struct {
	q      *Queue
	next   int64  // index of the entry that Next returns
	buffer []byte // made on first use, then kept
	ahead  []byte // cells from next on, part of buffer
}

// Cursor returns a cursor whose first entry is the one at index i.
func (q *Queue) Cursor(i int64) *Cursor { return &Cursor{q: q, next: i} }

// Index is the index of the entry that Next returns next.
func (c *Cursor) Index() int64 { return c.next }

// MoveTo makes Next go on at index i.
func (c *Cursor) MoveTo(i int64) { c.next, c.ahead = i, nil }

// Next returns the next entry; ok is false at the end of the queue. Entries that were read ahead are returned even if
// they have been trimmed since; otherwise errors are those of Queue.Entry, and the cursor stays where it is.
func (c *Cursor) Next() (e timerlog.Entry, ok bool, err error) {
	if len(c.ahead) == 0 {
		if err := c.fill(); err != nil || len(c.ahead) == 0 {
			return timerlog.Entry{}, false, err
		}
	}
	e, err = c.q.decode(c.ahead, c.next)
	if err != nil {
		return timerlog.Entry{}, false, err
	}
	c.ahead = c.ahead[cellSize:]
	c.next++
	return e, true, nil
}

// fill reads ahead. Cells before a damaged place are yielded first; the error comes when the cursor stands at it.
func (c *Cursor) fill() error {
	if c.buffer == nil {
		c.buffer = make([]byte, readAhead*cellSize)
	}
	cells, err := c.q.read(c.next, c.buffer)
	if cells == 0 {
		return err
	}
	c.ahead = c.buffer[:cells*cellSize]
	return nil
}
