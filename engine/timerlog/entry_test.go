package timerlog_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

func TestKeyOrder(t *testing.T) {
	ascending := []timerlog.Key{
		{Due: math.MinInt64, ID: math.MaxUint64},
		{Due: -1, ID: 0},
		{Due: 0, ID: 0},
		{Due: 0, ID: 1},
		{Due: 0, ID: math.MaxUint64},
		{Due: 1, ID: 0},
		{Due: math.MaxInt64, ID: math.MaxUint64},
	}
	for i, a := range ascending {
		for j, b := range ascending {
			if got, want := a.Less(b), i < j; got != want {
				t.Errorf("%v less than %v: %t", a, b, got)
			}
			if got := a.Compare(b); (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("%v compared with %v: %d", a, b, got)
			}
		}
	}
}

func TestEntryRoundTrip(t *testing.T) {
	for _, e := range []timerlog.Entry{
		{},
		sample(1, 2),
		{
			Key:      timerlog.Key{Due: math.MaxInt64, ID: math.MaxUint64},
			Position: math.MaxInt64, Size: math.MaxInt32, Topic: math.MaxUint32, Queue: math.MaxUint32,
			Tags: math.MinInt32, KeyHash: math.MaxUint64, Flags: math.MaxUint32,
		},
		{Key: timerlog.Key{Due: math.MinInt64}, Position: -1, Size: -1, Tags: -1},
	} {
		b := e.Append([]byte("before"))
		if len(b) != 6+timerlog.EntrySize || string(b[:6]) != "before" {
			t.Fatalf("encoded as %x", b)
		}
		got, err := timerlog.DecodeEntry(append(b[6:], "behind"...))
		if err != nil || got != e {
			t.Errorf("got %+v, %v; want %+v", got, err, e)
		}
	}
}

func TestDecodeEntryShort(t *testing.T) {
	b := sample(1, 2).Append(nil)
	for n := range b {
		if _, err := timerlog.DecodeEntry(b[:n]); err == nil || !strings.Contains(err.Error(), "bytes of 52") {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
}

func TestEntryFlags(t *testing.T) {
	for _, c := range []struct {
		late        bool
		level, lane uint8
		want        uint32
	}{
		{false, 0, 0, 0},
		{true, 0, 0, 1},
		{false, 18, 0, 0x1200},
		{true, 255, 255, 0xffff01},
	} {
		e := timerlog.Entry{Flags: timerlog.EntryFlags(c.late, c.level, c.lane)}
		if e.Flags != c.want || e.Late() != c.late || e.Level() != c.level || e.Lane() != c.lane {
			t.Errorf("%+v: flags %#x: late %t, level %d, lane %d", c, e.Flags, e.Late(), e.Level(), e.Lane())
		}
	}
}

// sample makes an entry whose every field follows from its key.
func sample(due int64, id uint64) timerlog.Entry {
	return timerlog.Entry{
		Key:      timerlog.Key{Due: due, ID: id},
		Position: 4096 + 8*commitlog.Offset(id%(1<<40)), Size: int32(id%4000) + 100, Topic: uint32(id % 7), Queue: uint32(id % 4),
		Tags: int32(id * 2654435761), KeyHash: id * 0x9e3779b97f4a7c15, Flags: timerlog.EntryFlags(id%5 == 0, uint8(id%19), 0),
	}
}

// run makes n entries with ascending keys, several of a due time; the ids are those from first.
func run(due int64, first uint64, n int) []timerlog.Entry {
	es := make([]timerlog.Entry, n)
	for i := range es {
		es[i] = sample(due+int64(i/3), first+uint64(i))
	}
	return es
}

func reversed(es []timerlog.Entry) []timerlog.Entry {
	es = slices.Clone(es)
	slices.Reverse(es)
	return es
}
