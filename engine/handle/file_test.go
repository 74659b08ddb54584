package handle

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/golden"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// White-box, for the decoders that Load and Open stand on.

// twoKeys are the keys of the golden file: secrets 00 01 02 … and 80 81 82 ….
func twoKeys() []*key {
	keys := []*key{{id: 1}, {id: 2}}
	for i := range keys[0].secret {
		keys[0].secret[i], keys[1].secret[i] = byte(i), byte(0x80+i)
	}
	return keys
}

func TestGoldenKeys(t *testing.T) {
	text := golden.Annotate(t, "a file of two keys", 64, appendKeys(nil, twoKeys()), []golden.Field{
		{8, "magic"}, {4, "version"}, {4, "count"},
		{1, "key 1: id"}, {7, "key 1: reserved"}, {32, "key 1: secret"},
		{1, "key 2: id"}, {7, "key 2: reserved"}, {32, "key 2: secret"},
		{4, "CRC-32C"},
	})
	b := golden.Match(t, "keys", text)
	keys, err := decodeKeys("keys", b)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(appendKeys(nil, keys), b) {
		t.Error("decoded and encoded again it differs")
	}
}

// TestGoldenHandle pins the text: a handle that a producer holds for years has to open after every upgrade.
func TestGoldenHandle(t *testing.T) {
	keys := twoKeys()
	r := &Ring{}
	r.keys.Store(&keys)
	h := Handle{KeyID: 2, Lane: 1, Topic: 7, ID: 42, Due: 1_796_036_533_123, Position: 134_217_728}
	text := r.Seal(h)
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(text, prefix))
	if err != nil {
		t.Fatal(err)
	}
	b := golden.Match(t, "handle", golden.Annotate(t, text, 64, raw, []golden.Field{
		{1, "key id"}, {1, "lane"}, {4, "topic"}, {8, "id"}, {8, "due"}, {8, "position"},
		{16, "MAC: HMAC-SHA-256 of \"tw1.\" and the 30 bytes above"},
	}))
	got, err := r.Open(prefix + base64.RawURLEncoding.EncodeToString(b))
	if err != nil || got != h {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestDecodeKeysRefusesDamage(t *testing.T) {
	set := func(at int, with ...byte) func([]byte) []byte {
		return func(b []byte) []byte { copy(b[at:], with); return b }
	}
	// sealed makes the CRC right again, so that the check behind it is reached.
	sealed := func(edit func([]byte) []byte) func([]byte) []byte {
		return func(b []byte) []byte {
			b = edit(b)
			binary.BigEndian.PutUint32(b[len(b)-crcSize:], crc32.Checksum(b[:len(b)-crcSize], castagnoli))
			return b
		}
	}
	for _, c := range []struct {
		name    string
		corrupt func([]byte) []byte
		at      int64
		want    string
	}{
		{"empty", func([]byte) []byte { return nil }, 0, "not a file of keys"},
		{"head cut off", func(b []byte) []byte { return b[:fileHead-1] }, 0, "not a file of keys"},
		{"other magic", set(7, '\r'), 0, "not a file of keys"},
		{"version zero", set(8, 0, 0, 0, 0), 8, "version 0"},
		{"no keys", set(12, 0, 0, 0, 0), 12, "0 keys in 100 bytes"},
		{"fewer keys", set(12, 0, 0, 0, 1), 12, "1 keys in 100 bytes"},
		{"more keys", set(12, 0, 0, 0, 3), 12, "3 keys in 100 bytes"},
		{"4 Gi keys", set(12, 255, 255, 255, 255), 12, "4294967295 keys"},
		{"cut off", func(b []byte) []byte { return b[:len(b)-1] }, 12, "2 keys in 99 bytes"},
		{"bytes left over", func(b []byte) []byte { return append(b, 0) }, 12, "2 keys in 101 bytes"},
		{"secret changed", set(30, 0xff), 96, "CRC is"},
		{"key zero", sealed(set(16, 0)), 16, "key id 0 in place 1"},
		{"key twice", sealed(set(56, 1)), 56, "key id 1 in place 2"},
		{"key left out", sealed(set(56, 3)), 56, "key id 3 in place 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := decodeKeys("keys", c.corrupt(appendKeys(nil, twoKeys())))
			var damage *corrupt.Error
			if !errors.As(err, &damage) {
				t.Fatalf("got %v, want a *corrupt.Error", err)
			}
			if damage.File != "keys" || damage.Offset != c.at || !strings.Contains(damage.Reason, c.want) {
				t.Errorf("got %v, want byte %d: %s", damage, c.at, c.want)
			}
		})
	}
}

func TestDecodeKeysRefusesEveryBitFlip(t *testing.T) {
	b := appendKeys(nil, twoKeys())
	for i := range len(b) * 8 {
		b[i/8] ^= 1 << (i % 8)
		if _, err := decodeKeys("keys", b); err == nil {
			t.Errorf("bit %d of byte %d", i%8, i/8)
		}
		b[i/8] ^= 1 << (i % 8)
	}
}

// TestReservedBytesAreIgnored: a later version may write them without a new version number.
func TestReservedBytesAreIgnored(t *testing.T) {
	b := appendKeys(nil, twoKeys())
	b[17] = 1
	binary.BigEndian.PutUint32(b[len(b)-crcSize:], crc32.Checksum(b[:len(b)-crcSize], castagnoli))
	keys, err := decodeKeys("keys", b)
	if err != nil || len(keys) != 2 {
		t.Errorf("%d keys, %v", len(keys), err)
	}
}

// TestLoad reads files that something else wrote.
func TestLoad(t *testing.T) {
	newer := appendKeys(nil, twoKeys())
	binary.BigEndian.PutUint32(newer[8:], 7)
	for _, c := range []struct {
		name    string
		content []byte
		kind    error
		want    string
	}{
		{"good", appendKeys(nil, twoKeys()), nil, ""},
		{"empty", nil, corrupt.ErrCorrupt, "keys at byte 0"},
		{"damaged", appendKeys(nil, twoKeys())[:50], corrupt.ErrCorrupt, "keys at byte 12"},
		{"longer than any", make([]byte, maxFile+1000), corrupt.ErrCorrupt, "not a file of keys"},
		{"newer", newer, ErrNewerFormat, "it has 7, this program reads up to 1"},
		{"newer and longer than any of ours", append(newer, make([]byte, 1<<20)...), ErrNewerFormat, "it has 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := crashfs.New(crashfs.Options{})
			f, err := fsys.OpenFile("keys", os.O_RDWR|os.O_CREATE, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt(c.content, 0); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			r, err := Load(fsys, "keys")
			if !errors.Is(err, c.kind) || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %v %s", err, c.kind, c.want)
			}
			if (r == nil) != (c.kind != nil) {
				t.Errorf("ring %v beside %v", r, err)
			}
		})
	}
}

func FuzzDecodeKeys(f *testing.F) {
	f.Add(golden.Read(f, "keys"))
	f.Add(appendKeys(nil, twoKeys()[:1]))
	f.Fuzz(func(t *testing.T, b []byte) {
		keys, err := decodeKeys("keys", b)
		if err != nil {
			if !errors.Is(err, corrupt.ErrCorrupt) && !errors.Is(err, ErrNewerFormat) {
				t.Fatal(err)
			}
			return
		}
		again, err := decodeKeys("keys", appendKeys(nil, keys))
		if err != nil || len(again) != len(keys) {
			t.Fatalf("%d keys, encoded again %d, %v", len(keys), len(again), err)
		}
	})
}

func FuzzParse(f *testing.F) {
	keys := twoKeys()
	r := &Ring{}
	r.keys.Store(&keys)
	f.Add(r.Seal(Handle{ID: 1}))
	f.Add("tw1.")
	f.Fuzz(func(t *testing.T, s string) {
		b, ok := parse(s)
		if !ok {
			return
		}
		if again := prefix + text.EncodeToString(b[:]); again != s {
			t.Fatalf("%q and %q are one handle", s, again)
		}
		h := decodeBody(b[:])
		if got := h.appendBody(nil); !bytes.Equal(got, b[:bodySize]) {
			t.Fatalf("encoded again it differs: %x", got)
		}
	})
}
