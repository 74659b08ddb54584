package timerlog

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/tidewheel/tidewheel/engine/commitlog"
)

// EntrySize is the length of an encoded entry in bytes. It is part of the file format, do not change.
const EntrySize = 8 + 8 + 8 + 4 + 4 + 4 + 4 + 8 + 4

// Flags of an entry. Bits 8 to 15 hold the level and bits 16 to 23 the lane; all others are reserved: written as given,
// kept when read.
const (
	FlagLate uint32 = 1 // (due, id) was not above the frontier when the message was stored

	levelShift = 8
	laneShift  = 16
)

// Key is the order in which messages fall due: by time, then by id.
type Key struct {
	Due int64  // ms since 1970
	ID  uint64 // dense timer number
}

// Less says whether k falls due before o.
func (k Key) Less(o Key) bool {
	return k.Due < o.Due || k.Due == o.Due && k.ID < o.ID
}

// Compare is negative when k falls due before o, zero when they are equal, else positive.
func (k Key) Compare(o Key) int {
	if c := cmp.Compare(k.Due, o.Due); c != 0 {
		return c
	}
	return cmp.Compare(k.ID, o.ID)
}

// Entry is a pending message: what is needed to deliver it without reading its body. It is a plain value.
type Entry struct {
	Key
	Position commitlog.Offset // of the message's record
	Size     int32            // of the record, in bytes
	Topic    uint32
	Queue    uint32
	Tags     int32  // hash of the tag, as consumers filter by it
	KeyHash  uint64 // hash of the message's key; 0 without one
	Flags    uint32
}

// Level is the delay level of a level message, 0 for any other.
func (e Entry) Level() uint8 { return uint8(e.Flags >> levelShift) }

// Lane is the lane of the entry's topic.
func (e Entry) Lane() uint8 { return uint8(e.Flags >> laneShift) }

// Late says whether FlagLate is set.
func (e Entry) Late() bool { return e.Flags&FlagLate != 0 }

// EntryFlags packs the flags of an entry.
func EntryFlags(late bool, level, lane uint8) uint32 {
	f := uint32(level)<<levelShift | uint32(lane)<<laneShift
	if late {
		f |= FlagLate
	}
	return f
}

// Append appends the EntrySize bytes of the entry to b.
func (e Entry) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(e.Due))
	b = binary.BigEndian.AppendUint64(b, e.ID)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Position))
	b = binary.BigEndian.AppendUint32(b, uint32(e.Size))
	b = binary.BigEndian.AppendUint32(b, e.Topic)
	b = binary.BigEndian.AppendUint32(b, e.Queue)
	b = binary.BigEndian.AppendUint32(b, uint32(e.Tags))
	b = binary.BigEndian.AppendUint64(b, e.KeyHash)
	return binary.BigEndian.AppendUint32(b, e.Flags)
}

// DecodeEntry reads the entry that b begins with; what follows it is not looked at. Every EntrySize bytes are an entry:
// damage is the business of whoever keeps a CRC over them. The only error is that b is too short.
func DecodeEntry(b []byte) (Entry, error) {
	if len(b) < EntrySize {
		return Entry{}, fmt.Errorf("timerlog: decode entry: %d bytes of %d", len(b), EntrySize)
	}
	return entryAt(b), nil
}

// entryAt is DecodeEntry for a caller that knows the length.
func entryAt(b []byte) Entry {
	_ = b[EntrySize-1]
	return Entry{
		Key:      keyAt(b),
		Position: commitlog.Offset(binary.BigEndian.Uint64(b[16:])),
		Size:     int32(binary.BigEndian.Uint32(b[24:])),
		Topic:    binary.BigEndian.Uint32(b[28:]),
		Queue:    binary.BigEndian.Uint32(b[32:]),
		Tags:     int32(binary.BigEndian.Uint32(b[36:])),
		KeyHash:  binary.BigEndian.Uint64(b[40:]),
		Flags:    binary.BigEndian.Uint32(b[48:]),
	}
}

// keyAt reads a key: due, then id.
func keyAt(b []byte) Key {
	return Key{Due: int64(binary.BigEndian.Uint64(b)), ID: binary.BigEndian.Uint64(b[8:])}
}

// appendKey appends a key: due, then id.
func appendKey(b []byte, k Key) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(k.Due))
	return binary.BigEndian.AppendUint64(b, k.ID)
}
