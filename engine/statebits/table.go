package statebits

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Range is the chunks [First, End).
type Range struct{ First, End uint64 }

// Table is the set of chunks that have a page. The zero Table is empty.
type Table struct {
	Ranges []Range // ascending, none empty, a gap between any two
}

// Has says whether a chunk is in t.
func (t Table) Has(chunk uint64) bool {
	i := t.search(chunk)
	return i < len(t.Ranges) && t.Ranges[i].First <= chunk
}

// hasAny says whether one of the chunks [first, end) is in t.
func (t Table) hasAny(first, end uint64) bool {
	i := t.search(first)
	return i < len(t.Ranges) && t.Ranges[i].First < end
}

// search is the first range that ends above chunk.
func (t Table) search(chunk uint64) int {
	i, _ := slices.BinarySearchFunc(t.Ranges, chunk, func(r Range, c uint64) int {
		if r.End <= c {
			return -1
		}
		return 1
	})
	return i
}

func (t Table) clone() Table { return Table{Ranges: slices.Clone(t.Ranges)} }

// add puts a chunk into t.
func (t *Table) add(chunk uint64) {
	i := t.search(chunk)
	if i < len(t.Ranges) && t.Ranges[i].First <= chunk {
		return
	}
	below := i > 0 && t.Ranges[i-1].End == chunk
	above := i < len(t.Ranges) && t.Ranges[i].First == chunk+1
	switch {
	case below && above:
		t.Ranges[i-1].End = t.Ranges[i].End
		t.Ranges = slices.Delete(t.Ranges, i, i+1)
	case below:
		t.Ranges[i-1].End++
	case above:
		t.Ranges[i].First--
	default:
		t.Ranges = slices.Insert(t.Ranges, i, Range{chunk, chunk + 1})
	}
}

// remove takes a chunk out of t.
func (t *Table) remove(chunk uint64) {
	i := t.search(chunk)
	if i == len(t.Ranges) || t.Ranges[i].First > chunk {
		return
	}
	r := t.Ranges[i]
	switch {
	case r.First == chunk && r.End == chunk+1:
		t.Ranges = slices.Delete(t.Ranges, i, i+1)
	case r.First == chunk:
		t.Ranges[i].First++
	case r.End == chunk+1:
		t.Ranges[i].End--
	default:
		t.Ranges[i].End = chunk
		t.Ranges = slices.Insert(t.Ranges, i+1, Range{chunk + 1, r.End})
	}
}

// check says what is impossible about t.
func (t Table) check() error {
	for i, r := range t.Ranges {
		if r.First >= r.End || r.End > maxChunk+1 {
			return fmt.Errorf("chunks [%d, %d)", r.First, r.End)
		}
		if i > 0 && r.First <= t.Ranges[i-1].End {
			return fmt.Errorf("chunks from %d after those up to %d", r.First, t.Ranges[i-1].End)
		}
	}
	return nil
}

// AppendTable appends t to b: the number of ranges, then for each its distance from the end of the one before and its
// length, all as uvarints.
func AppendTable(b []byte, t Table) []byte {
	b = binary.AppendUvarint(b, uint64(len(t.Ranges)))
	last := uint64(0)
	for _, r := range t.Ranges {
		b = binary.AppendUvarint(b, r.First-last)
		b = binary.AppendUvarint(b, r.End-r.First)
		last = r.End
	}
	return b
}

// DecodeTable reads the Table that b begins with and returns what follows it.
func DecodeTable(b []byte) (Table, []byte, error) {
	fail := func(format string, args ...any) (Table, []byte, error) {
		return Table{}, nil, fmt.Errorf("statebits: decode table: "+format, args...)
	}
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w)/2 {
		return fail("number of ranges")
	}
	b = b[w:]
	var t Table
	if n > 0 {
		t.Ranges = make([]Range, 0, n)
	}
	last := uint64(0)
	for range n {
		gap, w := binary.Uvarint(b)
		if w <= 0 || gap > maxChunk {
			return fail("gap after chunk %d", last)
		}
		length, v := binary.Uvarint(b[w:])
		if v <= 0 || length > maxChunk+1 {
			return fail("length of the range after chunk %d", last)
		}
		b = b[w+v:]
		r := Range{First: last + gap, End: last + gap + length}
		t.Ranges = append(t.Ranges, r)
		if r.End > maxChunk+1 {
			return fail("chunks [%d, %d)", r.First, r.End) // also keeps the sums from running over
		}
		last = r.End
	}
	if err := t.check(); err != nil {
		return fail("%w", err)
	}
	return t, b, nil
}
