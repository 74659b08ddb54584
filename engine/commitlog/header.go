package commitlog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
)

// Part of the file format, do not change.
const (
	segmentMagic   = "TIDEWLOG"
	formatVersion  = 1
	headerMagic    = 0  // 8 bytes
	headerVersion  = 8  // u32
	headerReserved = 12 // 4 bytes
	headerLogID    = 16 // u64
	headerBase     = 24 // u64
	// Zero in between.
	headerCRC = 508 // u32

	// SegmentHeaderSize is the length of the header of a segment; its first batch stands behind it.
	SegmentHeaderSize = 512
)

// encodeSegmentHeader makes the header of a segment.
func encodeSegmentHeader(id uint64, base Offset) []byte {
	b := make([]byte, SegmentHeaderSize)
	copy(b[headerMagic:], segmentMagic)
	binary.BigEndian.PutUint32(b[headerVersion:], formatVersion)
	binary.BigEndian.PutUint64(b[headerLogID:], id)
	binary.BigEndian.PutUint64(b[headerBase:], uint64(base))
	binary.BigEndian.PutUint32(b[headerCRC:], crc32.Checksum(b[:headerCRC], castagnoli))
	return b
}

// checkSegmentHeader says whether b is the header of the segment at base of log id. Magic, version and CRC stand at the
// same place in every version, so a later version is told from damage.
func checkSegmentHeader(file string, b []byte, id uint64, base Offset) error {
	if len(b) < SegmentHeaderSize {
		return corrupt.Errorf(file, int64(len(b)), "segment header is cut off")
	}
	if string(b[headerMagic:headerVersion]) != segmentMagic {
		return corrupt.Errorf(file, headerMagic, "segment magic is %x", b[headerMagic:headerVersion])
	}
	if crc32.Checksum(b[:headerCRC], castagnoli) != binary.BigEndian.Uint32(b[headerCRC:]) {
		return corrupt.Errorf(file, headerCRC, "CRC of the segment header does not match")
	}
	if err := checkVersion(file, binary.BigEndian.Uint32(b[headerVersion:])); err != nil {
		return err
	}
	if got := binary.BigEndian.Uint64(b[headerLogID:]); got != id {
		return corrupt.Errorf(file, headerLogID, "segment belongs to log %016x, not to %016x", got, id)
	}
	if got := Offset(binary.BigEndian.Uint64(b[headerBase:])); got != base {
		return corrupt.Errorf(file, headerBase, "segment says it begins at %d", got)
	}
	return nil
}

// checkVersion refuses a version that this build does not read.
func checkVersion(file string, version uint32) error {
	if version > formatVersion {
		return fmt.Errorf("%w: %s has version %d, this build reads up to %d", ErrNewerFormat, file, version, formatVersion)
	}
	if version == 0 {
		return corrupt.Errorf(file, headerVersion, "format version 0 was never written")
	}
	return nil
}
