package timerlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Sizes and marks are part of the file format, do not change.
const (
	version = 1

	fileMagic      = "TWTIMERL"
	familyLen      = 16
	fileHeaderSize = 8 + 4 + 4 + familyLen + 8 + 8 + 12 + 4

	groupMagic      = 0x54574752 // "TWGR"
	groupHeaderSize = 4 + 4 + 1 + 1 + 2 + 4 + 8 + 8 + 8 + 16 + 16 + 8

	blockEntries  = 256
	blockHeadSize = 4 + 2 + 2
	keySize       = 8 + 8
	blockSize     = blockHeadSize + blockEntries*EntrySize // of a full one

	// maxCount bounds the entries of a group: 14 GB, far beyond what one second or one memtable can hold.
	maxCount = 1 << 28
)

// Kind of what a Ref names. Zero is never written.
const (
	KindGroup uint8 = 1 // sorted entries of one slot, or of a loose run
	KindSpill uint8 = 2 // entries of a memtable, as they came
)

// Ring of a group. A family holds the groups of one ring; the number is in the header so that a group says itself what
// it is.
const (
	RingLoose   uint8 = 0
	RingSeconds uint8 = 1
	RingHours   uint8 = 2
)

// NoSlot is the slot of what belongs to no ring.
const NoSlot int64 = -1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// fileHeader is the first 64 bytes of a file.
type fileHeader struct {
	family string
	ident  uint64
	number int64
}

func (h fileHeader) append(b []byte) []byte {
	start := len(b)
	b = append(b, fileMagic...)
	b = binary.BigEndian.AppendUint32(b, version)
	b = append(b, 0, 0, 0, 0)
	var family [familyLen]byte
	copy(family[:], h.family)
	b = append(b, family[:]...)
	b = binary.BigEndian.AppendUint64(b, h.ident)
	b = binary.BigEndian.AppendUint64(b, uint64(h.number))
	b = append(b, make([]byte, 12)...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// decodeFileHeader reads a file header. The CRC comes before the version, so that a flipped bit does not look like the
// future.
func decodeFileHeader(b []byte) (fileHeader, error) {
	if len(b) < fileHeaderSize {
		return fileHeader{}, fmt.Errorf("file header has %d bytes of %d", len(b), fileHeaderSize)
	}
	b = b[:fileHeaderSize]
	if string(b[:8]) != fileMagic {
		return fileHeader{}, errors.New("no TimerLog file")
	}
	if crc32.Checksum(b[:60], castagnoli) != binary.BigEndian.Uint32(b[60:]) {
		return fileHeader{}, errors.New("file header has a bad crc")
	}
	switch v := binary.BigEndian.Uint32(b[8:]); {
	case v == 0:
		return fileHeader{}, errors.New("file has version 0")
	case v > version:
		return fileHeader{}, fmt.Errorf("%w: file has version %d, this program knows %d", ErrNewerFormat, v, version)
	}
	family, _, _ := bytes.Cut(b[16:16+familyLen], []byte{0})
	return fileHeader{
		family: string(family),
		ident:  binary.BigEndian.Uint64(b[32:]),
		number: int64(binary.BigEndian.Uint64(b[40:])),
	}, nil
}

// blocksSize is the length of the blocks that hold count entries.
func blocksSize(count int) int64 {
	return int64(blocksOf(count))*blockHeadSize + int64(count)*EntrySize
}

// blocksOf is the number of blocks that hold count entries.
func blocksOf(count int) int { return (count + blockEntries - 1) / blockEntries }

// placeCRC starts a CRC with the place of what it covers. tmp is scratch: a local array would move to the heap.
func placeCRC(tmp *[20]byte, at Place) uint32 {
	binary.BigEndian.PutUint64(tmp[0:], uint64(at.File))
	binary.BigEndian.PutUint64(tmp[8:], uint64(at.Offset))
	return crc32.Update(0, castagnoli, tmp[:16])
}

// appendGroupHeader appends the header of the group that ref names and returns its CRC, by which its blocks know it.
func appendGroupHeader(b []byte, tmp *[20]byte, ref Ref, prev Place) ([]byte, uint32) {
	start := len(b)
	b = binary.BigEndian.AppendUint32(b, groupMagic)
	b = append(b, 0, 0, 0, 0, ref.Kind, ref.Ring, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(ref.Count))
	b = binary.BigEndian.AppendUint64(b, uint64(ref.Slot))
	b = binary.BigEndian.AppendUint64(b, uint64(prev.File))
	b = binary.BigEndian.AppendUint64(b, uint64(prev.Offset))
	b = appendKey(b, ref.Min)
	b = appendKey(b, ref.Max)
	b = binary.BigEndian.AppendUint64(b, uint64(ref.Length-groupHeaderSize))
	crc := crc32.Update(placeCRC(tmp, ref.Place()), castagnoli, b[start+8:])
	binary.BigEndian.PutUint32(b[start+4:], crc)
	return b, crc
}

// decodeGroupHeader reads the group header that stands at a place, with the group before it in its slot and its CRC.
func decodeGroupHeader(b []byte, tmp *[20]byte, at Place) (ref Ref, prev Place, crc uint32, err error) {
	if len(b) < groupHeaderSize {
		return Ref{}, NoPlace, 0, fmt.Errorf("group header has %d bytes of %d", len(b), groupHeaderSize)
	}
	b = b[:groupHeaderSize]
	if binary.BigEndian.Uint32(b) != groupMagic {
		return Ref{}, NoPlace, 0, errors.New("no group starts here")
	}
	crc = crc32.Update(placeCRC(tmp, at), castagnoli, b[8:])
	if crc != binary.BigEndian.Uint32(b[4:]) {
		return Ref{}, NoPlace, 0, errors.New("group header has a bad crc")
	}
	prev = Place{File: int64(binary.BigEndian.Uint64(b[24:])), Offset: int64(binary.BigEndian.Uint64(b[32:]))}
	ref = Ref{
		File:   at.File,
		Offset: at.Offset,
		Count:  int(binary.BigEndian.Uint32(b[12:])),
		Min:    keyAt(b[40:]),
		Max:    keyAt(b[56:]),
		Kind:   b[8],
		Ring:   b[9],
		Slot:   int64(binary.BigEndian.Uint64(b[16:])),
	}
	ref.Length = groupHeaderSize + blocksSize(ref.Count)
	if err := ref.check(); err != nil {
		return Ref{}, NoPlace, 0, err
	}
	if binary.BigEndian.Uint64(b[72:]) != uint64(ref.Length-groupHeaderSize) {
		return Ref{}, NoPlace, 0, fmt.Errorf("length of the blocks does not suit %d entries", ref.Count)
	}
	// Older groups only: a reader that follows prev comes to an end.
	if prev != NoPlace && (prev.File < 1 || prev.Offset < fileHeaderSize || !prev.before(at)) {
		return Ref{}, NoPlace, 0, fmt.Errorf("previous group at file %d byte %d is not an older one", prev.File, prev.Offset)
	}
	return ref, prev, crc, nil
}

// appendBlock appends a block of 1 to blockEntries entries; at is its place, group the CRC of its group's header.
func appendBlock(b []byte, tmp *[20]byte, at Place, group uint32, entries []Entry) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(entries)))
	b = append(b, 0, 0)
	for i := range entries {
		b = entries[i].Append(b)
	}
	binary.BigEndian.PutUint32(b[start:], blockCRC(tmp, at, group, b[start:]))
	return b
}

// blockCRC is the CRC of a whole block.
func blockCRC(tmp *[20]byte, at Place, group uint32, b []byte) uint32 {
	crc := placeCRC(tmp, at)
	binary.BigEndian.PutUint32(tmp[16:], group)
	crc = crc32.Update(crc, castagnoli, tmp[16:])
	return crc32.Update(crc, castagnoli, b[4:])
}

// checkBlock checks a block that should have n entries; b has the length that n asks for.
func checkBlock(b []byte, tmp *[20]byte, at Place, group uint32, n int) error {
	if blockCRC(tmp, at, group, b) != binary.BigEndian.Uint32(b) {
		return errors.New("block has a bad crc")
	}
	if got := int(binary.BigEndian.Uint16(b[4:])); got != n {
		return fmt.Errorf("block has %d entries instead of %d", got, n)
	}
	return nil
}
