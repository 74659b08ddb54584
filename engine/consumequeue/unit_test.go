package consumequeue_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/consumequeue"
	"github.com/tidewheel/tidewheel/engine/internal/arrays"
	"github.com/tidewheel/tidewheel/engine/internal/golden"
	"github.com/tidewheel/tidewheel/engine/internal/segment"
)

var goldenUnit = consumequeue.Unit{
	Position: 0x0102030405060708, Size: 1234, Tags: -2, LogMs: 1_796_036_523_123,
	Flags: consumequeue.FlagHole | consumequeue.FlagStub,
}

var goldenStates = consumequeue.States{PerFile: 262_144, Arrays: []arrays.State{
	{Number: 1<<32 | 3, State: segment.State{First: 5, Flushed: 300_000}},
	{Number: 2 << 32, State: segment.State{First: 9, Flushed: 9, Tail: goldenUnit.Append(nil, 9)}},
}}

func TestGolden(t *testing.T) {
	state := []golden.Field{{4, "topic"}, {4, "queue"}, {8, "first"}, {8, "flushed"}, {4, "tail"}}
	golden.Check(t, "unit", "unit at offset 7", 16, goldenUnit.Append(nil, 7), []golden.Field{
		{8, "position"}, {4, "size"}, {4, "tags"}, {8, "logTime"}, {4, "flags"}, {4, "crc"},
	})
	golden.Check(t, "states", "section of two queues, the second with a unit that is in no file", 16, goldenStates.Append(nil),
		slices.Concat([]golden.Field{{4, "per file"}, {4, "count"}}, state, state,
			[]golden.Field{{consumequeue.UnitSize, "unit at offset 9"}}))
	t.Run("decode", func(t *testing.T) {
		if got, err := consumequeue.DecodeUnit(golden.Read(t, "unit"), 7); err != nil || got != goldenUnit {
			t.Errorf("got %+v, %v", got, err)
		}
		states, err := consumequeue.DecodeStates(golden.Read(t, "states"))
		if err != nil || fmt.Sprint(states) != fmt.Sprint(goldenStates) {
			t.Errorf("got %v, %v; want %v", states, err, goldenStates)
		}
	})
}

func TestUnitRoundTrip(t *testing.T) {
	for _, u := range []consumequeue.Unit{
		{}, goldenUnit,
		{Position: math.MaxInt64, Size: math.MaxInt32, Tags: math.MinInt32, LogMs: math.MaxInt64, Flags: math.MaxUint32},
		{Position: -1, Size: -1, Tags: -1, LogMs: -1},
	} {
		for _, o := range []consumequeue.QueueOffset{0, 1, 1 << 40} {
			b := u.Append([]byte("x"), o)
			if len(b) != 1+consumequeue.UnitSize {
				t.Fatalf("%d bytes", len(b))
			}
			if got, err := consumequeue.DecodeUnit(b[1:], o); err != nil || got != u {
				t.Errorf("%+v at %d comes back as %+v, %v", u, o, got, err)
			}
		}
	}
}

func TestDecodeUnitCorruption(t *testing.T) {
	for _, c := range []struct {
		name    string
		corrupt func([]byte) []byte
		offset  consumequeue.QueueOffset
		want    string
	}{
		{"empty", func(b []byte) []byte { return nil }, 7, "0 bytes of 32"},
		{"cut", func(b []byte) []byte { return b[:31] }, 7, "31 bytes of 32"},
		{"never written", func(b []byte) []byte { return make([]byte, 32) }, 7, "CRC is 00000000"},
		{"never written, first", func(b []byte) []byte { return make([]byte, 32) }, 0, "CRC is 00000000"},
		{"another place", func(b []byte) []byte { return b }, 8, "offset 8"},
		{"shifted", func(b []byte) []byte { return append([]byte{0}, b...) }, 7, "CRC"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := consumequeue.DecodeUnit(c.corrupt(goldenUnit.Append(nil, 7)), c.offset)
			if !errors.Is(err, consumequeue.ErrUnit) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	t.Run("every bit", func(t *testing.T) {
		for bit := range consumequeue.UnitSize * 8 {
			b := goldenUnit.Append(nil, 7)
			b[bit/8] ^= 1 << (bit % 8)
			if _, err := consumequeue.DecodeUnit(b, 7); err == nil {
				t.Errorf("bit %d of byte %d flipped is not seen", bit%8, bit/8)
			}
		}
	})
}

func FuzzDecodeUnit(f *testing.F) {
	f.Add(golden.Read(f, "unit"), int64(7))
	f.Add([]byte{}, int64(0))
	f.Fuzz(func(t *testing.T, b []byte, o int64) {
		u, err := consumequeue.DecodeUnit(b, consumequeue.QueueOffset(o))
		if err != nil {
			return
		}
		if got := u.Append(nil, consumequeue.QueueOffset(o)); !bytes.Equal(got, b[:consumequeue.UnitSize]) {
			t.Errorf("%x decodes to %+v, which encodes to %x", b, u, got)
		}
	})
}
