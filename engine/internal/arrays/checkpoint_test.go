package arrays_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/arrays"
	"github.com/tidewheel/tidewheel/engine/internal/segment"
)

var sample = arrays.States{PerFile: 8, Arrays: []arrays.State{
	{Number: 1000, State: segment.State{First: 5, Flushed: 70_000}},
	{Number: 7_200_000, State: segment.State{First: 9, Flushed: 9, Tail: cellAt(7_200_000, 9, 0)}},
}}

func TestDecodeStatesCorruption(t *testing.T) {
	with := func(change func(*arrays.States)) []byte {
		s := arrays.States{PerFile: 8, Arrays: slices.Clone(sample.Arrays)}
		change(&s)
		return s.Append(nil)
	}
	set := func(at int, v byte) []byte {
		b := sample.Append(nil)
		b[at] = v
		return b
	}
	good := sample.Append(nil)
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"empty", nil, "0 bytes of 8"},
		{"cut head", good[:7], "7 bytes of 8"},
		{"huge count", append(sample.Append(nil)[:4], 0xff, 0xff, 0xff, 0xff), "4294967295 arrays in 0 bytes"},
		{"huge count, arrays follow", set(4, 0xff), "arrays in 72 bytes"},
		{"no cells per file", with(func(s *arrays.States) { s.PerFile = 0 }), "0 cells per file"},
		{"huge number of cells per file", set(0, 0x80), "cells per file"},
		{"cut array", good[:8+28+27], "2 arrays in 55 bytes"},
		{"cut tail", good[:8+28+28+15], "array 7200000: segment: decode state: tail of 16 bytes in 15"},
		{"one too many bytes", append(sample.Append(nil), 0), "1 bytes too many"},
		{"twice the same", with(func(s *arrays.States) { s.Arrays[1] = s.Arrays[0] }), "array 1000 is out of order"},
		{"arrays descend", with(func(s *arrays.States) { slices.Reverse(s.Arrays) }), "array 1000 is out of order"},
		{"number 0", with(func(s *arrays.States) { s.Arrays[0].Number = 0 }), "array 0: no such number"},
		{"huge number", with(func(s *arrays.States) { s.Arrays[1].Number = highest + 1 }), "array 1099511627777: no such number"},
		{"a tail eats the next array", with(func(s *arrays.States) {
			s.Arrays[0].Tail = make([]byte, 32)
			s.Arrays = s.Arrays[:1]
		})[:8+28+31], "tail of 32 bytes in 31"},
		{"count more than there is", func() []byte {
			b := with(func(s *arrays.States) { s.Arrays[0].Tail = make([]byte, 64); s.Arrays = s.Arrays[:1] })
			b[7] = 2
			return b
		}(), "array 1 of 2 is cut short"},
		{"first above flushed", with(func(s *arrays.States) { s.Arrays[0].First = 70_001 }), "array 1000: segment: state: first 70001"},
		{"part of a cell", with(func(s *arrays.States) { s.Arrays[1].Tail = make([]byte, 17) }), "tail of 17"},
	} {
		t.Run(c.name, func(t *testing.T) {
			at, err := kind.DecodeStates(c.b)
			if !errors.Is(err, arrays.ErrStates) || !strings.HasPrefix(err.Error(), "test: bad states: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if at.PerFile != 0 || at.Arrays != nil {
				t.Errorf("with the error came %v", at)
			}
		})
	}
	if at, err := kind.DecodeStates(arrays.States{}.Append(nil)); err != nil || len(at.Arrays) > 0 {
		t.Errorf("no arrays: %v, %v", at, err)
	}
}

func FuzzDecodeStates(f *testing.F) {
	f.Add(sample.Append(nil))
	f.Add(arrays.States{}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		states, err := kind.DecodeStates(b)
		if err != nil {
			return
		}
		if got := states.Append(nil); !bytes.Equal(got, b) {
			t.Errorf("%x decodes to %+v, which encodes to %x", b, states, got)
		}
	})
}
