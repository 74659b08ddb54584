// Package filetest reads and writes whole files of a vfs.FS and looks at errors of damage, for tests.
package filetest

import (
	"errors"
	"os"
	"path"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Read returns the bytes of a file.
func Read(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && size > 0 {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return b
}

// Write makes b the content of a file and makes the directories above it. It syncs nothing.
func Write(t testing.TB, fsys vfs.FS, name string, b []byte) {
	t.Helper()
	if err := fsys.MkdirAll(path.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// Corrupt checks that err names damage in a file, and returns it.
func Corrupt(t testing.TB, err error, file string) *corrupt.Error {
	t.Helper()
	var bad *corrupt.Error
	if !errors.As(err, &bad) || bad.File != file {
		t.Fatalf("got %v, want damage in %s", err, file)
	}
	return bad
}
