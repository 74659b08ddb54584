package consumequeue

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/segment"
)

// Sizes and offsets of a unit. They are part of the file format, do not change.
const (
	offSize    = 8
	offTags    = offSize + 4
	offLogTime = offTags + 4
	offFlags   = offLogTime + 8
	offCRC     = offFlags + 4

	// UnitSize is the length of an encoded unit in bytes.
	UnitSize = offCRC + 4
)

// Flags of a unit.
const (
	FlagHole uint32 = 1 << iota // the message is lost; Position and Size say which bytes of the log
	FlagStub                    // the message went to the dead letters; a stub stands for it
)

// ErrUnit is returned by DecodeUnit for bytes that are not the unit of that offset.
var ErrUnit = errors.New("consumequeue: bad unit")

// QueueOffset is the index of a unit in its queue.
type QueueOffset int64

// Unit says where a visible message is. It is a plain value.
type Unit struct {
	Position commitlog.Offset // of the message's record
	Size     int32            // of the record, in bytes
	Tags     int32            // hash of the message's tag
	LogMs    int64            // log time when the message became visible
	Flags    uint32
}

// Append appends the UnitSize bytes of the unit to b, as they stand at offset o of a queue.
func (u Unit) Append(b []byte, o QueueOffset) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint64(b, uint64(u.Position))
	b = binary.BigEndian.AppendUint32(b, uint32(u.Size))
	b = binary.BigEndian.AppendUint32(b, uint32(u.Tags))
	b = binary.BigEndian.AppendUint64(b, uint64(u.LogMs))
	b = binary.BigEndian.AppendUint32(b, u.Flags)
	return binary.BigEndian.AppendUint32(b, segment.Checksum(int64(o), b[start:]))
}

// DecodeUnit reads the unit that b begins with, which stood at offset o of a queue. The error, of kind ErrUnit, says
// that b is too short or was not written there. Position and Size are as written: whether the log has them is for the
// caller to see.
func DecodeUnit(b []byte, o QueueOffset) (Unit, error) {
	if len(b) < UnitSize {
		return Unit{}, fmt.Errorf("%w: %d bytes of %d", ErrUnit, len(b), UnitSize)
	}
	crc := binary.BigEndian.Uint32(b[offCRC:])
	if got := segment.Checksum(int64(o), b[:offCRC]); got != crc {
		return Unit{}, fmt.Errorf("%w: CRC is %08x, its bytes and offset %d give %08x", ErrUnit, crc, o, got)
	}
	return Unit{
		Position: commitlog.Offset(binary.BigEndian.Uint64(b)),
		Size:     int32(binary.BigEndian.Uint32(b[offSize:])),
		Tags:     int32(binary.BigEndian.Uint32(b[offTags:])),
		LogMs:    int64(binary.BigEndian.Uint64(b[offLogTime:])),
		Flags:    binary.BigEndian.Uint32(b[offFlags:]),
	}, nil
}
