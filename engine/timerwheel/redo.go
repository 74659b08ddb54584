package timerwheel

import (
	"encoding/binary"
	"fmt"
)

// DecodedPage is a page out of a checkpoint.
type DecodedPage struct {
	Number int
	Data   []byte // pageSize bytes
}

// redoSize is the length of a page in a checkpoint. It is part of the checkpoint's format, do not change.
const redoSize = 8 + pageSize

// AppendPages appends frozen pages for a checkpoint: for each its number (8 bytes, big-endian) and its bytes as in the
// file.
func AppendPages(b []byte, pages []Page) []byte {
	for _, p := range pages {
		b = binary.BigEndian.AppendUint64(b, uint64(p.Number))
		b = appendPage(b, p.Number, p.page)
	}
	return b
}

// DecodePages reads all of b. The pages point into b; their slots are checked by Load.
func DecodePages(b []byte) ([]DecodedPage, error) {
	if len(b)%redoSize != 0 {
		return nil, fmt.Errorf("%w: %d bytes are no whole number of pages", ErrPages, len(b))
	}
	pages := make([]DecodedPage, 0, len(b)/redoSize)
	for ; len(b) > 0; b = b[redoSize:] {
		n := binary.BigEndian.Uint64(b)
		if n > 1<<31 {
			return nil, fmt.Errorf("%w: page %d", ErrPages, n)
		}
		pages = append(pages, DecodedPage{int(n), b[8:redoSize:redoSize]})
	}
	return pages, nil
}

// AppendTable appends a Table: its length and the distances between its pages, as uvarints.
func AppendTable(b []byte, table []int) []byte {
	b = binary.AppendUvarint(b, uint64(len(table)))
	last := 0
	for _, n := range table {
		b = binary.AppendUvarint(b, uint64(n-last))
		last = n
	}
	return b
}

// DecodeTable reads the table that b begins with, and returns what follows it.
func DecodeTable(b []byte) (table []int, rest []byte, err error) {
	next := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			err = fmt.Errorf("%w: table cut off", ErrPages)
			return 0
		}
		b = b[n:]
		return v
	}
	count := next()
	if count > uint64(len(b)) {
		return nil, nil, fmt.Errorf("%w: a table of %d pages in %d bytes", ErrPages, count, len(b))
	}
	last := uint64(0)
	for ; count > 0 && err == nil; count-- {
		if last += next(); last > 1<<31 {
			return nil, nil, fmt.Errorf("%w: page %d", ErrPages, last)
		}
		table = append(table, int(last))
	}
	if err != nil {
		return nil, nil, err
	}
	return table, b, nil
}
