package timerlog_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/filetest"
	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

const (
	fileHeader  = 64
	groupHeader = 80
	blockHead   = 8
	fullBlock   = blockHead + 256*timerlog.EntrySize
)

// damageLog is a file with a group of 600 entries and a spill of 3.
func damageLog(t *testing.T) (file []byte, state timerlog.State, group, spill timerlog.Ref, sorted, unsorted []timerlog.Entry) {
	t.Helper()
	disk := newFS()
	l := open(t, disk, timerlog.Options{}, timerlog.State{})
	sorted, unsorted = run(1000, 1, 600), reversed(run(1, 5000, 3))
	group, spill = writeGroup(t, l, sorted), writeSpill(t, l, unsorted)
	return filetest.Read(t, disk, file1), l.State(), group, spill, sorted, unsorted
}

// reopen makes a log of a file.
func reopen(t *testing.T, file []byte, state timerlog.State) *timerlog.Log {
	t.Helper()
	disk := newFS()
	if err := disk.MkdirAll(dir+"/"+family, 0o700); err != nil {
		t.Fatal(err)
	}
	filetest.Write(t, disk, file1, file)
	return open(t, disk, timerlog.Options{}, state)
}

// Where bytes are damaged, and what is said about it.
func TestDamage(t *testing.T) {
	fixFile := func(b []byte) []byte {
		binary.BigEndian.PutUint32(b[60:], crc32.Checksum(b[:60], crc32.MakeTable(crc32.Castagnoli)))
		return b
	}
	const group, block1, block2 = fileHeader, fileHeader + groupHeader + fullBlock, fileHeader + groupHeader + 2*fullBlock
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[at] ^= 4; return b }
	}
	for _, c := range []struct {
		name    string
		corrupt func([]byte) []byte
		offset  int64
		reason  string
	}{
		{"empty", func(b []byte) []byte { return nil }, 0, "ends in its header"},
		{"cut in the file header", func(b []byte) []byte { return b[:63] }, 63, "ends in its header"},
		{"zeroes", func(b []byte) []byte { clear(b); return b }, 0, "no TimerLog file"},
		{"file magic", flip(0), 0, "no TimerLog file"},
		{"file version flipped", flip(11), 0, "file header has a bad crc"},
		{"file version 0", func(b []byte) []byte { b[11] = 0; return fixFile(b) }, 0, "version 0"},
		{"file of another family", func(b []byte) []byte { b[16] = 'x'; return fixFile(b) }, 0, `of family "xoose"`},
		{"file of another store", func(b []byte) []byte { b[32] = 'x'; return fixFile(b) }, 0, "of store 7802030405060708"},
		{"another file", func(b []byte) []byte { b[47] = 9; return fixFile(b) }, 0, "this is file 9"},
		{"cut in the group header", func(b []byte) []byte { return b[:group+79] }, group + 79, "ends within a group"},
		{"group magic", flip(group), group, "no group starts here"},
		{"group crc", flip(group + 4), group, "group header has a bad crc"},
		{"group count", flip(group + 12), group, "group header has a bad crc"},
		{"group reserved", flip(group + 10), group, "group header has a bad crc"},
		{"block crc", flip(block1), block1, "block has a bad crc"},
		{"block count", flip(block1 + 5), block1, "block has a bad crc"},
		{"first key of a block", flip(block1 + 20), block1, "block has a bad crc"},
		{"entry", flip(block1 + 5000), block1, "block has a bad crc"},
		{"blocks swapped", func(b []byte) []byte {
			x := slices.Clone(b[block1-fullBlock : block1])
			copy(b[block1-fullBlock:], b[block1:block2])
			copy(b[block1:], x)
			return b
		}, block1 - fullBlock, "block has a bad crc"},
		{"cut in the last block", func(b []byte) []byte { return b[:block2+100] }, block2 + 100, "ends within a group"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file, state, ref, _, _, _ := damageLog(t)
			l := reopen(t, c.corrupt(file), state)
			for how, read := range map[string]func() error{
				"each":   func() error { _, err := each(l, ref); return err },
				"cursor": func() error { _, err := above(l, ref, before); return err },
			} {
				bad := filetest.Corrupt(t, read(), file1)
				if bad.Offset != c.offset || !strings.Contains(bad.Reason, c.reason) {
					t.Errorf("%s: got %v, want byte %d, %q", how, bad, c.offset, c.reason)
				}
			}
			// What Verify reads: headers and lengths.
			if err := l.Verify([]timerlog.Ref{ref}); c.offset <= group || strings.HasPrefix(c.name, "cut") {
				filetest.Corrupt(t, err, file1)
			} else if err != nil {
				t.Errorf("verify: %v", err)
			}
		})
	}
	t.Run("newer", func(t *testing.T) {
		file, state, ref, _, _, _ := damageLog(t)
		file[11] = 3
		l := reopen(t, fixFile(file), state)
		_, err := each(l, ref)
		if !errors.Is(err, timerlog.ErrNewerFormat) || errors.Is(err, corrupt.ErrCorrupt) ||
			!strings.Contains(err.Error(), "version 3, this program knows 1") {
			t.Errorf("got %v", err)
		}
		if _, err := l.WriteSpill(run(1, 1, 1)); !errors.Is(err, timerlog.ErrNewerFormat) {
			t.Errorf("write: %v", err)
		}
	})
	t.Run("missing", func(t *testing.T) {
		_, state, ref, _, _, _ := damageLog(t)
		l := open(t, newFS(), timerlog.Options{}, state)
		_, err := each(l, ref)
		filetest.Corrupt(t, err, file1)
		filetest.Corrupt(t, l.Verify([]timerlog.Ref{ref}), file1)
	})
}

// Whatever bit is flipped: entries are right, or the damage is reported with file and place. A search from any key is as
// good as reading everything.
func TestEveryFlippedBit(t *testing.T) {
	file, state, group, spill, sorted, unsorted := damageLog(t)
	keys := []int{-1, 0, 255, 256, 400, 512}
	flips := func(yield func(int) bool) {
		for i := range file {
			// All of the headers and heads, some of the entries.
			head := i < fileHeader+groupHeader || (i-fileHeader-groupHeader)%fullBlock < blockHead+16 || i >= int(spill.Offset)
			if (head || i%499 == 0) && !yield(i) {
				return
			}
		}
	}
	for i := range flips {
		file[i] ^= 1 << (i % 8)
		l := reopen(t, file, state)
		seen := false
		check := func(how string, got, want []timerlog.Entry, err error) {
			t.Helper()
			switch {
			case err == nil && slices.Equal(got, want):
			case err != nil && errors.Is(err, corrupt.ErrCorrupt):
				filetest.Corrupt(t, err, file1)
				seen = true
			default:
				t.Fatalf("bit of byte %d: %s: %d entries instead of %d, %v", i, how, len(got), len(want), err)
			}
		}
		got, err := each(l, group)
		check("each", got, sorted, err)
		got, err = each(l, spill)
		check("spill", got, unsorted, err)
		for _, k := range keys {
			after := before
			if k >= 0 {
				after = sorted[k].Key
			}
			got, err := above(l, group, after)
			check(fmt.Sprintf("cursor after entry %d", k), got, sorted[k+1:], err)
		}
		if !seen {
			t.Errorf("bit of byte %d: nobody saw it", i)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		file[i] ^= 1 << (i % 8)
	}
}

// A write that never reached the disk, or reached another place, leaves what was there: a valid group, but not this one.
func TestLostAndMisplacedWrites(t *testing.T) {
	disk := newFS()
	l := open(t, disk, timerlog.Options{}, timerlog.State{})
	a := writeGroup(t, l, run(1, 1, 600))
	old := filetest.Read(t, disk, file1)
	l = open(t, disk.Kill(), timerlog.Options{}, timerlog.State{Files: []timerlog.FileState{{Number: 1, Length: 64}}})
	b := writeGroup(t, l, run(1, 2, 600))
	if a.Offset != b.Offset || a.Length != b.Length {
		t.Fatal("the groups do not stand at the same place")
	}
	stale := reopen(t, old, l.State())
	_, err := each(stale, b)
	if bad := filetest.Corrupt(t, err, file1); !strings.Contains(bad.Reason, "another group stands here") {
		t.Errorf("got %v", bad)
	}

	// Another life's block within this life's group.
	mixed := newFS()
	if err := mixed.MkdirAll(dir+"/"+family, 0o700); err != nil {
		t.Fatal(err)
	}
	l = open(t, mixed, timerlog.Options{}, timerlog.State{})
	writeGroup(t, l, run(1, 2, 600))
	file := filetest.Read(t, mixed, file1)
	at := fileHeader + groupHeader + fullBlock
	copy(file[at:at+fullBlock], old[at:])
	_, err = each(reopen(t, file, l.State()), b)
	if bad := filetest.Corrupt(t, err, file1); bad.Offset != int64(at) {
		t.Errorf("got %v", bad)
	}
}

func TestUnreadableSector(t *testing.T) {
	disk := newFS()
	l := open(t, disk, timerlog.Options{}, timerlog.State{})
	es := run(1, 1, 1000)
	ref := writeGroup(t, l, es)
	syncLog(t, l)
	disk = disk.Crash(newRand(1), crashfs.Policy{})
	if err := disk.SetBad(file1, 60); err != nil { // byte 30,720: block 2
		t.Fatal(err)
	}
	l = open(t, disk, timerlog.Options{}, l.State())
	got, err := above(l, ref, before)
	if err == nil || !slices.Equal(got, es[:512]) {
		t.Errorf("%d entries, %v", len(got), err)
	}
	checkAbove(t, l, ref, es[768].Key, es[769:])
}

func TestDecodeRefCorruption(t *testing.T) {
	good := timerlog.Ref{
		File: 3, Offset: 64, Count: 300, Length: groupHeader + 2*blockHead + 300*timerlog.EntrySize,
		Min: timerlog.Key{Due: 1, ID: 1}, Max: timerlog.Key{Due: 2, ID: 0}, Kind: timerlog.KindGroup, Ring: 2, Slot: 77,
	}
	for _, c := range []struct {
		name    string
		corrupt func(r *timerlog.Ref)
		reason  string // "": good
	}{
		{"good", func(*timerlog.Ref) {}, ""},
		{"none", func(r *timerlog.Ref) { *r = timerlog.Ref{} }, ""},
		{"kind 0", func(r *timerlog.Ref) { r.Kind = 0 }, "kind 0"},
		{"kind 3", func(r *timerlog.Ref) { r.Kind = 3 }, "kind 3"},
		{"no entries", func(r *timerlog.Ref) { r.Count = 0 }, "0 entries"},
		{"too many", func(r *timerlog.Ref) { r.Count = 1<<28 + 1 }, "268435457 entries"},
		{"length", func(r *timerlog.Ref) { r.Length++ }, "does not suit"},
		{"negative length", func(r *timerlog.Ref) { r.Length = -r.Length }, "does not suit"},
		{"file 0", func(r *timerlog.Ref) { r.File = 0 }, "file number 0"},
		{"file −1", func(r *timerlog.Ref) { r.File = -1 }, "file number -1"},
		{"in the file header", func(r *timerlog.Ref) { r.Offset = 63 }, "offset 63"},
		{"beyond all files", func(r *timerlog.Ref) { r.Offset = 1<<63 - 1 }, "offset 9223372036854775807"},
		{"keys", func(r *timerlog.Ref) { r.Min, r.Max = r.Max, r.Min }, "least key"},
		{"one entry, two keys", func(r *timerlog.Ref) {
			r.Count, r.Length = 1, groupHeader+blockHead+timerlog.EntrySize
		}, "one entry with two keys"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := good
			c.corrupt(&r)
			b := timerlog.AppendRef(nil, r)
			if len(b) != timerlog.RefSize {
				t.Fatalf("%d bytes", len(b))
			}
			got, err := timerlog.DecodeRef(b)
			if c.reason == "" && (err != nil || got != r) || c.reason != "" && (err == nil || !strings.Contains(err.Error(), c.reason)) {
				t.Errorf("got %+v, %v; want %q", got, err, c.reason)
			}
		})
	}
	b := timerlog.AppendRef(nil, good)
	for n := range b {
		if _, err := timerlog.DecodeRef(b[:n]); err == nil {
			t.Fatalf("%d bytes are a ref", n)
		}
	}
}

func TestDecodeStateCorruption(t *testing.T) {
	for _, c := range []struct {
		name   string
		b      []byte
		reason string
	}{
		{"empty", nil, "number of files"},
		{"no end", []byte{0x80}, "number of files"},
		{"more files than bytes", []byte{2, 1, 64, 1}, "number of files"},
		{"very many files", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, "number of files"},
		{"file 0", []byte{1, 0, 64}, "file 0"},
		{"the same file twice", []byte{2, 1, 64, 0, 64}, "file 1 after file 1"},
		{"no header", []byte{1, 1, 63}, "length 63"},
		{"length without an end", []byte{1, 1, 0x80}, "length after"},
		{"number too large", append([]byte{1}, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 64), "number after"},
		{"number of no successor", append([]byte{1}, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 64), "file 9223372036854775807"},
		{"length too large", append([]byte{1, 1}, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1), "length after"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if s, _, err := timerlog.DecodeState(c.b); err == nil || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("got %+v, %v; want %q", s, err, c.reason)
			}
		})
	}
}
