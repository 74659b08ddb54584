package tail_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/host/internal/tail"
)

// The end of what a process said is kept, and no more.
func TestTail(t *testing.T) {
	var b tail.Buffer
	for range 10 {
		if n, err := b.Write(bytes.Repeat([]byte("x"), tail.Bytes/2)); n != tail.Bytes/2 || err != nil {
			t.Fatal(n, err)
		}
	}
	_, _ = b.Write([]byte("the end"))
	if s := b.String(); len(s) != tail.Bytes || !strings.HasSuffix(s, "the end") {
		t.Errorf("%d bytes, ending in %q", len(s), s[max(0, len(s)-20):])
	}
}
