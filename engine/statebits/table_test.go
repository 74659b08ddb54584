package statebits

import (
	"slices"
	"strings"
	"testing"
)

// A table is a set: after any insertions and removals it says so of every chunk, in the fewest ranges.
func TestTableIsSet(t *testing.T) {
	var table Table
	set := make(map[uint64]bool)
	seed := uint64(1)
	for step := range 3000 {
		seed = seed*6364136223846793005 + 1442695040888963407
		chunk := seed >> 33 % 40
		if seed>>60 < 9 {
			table.add(chunk)
			set[chunk] = true
		} else {
			table.remove(chunk)
			delete(set, chunk)
		}
		if err := table.check(); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		for c := range uint64(42) {
			if table.Has(c) != set[c] {
				t.Fatalf("step %d: chunk %d: %t in %v", step, c, table.Has(c), table)
			}
			for end := c; end < 42; end += 5 {
				any := slices.ContainsFunc(slices.Collect(func(yield func(uint64) bool) {
					for k := c; k < end; k++ {
						if !yield(k) {
							return
						}
					}
				}), func(k uint64) bool { return set[k] })
				if got := table.hasAny(c, end); got != any && end > c {
					t.Fatalf("step %d: any of [%d, %d): %t in %v", step, c, end, got, table)
				}
			}
		}
		got, rest, err := DecodeTable(append(AppendTable(nil, table), 9))
		if err != nil || len(rest) != 1 || !slices.Equal(got.Ranges, table.Ranges) {
			t.Fatalf("step %d: %v became %v, %v", step, table, got, err)
		}
	}
}

func TestDecodeTableCorruption(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}
	most := []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40} // 1 << 48
	for _, c := range []struct {
		name   string
		b      []byte
		reason string // "": good
	}{
		{"none", []byte{0}, ""},
		{"all chunks", append([]byte{1, 0}, most...), ""},
		{"empty", nil, "number of ranges"},
		{"more ranges than bytes", []byte{2, 1, 1, 1}, "number of ranges"},
		{"very many", huge, "number of ranges"},
		{"no length", []byte{1, 1, 0x80}, "length of the range"},
		{"no gap", append([]byte{1}, 0x80, 0x80), "gap after"},
		{"empty range", []byte{1, 5, 0}, "chunks [5, 5)"},
		{"ranges that touch", []byte{2, 5, 1, 0, 1}, "chunks from 6 after those up to 6"},
		{"gap too large", append(append([]byte{1}, huge...), 1), "gap after"},
		{"length too large", append([]byte{1, 1}, huge...), "length of the range"},
		{"beyond the greatest id", append([]byte{1, 1}, most...), "chunks [1, 281474976710657)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			table, _, err := DecodeTable(c.b)
			if c.reason == "" && err != nil || c.reason != "" && (err == nil || !strings.Contains(err.Error(), c.reason)) {
				t.Errorf("got %v, %v; want %q", table, err, c.reason)
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	if _, err := Open(nil, "x", Options{CacheBytes: -1}, Table{}); err == nil {
		t.Error("a negative cache")
	}
	if _, err := Open(nil, "x", Options{}, Table{Ranges: []Range{{5, 5}}}); err == nil {
		t.Error("an empty range")
	}
}
