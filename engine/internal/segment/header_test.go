package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/golden"
)

var headerParams = Params{
	Magic: [8]byte{'t', 'w', 's', 'e', 'g', 't', 's', 't'}, Cell: 16, PerFile: 8,
	Ident: [2]uint64{0x0102030405060708, 0x1112131415161718},
}

func TestHeaderCorruption(t *testing.T) {
	set32 := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { // with a CRC that agrees
			binary.BigEndian.PutUint32(b[at:], v)
			binary.BigEndian.PutUint32(b[offCRC:], crc32.Checksum(b[:offCRC], castagnoli))
			return b
		}
	}
	for _, c := range []struct {
		name    string
		corrupt func([]byte) []byte
		offset  int64
		reason  string // "": good
	}{
		{"good", func(b []byte) []byte { return b }, 0, ""},
		{"cells behind it", func(b []byte) []byte { return append(b, 1, 2, 3) }, 0, ""},
		{"reserved used", set32(offPerFile+4, 7), 0, ""},
		{"empty", func(b []byte) []byte { return nil }, 0, "ends within its header"},
		{"cut", func(b []byte) []byte { return b[:63] }, 63, "ends within its header"},
		{"zero", func(b []byte) []byte { return make([]byte, headerSize) }, 0, "magic"},
		{"other magic", func(b []byte) []byte { b[0] = 'x'; return b }, 0, "magic"},
		{"flipped bit", func(b []byte) []byte { b[offIdent] ^= 1; return b }, offCRC, "CRC"},
		{"flipped CRC", func(b []byte) []byte { b[offCRC] ^= 1; return b }, offCRC, "CRC"},
		{"flipped version", func(b []byte) []byte { b[offVersion] ^= 1; return b }, offCRC, "CRC"},
		{"version 0", set32(offVersion, 0), offVersion, "version is 0, not 1"},
		{"cell size", set32(offCell, 32), offCell, "cell size is 32, not 16"},
		{"cells per file", set32(offPerFile, 9), offPerFile, "cells per file is 9, not 8"},
		{"other log", set32(offIdent+4, 1), offIdent, "identity"},
		{"other array", set32(offIdent+12, 1), offIdent + 8, "identity"},
		{"other place", set32(offFirst+4, 24), offFirst, "first index is 24, not 16"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := headerParams.checkHeader("dir/f", c.corrupt(headerParams.appendHeader(nil, 16)), 16)
			if c.reason == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var bad *corrupt.Error
			if !errors.As(err, &bad) || bad.File != "dir/f" || bad.Offset != c.offset ||
				!strings.Contains(bad.Reason, c.reason) {
				t.Errorf("got %v, want dir/f, byte %d, %q", err, c.offset, c.reason)
			}
		})
	}
	t.Run("newer", func(t *testing.T) {
		err := headerParams.checkHeader("dir/f", set32(offVersion, 3)(headerParams.appendHeader(nil, 16)), 16)
		if !errors.Is(err, ErrNewerFormat) || errors.Is(err, corrupt.ErrCorrupt) {
			t.Fatalf("got %v", err)
		}
		if s := err.Error(); !strings.Contains(s, "version 3") || !strings.Contains(s, "up to 1") {
			t.Errorf("both versions should be named: %v", s)
		}
	})
}

func TestHeaderEveryBitCounts(t *testing.T) {
	good := headerParams.appendHeader(nil, 16)
	for bit := range headerSize * 8 {
		b := bytes.Clone(good)
		b[bit/8] ^= 1 << (bit % 8)
		if headerParams.checkHeader("f", b, 16) == nil {
			t.Errorf("bit %d of byte %d flipped is not seen", bit%8, bit/8)
		}
	}
}

func TestGolden(t *testing.T) {
	golden.Check(t, "header", "header of the second file of an array", 24, headerParams.appendHeader(nil, 8), []golden.Field{
		{8, "magic"}, {4, "version"}, {4, "cell"}, {4, "per file"}, {4, "reserved"}, {8, "ident"}, {8, "ident"},
		{8, "first"}, {12, "reserved"}, {4, "crc"},
	})
	golden.Check(t, "state", "state of an array with two cells of 4 bytes in no file", 24,
		State{First: 3, Flushed: 17, Tail: []byte("tidewhee")}.Append(nil), []golden.Field{
			{8, "first"}, {8, "flushed"}, {4, "tail"}, {4, "cell"}, {4, "cell"},
		})
	t.Run("decode", func(t *testing.T) {
		if err := headerParams.checkHeader("f", golden.Read(t, "header"), 8); err != nil {
			t.Error(err)
		}
		s, rest, err := DecodeState(golden.Read(t, "state"), 4)
		if err != nil || len(rest) != 0 || s.First != 3 || s.Flushed != 17 || string(s.Tail) != "tidewhee" ||
			s.Len(4) != 19 {
			t.Errorf("got %+v, %d more, %v", s, len(rest), err)
		}
	})
}

func TestDecodeStateCorruption(t *testing.T) {
	good := State{First: 3, Flushed: 17, Tail: []byte("tidewhee")}
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"empty", nil, "0 bytes of 20"},
		{"cut head", good.Append(nil)[:19], "19 bytes of 20"},
		{"cut tail", good.Append(nil)[:27], "tail of 8 bytes in 7"},
		{"huge tail", append(good.Append(nil)[:16], 0xff, 0xff, 0xff, 0xff), "tail of 4294967295 bytes in 0"},
		{"part of a cell", State{Tail: []byte("tidew")}.Append(nil), "tail of 5 bytes with cells of 4"},
		{"negative first", State{First: -1}.Append(nil), "first -1"},
		{"first above flushed", State{First: 2, Flushed: 1}.Append(nil), "first 2, flushed 1"},
		{"flushed out of range", State{Flushed: maxIndex + 1}.Append(nil), "flushed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, _, err := DecodeState(c.b, 4); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestChecksumIsOverIndexAndBytes(t *testing.T) {
	for _, i := range []int64{0, 1, 255, 1 << 40, -1} {
		for _, b := range [][]byte{nil, {0}, []byte("tidewheel")} {
			want := crc32.Checksum(append(binary.BigEndian.AppendUint64(nil, uint64(i)), b...), castagnoli)
			if got := Checksum(i, b); got != want {
				t.Errorf("Checksum(%d, %q) = %08x, want %08x", i, b, got, want)
			}
		}
	}
}

func TestParseName(t *testing.T) {
	for _, first := range []int64{0, 1, 262144, maxIndex} {
		if got, ok := parseName(fileName(first)); !ok || got != first {
			t.Errorf("%d is named %s, which reads %d, %t", first, fileName(first), got, ok)
		}
	}
	for _, name := range []string{
		"", "0", "0000000000000000000", "000000000000000000000", "0000000000000000000x", "-0000000000000000001",
		"99999999999999999999", "04611686018427387905", "18446744073709551616",
	} {
		if got, ok := parseName(name); ok {
			t.Errorf("%q reads %d, should not be a name", name, got)
		}
	}
}

func FuzzCheckHeader(f *testing.F) {
	f.Add(golden.Read(f, "header"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if headerParams.checkHeader("f", b, 8) != nil {
			return
		}
		// What is accepted is what would be written, but for reserved bytes and the CRC over them.
		got := bytes.Clone(b[:offCRC])
		clear(got[offPerFile+4 : offIdent])
		clear(got[offFirst+8 : offCRC])
		if want := headerParams.appendHeader(nil, 8)[:offCRC]; !bytes.Equal(got, want) {
			t.Errorf("accepted %x", b)
		}
	})
}

func FuzzDecodeState(f *testing.F) {
	f.Add(golden.Read(f, "state"))
	f.Add(State{}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, rest, err := DecodeState(b, 4)
		if err != nil {
			return
		}
		if again := append(s.Append(nil), rest...); !bytes.Equal(again, b) {
			t.Errorf("%x decodes to %+v, which encodes to %x", b, s, again)
		}
	})
}
