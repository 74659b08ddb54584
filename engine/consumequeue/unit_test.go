package consumequeue_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/consumequeue"
	"github.com/tidewheel/tidewheel/engine/internal/segment"
)

var update = flag.Bool("update", false, "write the golden files")

var goldenUnit = consumequeue.Unit{
	Position: 0x0102030405060708, Size: 1234, Tags: -2, LogMs: 1_796_036_523_123,
	Flags: consumequeue.FlagHole | consumequeue.FlagStub,
}

var goldenStates = consumequeue.States{PerFile: 262_144, Queues: []consumequeue.QueueState{
	{Key: consumequeue.Key{Topic: 1, Queue: 3}, State: segment.State{First: 5, Flushed: 300_000}},
	{Key: consumequeue.Key{Topic: 2, Queue: 0}, State: segment.State{
		First: 9, Flushed: 9, Tail: goldenUnit.Append(nil, 9)}},
}}

// field is a run of bytes in a golden file.
type field struct {
	width int
	name  string
}

func TestGolden(t *testing.T) {
	state := []field{{4, "topic"}, {4, "queue"}, {8, "first"}, {8, "flushed"}, {4, "tail"}}
	for _, c := range []struct {
		name, title string
		encoded     []byte
		fields      []field
	}{
		{"unit", "unit at offset 7", goldenUnit.Append(nil, 7), []field{
			{8, "position"}, {4, "size"}, {4, "tags"}, {8, "logTime"}, {4, "flags"}, {4, "crc"},
		}},
		{"states", "section of two queues, the second with a unit that is in no file", goldenStates.Append(nil),
			append(append(append([]field{{4, "per file"}, {4, "count"}}, state...), state...),
				field{consumequeue.UnitSize, "unit at offset 9"})},
	} {
		t.Run(c.name, func(t *testing.T) {
			var text strings.Builder
			fmt.Fprintf(&text, "# %s\n", c.title)
			b := c.encoded
			for _, f := range c.fields {
				fmt.Fprintf(&text, "%-16x # %s\n", b[:f.width], f.name)
				b = b[f.width:]
			}
			if len(b) > 0 {
				t.Errorf("%d bytes have no name", len(b))
			}
			name := filepath.Join("testdata", "golden", c.name+".hex")
			if *update {
				if err := os.WriteFile(name, []byte(text.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if text.String() != string(want) {
				t.Errorf("encoding changed, which is a new version. got:\n%s", text.String())
			}
		})
	}
	t.Run("decode", func(t *testing.T) {
		if got, err := consumequeue.DecodeUnit(golden(t, "unit"), 7); err != nil || got != goldenUnit {
			t.Errorf("got %+v, %v", got, err)
		}
		states, err := consumequeue.DecodeStates(golden(t, "states"))
		if err != nil || fmt.Sprint(states) != fmt.Sprint(goldenStates) {
			t.Errorf("got %v, %v; want %v", states, err, goldenStates)
		}
	})
}

// golden reads the bytes of a golden file.
func golden(t testing.TB, name string) (b []byte) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "golden", name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		digits, _, _ := strings.Cut(line, "#")
		part, err := hex.DecodeString(strings.TrimSpace(digits))
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, part...)
	}
	return b
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

func TestDecodeStatesCorruption(t *testing.T) {
	with := func(change func(*consumequeue.States)) []byte {
		s := consumequeue.States{PerFile: 8, Queues: append([]consumequeue.QueueState(nil), goldenStates.Queues...)}
		change(&s)
		return s.Append(nil)
	}
	set := func(at int, v byte) []byte {
		b := goldenStates.Append(nil)
		b[at] = v
		return b
	}
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"empty", nil, "0 bytes of 8"},
		{"cut head", goldenStates.Append(nil)[:7], "7 bytes of 8"},
		{"huge count", set(4, 0xff), "queues in"},
		{"no units per file", with(func(s *consumequeue.States) { s.PerFile = 0 }), "0 units per file"},
		{"huge units per file", set(0, 0x80), "units per file"},
		{"cut queue", goldenStates.Append(nil)[:8+28+27], "queues in"},
		{"cut tail", goldenStates.Append(nil)[:8+28+28+31], "tail of 32 bytes in 31"},
		{"one too many bytes", append(goldenStates.Append(nil), 0), "1 bytes too many"},
		{"twice the same", with(func(s *consumequeue.States) { s.Queues[1] = s.Queues[0] }), "out of order"},
		{"queues descend", with(func(s *consumequeue.States) {
			s.Queues[0], s.Queues[1] = s.Queues[1], s.Queues[0]
		}), "out of order"},
		{"a tail eats the next queue", with(func(s *consumequeue.States) {
			s.Queues[0].Tail = make([]byte, 32)
			s.Queues = s.Queues[:1]
		})[:8+28+31], "tail of 32 bytes in 31"},
		{"count more than there is", func() []byte {
			b := with(func(s *consumequeue.States) { s.Queues[0].Tail = make([]byte, 64); s.Queues = s.Queues[:1] })
			b[7] = 2
			return b
		}(), "queue 1 of 2 is cut short"},
		{"first above flushed", with(func(s *consumequeue.States) { s.Queues[0].First = 300_001 }), "first 300001"},
		{"part of a unit", with(func(s *consumequeue.States) { s.Queues[1].Tail = make([]byte, 33) }), "tail of 33"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := consumequeue.DecodeStates(c.b)
			if !errors.Is(err, consumequeue.ErrStates) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func FuzzDecodeUnit(f *testing.F) {
	f.Add(golden(f, "unit"), int64(7))
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

func FuzzDecodeStates(f *testing.F) {
	f.Add(golden(f, "states"))
	f.Add(consumequeue.States{}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		states, err := consumequeue.DecodeStates(b)
		if err != nil {
			return
		}
		if got := states.Append(nil); !bytes.Equal(got, b) {
			t.Errorf("%x decodes to %+v, which encodes to %x", b, states, got)
		}
	})
}
