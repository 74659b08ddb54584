package arrays_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/arrays"
	"github.com/tidewheel/tidewheel/engine/internal/segment"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

const (
	dir      = "arrays"
	cellSize = 16
	highest  = uint64(1) << 40
)

var errNumber = errors.New("no such number")

var kind = arrays.Kind{
	Package: "test", Magic: [8]byte{'t', 'w', 'a', 'r', 'r', 'a', 'y', 's'}, Cell: cellSize, PerFile: 8,
	Path: func(n uint64) string { return strconv.FormatUint(n, 10) },
	Name: func(n uint64) string { return fmt.Sprintf("array %d", n) },
	Check: func(n uint64) error {
		if n == 0 || n > highest {
			return errNumber
		}
		return nil
	},
}

// array is what the tests make of an array: cells that say where they belong.
type array struct {
	number uint64
	*segment.Array
}

func wrap(n uint64, cells *segment.Array) *array { return &array{n, cells} }

type set = arrays.Set[*array]

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func open(t testing.TB, fsys vfs.FS, at arrays.States) *set {
	t.Helper()
	s, err := arrays.Open(fsys, dir, &kind, arrays.Options{LogID: 77}, at, wrap)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ensure(t testing.TB, s *set, n uint64) *array {
	t.Helper()
	a, err := s.Ensure(n)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// cellAt is the cell at index i of an array; after a crash, lost ones are written with another life.
func cellAt(n uint64, i int64, life uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(n))
	b = binary.BigEndian.AppendUint64(b, uint64(i))
	return binary.BigEndian.AppendUint32(b, life)
}

// appendTo appends cells until the array has the length n.
func appendTo(a *array, n int64) {
	for i := a.Len(); i < n; i++ {
		a.Append(cellAt(a.number, i, 0))
	}
}

// checkCells reads [First, Len) in pieces of the given number of cells.
func checkCells(t testing.TB, a *array, piece int, life func(i int64) uint32) {
	t.Helper()
	b := make([]byte, piece*cellSize)
	for i := a.First(); i < a.Len(); {
		n, err := a.Read(i, b)
		if err != nil || n != int(min(int64(piece), a.Len()-i)) {
			t.Fatalf("%d: read %d cells from %d of [%d, %d): %v", a.number, n, i, a.First(), a.Len(), err)
		}
		for k := range n {
			if got, want := b[k*cellSize:][:cellSize], cellAt(a.number, i, life(i)); !bytes.Equal(got, want) {
				t.Fatalf("%d: cell %d is %x, want %x", a.number, i, got, want)
			}
			i++
		}
	}
}

func firstLife(int64) uint32 { return 0 }

// checkpoint flushes all arrays and tells them.
func checkpoint(t testing.TB, s *set, least int) arrays.States {
	t.Helper()
	at, err := s.Flush(s.Mark(), least)
	if err != nil {
		t.Fatal(err)
	}
	s.Installed(at)
	if err := s.Delete(at); err != nil {
		t.Fatal(err)
	}
	return at
}
