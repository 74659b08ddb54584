package message_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/golden"
	"github.com/tidewheel/tidewheel/engine/message"
)

// equalMessages compares two messages; an empty slice equals a nil one.
func equalMessages(t *testing.T, got, want *message.Message) {
	t.Helper()
	g, w := *got, *want
	for _, m := range []*message.Message{&g, &w} {
		m.BornHost, m.Tag, m.Key, m.Body = bytes.Clone(m.BornHost), bytes.Clone(m.Tag), bytes.Clone(m.Key), bytes.Clone(m.Body)
		m.Properties = bytes.Clone(m.Properties)
		for _, part := range []*[]byte{&m.BornHost, &m.Tag, &m.Key, &m.Body, (*[]byte)(&m.Properties)} {
			if len(*part) == 0 {
				*part = nil
			}
		}
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("got  %+v\nwant %+v", g, w)
	}
}

func TestCodecRoundTrip(t *testing.T) {
	extreme := message.Message{
		ID: math.MaxUint64, First: math.MaxInt64, Topic: math.MaxUint32, Queue: math.MaxUint32, QueueOffset: math.MinInt64,
		StoreMs: math.MinInt64, BornMs: math.MaxInt64, DueMs: math.MinInt64, DelayMs: math.MaxInt64, Level: 255, Lane: 255,
		Flags: math.MaxUint16, Tags: math.MinInt32, KeyHash: math.MaxUint64, UserFlag: math.MaxUint32,
		SysFlag: math.MaxUint32, Attempts: math.MaxUint16,
	}
	largest := message.Message{
		BornHost: bytes.Repeat([]byte{1}, 18), Tag: bytes.Repeat([]byte{'t'}, message.MaxTag),
		Key: bytes.Repeat([]byte{'k'}, message.MaxKey), Body: make([]byte, message.MaxBody),
	}
	largest.Properties = message.AppendProperty(nil, "n", strings.Repeat("v", message.MaxProperties-4))
	for name, m := range map[string]message.Message{
		"zero": {}, "plain": plain(), "full": full(), "extreme": extreme, "largest": largest,
	} {
		t.Run(name, func(t *testing.T) {
			if err := m.Check(); err != nil {
				t.Fatal(err)
			}
			prefix := []byte("prefix")
			b := m.Append(prefix)
			if !bytes.HasPrefix(b, prefix) {
				t.Error("Append did not append")
			}
			b = b[len(prefix):]
			if len(b) != message.PayloadSize(&m) {
				t.Errorf("%d bytes, PayloadSize says %d", len(b), message.PayloadSize(&m))
			}
			got := full() // what it held before must not shine through
			if err := message.Decode(b, &got); err != nil {
				t.Fatal(err)
			}
			equalMessages(t, &got, &m)

			onlyHead := full()
			if err := message.DecodeHead(b, &onlyHead); err != nil {
				t.Fatal(err)
			}
			m.BornHost, m.Tag, m.Key, m.Properties, m.Body = nil, nil, nil, nil, nil
			equalMessages(t, &onlyHead, &m)
		})
	}
}

func TestDecodeSlicesLieInThePayload(t *testing.T) {
	m := full()
	b := m.Append(nil)
	var got message.Message
	if err := message.Decode(b, &got); err != nil {
		t.Fatal(err)
	}
	if &got.Body[len(got.Body)-1] != &b[len(b)-1] {
		t.Error("the body was copied")
	}
	if cap(got.Tag) != len(got.Tag) {
		t.Error("appending to the tag would overwrite the key")
	}
}

// TestDecodeSkipsWhatALaterVersionAdds is the growth rule of the package comment.
func TestDecodeSkipsWhatALaterVersionAdds(t *testing.T) {
	m := full()
	b := m.Append(nil)
	longer := bytes.Clone(b[:message.HeadSize])
	binary.BigEndian.PutUint16(longer, message.HeadSize+8)
	longer[95] = 0xff // the reserved byte means something by then
	longer = append(longer, "new here"...)
	longer = append(longer, b[message.HeadSize:]...)
	var got message.Message
	if err := message.Decode(longer, &got); err != nil {
		t.Fatal(err)
	}
	equalMessages(t, &got, &m)
}

func TestDecodeRefusesDamage(t *testing.T) {
	set16 := func(at int, v uint16) func([]byte) []byte {
		return func(b []byte) []byte { binary.BigEndian.PutUint16(b[at:], v); return b }
	}
	set32 := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.BigEndian.PutUint32(b[at:], v); return b }
	}
	set8 := func(at int, v uint8) func([]byte) []byte {
		return func(b []byte) []byte { b[at] = v; return b }
	}
	const properties = message.HeadSize + 6 + 4 + 8 // of full()
	for _, c := range []struct {
		name    string
		corrupt func([]byte) []byte
		at      int64
		want    string
	}{
		{"empty", func(b []byte) []byte { return nil }, 0, "0 bytes, the head alone has 104"},
		{"head cut off", func(b []byte) []byte { return b[:message.HeadSize-1] }, 0, "103 bytes, the head alone has 104"},
		{"head shorter than known", set16(0, message.HeadSize-1), 0, "head of 103 bytes"},
		{"head longer than the payload", set16(0, math.MaxUint16), 0, "head of 65535 bytes"},
		{"head longer than it is", set16(0, message.HeadSize+1), 92, "head and parts have"},
		{"host of a length that is none", set8(92, 7), 92, "born host of 7 bytes"},
		{"host of another length", set8(92, 18), 92, "head and parts have"},
		{"tag too long", set8(93, 128), 92, "tag of 128 bytes is too large"},
		{"key too long", set8(94, 255), 92, "key of 255 bytes is too large"},
		{"properties too long", set32(96, message.MaxProperties+1), 92, "are too large"},
		{"properties of 4 GiB", set32(96, math.MaxUint32), 92, "are too large"},
		{"properties right but for a high bit", set32(96, 1<<16+22), 92, "are too large"},
		{"body right but for a high bit", set32(100, 1<<31+11), 92, "is too large"},
		{"body too long", set32(100, message.MaxBody+1), 92, "is too large"},
		{"body of 4 GiB", set32(100, math.MaxUint32), 92, "is too large"},
		{"body shorter", set32(100, 10), 92, "head and parts have"},
		{"body longer", set32(100, 12), 92, "head and parts have"},
		{"cut off", func(b []byte) []byte { return b[:len(b)-1] }, 92, "head and parts have"},
		{"bytes left over", func(b []byte) []byte { return append(b, 0) }, 92, "head and parts have"},
		{"property without a name", set8(properties, 0), properties, "a pair has no name"},
		{"property longer than the list", set16(properties+1, 1000), properties, "a pair is longer than the list"},
		{"property that ends the list early", set16(properties+1, 12), properties + 21, "a pair is cut off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := full()
			var got message.Message
			err := message.Decode(c.corrupt(m.Append(nil)), &got)
			var damage *corrupt.Error
			if !errors.As(err, &damage) {
				t.Fatalf("got %v, want a *corrupt.Error", err)
			}
			if damage.Offset != c.at || !strings.Contains(damage.Reason, c.want) {
				t.Errorf("got byte %d: %s\nwant byte %d: %s", damage.Offset, damage.Reason, c.at, c.want)
			}
		})
	}
}

func TestDecodeRefusesEveryTruncation(t *testing.T) {
	m := full()
	b := m.Append(nil)
	for n := range b {
		var got message.Message
		if err := message.Decode(b[:n], &got); !errors.Is(err, corrupt.ErrCorrupt) {
			t.Errorf("%d of %d bytes: %v", n, len(b), err)
		}
	}
}

func TestCodecAllocatesNothing(t *testing.T) {
	m := full()
	b := m.Append(nil)
	var got message.Message
	if n := testing.AllocsPerRun(100, func() {
		b = m.Append(b[:0])
		if message.Decode(b, &got) != nil || message.DecodeHead(b, &got) != nil {
			t.Error("decode failed")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzDecode(f *testing.F) {
	for _, c := range goldens {
		f.Add(golden.Read(f, c.name))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		var m, head message.Message
		err := message.Decode(payload, &m)
		headErr := message.DecodeHead(payload, &head)
		if err != nil {
			if !errors.Is(err, corrupt.ErrCorrupt) {
				t.Fatalf("%v is not damage", err)
			}
			return
		}
		if headErr != nil {
			t.Fatalf("the whole is fine, the head is not: %v", headErr)
		}
		if err := m.Check(); err != nil {
			t.Fatalf("decoded, but cannot be encoded: %v", err)
		}
		again := m.Append(nil)
		var twice message.Message
		if err := message.Decode(again, &twice); err != nil {
			t.Fatal(err)
		}
		equalMessages(t, &twice, &m)
		thisVersion := binary.BigEndian.Uint16(payload) == message.HeadSize && payload[95] == 0
		if thisVersion && !bytes.Equal(again, payload) {
			t.Fatalf("encoded again it differs:\n%x\n%x", again, payload)
		}
	})
}

// typical is a message of about 200 bytes of payload beside the head.
func typical() message.Message {
	m := full()
	m.Body = bytes.Repeat([]byte("x"), 200-len(m.BornHost)-len(m.Tag)-len(m.Key)-len(m.Properties))
	return m
}

func BenchmarkAppend(b *testing.B) {
	m := typical()
	buf := make([]byte, 0, message.PayloadSize(&m))
	b.ReportAllocs()
	for b.Loop() {
		buf = m.Append(buf[:0])
	}
	perSecond(b, 1)
}

func BenchmarkDecode(b *testing.B) {
	m := typical()
	payload := m.Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		if err := message.Decode(payload, &m); err != nil {
			b.Fatal(err)
		}
	}
	perSecond(b, 1)
}

func BenchmarkDecodeHead(b *testing.B) {
	m := typical()
	payload := m.Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		if err := message.DecodeHead(payload, &m); err != nil {
			b.Fatal(err)
		}
	}
	perSecond(b, 1)
}

// perSecond reports how many records of a benchmark's iteration were handled per second.
func perSecond(b *testing.B, records int) {
	b.ReportMetric(float64(b.N)*float64(records)/b.Elapsed().Seconds(), "records/s")
}
