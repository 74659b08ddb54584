package vfstest

import (
	"io/fs"
	"os"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

var openCases = []testCase{
	{"OpenMissing", func(t *tester) {
		for _, flag := range []int{os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_TRUNC} {
			_, err := t.fs.OpenFile("none", flag, 0o600)
			t.wantKind(err, fs.ErrNotExist)
		}
		t.wantNone("none")
	}},
	{"OpenCreates", func(t *tester) {
		f := t.open("f", os.O_RDWR|os.O_CREATE)
		t.wantContent(f, "")
		t.write(f, "abc", 0)
		t.wantFile("f", "abc")
	}},
	{"OpenWithCreateKeepsAnExistingFile_row9", func(t *tester) {
		first := t.create("f", "abc")
		second := t.open("f", os.O_RDWR|os.O_CREATE)
		t.wantContent(second, "abc")
		t.write(second, "X", 1)
		t.wantContent(first, "aXc")
	}},
	{"OpenWithTruncateIsTheSameFile_row9", func(t *tester) {
		first := t.create("f", "abc")
		second := t.open("f", os.O_RDWR|os.O_CREATE|os.O_TRUNC)
		t.wantContent(first, "")
		t.write(first, "de", 0)
		t.wantContent(second, "de")
		third := t.open("f", os.O_RDWR|os.O_TRUNC)
		t.wantContent(third, "")
	}},
	{"OpenExclusive_row7", func(t *tester) {
		t.put("f", "abc")
		t.must(t.fs.MkdirAll("d", 0o700))
		for _, name := range []string{"f", "d"} {
			_, err := t.fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
			t.wantKind(err, fs.ErrExist)
		}
		_, err := t.fs.OpenFile("f", os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_TRUNC, 0o600)
		t.wantKind(err, fs.ErrExist)
		t.wantFile("f", "abc")
	}},
	{"OpenWithOtherFlagsIsInvalid_row6", func(t *tester) {
		t.put("f", "abc")
		for _, flag := range []int{
			os.O_WRONLY, os.O_WRONLY | os.O_CREATE, os.O_RDWR | os.O_APPEND, os.O_RDWR | os.O_CREATE | os.O_APPEND,
			os.O_RDWR | os.O_SYNC, os.O_RDONLY | os.O_CREATE, os.O_RDONLY | os.O_TRUNC, os.O_RDWR | os.O_EXCL, 1 << 40,
		} {
			_, err := t.fs.OpenFile("f", flag, 0o600)
			t.wantKind(err, fs.ErrInvalid)
			_, err = t.fs.OpenFile("none", flag, 0o600)
			t.wantKind(err, fs.ErrInvalid)
		}
		t.wantFile("f", "abc")
		t.wantNone("none")
	}},
	{"OpenNeedsTheParent_row10", func(t *tester) {
		_, err := t.fs.OpenFile("d/e/f", os.O_RDWR|os.O_CREATE, 0o600)
		t.wantKind(err, fs.ErrNotExist)
		t.wantNone("d")
		t.put("file", "")
		_, err = t.fs.OpenFile("file/f", os.O_RDWR|os.O_CREATE, 0o600)
		t.wantPathError(err)
		t.wantList(".", vfs.Info{Name: "file"})
	}},
	{"OpenOfADirectoryIsInvalid_row11", func(t *tester) {
		t.must(t.fs.MkdirAll("d", 0o700))
		for _, name := range []string{"d", "."} {
			for _, flag := range []int{os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE, os.O_RDWR | os.O_CREATE | os.O_TRUNC} {
				_, err := t.fs.OpenFile(name, flag, 0o600)
				t.wantKind(err, fs.ErrInvalid)
			}
		}
	}},
	{"OpenForReadingDoesNotChange_row8", func(t *tester) {
		t.put("f", "abc")
		f := t.open("f", os.O_RDONLY)
		_, err := f.WriteAt([]byte("X"), 0)
		t.wantKind(err, fs.ErrPermission)
		t.wantKind(f.Truncate(0), fs.ErrPermission)
		if p, ok := f.(vfs.Preallocator); ok {
			t.wantKind(p.Preallocate(100), fs.ErrPermission)
		}
		t.must(f.Sync())
		t.wantContent(f, "abc")
	}},
	{"OpenForWritingReads", func(t *tester) {
		t.put("f", "abc")
		t.wantContent(t.open("f", os.O_RDWR), "abc")
	}},
	{"TwoHandlesSeeEachOther", func(t *tester) {
		w := t.create("f", "abc")
		r := t.open("f", os.O_RDONLY)
		t.write(w, "XYZ", 2)
		t.wantContent(r, "abXYZ")
		t.must(w.Truncate(1))
		t.wantContent(r, "a")
		t.must(w.Close())
		t.wantContent(r, "a")
	}},
}
