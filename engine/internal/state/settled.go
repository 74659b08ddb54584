package state

import (
	"math"
	"slices"
	"sort"
)

// Range is offsets of a queue [From, To).
type Range struct{ From, To int64 }

// settle adds an offset to what is settled; false if it was. The group's offset moves over what follows it without a gap.
func (c *committed) settle(offset int64) bool {
	if offset < c.at {
		return false
	}
	if offset == c.at {
		c.at++
		c.absorb()
		return true
	}
	rs := c.settled
	i := len(rs)
	if i > 0 && rs[i-1].To >= offset { // mostly they come in order
		i = sort.Search(i, func(i int) bool { return rs[i].To >= offset })
	}
	switch {
	case i == len(rs):
		c.settled = append(rs, Range{offset, offset + 1})
	case rs[i].From <= offset && offset < rs[i].To:
		return false
	case rs[i].To == offset:
		rs[i].To++
		if i+1 < len(rs) && rs[i+1].From == rs[i].To {
			rs[i].To = rs[i+1].To
			c.settled = slices.Delete(rs, i+1, i+2)
		}
	case rs[i].From == offset+1:
		rs[i].From--
	default:
		c.settled = slices.Insert(rs, i, Range{offset, offset + 1})
	}
	c.above++
	return true
}

// absorb drops what is settled below the offset, and moves that over what is settled from there on.
func (c *committed) absorb() {
	n := 0
	for ; n < len(c.settled) && c.settled[n].From <= c.at; n++ {
		r := c.settled[n]
		c.above -= r.To - r.From
		c.at = max(c.at, r.To)
	}
	if n > 0 {
		c.settled = slices.Delete(c.settled, 0, n)
	}
}

// isSettled says whether an offset lies below the group's, or is settled above it.
func (c *committed) isSettled(offset int64) bool {
	if offset < c.at {
		return true
	}
	i := sort.Search(len(c.settled), func(i int) bool { return c.settled[i].To > offset })
	return i < len(c.settled) && c.settled[i].From <= offset
}

// Commit sets an offset or adds it. What is settled below is forgotten, and what is settled from there on moved over.
func (o *Offsets) Commit(k OffsetKey, at int64) {
	c := o.entry(k, at)
	c.at = at
	c.absorb()
}

// Seek sets an offset or adds it, and forgets what is settled in the queue: it is asked about again.
func (o *Offsets) Seek(k OffsetKey, at int64) {
	c := o.entry(k, at)
	*c = committed{key: k, at: at}
}

// Settled is what is settled above the committed offset: sorted, with gaps between. It belongs to the table.
func (o *Offsets) Settled(k OffsetKey) []Range {
	if c := o.byKey[k]; c != nil {
		return c.settled
	}
	return nil
}

// SettledCount is how many offsets Settled has.
func (o *Offsets) SettledCount(k OffsetKey) int64 {
	if c := o.byKey[k]; c != nil {
		return c.above
	}
	return 0
}

// IsSettled says whether an offset lies below the committed one, which is low at least, or is settled above it.
func (o *Offsets) IsSettled(k OffsetKey, low, offset int64) bool {
	if offset < low {
		return true
	}
	c := o.byKey[k]
	return c != nil && c.isSettled(offset)
}

// Would is the committed offset, and how many offsets would be settled above it, if more were, which is sorted. Nothing is
// changed.
func (o *Offsets) Would(k OffsetKey, low int64, more []int64) (at, above int64) {
	c := committed{at: low}
	if now := o.byKey[k]; now != nil {
		c = *now
		c.settled = slices.Clone(now.settled)
	}
	c.raise(low)
	for _, offset := range more {
		c.settle(offset)
	}
	return c.at, c.above
}

// raise moves the offset up to low: what lies below was trimmed, and will not be settled any more.
func (c *committed) raise(low int64) {
	if c.at < low {
		c.at = low
		c.absorb()
	}
}

// entry finds an offset, or adds it.
func (o *Offsets) entry(k OffsetKey, at int64) *committed {
	c := o.byKey[k]
	if c == nil {
		o.Set(k, at)
		c = o.byKey[k]
	}
	return c
}

// settledList is the offsets that have something settled, in the order of their keys.
func (o *Offsets) settledList() (list []*committed) {
	for _, c := range o.list {
		if len(c.settled) > 0 {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b *committed) int { return a.key.compare(b.key) })
	return list
}

// settled encodes what is settled: for each offset its ranges, each as its distance from the one before (the first: from the
// offset) and its length.
func (w *writer) settled(list []*committed) {
	w.u(uint64(len(list)))
	for _, c := range list {
		w.u(uint64(c.key.Group), uint64(c.key.Topic), uint64(c.key.Queue), uint64(len(c.settled)))
		end := c.at
		for _, r := range c.settled {
			w.u(uint64(r.From-end), uint64(r.To-r.From))
			end = r.To
		}
	}
}

func (r *reader) settled(s *State) {
	var last OffsetKey
	for n := r.count(4); n > 0 && r.err == nil; n-- {
		k := OffsetKey{r.u32(), r.u32(), r.u32()}
		c := s.Offsets.byKey[k]
		if c == nil || last.compare(k) >= 0 && last != (OffsetKey{}) {
			r.fail("settled offsets of no committed one, or out of order")
			return
		}
		last = k
		ranges, end := r.count(2), c.at
		if ranges == 0 {
			r.fail("settled offsets of which there are none")
			return
		}
		c.settled = make([]Range, ranges)
		for i := range c.settled {
			gap, length := r.u(), r.u()
			if gap == 0 || length == 0 || end < 0 || gap > uint64(math.MaxInt64-end) || length > uint64(math.MaxInt64-end)-gap {
				r.fail("range of settled offsets")
				return
			}
			from := end + int64(gap)
			end = from + int64(length)
			c.settled[i] = Range{from, end}
			c.above += int64(length)
		}
	}
}
