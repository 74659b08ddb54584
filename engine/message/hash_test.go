package message_test

import (
	"hash/fnv"
	"math"
	"testing"
	"unicode/utf16"

	"github.com/tidewheel/tidewheel/engine/message"
)

// TestTagHashIsJavas has values of String.hashCode.
func TestTagHashIsJavas(t *testing.T) {
	for _, c := range []struct {
		tag  string
		want int32
	}{
		{"", 0},
		{"a", 97},
		{"Aa", 2112},
		{"BB", 2112}, // the known collision: the hash is a filter
		{"TagA", 2598919},
		{"hello", 99162322},
		{"polygenelubricants", math.MinInt32}, // wraps
		{"ä", 228},
		{"中文", 20013*31 + 25991},
		{"\U0001F600", 0xd83d*31 + 0xde00}, // a pair of surrogates in UTF-16
		{"\uffff", 0xffff},
		{"\U00010000", 0xd800*31 + 0xdc00},
		{"\xff", 0xfffd}, // not UTF-8
		{"\xe4\xb8", 0xfffd*31 + 0xfffd},
		{"a\x00", 97 * 31},
	} {
		if got := message.TagHash(c.tag); got != c.want {
			t.Errorf("%q: %d, want %d", c.tag, got, c.want)
		}
		if got := message.TagHash([]byte(c.tag)); got != c.want {
			t.Errorf("%q as bytes: %d, want %d", c.tag, got, c.want)
		}
	}
}

// TestKeyHashIsFNV has the test vectors of FNV-1a with 64 bits.
func TestKeyHashIsFNV(t *testing.T) {
	for _, c := range []struct {
		key  string
		want uint64
	}{
		{"", 0}, // no key
		{"a", 0xaf63dc4c8601ec8c},
		{"b", 0xaf63df4c8601f1a5},
		{"foobar", 0x85944171f73967e8},
	} {
		if got := message.KeyHash(c.key); got != c.want {
			t.Errorf("%q: %x, want %x", c.key, got, c.want)
		}
		if got := message.KeyHash([]byte(c.key)); got != c.want {
			t.Errorf("%q as bytes: %x, want %x", c.key, got, c.want)
		}
	}
}

func TestHashesAllocateNothing(t *testing.T) {
	text := "tag 中文 \U0001F600"
	bytes := []byte(text)
	var sum uint64
	if n := testing.AllocsPerRun(100, func() {
		sum += uint64(message.TagHash(text)) + uint64(message.TagHash(bytes)) + message.KeyHash(text) + message.KeyHash(bytes)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzHashes(f *testing.F) {
	for _, seed := range []string{"", "TagA", "中文", "\U0001F600x", "\xf0\x9f", "\xed\xa0\x80"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var tag int32
		for _, unit := range utf16.Encode([]rune(text)) {
			tag = 31*tag + int32(unit)
		}
		if got := message.TagHash(text); got != tag {
			t.Errorf("%q: tag hash %d, want %d", text, got, tag)
		}
		h := fnv.New64a()
		h.Write([]byte(text))
		key := h.Sum64()
		if text == "" {
			key = 0
		}
		if got := message.KeyHash([]byte(text)); got != key {
			t.Errorf("%q: key hash %x, want %x", text, got, key)
		}
	})
}

func BenchmarkTagHash(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		message.TagHash("order-created")
	}
	perSecond(b, 1)
}

func BenchmarkKeyHash(b *testing.B) {
	key := []byte("order-2026-11-30-000042")
	b.ReportAllocs()
	for b.Loop() {
		message.KeyHash(key)
	}
	perSecond(b, 1)
}
