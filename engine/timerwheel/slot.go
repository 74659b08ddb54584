package timerwheel

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// Part of the file format, do not change.
const (
	// SlotSize is the length of a slot in bytes.
	SlotSize = 8 + 8 + 8 + 4 + 4

	pageSlots = 128
	pageSize  = pageSlots * SlotSize
)

// Slot is what the wheel knows of one second or hour.
type Slot struct {
	Time  int64          // number: due time divided by the width of a slot
	First timerlog.Place // oldest group that is read
	Last  timerlog.Place // newest group
	Count uint32         // entries in the groups, dead ones included
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// unused is the encoding of a slot that was never used.
var unused [SlotSize]byte

// appendSlot appends a slot as it stands at an index. tmp is room for slotSum.
func appendSlot(b []byte, tmp *[8]byte, index int64, s *Slot) []byte {
	if s.Count == 0 {
		return append(b, unused[:]...)
	}
	start := len(b)
	b = binary.BigEndian.AppendUint64(b, uint64(s.Time))
	b = binary.BigEndian.AppendUint64(b, packPlace(s.First))
	b = binary.BigEndian.AppendUint64(b, packPlace(s.Last))
	b = binary.BigEndian.AppendUint32(b, s.Count)
	return binary.BigEndian.AppendUint32(b, slotSum(tmp, index, b[start:]))
}

// decodeSlot reads the slot of an index. A slot of zeros gives the zero Slot.
func decodeSlot(b []byte, tmp *[8]byte, index int64) (Slot, error) {
	b = b[:SlotSize]
	if [SlotSize]byte(b) == unused {
		return Slot{}, nil
	}
	if got, want := binary.BigEndian.Uint32(b[28:]), slotSum(tmp, index, b[:28]); got != want {
		return Slot{}, fmt.Errorf("slot %d: crc is %08x, the bytes give %08x", index, got, want)
	}
	s := Slot{
		Time:  int64(binary.BigEndian.Uint64(b)),
		First: unpackPlace(binary.BigEndian.Uint64(b[8:])),
		Last:  unpackPlace(binary.BigEndian.Uint64(b[16:])),
		Count: binary.BigEndian.Uint32(b[24:]),
	}
	if s.Count == 0 {
		return Slot{}, fmt.Errorf("slot %d: no entries, and bytes that are not zero", index)
	}
	return s, nil
}

// slotSum uses tmp, since what is handed to package crc32 would be allocated for each slot.
func slotSum(tmp *[8]byte, index int64, b []byte) uint32 {
	binary.BigEndian.PutUint64(tmp[:], uint64(index))
	return crc32.Update(crc32.Checksum(tmp[:], castagnoli), castagnoli, b)
}

// CanName says whether a place fits into a slot: files and bytes have 32 bits each.
func CanName(p timerlog.Place) bool {
	return p.File >= 0 && p.File < 1<<32 && p.Offset >= 0 && p.Offset < 1<<32
}

func packPlace(p timerlog.Place) uint64 { return uint64(p.File)<<32 | uint64(uint32(p.Offset)) }

func unpackPlace(v uint64) timerlog.Place {
	return timerlog.Place{File: int64(v >> 32), Offset: int64(uint32(v))}
}
