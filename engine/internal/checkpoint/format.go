package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/tidewheel/tidewheel/engine/commitlog"
)

// Sizes and marks are part of the file format, do not change.
const (
	version     = 1
	magic       = "TWCHECKP"
	endMagic    = 0x5457454e // "TWEN"
	headerSize  = 8 + 4 + 4 + 8 + 8 + 8 + 8 + 8 + 4 + 4
	headSize    = 2 + 2 + 4 + 8
	trailerSize = 4 + 4

	// MustUnderstand is the flag of a section without which the others are not the state.
	MustUnderstand uint16 = 1

	// MaxSize bounds a file: sixteen times what the memory budgets of an engine can put into one.
	MaxSize = 1 << 30
)

// Names of the two copies.
const (
	CopyA = "a"
	CopyB = "b"
)

// ErrNewerFormat is returned by Load and File.Understood: a later version of the program wrote the checkpoint.
var ErrNewerFormat = errors.New("checkpoint: newer format")

// File is the content of one checkpoint. It is a plain value; not safe for concurrent use while it is changed.
type File struct {
	Version  uint32           // of the format; set by Load, ignored by Write
	Seq      uint64           // counts checkpoints of a store, from 1
	X        commitlog.Offset // the batch boundary whose state this is
	StoreID  uint64
	LogID    uint64
	Sections []Section
}

// Section is a part of a checkpoint.
type Section struct {
	Kind  uint16
	Flags uint16 // MustUnderstand or 0

	// Parts are the data, one after the other; so bits and queue tails need not be copied to be written. Load gives one
	// part, which belongs to the caller.
	Parts [][]byte
}

// Size is the length of the data in bytes.
func (s *Section) Size() int64 {
	n := int64(0)
	for _, p := range s.Parts {
		n += int64(len(p))
	}
	return n
}

// Section returns the data of the first section of a kind. One of several parts is copied together.
func (f *File) Section(kind uint16) ([]byte, bool) {
	for i := range f.Sections {
		s := &f.Sections[i]
		if s.Kind != kind {
			continue
		}
		if len(s.Parts) == 1 {
			return s.Parts[0], true
		}
		data := make([]byte, 0, s.Size())
		for _, p := range s.Parts {
			data = append(data, p...)
		}
		return data, true
	}
	return nil, false
}

// Understood returns ErrNewerFormat if f has a section that must be understood and of whose kind known says no.
func (f *File) Understood(known func(kind uint16) bool) error {
	for i := range f.Sections {
		if s := &f.Sections[i]; s.Flags&MustUnderstand != 0 && !known(s.Kind) {
			return fmt.Errorf("%w: this program does not know sections of kind %d, which must be understood, in version %d "+
				"of the format; it knows version %d", ErrNewerFormat, s.Kind, f.Version, version)
		}
	}
	return nil
}

// size is the length of the file that holds f.
func (f *File) size() int64 {
	n := int64(headerSize + trailerSize)
	for i := range f.Sections {
		n += headSize + f.Sections[i].Size()
	}
	return n
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is the first headerSize bytes.
type header struct {
	sections int
	length   int64
	file     File // without sections
}

func (f *File) appendHeader(b []byte) []byte {
	start := len(b)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint32(b, version)
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.Sections)))
	b = binary.BigEndian.AppendUint64(b, f.Seq)
	b = binary.BigEndian.AppendUint64(b, uint64(f.X))
	b = binary.BigEndian.AppendUint64(b, f.StoreID)
	b = binary.BigEndian.AppendUint64(b, f.LogID)
	b = binary.BigEndian.AppendUint64(b, uint64(f.size()))
	b = append(b, 0, 0, 0, 0)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// appendHead appends the head of a section.
func (s *Section) appendHead(b []byte) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint16(b, s.Kind)
	b = binary.BigEndian.AppendUint16(b, s.Flags)
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(s.Size()))
	crc := crc32.Checksum(b[start:], castagnoli)
	for _, p := range s.Parts {
		crc = crc32.Update(crc, castagnoli, p)
	}
	binary.BigEndian.PutUint32(b[start+4:], crc)
	return b
}

// appendTrailer appends the end of a file; crc is over everything before.
func appendTrailer(b []byte, crc uint32) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint32(b, endMagic)
	return binary.BigEndian.AppendUint32(b, crc32.Update(crc, castagnoli, b[start:]))
}

// damage is what is wrong with the bytes of a file, and where.
type damage struct {
	offset int64
	reason string
}

func (d *damage) Error() string { return fmt.Sprintf("byte %d: %s", d.offset, d.reason) }

func damaged(offset int, format string, args ...any) error {
	return &damage{int64(offset), fmt.Sprintf(format, args...)}
}

// decodeHeader reads the header of a file of size bytes. The CRC comes before the version, so that a flipped bit does not
// look like the future.
func decodeHeader(b []byte, size int64) (header, error) {
	if len(b) < headerSize {
		return header{}, damaged(len(b), "the file ends in its header")
	}
	b = b[:headerSize]
	if string(b[:8]) != magic {
		return header{}, damaged(0, "no checkpoint")
	}
	if crc32.Checksum(b[:60], castagnoli) != binary.BigEndian.Uint32(b[60:]) {
		return header{}, damaged(0, "header has a bad crc")
	}
	h := header{
		sections: int(binary.BigEndian.Uint32(b[12:])),
		length:   int64(binary.BigEndian.Uint64(b[48:])),
		file: File{
			Version: binary.BigEndian.Uint32(b[8:]),
			Seq:     binary.BigEndian.Uint64(b[16:]),
			X:       commitlog.Offset(binary.BigEndian.Uint64(b[24:])),
			StoreID: binary.BigEndian.Uint64(b[32:]),
			LogID:   binary.BigEndian.Uint64(b[40:]),
		},
	}
	switch v := h.file.Version; {
	case v == 0:
		return header{}, damaged(8, "file has version 0")
	case v > version:
		return header{}, fmt.Errorf("%w: file has version %d, this program knows %d", ErrNewerFormat, v, version)
	}
	if h.length != size {
		return header{}, damaged(48, "file has %d bytes instead of %d", size, h.length)
	}
	if least := int64(headerSize+trailerSize) + int64(h.sections)*headSize; h.sections < 0 || least > size {
		return header{}, damaged(12, "%d sections in %d bytes", h.sections, size)
	}
	return h, nil
}

// decode reads a whole file. The sections point into b.
func decode(b []byte) (*File, error) {
	h, err := decodeHeader(b, int64(len(b)))
	if err != nil {
		return nil, err
	}
	f := h.file
	at, end := headerSize, len(b)-trailerSize
	if h.sections > 0 {
		f.Sections = make([]Section, 0, min(h.sections, 1024)) // a header's word is not enough for more at once
	}
	for i := range h.sections {
		if end-at < headSize {
			return nil, damaged(at, "no room for section %d of %d", i, h.sections)
		}
		head := b[at : at+headSize]
		length := binary.BigEndian.Uint64(head[8:])
		if length > math.MaxInt64 || int64(length) > int64(end-at-headSize) {
			return nil, damaged(at, "section of %d bytes in the %d that are left", length, end-at-headSize)
		}
		s := Section{Kind: binary.BigEndian.Uint16(head), Flags: binary.BigEndian.Uint16(head[2:])}
		next := at + headSize + int(length)
		data := b[at+headSize : next : next]
		crc := crc32.Update(0, castagnoli, head[:4])
		crc = crc32.Update(crc, castagnoli, []byte{0, 0, 0, 0})
		crc = crc32.Update(crc, castagnoli, head[8:])
		if crc32.Update(crc, castagnoli, data) != binary.BigEndian.Uint32(head[4:]) {
			return nil, damaged(at, "section of kind %d has a bad crc", s.Kind)
		}
		s.Parts = [][]byte{data}
		f.Sections = append(f.Sections, s)
		at = next
	}
	if at != end {
		return nil, damaged(at, "%d bytes after the last section", end-at)
	}
	if binary.BigEndian.Uint32(b[end:]) != endMagic {
		return nil, damaged(end, "no trailer")
	}
	if crc32.Checksum(b[:end+4], castagnoli) != binary.BigEndian.Uint32(b[end+4:]) {
		return nil, damaged(end, "file has a bad crc")
	}
	return &f, nil
}
