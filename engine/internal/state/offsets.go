package state

import (
	"cmp"
	"iter"
	"slices"
)

// OffsetKey names a committed offset.
type OffsetKey struct{ Group, Topic, Queue uint32 }

func (k OffsetKey) compare(o OffsetKey) int {
	return cmp.Or(cmp.Compare(k.Group, o.Group), cmp.Compare(k.Topic, o.Topic), cmp.Compare(k.Queue, o.Queue))
}

// Offsets is the committed offsets. There may be a hundred thousand, and each checkpoint writes all of them in the order of
// their keys: so that order is kept, and found again only when there is a new key.
type Offsets struct {
	byKey    map[OffsetKey]*committed
	list     []*committed
	unsorted bool // keys were added behind the order
}

// committed is where a group goes on in a queue.
type committed struct {
	key OffsetKey
	at  int64
	// settled are offsets above at that are decided already, as ranges: sorted, none empty, with a gap before each. above is
	// how many offsets they are.
	settled []Range
	above   int64
}

// Len is the number of offsets.
func (o *Offsets) Len() int { return len(o.list) }

// Get returns an offset; ok is false when there is none.
func (o *Offsets) Get(k OffsetKey) (at int64, ok bool) {
	if c := o.byKey[k]; c != nil {
		return c.at, true
	}
	return 0, false
}

// Set changes an offset or adds it. It is for a table in which nothing is settled.
func (o *Offsets) Set(k OffsetKey, at int64) {
	if c := o.byKey[k]; c != nil {
		c.at = at
		return
	}
	if o.byKey == nil {
		o.byKey = map[OffsetKey]*committed{}
	}
	c := &committed{key: k, at: at}
	o.byKey[k] = c
	o.unsorted = o.unsorted || len(o.list) > 0 && o.list[len(o.list)-1].key.compare(k) > 0
	o.list = append(o.list, c)
}

// drop removes the offsets whose keys gone says yes to.
func (o *Offsets) drop(gone func(k OffsetKey) bool) {
	o.list = slices.DeleteFunc(o.list, func(c *committed) bool {
		if !gone(c.key) {
			return false
		}
		delete(o.byKey, c.key)
		return true
	})
}

// sort puts the list in the order of the keys. It is the writer's.
func (o *Offsets) sort() {
	if o.unsorted {
		slices.SortFunc(o.list, func(a, b *committed) int { return a.key.compare(b.key) })
		o.unsorted = false
	}
}

// All goes over the offsets, in no certain order.
func (o *Offsets) All() iter.Seq2[OffsetKey, int64] {
	return func(yield func(OffsetKey, int64) bool) {
		for _, c := range o.list {
			if !yield(c.key, c.at) {
				return
			}
		}
	}
}
