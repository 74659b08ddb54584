package segment_test

import (
	"errors"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/segment"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

func TestDamagedFiles(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(fsys *crashfs.FS) error
		file   string
		offset int64
		reason string
		verify bool // is it seen without reading
	}{
		{"missing", func(f *crashfs.FS) error { return f.Vanish(file(8)) }, file(8), 0, "missing", true},
		{"short", func(f *crashfs.FS) error { return f.Cut(file(8), headerSize+5*cellSize+3) },
			file(8), headerSize + 5*cellSize + 3, "ends", true},
		{"short by a byte", func(f *crashfs.FS) error { return f.Cut(file(16), headerSize+4*cellSize-1) },
			file(16), headerSize + 4*cellSize - 1, "ends", true},
		{"no header", func(f *crashfs.FS) error { return f.Cut(file(0), 10) }, file(0), 10, "ends", true},
		{"flipped header", func(f *crashfs.FS) error { return f.Rot(file(8), 8*30) }, file(8), 60, "CRC", false},
		{"other magic", func(f *crashfs.FS) error { return f.Rot(file(8), 0) }, file(8), 0, "magic", false},
		{"file of another place", func(f *crashfs.FS) error { return f.Rename(file(0), file(8)) },
			file(0), 0, "missing", true},
		{"directory", func(f *crashfs.FS) error {
			return errors.Join(f.Remove(file(8)), f.MkdirAll(file(8), 0o700))
		}, file(8), 0, "directory", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := crashfs.New(crashfs.Options{})
			a := open(t, fsys, params(), segment.State{})
			appendTo(a, 20)
			s := flush(t, a, 0)
			if err := c.damage(fsys); err != nil {
				t.Fatal(err)
			}
			a = open(t, fsys, params(), s)
			if err := a.Verify(); c.verify {
				wantCorrupt(t, err, c.file, c.offset, c.reason)
			} else if err != nil {
				t.Error(err)
			}
			n, err := a.Read(0, make([]byte, 20*cellSize))
			if err == nil {
				t.Fatal("read without an error")
			}
			if c.name == "directory" {
				return // a directory cannot be opened, and how that is said is the file system's business
			}
			if c.name == "short" || c.name == "short by a byte" {
				// The error is at the first byte that is missing, behind the last good cell.
				wantCorrupt(t, err, c.file, c.offset, c.reason)
				good, err := a.Read(0, make([]byte, n*cellSize))
				if good != n || err != nil {
					t.Errorf("the %d cells before the damage: %d, %v", n, good, err)
				}
				return
			}
			if c.reason == "ends" {
				c.reason = "header"
			}
			wantCorrupt(t, err, c.file, c.offset, c.reason)
		})
	}
}

func TestFlushRefusesDamagedFiles(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(fsys *crashfs.FS) error
		offset int64
		reason string
	}{
		{"missing", func(f *crashfs.FS) error { return f.Vanish(file(16)) }, 0, "missing"},
		{"no header", func(f *crashfs.FS) error { return f.Cut(file(16), 10) }, 10, "header"},
		{"flipped header", func(f *crashfs.FS) error { return f.Rot(file(16), 8*30) }, 60, "CRC"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := crashfs.New(crashfs.Options{})
			a := open(t, fsys, params(), segment.State{})
			appendTo(a, 20)
			flush(t, a, 0)
			appendTo(a, 22)
			if err := c.damage(fsys); err != nil {
				t.Fatal(err)
			}
			_, err := a.Flush(a.Mark(), 0)
			wantCorrupt(t, err, file(16), c.offset, c.reason)
		})
	}
}

func TestSwappedArraysAreSeen(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	a := open(t, fsys, params(), segment.State{})
	appendTo(a, 3)
	s := flush(t, a, 0)
	p := params()
	p.Ident[1]++
	other := open(t, fsys, p, s)
	_, err := other.Read(0, make([]byte, cellSize))
	wantCorrupt(t, err, file(0), 32, "identity")
}
