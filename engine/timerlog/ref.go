package timerlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Place is where a group starts.
type Place struct {
	File   int64 // number
	Offset int64 // byte in the file
}

// NoPlace is where no group starts.
var NoPlace = Place{File: -1, Offset: -1}

func (p Place) before(o Place) bool {
	return p.File < o.File || p.File == o.File && p.Offset < o.Offset
}

// Ref names a group or spill and says enough of it that many can be passed over without reading. The zero Ref names
// nothing. It is a plain value.
type Ref struct {
	File   int64 // number of the file
	Offset int64 // byte of the header in it
	Length int64 // bytes, header and blocks
	Count  int   // entries
	Min    Key   // least key
	Max    Key   // greatest key
	Kind   uint8 // KindGroup or KindSpill
	Ring   uint8
	Slot   int64 // NoSlot for what belongs to no ring
}

// RefSize is the length of an encoded Ref in bytes. It is part of the formats that hold refs, do not change.
const RefSize = 8 + 8 + 8 + 4 + 16 + 16 + 1 + 1 + 2 + 8

// None says whether r names nothing.
func (r Ref) None() bool { return r == Ref{} }

// Place is where the group starts, NoPlace for the zero Ref.
func (r Ref) Place() Place {
	if r.None() {
		return NoPlace
	}
	return Place{File: r.File, Offset: r.Offset}
}

func (r Ref) end() int64 { return r.Offset + r.Length }

// check says what is impossible about r.
func (r Ref) check() error {
	switch {
	case r.Kind != KindGroup && r.Kind != KindSpill:
		return fmt.Errorf("unknown kind %d", r.Kind)
	case r.Count < 1 || r.Count > maxCount:
		return fmt.Errorf("%d entries", r.Count)
	case r.Length != groupHeaderSize+blocksSize(r.Count):
		return fmt.Errorf("length %d does not suit %d entries", r.Length, r.Count)
	case r.File < 1:
		return fmt.Errorf("file number %d", r.File)
	case r.Offset < fileHeaderSize || r.Offset > math.MaxInt64-r.Length:
		return fmt.Errorf("offset %d", r.Offset)
	case r.Max.Less(r.Min):
		return errors.New("least key above the greatest")
	case r.Count == 1 && r.Min != r.Max:
		return errors.New("one entry with two keys")
	}
	return nil
}

// AppendRef appends the RefSize bytes of r to b:
//
//	file 8 | offset 8 | length 8 | count 4 | min 16 | max 16 | kind 1 | ring 1 | reserved 2 | slot 8
//
// all big-endian, and all zero for the zero Ref.
func AppendRef(b []byte, r Ref) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(r.File))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Offset))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Length))
	b = binary.BigEndian.AppendUint32(b, uint32(r.Count))
	b = appendKey(b, r.Min)
	b = appendKey(b, r.Max)
	b = append(b, r.Kind, r.Ring, 0, 0)
	return binary.BigEndian.AppendUint64(b, uint64(r.Slot))
}

// DecodeRef reads the Ref that b begins with; what follows it is not looked at. The error says what cannot be; that the
// bytes are those that were written is the business of whoever keeps a CRC over them.
func DecodeRef(b []byte) (Ref, error) {
	if len(b) < RefSize {
		return Ref{}, fmt.Errorf("timerlog: decode ref: %d bytes of %d", len(b), RefSize)
	}
	r := Ref{
		File:   int64(binary.BigEndian.Uint64(b[0:])),
		Offset: int64(binary.BigEndian.Uint64(b[8:])),
		Length: int64(binary.BigEndian.Uint64(b[16:])),
		Count:  int(binary.BigEndian.Uint32(b[24:])),
		Min:    keyAt(b[28:]),
		Max:    keyAt(b[44:]),
		Kind:   b[60],
		Ring:   b[61],
		Slot:   int64(binary.BigEndian.Uint64(b[64:])),
	}
	if r.None() {
		return r, nil
	}
	if err := r.check(); err != nil {
		return Ref{}, fmt.Errorf("timerlog: decode ref: %w", err)
	}
	return r, nil
}

// State is what a checkpoint records of a family: its files and how far each is written. The zero State is an empty
// family.
type State struct {
	Files []FileState // ascending by number
}

// FileState is one file of a State.
type FileState struct {
	Number int64
	Length int64 // bytes; what lies beyond was never committed
}

// check says what is impossible about s.
func (s State) check() error {
	last := int64(0)
	for _, f := range s.Files {
		if f.Number <= last || f.Number == math.MaxInt64 {
			return fmt.Errorf("file %d after file %d", f.Number, last)
		}
		if f.Length < fileHeaderSize {
			return fmt.Errorf("file %d has length %d", f.Number, f.Length)
		}
		last = f.Number
	}
	return nil
}

// AppendState appends s to b: the number of files, then for each the distance of its number from the one before and its
// length, all as uvarints.
func AppendState(b []byte, s State) []byte {
	b = binary.AppendUvarint(b, uint64(len(s.Files)))
	last := int64(0)
	for _, f := range s.Files {
		b = binary.AppendUvarint(b, uint64(f.Number-last))
		b = binary.AppendUvarint(b, uint64(f.Length))
		last = f.Number
	}
	return b
}

// DecodeState reads the State that b begins with and returns what follows it.
func DecodeState(b []byte) (State, []byte, error) {
	fail := func(format string, args ...any) (State, []byte, error) {
		return State{}, nil, fmt.Errorf("timerlog: decode state: "+format, args...)
	}
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w)/2 {
		return fail("number of files")
	}
	b = b[w:]
	var s State
	if n > 0 {
		s.Files = make([]FileState, 0, n)
	}
	last := int64(0)
	for range n {
		step, w := binary.Uvarint(b)
		if w <= 0 || step > uint64(math.MaxInt64-last) {
			return fail("number after file %d", last)
		}
		length, v := binary.Uvarint(b[w:])
		if v <= 0 || length > math.MaxInt64 {
			return fail("length after file %d", last)
		}
		b = b[w+v:]
		last += int64(step)
		s.Files = append(s.Files, FileState{Number: last, Length: int64(length)})
	}
	if err := s.check(); err != nil {
		return fail("%w", err)
	}
	return s, b, nil
}
