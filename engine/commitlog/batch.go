package commitlog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Part of the file format, do not change.
const (
	batchMagic = 0x54574254 // "TWBT"

	// Replicated part.
	batchMagicAt  = 0
	batchLength   = 4
	batchCRC      = 8
	batchPrev     = 12
	batchBase     = 16
	batchEpoch    = 24
	batchWriter   = 28
	batchFlags    = 30
	batchAppend   = 32
	batchLog      = 40
	batchBaseID   = 48
	batchCount    = 56
	batchReserved = 60 // 16 bytes
	batchLocal    = 76

	// Local part.
	localDurable     = 76
	localIncarnation = 84
	localOrderGen    = 88
	localOrderPos    = 92
	localReserved    = 100 // 8 bytes
	localCRC         = 108

	// BatchHeaderSize is the length of both parts; a batch without records is as long.
	BatchHeaderSize = 112

	// MaxBatch is the length of the longest batch in bytes, header and padding included.
	MaxBatch = 8 << 20

	batchAlign = 8
	maxHole    = 1<<32 - batchAlign
)

// Flags of a batch. They are part of the file format.
const (
	FlagSeal           uint16 = 1 << iota // the segment ends behind this batch
	FlagMustUnderstand                    // whoever does not know all flags, or a record's kind, must not go on
	FlagState                             // part of the state record at the head of a segment
	FlagStateEnd                          // its last batch
	FlagHole                              // stands for a range that was lost; only Repair writes it

	knownFlags = FlagSeal | FlagMustUnderstand | FlagState | FlagStateEnd | FlagHole
)

// Header is what a batch says of itself.
type Header struct {
	Base    Offset // position of the batch
	Length  int64  // bytes, a multiple of 8; at most MaxBatch, of a hole less than 4 GiB
	CRC     uint32
	PrevCRC uint32 // CRC of the batch before; 0 for the first of a log

	Epoch    uint32 // of the writer, in a cluster
	Writer   uint16
	Flags    uint16
	AppendMs int64 // wall clock, ms since 1970, UTC
	LogMs    int64 // running time of the log, ms
	BaseID   uint64
	Count    int // of records

	DurableUpTo Offset // how far the log was known durable when the batch was encoded
	Incarnation uint32 // counts the times the log was opened for writing
	OrderGen    uint32 // generation of the ordering log, in a cluster
	OrderPos    uint64 // position in it
}

// End is the position behind the batch. Behind a seal batch it is the base of the next segment.
func (h *Header) End() Offset { return h.Base + Offset(h.Length) }

// Has says whether all of the flags are set.
func (h *Header) Has(flags uint16) bool { return h.Flags&flags == flags }

// Batch is a batch as it was read. It is valid until the function that was given it returns.
type Batch struct {
	Header
	file    string
	segment Offset
	content []byte // records and padding; nil for a hole
}

// Records starts at the first record of the batch. A hole has none.
func (b *Batch) Records() Records {
	return Records{
		file: b.file,
		base: b.segment,
		pos:  b.Base + BatchHeaderSize,
		rest: b.content,
		left: b.Count,
	}
}

// align rounds up to the alignment of a batch.
func align(n int) int { return (n + batchAlign - 1) &^ (batchAlign - 1) }

// encodeBatch fills in the header at the beginning of b, which is the whole batch, or of a hole only the header.
// Magic and both CRCs are computed; the new CRC is returned.
func encodeBatch(b []byte, h *Header) uint32 {
	clear(b[:BatchHeaderSize])
	be := binary.BigEndian
	be.PutUint32(b[batchMagicAt:], batchMagic)
	be.PutUint32(b[batchLength:], uint32(h.Length))
	be.PutUint32(b[batchPrev:], h.PrevCRC)
	be.PutUint64(b[batchBase:], uint64(h.Base))
	be.PutUint32(b[batchEpoch:], h.Epoch)
	be.PutUint16(b[batchWriter:], h.Writer)
	be.PutUint16(b[batchFlags:], h.Flags)
	be.PutUint64(b[batchAppend:], uint64(h.AppendMs))
	be.PutUint64(b[batchLog:], uint64(h.LogMs))
	be.PutUint64(b[batchBaseID:], h.BaseID)
	be.PutUint32(b[batchCount:], uint32(h.Count))
	crc := batchSum(b)
	be.PutUint32(b[batchCRC:], crc)

	be.PutUint64(b[localDurable:], uint64(h.DurableUpTo))
	be.PutUint32(b[localIncarnation:], h.Incarnation)
	be.PutUint32(b[localOrderGen:], h.OrderGen)
	be.PutUint64(b[localOrderPos:], h.OrderPos)
	be.PutUint32(b[localCRC:], localSum(b))
	return crc
}

// batchSum is the CRC of the replicated part and the content: of everything but itself and the local part.
func batchSum(b []byte) uint32 {
	crc := crc32.Update(0, castagnoli, b[:batchCRC])
	crc = crc32.Update(crc, castagnoli, b[batchPrev:batchLocal])
	return crc32.Update(crc, castagnoli, b[BatchHeaderSize:])
}

// localSum is the CRC of the batch's CRC and the local part, so that the local part of one batch never serves another.
func localSum(b []byte) uint32 {
	crc := crc32.Update(0, castagnoli, b[batchCRC:batchPrev])
	return crc32.Update(crc, castagnoli, b[localDurable:localCRC])
}

// decodeHeader reads the header at the beginning of b and says why it cannot be that of a batch at position at, ""
// when it can. Then the local part is trusted, since its CRC is right and the batch claims the place where it stands;
// the rest is when checkLength finds nothing and the CRC is that of what is stored.
func decodeHeader(b []byte, at Offset) (Header, string) {
	if len(b) < BatchHeaderSize {
		return Header{}, "batch header is cut off"
	}
	be := binary.BigEndian
	if m := be.Uint32(b[batchMagicAt:]); m != batchMagic {
		return Header{}, fmt.Sprintf("batch magic is %#08x", m)
	}
	h := Header{
		Base:        Offset(be.Uint64(b[batchBase:])),
		Length:      int64(be.Uint32(b[batchLength:])),
		CRC:         be.Uint32(b[batchCRC:]),
		PrevCRC:     be.Uint32(b[batchPrev:]),
		Epoch:       be.Uint32(b[batchEpoch:]),
		Writer:      be.Uint16(b[batchWriter:]),
		Flags:       be.Uint16(b[batchFlags:]),
		AppendMs:    int64(be.Uint64(b[batchAppend:])),
		LogMs:       int64(be.Uint64(b[batchLog:])),
		BaseID:      be.Uint64(b[batchBaseID:]),
		Count:       int(be.Uint32(b[batchCount:])),
		DurableUpTo: Offset(be.Uint64(b[localDurable:])),
		Incarnation: be.Uint32(b[localIncarnation:]),
		OrderGen:    be.Uint32(b[localOrderGen:]),
		OrderPos:    be.Uint64(b[localOrderPos:]),
	}
	switch {
	case h.Base != at:
		return Header{}, fmt.Sprintf("batch says it is at %d", h.Base)
	case localSum(b) != be.Uint32(b[localCRC:]):
		return Header{}, "CRC of the local part does not match"
	case h.DurableUpTo < 0 || h.DurableUpTo > at:
		return Header{}, fmt.Sprintf("batch says the log was durable up to %d", h.DurableUpTo)
	}
	return h, ""
}

// checkLength says why the length or the count is impossible, "" when it is not. What it passes may be read.
func (h *Header) checkLength() string {
	switch {
	case h.Length < BatchHeaderSize || h.Length%batchAlign != 0:
		return fmt.Sprintf("batch length %d is impossible", h.Length)
	case h.Flags&FlagHole != 0:
		if h.Count != 0 {
			return "hole with records"
		}
	case h.Length > MaxBatch:
		return fmt.Sprintf("batch length %d is impossible", h.Length)
	case h.Count < 0 || int64(h.Count) > (h.Length-BatchHeaderSize)/RecordHeaderSize:
		return fmt.Sprintf("%d records do not fit into the batch", h.Count)
	}
	return ""
}

// stored is how many bytes of the batch must be read and are covered by its CRC.
func (h *Header) stored() int64 {
	if h.Flags&FlagHole != 0 {
		return BatchHeaderSize
	}
	return h.Length
}

// checkFlags refuses a batch that must be understood and is not.
func (h *Header) checkFlags(file string) error {
	if unknown := h.Flags &^ knownFlags; unknown != 0 && h.Flags&FlagMustUnderstand != 0 {
		return fmt.Errorf("%w: %s, batch at %d: it has flags %#04x, of which format version %d, the latest this build reads, does not know %#04x",
			ErrNewerFormat, file, h.Base, h.Flags, formatVersion, unknown)
	}
	return nil
}
