package vfstest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Run runs every case as a subtest of t, each on a file system of its own that makeFS returns. It must be empty; what it
// needs to be cleaned up goes to t.Cleanup.
func Run(t *testing.T, makeFS func(t *testing.T) vfs.FS) {
	t.Helper()
	for _, group := range [][]testCase{nameCases, openCases, treeCases, fileCases, closedCases, capabilityCases, hammerCases} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) { c.run(&tester{T: t, fs: makeFS(t)}) })
		}
	}
}

// testCase is one guarantee.
type testCase struct {
	name string
	run  func(t *tester)
}

// tester is a test with the file system it is about.
type tester struct {
	*testing.T
	fs vfs.FS
}

// must ends the test if err is not nil.
func (t *tester) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantKind checks that err is of that kind, and a *fs.PathError.
func (t *tester) wantKind(err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error %v, want one of kind %q", err, kind)
	}
	t.wantPathError(err)
}

// wantPathError checks that err is a *fs.PathError.
func (t *tester) wantPathError(err error) {
	t.Helper()
	if pathErr := (*fs.PathError)(nil); !errors.As(err, &pathErr) {
		t.Errorf("error %#v is no *fs.PathError", err)
	}
}

// open opens a file, which is closed with the test if it is not before.
func (t *tester) open(name string, flag int) vfs.File {
	t.Helper()
	f, err := t.fs.OpenFile(name, flag, 0o600)
	t.must(err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// create makes a file with that content and returns it, open for writing.
func (t *tester) create(name, content string) vfs.File {
	t.Helper()
	f := t.open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	t.write(f, content, 0)
	return f
}

// put makes a file with that content.
func (t *tester) put(name, content string) {
	t.Helper()
	t.must(t.create(name, content).Close())
}

func (t *tester) write(f vfs.File, content string, off int64) {
	t.Helper()
	if n, err := f.WriteAt([]byte(content), off); err != nil || n != len(content) {
		t.Fatalf("WriteAt of %d bytes at %d: %d, %v", len(content), off, n, err)
	}
}

// wantContent checks what f holds, and its size.
func (t *tester) wantContent(f vfs.File, want string) {
	t.Helper()
	size, err := f.Size()
	if err != nil || size != int64(len(want)) {
		t.Errorf("Size is %d, %v; want %d", size, err, len(want))
		return
	}
	got := make([]byte, size)
	n, err := f.ReadAt(got, 0)
	if err != nil || !bytes.Equal(got[:n], []byte(want)) {
		t.Errorf("content is %.60q, %v; want %.60q", got[:n], err, want)
	}
}

// wantFile checks what the file of that name holds.
func (t *tester) wantFile(name, want string) {
	t.Helper()
	f, err := t.fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	t.wantContent(f, want)
}

// wantNone checks that nothing has that name.
func (t *tester) wantNone(name string) {
	t.Helper()
	_, err := t.fs.Stat(name)
	t.wantKind(err, fs.ErrNotExist)
}

// wantList checks what a directory lists.
func (t *tester) wantList(dir string, want ...vfs.Info) {
	t.Helper()
	got, err := t.fs.ReadDir(dir)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("ReadDir(%q) is %v, %v; want %v", dir, got, err, want)
	}
}
