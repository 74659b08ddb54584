package schedule_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/arrays"
	"github.com/tidewheel/tidewheel/engine/internal/golden"
	"github.com/tidewheel/tidewheel/engine/internal/segment"
	"github.com/tidewheel/tidewheel/engine/schedule"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

const cellSize = timerlog.EntrySize + 4

var goldenEntry = timerlog.Entry{
	Key: timerlog.Key{Due: 1_796_036_533_123, ID: 0x0102030405060708}, Position: 4096, Size: 300,
	Topic: 7, Queue: 2, Tags: -2, KeyHash: 0x1112131415161718, Flags: timerlog.EntryFlags(false, 3, 1),
}

var goldenStates = schedule.States{PerFile: 65536, Arrays: []arrays.State{
	{Number: 1000, State: segment.State{First: 5, Flushed: 70_000}},
	{Number: 7_200_000, State: segment.State{
		First: 9, Flushed: 9, Tail: schedule.AppendCell(nil, 9, goldenEntry)}},
}}

func TestGolden(t *testing.T) {
	state := []golden.Field{{8, "delay"}, {8, "first"}, {8, "flushed"}, {4, "tail"}}
	golden.Check(t, "cell", "cell at index 7", 16, schedule.AppendCell(nil, 7, goldenEntry), []golden.Field{
		{8, "due"}, {8, "id"}, {8, "position"}, {4, "size"}, {4, "topic"}, {4, "queue"}, {4, "tags"},
		{8, "key hash"}, {4, "flags"}, {4, "crc"},
	})
	golden.Check(t, "states", "section of two queues, the second with an entry that is in no file", 16, goldenStates.Append(nil),
		slices.Concat([]golden.Field{{4, "per file"}, {4, "count"}}, state, state,
			[]golden.Field{{cellSize, "cell at index 9"}}))
	t.Run("decode", func(t *testing.T) {
		if got, err := schedule.DecodeCell(golden.Read(t, "cell"), 7); err != nil || got != goldenEntry {
			t.Errorf("got %+v, %v", got, err)
		}
		states, err := schedule.DecodeStates(golden.Read(t, "states"))
		if err != nil || fmt.Sprint(states) != fmt.Sprint(goldenStates) {
			t.Errorf("got %v, %v; want %v", states, err, goldenStates)
		}
	})
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

func TestDecodeStatesChecksDelays(t *testing.T) {
	for _, delayMs := range []int64{0, -1, schedule.MaxDelayMs + 1} {
		b := schedule.States{PerFile: 8, Arrays: []arrays.State{{Number: uint64(delayMs)}}}.Append(nil)
		_, err := schedule.DecodeStates(b)
		if !errors.Is(err, schedule.ErrStates) || !strings.Contains(err.Error(), fmt.Sprintf("delay %d ms", delayMs)) {
			t.Errorf("delay %d: %v", delayMs, err)
		}
	}
}

func FuzzDecodeCell(f *testing.F) {
	f.Add(golden.Read(f, "cell"), int64(7))
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
