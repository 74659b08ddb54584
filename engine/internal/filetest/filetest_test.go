package filetest_test

import (
	"fmt"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/filetest"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

func TestWriteThenRead(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	for _, text := range []string{"tidewheel", "tide", ""} { // each takes the place of the one before
		filetest.Write(t, fsys, "a/b/file", []byte(text))
		if got := filetest.Read(t, fsys, "a/b/file"); string(got) != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
}

func TestCorrupt(t *testing.T) {
	err := fmt.Errorf("open: %w", corrupt.Errorf("a/file", 7, "bad crc"))
	if bad := filetest.Corrupt(t, err, "a/file"); bad.Offset != 7 {
		t.Errorf("got %v", bad)
	}
}
