package statebits_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/filetest"
	"github.com/tidewheel/tidewheel/engine/internal/golden"
	"github.com/tidewheel/tidewheel/engine/statebits"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// damaged is a disk whose file has pages 0 and 2, and the table for it.
func damaged(t testing.TB) (*crashfs.FS, statebits.Table) {
	t.Helper()
	disk := newFS()
	b := open(t, disk, statebits.Options{}, statebits.Table{})
	set(t, b, first(0)+9, statebits.Cancelled)
	set(t, b, first(2)+9, statebits.Superseded)
	checkpoint(t, b)
	return disk, b.Table()
}

func TestPageCorruption(t *testing.T) {
	const at = 2 * page
	fix := func(b []byte) []byte {
		p := b[at : at+page]
		crc := crc32.Checksum(p[:28], crc32.MakeTable(crc32.Castagnoli))
		binary.BigEndian.PutUint32(p[28:], crc32.Update(crc, crc32.MakeTable(crc32.Castagnoli), p[32:]))
		return b
	}
	flip := func(i int) func([]byte) []byte {
		return func(b []byte) []byte { b[at+i] ^= 4; return b }
	}
	for _, c := range []struct {
		name    string
		corrupt func([]byte) []byte
		reason  string // "": good
	}{
		{"good", func(b []byte) []byte { return b }, ""},
		{"reserved used", func(b []byte) []byte { b[at+24] = 1; return fix(b) }, ""},
		{"bytes behind it", func(b []byte) []byte { return append(b, 1, 2, 3) }, ""},
		{"empty", func(b []byte) []byte { return nil }, "ends before or within"},
		{"cut before it", func(b []byte) []byte { return b[:at] }, "ends before or within"},
		{"cut in the header", func(b []byte) []byte { return b[:at+31] }, "ends before or within"},
		{"cut in the bits", func(b []byte) []byte { return b[:at+page-1] }, "ends before or within"},
		{"hole", func(b []byte) []byte { clear(b[at:]); return b }, "no page stands here"},
		{"magic", flip(0), "no page stands here"},
		{"version flipped", flip(7), "bad crc"},
		{"chunk flipped", flip(15), "bad crc"},
		{"ident flipped", flip(20), "bad crc"},
		{"crc", flip(28), "bad crc"},
		{"bit", flip(32), "bad crc"},
		{"last bit", flip(page - 1), "bad crc"},
		{"version 0", func(b []byte) []byte { b[at+7] = 0; return fix(b) }, "version 0"},
		{"another chunk's page", func(b []byte) []byte { copy(b[at:], b[:page]); return b }, "page of chunk 0 instead of 2"},
		{"another store's page", func(b []byte) []byte { b[at+16] = 9; return fix(b) }, "page of store 902030405060708"},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk, table := damaged(t)
			filetest.Write(t, disk, file0, c.corrupt(filetest.Read(t, disk, file0)))
			b := open(t, disk, statebits.Options{}, table)
			checkGet(t, b, first(1)+9, statebits.Regular) // a chunk without a page
			if c.reason == "" {
				checkGet(t, b, first(2)+9, statebits.Superseded)
				return
			}
			_, err := b.Get(first(2) + 9)
			bad := filetest.Corrupt(t, err, file0)
			if bad.Offset != at || !strings.Contains(bad.Reason, c.reason) {
				t.Errorf("got %v, want byte %d, %q", bad, at, c.reason)
			}
			filetest.Corrupt(t, b.Set(first(2)+10, statebits.Cancelled), file0)
			if b.DirtyBytes() != 0 {
				t.Error("a page that cannot be read was changed")
			}
			if err := b.Verify(); strings.HasPrefix(c.name, "cut") || c.name == "empty" {
				filetest.Corrupt(t, err, file0)
			} else if err != nil {
				t.Errorf("verify: %v", err)
			}
		})
	}
	t.Run("newer", func(t *testing.T) {
		disk, table := damaged(t)
		file := filetest.Read(t, disk, file0)
		file[at+7] = 2
		filetest.Write(t, disk, file0, fix(file))
		_, err := open(t, disk, statebits.Options{}, table).Get(first(2))
		if !errors.Is(err, statebits.ErrNewerFormat) || errors.Is(err, corrupt.ErrCorrupt) ||
			!strings.Contains(err.Error(), "version 2, this program knows 1") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("missing", func(t *testing.T) {
		disk, table := damaged(t)
		if err := disk.Remove(file0); err != nil {
			t.Fatal(err)
		}
		b := open(t, disk, statebits.Options{}, table)
		_, err := b.Get(first(2))
		filetest.Corrupt(t, err, file0)
		filetest.Corrupt(t, b.Verify(), file0)
	})
	t.Run("read error", func(t *testing.T) {
		disk, table := damaged(t)
		b := open(t, disk, statebits.Options{}, table)
		disk.SetInject(func(o crashfs.Op) error {
			if o.Kind == crashfs.Read {
				return fs.ErrPermission
			}
			return nil
		})
		if _, err := b.Get(first(2) + 9); !errors.Is(err, fs.ErrPermission) || errors.Is(err, corrupt.ErrCorrupt) {
			t.Errorf("got %v", err)
		}
		disk.SetInject(nil)
		checkGet(t, b, first(2)+9, statebits.Superseded)
	})
}

// Verify wants on disk what is not in memory.
func TestVerifyBesideRedo(t *testing.T) {
	disk, table := damaged(t)
	if err := disk.Remove(file0); err != nil {
		t.Fatal(err)
	}
	b := open(t, disk, statebits.Options{}, table)
	for _, chunk := range []uint64{0, 2} {
		filetest.Corrupt(t, b.Verify(), file0)
		if err := b.Redo(statebits.Page{Chunk: chunk, Data: make([]byte, statebits.PageBytes)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Verify(); err != nil {
		t.Errorf("all pages are in memory, but %v", err)
	}
}

func TestDecodePagesCorruption(t *testing.T) {
	encode := func(chunks ...uint64) []byte {
		var pages []statebits.Page
		for _, c := range chunks {
			pages = append(pages, statebits.Page{Chunk: c, Data: make([]byte, statebits.PageBytes)})
		}
		return bytes.Join(statebits.EncodePages(pages), nil)
	}
	for _, c := range []struct {
		name   string
		b      []byte
		reason string // "": good
	}{
		{"none", nil, ""},
		{"good", encode(0, 1, 1<<48-1), ""},
		{"cut", encode(0, 1)[1:], "no whole number"},
		{"descending", encode(1, 0), "chunk 0 after chunk 1"},
		{"twice", encode(1, 1), "chunk 1 after chunk 1"},
		{"chunk without ids", encode(1 << 48), "chunk 281474976710656"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pages, err := statebits.DecodePages(c.b)
			if c.reason == "" && err != nil || c.reason != "" && (err == nil || !strings.Contains(err.Error(), c.reason)) {
				t.Errorf("got %d pages, %v; want %q", len(pages), err, c.reason)
			}
			if err == nil && !bytes.Equal(bytes.Join(statebits.EncodePages(pages), nil), c.b) {
				t.Error("encoded again it differs")
			}
		})
	}
}

// The golden file has the header and the first bits of a page; the rest of the page is zero.
func TestGolden(t *testing.T) {
	disk := newFS()
	b := open(t, disk, statebits.Options{}, statebits.Table{})
	for i, s := range states {
		set(t, b, first(258)+uint64(i), s)
	}
	set(t, b, first(258)+7, statebits.Cancelled)
	checkpoint(t, b)
	file := filetest.Read(t, disk, file1)
	got := file[2*page:]
	if len(got) != page || bytes.ContainsFunc(got[34:], func(r rune) bool { return r != 0 }) {
		t.Fatalf("page of %d bytes: %x", len(got), got[:40])
	}
	bits := golden.Match(t, "page", golden.Annotate(t,
		"page of chunk 258, in the file 00000000000000000256 at byte 32,832; 16,382 zero bytes follow", 16, got[:34], []golden.Field{
			{4, "magic"}, {4, "version"}, {8, "chunk"}, {8, "ident"}, {4, "reserved"}, {4, "crc"},
			{1, "ids 0 to 3: regular, cancelled, superseded, late and pending"}, {1, "ids 4 to 7: the last is cancelled"},
		}))
	// It can be read, not only written.
	disk = newFS()
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	filetest.Write(t, disk, file1, append(make([]byte, 2*page), append(bits, make([]byte, page-len(bits))...)...))
	b = open(t, disk, statebits.Options{}, statebits.Table{Ranges: []statebits.Range{{First: 258, End: 259}}})
	for i, s := range append(states, 0, 0, 0, statebits.Cancelled) {
		checkGet(t, b, first(258)+uint64(i), s)
	}
}
