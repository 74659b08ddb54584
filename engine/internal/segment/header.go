package segment

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
)

// Sizes and offsets of the header. They are part of the file format, do not change.
const (
	version = 1

	offVersion = 8
	offCell    = offVersion + 4
	offPerFile = offCell + 4
	offIdent   = offPerFile + 4 + 4
	offFirst   = offIdent + 16
	offCRC     = offFirst + 8 + 12

	headerSize = offCRC + 4
	nameDigits = 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is the CRC-32C of the index i as 8 big-endian bytes followed by b: what a cell keeps so that it is good in
// its own place only. It does not allocate.
func Checksum(i int64, b []byte) uint32 {
	// The index goes through the table by hand: a buffer for it would escape to the heap, once per cell.
	crc := ^uint32(0)
	for shift := 56; shift >= 0; shift -= 8 {
		crc = castagnoli[byte(crc)^byte(uint64(i)>>shift)] ^ crc>>8
	}
	return crc32.Update(^crc, castagnoli, b)
}

// appendHeader appends the header of the file whose first cell has the index first.
func (p *Params) appendHeader(b []byte, first int64) []byte {
	start := len(b)
	b = append(b, p.Magic[:]...)
	b = binary.BigEndian.AppendUint32(b, version)
	b = binary.BigEndian.AppendUint32(b, uint32(p.Cell))
	b = binary.BigEndian.AppendUint32(b, uint32(p.PerFile))
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, p.Ident[0])
	b = binary.BigEndian.AppendUint64(b, p.Ident[1])
	b = binary.BigEndian.AppendUint64(b, uint64(first))
	b = append(b, make([]byte, 12)...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// checkHeader returns nil if b begins with the header of the array's file whose first cell has the index first.
func (p *Params) checkHeader(file string, b []byte, first int64) error {
	if len(b) < headerSize {
		return corrupt.Errorf(file, int64(len(b)), "the file ends within its header of %d bytes", headerSize)
	}
	if !bytes.Equal(b[:offVersion], p.Magic[:]) {
		return corrupt.Errorf(file, 0, "magic is %q, not %q", b[:offVersion], p.Magic[:])
	}
	crc := binary.BigEndian.Uint32(b[offCRC:])
	if got := crc32.Checksum(b[:offCRC], castagnoli); got != crc {
		return corrupt.Errorf(file, offCRC, "header has CRC %08x, its bytes give %08x", crc, got)
	}
	if v := binary.BigEndian.Uint32(b[offVersion:]); v > version {
		return fmt.Errorf("%w: %s has version %d, this program knows up to %d", ErrNewerFormat, file, v, version)
	} else if v != version {
		return corrupt.Errorf(file, offVersion, "version is %d, not %d", v, version)
	}
	for _, field := range []struct {
		name   string
		offset int64
		got    uint64
		want   uint64
	}{
		{"cell size", offCell, uint64(binary.BigEndian.Uint32(b[offCell:])), uint64(p.Cell)},
		{"number of cells per file", offPerFile, uint64(binary.BigEndian.Uint32(b[offPerFile:])), uint64(p.PerFile)},
		{"identity", offIdent, binary.BigEndian.Uint64(b[offIdent:]), p.Ident[0]},
		{"identity", offIdent + 8, binary.BigEndian.Uint64(b[offIdent+8:]), p.Ident[1]},
		{"first index", offFirst, binary.BigEndian.Uint64(b[offFirst:]), uint64(first)},
	} {
		if field.got != field.want {
			return corrupt.Errorf(file, field.offset, "%s is %d, not %d", field.name, field.got, field.want)
		}
	}
	return nil
}

// fileName is the name, within its directory, of the file whose first cell has the index first.
func fileName(first int64) string { return fmt.Sprintf("%0*d", nameDigits, first) }

// parseName is the reverse of fileName. Whatever fileName does not produce is not ok.
func parseName(name string) (first int64, ok bool) {
	if len(name) != nameDigits {
		return 0, false
	}
	for _, c := range []byte(name) {
		digit := int64(c) - '0'
		if digit < 0 || digit > 9 || first > (maxIndex-digit)/10 {
			return 0, false
		}
		first = first*10 + digit
	}
	return first, true
}
