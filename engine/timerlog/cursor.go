package timerlog

import (
	"fmt"
	"sort"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
)

// Cursor reads a group from a key on, a block at a time: it holds at most 13 KiB and never more than the group is long.
// It needs no Close. It is not safe for concurrent use; several may read one group at the same time.
type Cursor struct {
	log   *Log
	ref   Ref
	after Key    // the next entry is above
	group uint32 // CRC of the group's header
	next  int    // block to load; all blocks: there is none

	buf      []byte
	pos, end int  // entries not handed out yet, in buf
	loaded   bool // a block was
	last     Key  // of the entry handed out last; after at first
	tmp      [20]byte
}

// Cursor starts to read the group ref at its first entry with a key above after. Nothing is read if there is no such
// entry. Otherwise the group's header is, and the first keys of as many blocks as it takes to find the right one.
func (l *Log) Cursor(ref Ref, after Key) (*Cursor, error) {
	if ref.Kind != KindGroup {
		return nil, fmt.Errorf("timerlog: cursor: no group but kind %d", ref.Kind)
	}
	if err := l.checkBounds(ref); err != nil {
		return nil, err
	}
	c := &Cursor{log: l, ref: ref, after: after, last: after}
	if !after.Less(ref.Max) {
		c.next = blocksOf(ref.Count)
		return c, nil
	}
	first := min(ref.Length, groupHeaderSize+blockSize)
	c.buf = make([]byte, first)
	head := c.buf
	seek := first < ref.Length && !after.Less(ref.Min)
	if seek {
		head = head[:groupHeaderSize] // the first block is not the one, or it is found by search
	}
	if err := l.readAt(head, ref.Place()); err != nil {
		return nil, err
	}
	var err error
	if c.group, err = l.checkRef(ref, head, &c.tmp); err != nil {
		return nil, err
	}
	if !seek {
		return c, c.take(0, c.buf[groupHeaderSize:])
	}
	return c, c.seek()
}

// seek makes next the last block whose first key is not above after. Block 0 is one.
//
// The search believes bytes that no CRC was asked for. That cannot lead it past an entry: take checks all of the block that
// it comes to, and that the first key there is not above after, so whatever lies before it is below. Damage elsewhere makes
// it come to an earlier block, from where everything is read.
func (c *Cursor) seek() error {
	var failed error
	n := sort.Search(blocksOf(c.ref.Count)-1, func(i int) bool {
		if failed != nil {
			return true
		}
		var k Key
		k, failed = c.firstKey(i + 1)
		return c.after.Less(k)
	})
	c.next = n
	return failed
}

// firstKey reads the first key of a block.
func (c *Cursor) firstKey(block int) (Key, error) {
	b := c.buf[:keySize]
	at := c.place(block)
	at.Offset += blockHeadSize
	if err := c.log.readAt(b, at); err != nil {
		return Key{}, err
	}
	return keyAt(b), nil
}

func (c *Cursor) place(block int) Place {
	return Place{c.ref.File, c.ref.Offset + groupHeaderSize + int64(block)*blockSize}
}

// entries is the number of entries in a block.
func (c *Cursor) entries(block int) int {
	return min(blockEntries, c.ref.Count-block*blockEntries)
}

// Next returns the next entry in order, or false at the end. After an error that is not damage it may be called again:
// nothing was passed over.
func (c *Cursor) Next() (Entry, bool, error) {
	for c.pos == c.end {
		if c.next == blocksOf(c.ref.Count) {
			c.buf = nil
			return Entry{}, false, nil
		}
		b := c.buf[:blockHeadSize+c.entries(c.next)*EntrySize]
		if err := c.log.readAt(b, c.place(c.next)); err != nil {
			return Entry{}, false, err
		}
		if err := c.take(c.next, b); err != nil {
			return Entry{}, false, err
		}
	}
	e := entryAt(c.buf[c.pos:c.end])
	if !c.last.Less(e.Key) {
		return Entry{}, false, c.damaged(c.next-1, "entries do not ascend")
	}
	c.last = e.Key
	c.pos += EntrySize
	return e, true, nil
}

// take checks a block that was read into b, a part of buf, and makes ready what is above after.
func (c *Cursor) take(block int, b []byte) error {
	n := c.entries(block)
	if err := checkBlock(b, &c.tmp, c.place(block), c.group, n); err != nil {
		return c.damaged(block, err)
	}
	key := func(i int) Key { return keyAt(b[blockHeadSize+i*EntrySize:]) }
	if block == 0 && key(0) != c.ref.Min || block == blocksOf(c.ref.Count)-1 && key(n-1) != c.ref.Max {
		return c.damaged(block, "keys of the block are not those of the group header")
	}
	skip := 0
	if !c.loaded {
		if block > 0 && c.after.Less(key(0)) {
			return c.damaged(block, "first key of the block changed while it was searched for")
		}
		skip = sort.Search(n, func(i int) bool { return c.after.Less(key(i)) })
	}
	start := cap(c.buf) - cap(b)
	c.pos, c.end = start+blockHeadSize+skip*EntrySize, start+len(b)
	c.loaded, c.next = true, block+1
	return nil
}

func (c *Cursor) damaged(block int, what any) error {
	at := c.place(block)
	return corrupt.Errorf(c.log.fileName(at.File), at.Offset, "%v", what)
}
