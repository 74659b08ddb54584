package arrays

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/tidewheel/tidewheel/engine/internal/segment"
)

// Sizes of a checkpoint section. They are part of the file format, do not change.
const (
	statesHead = 4 + 4
	stateHead  = 8
	minState   = stateHead + 20 // with an empty tail
)

// ErrStates is returned by DecodeStates for bytes that Append did not write.
var ErrStates = errors.New("bad states")

// States is what a checkpoint remembers of all arrays. The zero States are none.
type States struct {
	PerFile int // cells of a file
	Arrays  []State
}

// State is what a checkpoint remembers of an array.
type State struct {
	Number uint64
	segment.State
}

// Marks is all arrays as they stood at a moment.
type Marks struct {
	perFile int
	arrays  []mark
}

type mark struct {
	number uint64
	cells  *segment.Array
	segment.Mark
}

// Mark freezes the bounds of all arrays for a checkpoint. It copies no cells.
func (s *Set[Q]) Mark() Marks {
	m := Marks{perFile: s.opts.PerFile, arrays: make([]mark, len(s.sorted))}
	for i, a := range s.sorted {
		m.arrays[i] = mark{a.number, a.cells, a.cells.Mark()}
	}
	return m
}

// Flush makes the arrays durable up to their marks and returns the states to record. Arrays with fewer than the given
// number of bytes in no file have them in their state instead; see segment.Array.Flush for that and for errors. After
// an error Flush may be called again with the same marks or later ones, unless it is of kind segment.ErrSync.
func (s *Set[Q]) Flush(m Marks, least int) (States, error) {
	at := States{PerFile: m.perFile, Arrays: make([]State, len(m.arrays))}
	for i, a := range m.arrays {
		state, err := a.cells.Flush(a.Mark, least)
		if err != nil {
			return States{}, s.kind.fail("flush ", a.number, err)
		}
		at.Arrays[i] = State{a.number, state}
	}
	return at, nil
}

// Installed tells the arrays that a checkpoint with these states is durable: the memory of cells that are in files
// goes. A caller short of time gives it a part of the Arrays at a time.
func (s *Set[Q]) Installed(at States) {
	for _, state := range at.Arrays {
		if m := s.byNumber[state.Number]; m != nil {
			m.cells.Installed(state.State)
		}
	}
}

// Delete unlinks the files that lie wholly below the first indexes in the states. No checkpoint with lower ones may be
// in use any more.
func (s *Set[Q]) Delete(at States) error {
	for _, state := range at.Arrays {
		s.mu.RLock()
		m := s.byNumber[state.Number]
		s.mu.RUnlock()
		if m == nil {
			continue
		}
		if err := m.cells.Delete(state.First); err != nil {
			return s.kind.fail("", state.Number, err)
		}
	}
	return nil
}

// Append appends the checkpoint section of the states to b.
func (at States) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(at.PerFile))
	b = binary.BigEndian.AppendUint32(b, uint32(len(at.Arrays)))
	for _, state := range at.Arrays {
		b = binary.BigEndian.AppendUint64(b, state.Number)
		b = state.State.Append(b)
	}
	return b
}

// DecodeStates reads the checkpoint section that Append wrote of arrays of this kind; b holds nothing else. The error is
// of kind ErrStates. The tails are parts of b.
func (k *Kind) DecodeStates(b []byte) (States, error) {
	at, err := k.decodeStates(b)
	if err != nil {
		return States{}, fmt.Errorf("%s: %w: %w", k.Package, ErrStates, err)
	}
	return at, nil
}

func (k *Kind) decodeStates(b []byte) (at States, err error) {
	if len(b) < statesHead {
		return at, fmt.Errorf("%d bytes of %d", len(b), statesHead)
	}
	perFile, count := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	b = b[statesHead:]
	if perFile > math.MaxInt32 || perFile == 0 && count > 0 {
		return at, fmt.Errorf("%d cells per file", perFile)
	}
	if uint64(count) > uint64(len(b)/minState) {
		return at, fmt.Errorf("%d arrays in %d bytes", count, len(b))
	}
	at.PerFile = int(perFile)
	if count > 0 {
		at.Arrays = make([]State, count)
	}
	for i := range at.Arrays {
		if len(b) < stateHead {
			return at, fmt.Errorf("array %d of %d is cut short", i, count)
		}
		n := binary.BigEndian.Uint64(b)
		if i > 0 && n <= at.Arrays[i-1].Number {
			return at, fmt.Errorf("%s is out of order", k.Name(n))
		}
		err := k.check(n)
		at.Arrays[i].Number = n
		if err == nil {
			at.Arrays[i].State, b, err = segment.DecodeState(b[stateHead:], k.Cell)
		}
		if err != nil {
			return at, fmt.Errorf("%s: %w", k.Name(n), err)
		}
	}
	if len(b) > 0 {
		return at, fmt.Errorf("%d bytes too many", len(b))
	}
	return at, nil
}
