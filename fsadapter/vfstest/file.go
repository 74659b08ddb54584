package vfstest

import (
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

var fileCases = []testCase{
	{"ReadAtFills", func(t *tester) {
		f := t.create("f", "0123456789")
		for _, r := range []struct {
			off  int64
			n    int
			want string
			err  error
		}{
			{0, 10, "0123456789", nil}, {0, 4, "0123", nil}, {6, 4, "6789", nil}, {9, 1, "9", nil},
			{6, 5, "6789", io.EOF}, {0, 11, "0123456789", io.EOF}, // row 2: no error from MemMapFs
			{10, 1, "", io.EOF}, {11, 1, "", io.EOF}, {1 << 40, 4, "", io.EOF}, // row 2: io.ErrUnexpectedEOF
			{0, 0, "", nil}, {10, 0, "", nil}, {11, 0, "", nil},
		} {
			p := []byte(strings.Repeat("-", r.n))
			n, err := f.ReadAt(p, r.off)
			if n != len(r.want) || err != r.err || string(p[:n]) != r.want {
				t.Errorf("ReadAt of %d bytes at %d is %d, %v, %q; want %q, %v", r.n, r.off, n, err, p[:n], r.want, r.err)
			}
		}
	}},
	{"ReadAtOfAnEmptyFile_row2", func(t *tester) {
		f := t.create("f", "")
		if n, err := f.ReadAt(make([]byte, 1), 0); n != 0 || err != io.EOF {
			t.Errorf("ReadAt is %d, %v; want 0, io.EOF", n, err)
		}
	}},
	{"NegativeOffsetsAreInvalid_row5", func(t *tester) {
		f := t.create("f", "abc")
		for _, off := range []int64{-1, -1 << 63} {
			_, err := f.ReadAt(make([]byte, 1), off)
			t.wantKind(err, fs.ErrInvalid)
			_, err = f.WriteAt([]byte("X"), off)
			t.wantKind(err, fs.ErrInvalid)
			t.wantKind(f.Truncate(off), fs.ErrInvalid)
		}
		t.wantContent(f, "abc")
	}},
	{"WriteAtOverwrites", func(t *tester) {
		f := t.create("f", "0123456789")
		t.write(f, "ab", 3)
		t.wantContent(f, "012ab56789")
		t.write(f, "cdef", 8)
		t.wantContent(f, "012ab567cdef")
	}},
	{"WriteAtHasNoCursor_row3", func(t *tester) {
		f := t.create("f", "")
		t.write(f, "b", 10)
		t.write(f, "a", 3)
		if _, err := f.ReadAt(make([]byte, 1), 3); err != nil {
			t.Error(err)
		}
		t.write(f, "c", 11)
		t.wantContent(f, "\x00\x00\x00a\x00\x00\x00\x00\x00\x00bc")
	}},
	{"WriteAtLeavesAGapOfZeros", func(t *tester) {
		f := t.create("f", "abc")
		t.write(f, "d", 10000)
		t.wantContent(f, "abc"+strings.Repeat("\x00", 9997)+"d")
	}},
	{"WriteAtOfNothing", func(t *tester) {
		f := t.create("f", "abc")
		for _, p := range [][]byte{nil, {}} {
			if n, err := f.WriteAt(p, 100); n != 0 || err != nil {
				t.Errorf("WriteAt is %d, %v; want 0, nil", n, err)
			}
		}
		t.wantContent(f, "abc")
	}},
	{"WriteAtDoesNotKeepTheSlice", func(t *tester) {
		f := t.create("f", "")
		p := []byte("abc")
		_, err := f.WriteAt(p, 0)
		t.must(err)
		p[0] = 'X'
		t.must(f.Sync())
		t.wantContent(f, "abc")
	}},
	{"WriteAtOfManyChunks", func(t *tester) {
		f := t.create("f", "")
		want := make([]byte, 300_000)
		for i := range want {
			want[i] = byte(i * 7 / 256)
		}
		for lo := len(want); lo > 0; { // backwards, in pieces that end nowhere in particular
			hi := lo
			lo = max(lo-7919, 0)
			t.write(f, string(want[lo:hi]), int64(lo))
		}
		t.wantContent(f, string(want))
	}},
	{"TruncateShortens", func(t *tester) {
		f := t.create("f", "0123456789")
		t.must(f.Truncate(4))
		t.wantContent(f, "0123")
		t.must(f.Truncate(0))
		t.wantContent(f, "")
	}},
	{"TruncateLengthensWithZeros", func(t *tester) {
		f := t.create("f", "abc")
		t.must(f.Truncate(9000))
		t.wantContent(f, "abc"+strings.Repeat("\x00", 8997))
	}},
	{"TruncateForgetsWhatItCut", func(t *tester) {
		f := t.create("f", strings.Repeat("x", 9000))
		t.must(f.Truncate(5000))
		t.must(f.Truncate(10000))
		t.wantContent(f, strings.Repeat("x", 5000)+strings.Repeat("\x00", 5000))
		t.must(f.Truncate(3))
		t.write(f, "y", 8000)
		t.wantContent(f, "xxx"+strings.Repeat("\x00", 7997)+"y")
	}},
	{"SizeFollows", func(t *tester) {
		f := t.create("f", "")
		for _, step := range []struct {
			do   func() error
			want int64
		}{
			{func() error { return nil }, 0},
			{func() error { _, err := f.WriteAt([]byte("abc"), 5); return err }, 8},
			{func() error { _, err := f.WriteAt([]byte("abc"), 0); return err }, 8},
			{func() error { return f.Truncate(20) }, 20},
			{func() error { return f.Truncate(1) }, 1},
		} {
			t.must(step.do())
			if n, err := f.Size(); err != nil || n != step.want {
				t.Errorf("Size is %d, %v; want %d", n, err, step.want)
			}
		}
	}},
	{"SyncKeepsContent", func(t *tester) {
		f := t.create("f", "abc")
		t.must(f.Sync())
		t.write(f, "d", 3)
		t.must(f.Sync())
		t.must(f.Sync())
		t.wantContent(f, "abcd")
		t.wantFile("f", "abcd")
	}},
}

// closedCases are about files after Close. Row 13: MemMapFs closes twice, and has an error of its own.
var closedCases = []testCase{
	{"ClosedFileAnswersErrClosed_row13", func(t *tester) {
		for _, flag := range []int{os.O_RDWR | os.O_CREATE, os.O_RDONLY} {
			f := t.open("f", flag)
			t.must(f.Close())
			t.wantKind(f.Close(), fs.ErrClosed)
			_, err := f.ReadAt(make([]byte, 1), 0)
			t.wantKind(err, fs.ErrClosed)
			_, err = f.WriteAt([]byte("X"), 0)
			t.wantKind(err, fs.ErrClosed)
			_, err = f.Size()
			t.wantKind(err, fs.ErrClosed)
			t.wantKind(f.Truncate(0), fs.ErrClosed)
			t.wantKind(f.Sync(), fs.ErrClosed)
			if p, ok := f.(vfs.Preallocator); ok {
				t.wantKind(p.Preallocate(1), fs.ErrClosed)
			}
			t.wantKind(vfs.SyncData(f), fs.ErrClosed)
		}
		t.wantFile("f", "")
	}},
	{"CloseOfOneHandleLeavesTheOther_row13", func(t *tester) {
		first := t.create("f", "abc")
		second := t.open("f", os.O_RDWR)
		t.must(first.Close())
		t.write(second, "X", 0)
		t.wantContent(second, "Xbc")
	}},
}
