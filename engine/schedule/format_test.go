package schedule_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/segment"
	"github.com/tidewheel/tidewheel/engine/schedule"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

var update = flag.Bool("update", false, "write the golden files")

const cellSize = timerlog.EntrySize + 4

var goldenEntry = timerlog.Entry{
	Key: timerlog.Key{Due: 1_796_036_533_123, ID: 0x0102030405060708}, Position: 4096, Size: 300,
	Topic: 7, Queue: 2, Tags: -2, KeyHash: 0x1112131415161718, Flags: timerlog.EntryFlags(false, 3, 1),
}

var goldenStates = schedule.States{PerFile: 65536, Queues: []schedule.QueueState{
	{DelayMs: 1000, State: segment.State{First: 5, Flushed: 70_000}},
	{DelayMs: 7_200_000, State: segment.State{
		First: 9, Flushed: 9, Tail: schedule.AppendCell(nil, 9, goldenEntry)}},
}}

// field is a run of bytes in a golden file.
type field struct {
	width int
	name  string
}

func TestGolden(t *testing.T) {
	state := []field{{8, "delay"}, {8, "first"}, {8, "flushed"}, {4, "tail"}}
	for _, c := range []struct {
		name, title string
		encoded     []byte
		fields      []field
	}{
		{"cell", "cell at index 7", schedule.AppendCell(nil, 7, goldenEntry), []field{
			{8, "due"}, {8, "id"}, {8, "position"}, {4, "size"}, {4, "topic"}, {4, "queue"}, {4, "tags"},
			{8, "key hash"}, {4, "flags"}, {4, "crc"},
		}},
		{"states", "section of two queues, the second with an entry that is in no file", goldenStates.Append(nil),
			append(append(append([]field{{4, "per file"}, {4, "count"}}, state...), state...),
				field{cellSize, "cell at index 9"})},
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
		if got, err := schedule.DecodeCell(golden(t, "cell"), 7); err != nil || got != goldenEntry {
			t.Errorf("got %+v, %v", got, err)
		}
		states, err := schedule.DecodeStates(golden(t, "states"))
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

func TestDecodeCellCorruption(t *testing.T) {
	for _, c := range []struct {
		name    string
		corrupt func([]byte) []byte
		index   int64
		want    string
	}{
		{"empty", func(b []byte) []byte { return nil }, 7, "0 bytes of 56"},
		{"cut", func(b []byte) []byte { return b[:55] }, 7, "55 bytes of 56"},
		{"never written", func(b []byte) []byte { return make([]byte, cellSize) }, 7, "CRC is 00000000"},
		{"never written, first", func(b []byte) []byte { return make([]byte, cellSize) }, 0, "CRC is 00000000"},
		{"another place", func(b []byte) []byte { return b }, 8, "index 8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := schedule.DecodeCell(c.corrupt(schedule.AppendCell(nil, 7, goldenEntry)), c.index)
			if !errors.Is(err, schedule.ErrCell) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	t.Run("every bit", func(t *testing.T) {
		for bit := range cellSize * 8 {
			b := schedule.AppendCell(nil, 7, goldenEntry)
			b[bit/8] ^= 1 << (bit % 8)
			if _, err := schedule.DecodeCell(b, 7); err == nil {
				t.Errorf("bit %d of byte %d flipped is not seen", bit%8, bit/8)
			}
		}
	})
}

func TestDecodeStatesCorruption(t *testing.T) {
	with := func(change func(*schedule.States)) []byte {
		s := schedule.States{PerFile: 8, Queues: append([]schedule.QueueState(nil), goldenStates.Queues...)}
		change(&s)
		return s.Append(nil)
	}
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"empty", nil, "0 bytes of 8"},
		{"cut head", goldenStates.Append(nil)[:7], "7 bytes of 8"},
		{"huge count", append(goldenStates.Append(nil)[:4], 0xff, 0xff, 0xff, 0xff), "4294967295 queues in 0 bytes"},
		{"no entries per file", with(func(s *schedule.States) { s.PerFile = 0 }), "0 entries per file"},
		{"cut tail", goldenStates.Append(nil)[:8+28+28+55], "tail of 56 bytes in 55"},
		{"one too many bytes", append(goldenStates.Append(nil), 0), "1 bytes too many"},
		{"twice the same", with(func(s *schedule.States) { s.Queues[1] = s.Queues[0] }), "delay 1000 ms after 1000"},
		{"queues descend", with(func(s *schedule.States) {
			s.Queues[0], s.Queues[1] = s.Queues[1], s.Queues[0]
		}), "delay 1000 ms after 7200000"},
		{"no delay", with(func(s *schedule.States) { s.Queues[0].DelayMs = 0 }), "delay 0 ms"},
		{"huge delay", with(func(s *schedule.States) {
			s.Queues[1].DelayMs = schedule.MaxDelayMs + 1
		}), "delay 3162240000001"},
		{"first above flushed", with(func(s *schedule.States) { s.Queues[0].First = 70_001 }), "first 70001"},
		{"part of a cell", with(func(s *schedule.States) { s.Queues[1].Tail = make([]byte, 57) }), "tail of 57"},
		{"count more than there is", func() []byte {
			b := with(func(s *schedule.States) { s.Queues[0].Tail = make([]byte, 56); s.Queues = s.Queues[:1] })
			b[7] = 2
			return b
		}(), "queue 1 of 2 is cut short"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := schedule.DecodeStates(c.b)
			if !errors.Is(err, schedule.ErrStates) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func FuzzDecodeCell(f *testing.F) {
	f.Add(golden(f, "cell"), int64(7))
	f.Add([]byte{}, int64(0))
	f.Fuzz(func(t *testing.T, b []byte, i int64) {
		e, err := schedule.DecodeCell(b, i)
		if err != nil {
			return
		}
		if got := schedule.AppendCell(nil, i, e); !bytes.Equal(got, b[:cellSize]) {
			t.Errorf("%x decodes to %+v, which encodes to %x", b, e, got)
		}
	})
}

func FuzzDecodeStates(f *testing.F) {
	f.Add(golden(f, "states"))
	f.Add(schedule.States{}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		states, err := schedule.DecodeStates(b)
		if err != nil {
			return
		}
		if got := states.Append(nil); !bytes.Equal(got, b) {
			t.Errorf("%x decodes to %+v, which encodes to %x", b, states, got)
		}
	})
}
