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
	last     Key  // greatest key of the blocks loaded
	tmp      [20]byte
}

// Cursor starts to read the group ref at its first entry with a key above after. Nothing is read if there is no such
// entry. Otherwise the group's header is, and as many heads of blocks as it takes to find the right one.
func (l *Log) Cursor(ref Ref, after Key) (*Cursor, error) {
	if ref.Kind != KindGroup {
		return nil, fmt.Errorf("timerlog: cursor: no group but kind %d", ref.Kind)
	}
	if err := l.checkBounds(ref); err != nil {
		return nil, err
	}
	c := &Cursor{log: l, ref: ref, after: after}
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

// firstKey reads the head of a block.
func (c *Cursor) firstKey(block int) (Key, error) {
	b := c.buf[:blockHeadSize+keySize]
	at := c.place(block)
	if err := c.log.readAt(b, at); err != nil {
		return Key{}, err
	}
	if err := checkHead(b, &c.tmp, at, c.group, c.entries(block)); err != nil {
		return Key{}, corrupt.Errorf(c.log.fileName(at.File), at.Offset, "%v", err)
	}
	return keyAt(b[blockHeadSize:]), nil
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
	c.pos += EntrySize
	return e, true, nil
}

// take checks a block that was read into b, a part of buf, and hands out what is above after.
func (c *Cursor) take(block int, b []byte) error {
	at, n := c.place(block), c.entries(block)
	damaged := func(what any) error { return corrupt.Errorf(c.log.fileName(at.File), at.Offset, "%v", what) }
	if err := checkBlock(b, &c.tmp, at, c.group, n); err != nil {
		return damaged(err)
	}
	key := func(i int) Key { return keyAt(b[blockHeadSize+i*EntrySize:]) }
	least, greatest := key(0), key(n-1)
	switch {
	case block == 0 && least != c.ref.Min, block == blocksOf(c.ref.Count)-1 && greatest != c.ref.Max:
		return damaged("keys of the block are not those of the group header")
	case greatest.Less(least):
		return damaged("keys of the block descend")
	}
	if c.loaded && !c.last.Less(least) {
		return damaged("keys of the block are not above those of the one before")
	}
	skip := 0
	if !c.after.Less(least) {
		skip = sort.Search(n, func(i int) bool { return c.after.Less(key(i)) })
	}
	start := cap(c.buf) - cap(b)
	c.pos, c.end = start+blockHeadSize+skip*EntrySize, start+len(b)
	c.loaded, c.last, c.next = true, greatest, block+1
	return nil
}
