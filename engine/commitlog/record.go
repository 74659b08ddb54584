package commitlog

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
)

// Part of the file format, do not change.
const (
	recordLength = 0 // u32, of the whole record
	recordCRC    = 4 // u32
	recordKind   = 8
	recordFlags  = 9
	// Two reserved bytes.

	// RecordHeaderSize is what the frame of a record adds to its payload, in bytes.
	RecordHeaderSize = 12

	// MaxRecord is the length of the longest record, frame included: one that fills the largest batch.
	MaxRecord = MaxBatch - BatchHeaderSize
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Record is one record of a batch.
type Record struct {
	Pos     Offset
	Size    int // bytes in the log, frame included
	Kind    Kind
	Flags   uint8  // belongs to the fold
	Payload []byte // owned by whoever lent the bytes
}

// End is the position behind the record.
func (r Record) End() Offset { return r.Pos + Offset(r.Size) }

// ParseRecord reads the record at the beginning of b, which was read at position pos; b may go on behind it, so
// several records of one ReadRaw are parsed one after another. It checks length, CRC and position. A record that is
// not right, or not whole, is a *corrupt.Error with an empty file name and the position as the offset. The payload is
// part of b.
func ParseRecord(pos Offset, b []byte) (Record, error) {
	r, reason := parseRecord(pos, b)
	if reason != "" {
		return Record{}, corrupt.Errorf("", int64(pos), "%s", reason)
	}
	return r, nil
}

// parseRecord is ParseRecord with the reason alone, "" when the record is right.
func parseRecord(pos Offset, b []byte) (Record, string) {
	n, reason := recordSize(b)
	if reason != "" {
		return Record{}, reason
	}
	if n > len(b) {
		return Record{}, "record is longer than what holds it"
	}
	b = b[:n:n]
	if recordSum(pos, b) != binary.BigEndian.Uint32(b[recordCRC:]) {
		return Record{}, "record CRC does not match"
	}
	if Kind(b[recordKind]) == KindNone {
		return Record{}, "record kind 0 was never written"
	}
	return Record{
		Pos:     pos,
		Size:    n,
		Kind:    Kind(b[recordKind]),
		Flags:   b[recordFlags],
		Payload: b[RecordHeaderSize:],
	}, ""
}

// recordSize reads and bounds the length of a record from its header.
func recordSize(b []byte) (int, string) {
	if len(b) < RecordHeaderSize {
		return 0, "record header is cut off"
	}
	n := binary.BigEndian.Uint32(b[recordLength:])
	if n < RecordHeaderSize || n > MaxRecord {
		return 0, "record length is impossible"
	}
	return int(n), ""
}

// recordSum is the CRC of a record at pos: its position, then all behind the CRC.
func recordSum(pos Offset, b []byte) uint32 {
	return crc32.Update(positionSum(pos), castagnoli, b[recordKind:])
}

// positionSum is the CRC of a position as 8 bytes. By hand, since an array given to crc32.Update escapes to the heap.
func positionSum(pos Offset) uint32 {
	crc := ^uint32(0)
	for shift := 56; shift >= 0; shift -= 8 {
		crc = castagnoli[byte(crc)^byte(uint64(pos)>>shift)] ^ crc>>8
	}
	return ^crc
}

// sealRecord fills in length and CRC of a record whose kind, flags and payload are in place.
func sealRecord(pos Offset, b []byte) {
	binary.BigEndian.PutUint32(b[recordCRC:], recordSum(pos, b))
	binary.BigEndian.PutUint32(b[recordLength:], uint32(len(b)))
}

// Records walks over the records of a batch. The zero value has none. Not safe for concurrent use.
type Records struct {
	file string
	base Offset // of the file
	pos  Offset
	rest []byte
	left int
}

// Next returns the next record, or false behind the last one. Its payload is valid until the function that was given
// the batch returns. A batch whose CRC is right and whose records are not is a *corrupt.Error.
func (r *Records) Next() (Record, bool, error) {
	if r.left == 0 {
		// What is left is padding: fewer than 8 bytes.
		if len(r.rest) >= batchAlign {
			return Record{}, false, r.bad("bytes behind the last record")
		}
		r.rest = nil
		return Record{}, false, nil
	}
	rec, reason := parseRecord(r.pos, r.rest)
	if reason != "" {
		return Record{}, false, r.bad(reason)
	}
	r.left--
	r.pos += Offset(rec.Size)
	r.rest = r.rest[rec.Size:]
	return rec, true, nil
}

func (r *Records) bad(reason string) error {
	return corrupt.Errorf(r.file, int64(r.pos-r.base), "%s", reason)
}
