package checkpoint

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// whole is a file with a section of 9 bytes, an empty one and one of 21.
func whole(t *testing.T) []byte {
	t.Helper()
	f := &File{Seq: 3, X: 4096, StoreID: 7, LogID: 8, Sections: []Section{
		{Kind: 1, Flags: MustUnderstand, Parts: [][]byte{[]byte("tidewheel")}}, {Kind: 2}, {Kind: 3, Parts: [][]byte{[]byte("delay engine of tides")}},
	}}
	fsys := crashfs.New(crashfs.Options{})
	if err := Write(fsys, ".", CopyA, f); err != nil {
		t.Fatal(err)
	}
	b, err := fsys.Durable(CopyA)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sealed makes header and trailer agree with the bytes again.
func sealed(b []byte) []byte {
	binary.BigEndian.PutUint64(b[48:], uint64(len(b)))
	binary.BigEndian.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
	end := len(b) - 4
	binary.BigEndian.PutUint32(b[end:], crc32.Checksum(b[:end], castagnoli))
	return b
}

func TestDecodeCorruption(t *testing.T) {
	const first, second, third = headerSize, headerSize + headSize + 9, headerSize + 2*headSize + 9
	const end = third + headSize + 21
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[at] ^= 1; return b }
	}
	for _, c := range []struct {
		name    string
		corrupt func([]byte) []byte
		offset  int64
		reason  string // "": good
	}{
		{"good", func(b []byte) []byte { return b }, 0, ""},
		{"reserved used", func(b []byte) []byte { b[56] = 1; return sealed(b) }, 0, ""},
		{"empty", func(b []byte) []byte { return nil }, 0, "ends in its header"},
		{"cut in the header", func(b []byte) []byte { return b[:63] }, 63, "ends in its header"},
		{"zero", func(b []byte) []byte { clear(b); return b }, 0, "no checkpoint"},
		{"magic", flip(0), 0, "no checkpoint"},
		{"version flipped", flip(11), 0, "header has a bad crc"},
		{"seq flipped", flip(20), 0, "header has a bad crc"},
		{"version 0", func(b []byte) []byte { b[11] = 0; return sealed(b) }, 8, "version 0"},
		{"cut", func(b []byte) []byte { return b[:len(b)-1] }, 48, "bytes instead of"},
		{"longer", func(b []byte) []byte { return append(b, 0) }, 48, "bytes instead of"},
		{"only a header", func(b []byte) []byte { return sealed(b[:headerSize+4])[:headerSize] }, 48, "64 bytes instead of 68"},
		{"more sections than can be", func(b []byte) []byte { b[13] = 1; return sealed(b) }, 12, "65539 sections"},
		{"a section too many", func(b []byte) []byte { b[15] = 4; return sealed(b) }, end, "no room for section 3 of 4"},
		{"a section too few", func(b []byte) []byte { b[15] = 2; return sealed(b) }, third, "37 bytes after the last section"},
		{"section longer than the file", func(b []byte) []byte { b[first+8] = 0x7f; return sealed(b) }, first, "in the 62 that are left"},
		{"section of negative length", func(b []byte) []byte { b[first+8] = 0xff; return sealed(b) }, first, "in the 62 that are left"},
		{"section longer", func(b []byte) []byte { b[first+15]++; return sealed(b) }, first, "section of kind 1 has a bad crc"},
		{"kind flipped", flip(second + 1), second, "section of kind 3 has a bad crc"},
		{"flags flipped", flip(first + 3), first, "section of kind 1 has a bad crc"},
		{"section crc", flip(first + 4), first, "section of kind 1 has a bad crc"},
		{"data flipped", flip(first + headSize), first, "section of kind 1 has a bad crc"},
		{"no trailer", func(b []byte) []byte { b[end] = 0; return sealed(b) }, end, "no trailer"},
		{"file crc", flip(end + 4), end, "file has a bad crc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := decode(c.corrupt(whole(t)))
			if c.reason == "" {
				if err != nil || len(f.Sections) != 3 {
					t.Errorf("got %+v, %v", f, err)
				}
				return
			}
			var d *damage
			if !errors.As(err, &d) || d.offset != c.offset || !strings.Contains(d.reason, c.reason) {
				t.Errorf("got %v, want byte %d, %q", err, c.offset, c.reason)
			}
		})
	}
}

// Every flipped bit is seen.
func TestDecodeEveryBit(t *testing.T) {
	b := whole(t)
	for i := range 8 * len(b) {
		b[i/8] ^= 1 << (i % 8)
		if _, err := decode(b); err == nil {
			t.Errorf("bit %d of byte %d: nobody saw it", i%8, i/8)
		}
		b[i/8] ^= 1 << (i % 8)
	}
}

// A header may say what it likes: memory is taken for what a checkpoint can be, and for what the file has.
func TestLoadIsBounded(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	f, err := fsys.OpenFile(CopyA, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = MaxSize + 1
	b := (&File{Seq: 1}).appendHeader(nil)
	binary.BigEndian.PutUint64(b[48:], size)
	binary.BigEndian.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	largest := 0
	fsys.SetInject(func(o crashfs.Op) error {
		if o.Kind == crashfs.Read {
			largest = max(largest, o.Len)
		}
		return nil
	})
	got, problems, err := Load(fsys, ".")
	if got != nil || err != nil || len(problems) != 2 || !strings.Contains(problems[0].Error(), "are more than 1073741824") {
		t.Errorf("%v, %v, %v", got, problems, err)
	}
	if largest > headerSize {
		t.Errorf("a read of %d bytes", largest)
	}
}

// An older program does not go on from an older copy: the newer one may have changed what the older refers to.
func TestNewerFormat(t *testing.T) {
	b := whole(t)
	b[11] = 2
	sealed(b)
	for _, newer := range []string{CopyA, CopyB} {
		fsys := crashfs.New(crashfs.Options{})
		for _, name := range []string{CopyA, CopyB} {
			if err := Write(fsys, ".", name, &File{Seq: 9}); err != nil {
				t.Fatal(err)
			}
		}
		err := func() error {
			f, err := fsys.OpenFile(newer, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			if err := f.Truncate(int64(len(b))); err != nil {
				return err
			}
			_, err = f.WriteAt(b, 0)
			return err
		}()
		if err != nil {
			t.Fatal(err)
		}
		f, _, err := Load(fsys, ".")
		if f != nil || !errors.Is(err, ErrNewerFormat) || !strings.Contains(err.Error(), "version 2, this program knows 1") {
			t.Errorf("copy %s: %v, %v", newer, f, err)
		}
		if err := Settle(fsys, ".", nil); !errors.Is(err, ErrNewerFormat) {
			t.Errorf("copy %s: settle: %v", newer, err)
		}
	}
}
