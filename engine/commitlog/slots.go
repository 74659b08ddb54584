package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// MarkSlot is one of the two slots of a mark file.
type MarkSlot struct {
	File string // name of the mark file
	Byte int64  // where the slot stands in it
	Mark Mark   // zero if there is none
	// Reason says why there is no mark in the slot; "" if there is one.
	Reason string
}

// ReadMark reads both slots of the mark file of the log in dir, for people: a Log takes the newer one. It changes nothing
// and needs no Log. id is that of the log. A missing file, and a slot that is damaged, are no error but a Reason; a slot of
// a later version is ErrNewerFormat.
func ReadMark(fsys vfs.FS, dir string, id uint64) ([]MarkSlot, error) {
	name := path.Join(dir, markName)
	slots := make([]MarkSlot, markSlots)
	for i := range slots {
		slots[i] = MarkSlot{File: name, Byte: int64(i) * markSpacing, Reason: "the file is missing"}
	}
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return slots, nil
	}
	if err != nil {
		return nil, fmt.Errorf("commitlog: open mark: %w", err)
	}
	defer f.Close() // only read
	for i := range slots {
		var b [markSize]byte
		n, err := f.ReadAt(b[:], slots[i].Byte)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("commitlog: read mark: %w", err)
		}
		m, ok, err := decodeMark(name, b[:n], id)
		if err != nil {
			return nil, err
		}
		if slots[i].Reason = whyNoMark(b[:n], m, id); ok {
			slots[i].Mark, slots[i].Reason = m, ""
		}
	}
	return slots, nil
}

// whyNoMark says what is wrong with a slot that decodeMark did not take.
func whyNoMark(b []byte, m Mark, id uint64) string {
	be := binary.BigEndian
	switch {
	case allZero(b):
		return "nothing was written here"
	case len(b) < markSize:
		return "the file ends in the slot"
	case be.Uint32(b[markMagicAt:]) != markMagic:
		return fmt.Sprintf("magic is %#08x", be.Uint32(b[markMagicAt:]))
	case crc32.Checksum(b[:markCRC], castagnoli) != be.Uint32(b[markCRC:]):
		return "CRC does not match"
	case be.Uint64(b[markLogID:]) != id:
		return fmt.Sprintf("it belongs to log %016x", be.Uint64(b[markLogID:]))
	}
	return fmt.Sprintf("impossible: mark %d says that the log is durable up to %d", m.Seq, m.Durable)
}
