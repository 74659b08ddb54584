package statebits

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Sizes and marks are part of the file format, do not change.
const (
	// ChunkIDs is the number of ids in a chunk: chunk c has the ids from c × ChunkIDs.
	ChunkIDs = 1 << chunkShift
	// PageBytes is the length of the bits of a chunk in bytes.
	PageBytes = ChunkIDs / 4

	chunkShift     = 16
	maxChunk       = 1<<(64-chunkShift) - 1 // the chunk of the greatest id
	version        = 1
	pageMagic      = 0x54575342 // "TWSB"
	pageHeaderSize = 4 + 4 + 8 + 8 + 4 + 4
	pageStride     = pageHeaderSize + PageBytes
	filePages      = 256
)

var (
	// ErrNewerFormat is returned by everything that reads a page: a later version of the format wrote it.
	ErrNewerFormat = errors.New("statebits: newer format")

	// ErrFailed is returned by jobs after a sync failed, for as long as the Bits are open: nobody knows what the disk
	// holds, and a later sync would not tell.
	ErrFailed = errors.New("statebits: a sync failed")

	// ErrClosed is returned by Close and by what reads a file, after Close.
	ErrClosed = errors.New("statebits: closed")
)

// State is what the bits of an id say.
type State uint8

// The states. They are part of the file format, do not change.
const (
	Regular     State = 0 // nothing is known but its (due, id)
	Cancelled   State = 1
	Superseded  State = 2 // moved: a new id took its place
	LatePending State = 3 // stored at or below the frontier, and not delivered yet
)

func (s State) String() string {
	if s > LatePending {
		return fmt.Sprintf("State(%d)", uint8(s))
	}
	return [...]string{"regular", "cancelled", "superseded", "late and pending"}[s]
}

// Page is the bits of one chunk.
type Page struct {
	Chunk uint64
	Data  []byte // PageBytes
}

// redoSize is the length of a page in a checkpoint. It is part of the checkpoint's format, do not change.
const redoSize = 8 + PageBytes

// EncodePages returns the content of a checkpoint's section with pages in it, in parts to be written one after the other:
// for each page its chunk (8 bytes, big-endian) and its PageBytes. The data is not copied.
func EncodePages(pages []Page) [][]byte {
	parts := make([][]byte, 0, 2*len(pages))
	heads := make([]byte, 0, 8*len(pages))
	for _, p := range pages {
		heads = binary.BigEndian.AppendUint64(heads, p.Chunk)
		parts = append(parts, heads[len(heads)-8:], p.Data)
	}
	return parts
}

// DecodePages reads all of b as EncodePages wrote it. The pages point into b.
func DecodePages(b []byte) ([]Page, error) {
	if len(b)%redoSize != 0 {
		return nil, fmt.Errorf("statebits: decode pages: %d bytes are no whole number of pages", len(b))
	}
	pages := make([]Page, 0, len(b)/redoSize)
	for ; len(b) > 0; b = b[redoSize:] {
		p := Page{Chunk: binary.BigEndian.Uint64(b), Data: b[8:redoSize:redoSize]}
		if p.Chunk > maxChunk {
			return nil, fmt.Errorf("statebits: decode pages: chunk %d", p.Chunk)
		}
		if n := len(pages); n > 0 && p.Chunk <= pages[n-1].Chunk {
			return nil, fmt.Errorf("statebits: decode pages: chunk %d after chunk %d", p.Chunk, pages[n-1].Chunk)
		}
		pages = append(pages, p)
	}
	return pages, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendPage appends a page as it stands in a file.
func appendPage(b []byte, p Page, ident uint64) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint32(b, pageMagic)
	b = binary.BigEndian.AppendUint32(b, version)
	b = binary.BigEndian.AppendUint64(b, p.Chunk)
	b = binary.BigEndian.AppendUint64(b, ident)
	b = append(b, 0, 0, 0, 0)
	crc := crc32.Checksum(b[start:], castagnoli)
	b = binary.BigEndian.AppendUint32(b, crc32.Update(crc, castagnoli, p.Data))
	return append(b, p.Data...)
}

// checkPage says what is wrong with the page of a chunk, of which head is the header and data the bits. The CRC comes
// before the version, so that a flipped bit does not look like the future.
func checkPage(head, data []byte, chunk, ident uint64) error {
	if binary.BigEndian.Uint32(head) != pageMagic {
		return errors.New("no page stands here")
	}
	crc := crc32.Checksum(head[:28], castagnoli)
	if crc32.Update(crc, castagnoli, data) != binary.BigEndian.Uint32(head[28:]) {
		return errors.New("page has a bad crc")
	}
	switch v := binary.BigEndian.Uint32(head[4:]); {
	case v == 0:
		return errors.New("page has version 0")
	case v > version:
		return fmt.Errorf("%w: page has version %d, this program knows %d", ErrNewerFormat, v, version)
	}
	if got := binary.BigEndian.Uint64(head[8:]); got != chunk {
		return fmt.Errorf("page of chunk %d instead of %d", got, chunk)
	}
	if got := binary.BigEndian.Uint64(head[16:]); got != ident {
		return fmt.Errorf("page of store %x instead of %x", got, ident)
	}
	return nil
}
