package corrupt_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
)

// An operator reads file and byte; a program asks for the kind and takes the details, through any wrapping.
func TestError(t *testing.T) {
	err := fmt.Errorf("engine: open: %w", corrupt.Errorf("commitlog/00000000000000000000", 512, "CRC is %#x", 7))
	if want := "engine: open: corrupt: commitlog/00000000000000000000 at byte 512: CRC is 0x7"; err.Error() != want {
		t.Errorf("text %q, want %q", err, want)
	}
	if !errors.Is(err, corrupt.ErrCorrupt) || errors.Is(err, io.EOF) {
		t.Error("the kind is not ErrCorrupt, or everything")
	}
	var c *corrupt.Error
	if !errors.As(err, &c) || c.File != "commitlog/00000000000000000000" || c.Offset != 512 || c.Reason != "CRC is 0x7" {
		t.Errorf("details %+v", c)
	}
}
