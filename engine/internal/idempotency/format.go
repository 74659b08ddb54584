package idempotency

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
)

// Sizes are part of the file format, do not change.
const (
	magic      = "TWIDEMPO"
	version    = 1
	headerSize = 8 + 4 + 4 + 8 + 8 + 8 + 8 + 8 + 4 + 4
	entrySize  = 8 + 8
	perBlock   = 255
	blockSize  = perBlock*entrySize + 12 + 4
	blockCRC   = blockSize - 4
	runSize    = 4 * 8
	stateHead  = 8 + 8 + 4

	// maxEntries is more than a run can have: a record of the log has a header, and a run is never merged beyond that.
	maxEntries = 1 << 32
)

// ErrNewerFormat is the kind of an error about a file that a later version of the program wrote.
var ErrNewerFormat = errors.New("idempotency: newer format")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Entry is a message that was put with a key.
type Entry struct {
	Hash     uint64
	Position commitlog.Offset
}

func (e Entry) compare(o Entry) int {
	return cmp.Or(cmp.Compare(e.Hash, o.Hash), cmp.Compare(e.Position, o.Position))
}

// Hash is the hash of a key in a topic.
func Hash(topic uint32, key []byte) uint64 {
	var small [4 + 255]byte
	b := append(binary.BigEndian.AppendUint32(small[:0], topic), key...)
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:])
}

// Run describes a file.
type Run struct {
	From, To commitlog.Offset
	Count    int64
	LastMs   int64 // logTime of its last entry
}

// State is what a checkpoint knows of an index. It is a plain value.
type State struct {
	Low    commitlog.Offset // before here there may be no entries: their time was over, or there were no keys
	Memory commitlog.Offset // from here on entries are not in a run
	Runs   []Run            // oldest first
}

func (r Run) name() string { return fmt.Sprintf("%020d-%020d", int64(r.From), int64(r.To)) }

func (r Run) blocks() int64 { return (r.Count + perBlock - 1) / perBlock }

func (r Run) size() int64 { return headerSize + r.blocks()*blockSize }

// valid says what no run can be.
func (r Run) valid() bool {
	return r.From >= 0 && r.To > r.From && r.Count >= 1 && r.Count <= maxEntries
}

// appendHeader appends the header of the run's file.
func (r Run) appendHeader(b []byte, logID uint64) []byte {
	start := len(b)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint32(b, version)
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, logID)
	b = binary.BigEndian.AppendUint64(b, uint64(r.From))
	b = binary.BigEndian.AppendUint64(b, uint64(r.To))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Count))
	b = binary.BigEndian.AppendUint64(b, uint64(r.LastMs))
	b = append(b, 0, 0, 0, 0)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// checkHeader says whether b begins with the header of the run's file.
func (r Run) checkHeader(file string, b []byte, logID uint64) error {
	if len(b) < headerSize {
		return corrupt.Errorf(file, int64(len(b)), "the file ends within its header of %d bytes", headerSize)
	}
	if string(b[:8]) != magic {
		return corrupt.Errorf(file, 0, "magic is %q, not %q", b[:8], magic)
	}
	if crc := crc32.Checksum(b[:headerSize-4], castagnoli); crc != binary.BigEndian.Uint32(b[headerSize-4:]) {
		return corrupt.Errorf(file, headerSize-4, "CRC of the header does not match")
	}
	if v := binary.BigEndian.Uint32(b[8:]); v > version {
		return fmt.Errorf("%w: %s has version %d, this program knows up to %d", ErrNewerFormat, file, v, version)
	}
	for _, f := range []struct {
		name string
		at   int64
		want uint64
	}{
		{"log id", 16, logID}, {"from", 24, uint64(r.From)}, {"to", 32, uint64(r.To)},
		{"count", 40, uint64(r.Count)}, {"last log", 48, uint64(r.LastMs)},
	} {
		if got := binary.BigEndian.Uint64(b[f.at:]); got != f.want {
			return corrupt.Errorf(file, f.at, "%s is %d, not %d", f.name, got, f.want)
		}
	}
	return nil
}

// appendBlock appends the block of a number with at most perBlock entries.
func appendBlock(b []byte, number int64, entries []Entry) []byte {
	start := len(b)
	b = append(b, make([]byte, blockSize)...)
	block := b[start:]
	for i, e := range entries {
		binary.BigEndian.PutUint64(block[i*entrySize:], e.Hash)
		binary.BigEndian.PutUint64(block[i*entrySize+8:], uint64(e.Position))
	}
	binary.BigEndian.PutUint32(block[blockCRC:], blockSum(number, block))
	return b
}

func blockSum(number int64, block []byte) uint32 {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(number))
	return crc32.Update(crc32.Checksum(n[:], castagnoli), castagnoli, block[:blockCRC])
}

// decodeBlock reads the block of a number of a run; into is used again.
func (r Run) decodeBlock(file string, number int64, block []byte, into []Entry) ([]Entry, error) {
	at := headerSize + number*blockSize
	if len(block) != blockSize {
		return nil, corrupt.Errorf(file, at, "block of %d bytes, not %d", len(block), blockSize)
	}
	if blockSum(number, block) != binary.BigEndian.Uint32(block[blockCRC:]) {
		return nil, corrupt.Errorf(file, at, "CRC of the block does not match")
	}
	n := int(min(r.Count-number*perBlock, perBlock))
	into = into[:0]
	for i := range n {
		e := Entry{
			Hash:     binary.BigEndian.Uint64(block[i*entrySize:]),
			Position: commitlog.Offset(binary.BigEndian.Uint64(block[i*entrySize+8:])),
		}
		if e.Position < r.From || e.Position >= r.To || i > 0 && into[i-1].compare(e) >= 0 {
			return nil, corrupt.Errorf(file, at+int64(i*entrySize), "entry of position %d is out of place", e.Position)
		}
		into = append(into, e)
	}
	for i := n * entrySize; i < perBlock*entrySize; i++ {
		if block[i] != 0 {
			return nil, corrupt.Errorf(file, at+int64(i), "a byte behind the last entry is not zero")
		}
	}
	return into, nil
}

// Append appends the encoding.
func (s State) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(s.Low))
	b = binary.BigEndian.AppendUint64(b, uint64(s.Memory))
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.Runs)))
	for _, r := range s.Runs {
		b = binary.BigEndian.AppendUint64(b, uint64(r.From))
		b = binary.BigEndian.AppendUint64(b, uint64(r.To))
		b = binary.BigEndian.AppendUint64(b, uint64(r.Count))
		b = binary.BigEndian.AppendUint64(b, uint64(r.LastMs))
	}
	return b
}

// DecodeState reads an encoding. Its error is a *corrupt.Error with the byte in it as offset.
func DecodeState(b []byte) (s State, err error) {
	const file = "idempotency section"
	if len(b) < stateHead {
		return s, corrupt.Errorf(file, int64(len(b)), "%d bytes, the head alone has %d", len(b), stateHead)
	}
	low, memory, n := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), int64(binary.BigEndian.Uint32(b[16:]))
	if low > memory || memory > math.MaxInt64 {
		return s, corrupt.Errorf(file, 0, "positions %d and %d are impossible", low, memory)
	}
	if n != int64(len(b)-stateHead)/runSize || (len(b)-stateHead)%runSize != 0 {
		return s, corrupt.Errorf(file, 16, "%d runs in %d bytes", n, len(b)-stateHead)
	}
	s.Low, s.Memory = commitlog.Offset(low), commitlog.Offset(memory)
	s.Runs = make([]Run, n)
	for i := range s.Runs {
		p := b[stateHead+i*runSize:]
		r := Run{
			From: commitlog.Offset(binary.BigEndian.Uint64(p)), To: commitlog.Offset(binary.BigEndian.Uint64(p[8:])),
			Count: int64(binary.BigEndian.Uint64(p[16:])), LastMs: int64(binary.BigEndian.Uint64(p[24:])),
		}
		if !r.valid() || r.To > s.Memory || i > 0 && s.Runs[i-1].To > r.From {
			return State{}, corrupt.Errorf(file, int64(stateHead+i*runSize), "run %+v is impossible", r)
		}
		s.Runs[i] = r
	}
	return s, nil
}

// sortEntries sorts by hash and position.
func sortEntries(list []Entry) { slices.SortFunc(list, Entry.compare) }
