package segment

import (
	"encoding/binary"
	"fmt"
)

// Sizes of an encoded state. They are part of the file format, do not change.
const stateSize = 8 + 8 + 4

// State is what a checkpoint remembers of an array: cells [First, Flushed) are in its files, and those of Tail follow.
// The zero State is a new array; First = Flushed = n is one that starts at n.
type State struct {
	First, Flushed int64
	Tail           []byte // whole cells
}

// Len is the length of the array: one more than the index of its last cell. cell is the size of a cell in bytes.
func (s State) Len(cell int) int64 { return s.Flushed + int64(len(s.Tail)/cell) }

// check says whether the state can be one of an array with cells of the given size.
func (s State) check(cell int) error {
	if s.First < 0 || s.Flushed < s.First || s.Flushed > maxIndex || len(s.Tail) > maxTail {
		return fmt.Errorf("segment: state: first %d, flushed %d, tail of %d bytes", s.First, s.Flushed, len(s.Tail))
	}
	if len(s.Tail)%cell != 0 {
		return fmt.Errorf("segment: state: tail of %d bytes with cells of %d", len(s.Tail), cell)
	}
	return nil
}

// Append appends the encoded state to b.
func (s State) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(s.First))
	b = binary.BigEndian.AppendUint64(b, uint64(s.Flushed))
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.Tail)))
	return append(b, s.Tail...)
}

// DecodeState reads the state that b begins with, of an array with cells of the given size in bytes, and returns it
// with the bytes that follow. The Tail is part of b.
func DecodeState(b []byte, cell int) (s State, rest []byte, err error) {
	if len(b) < stateSize {
		return State{}, nil, fmt.Errorf("segment: decode state: %d bytes of %d", len(b), stateSize)
	}
	n := uint64(binary.BigEndian.Uint32(b[16:]))
	if n > uint64(len(b)-stateSize) {
		return State{}, nil, fmt.Errorf("segment: decode state: tail of %d bytes in %d", n, len(b)-stateSize)
	}
	end := stateSize + int(n)
	s = State{
		First:   int64(binary.BigEndian.Uint64(b)),
		Flushed: int64(binary.BigEndian.Uint64(b[8:])),
	}
	if n > 0 {
		s.Tail = b[stateSize:end:end]
	}
	if err := s.check(cell); err != nil {
		return State{}, nil, err
	}
	return s, b[end:], nil
}
