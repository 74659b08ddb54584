package golden_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/golden"
)

// recorder keeps what a test would report.
type recorder struct {
	testing.TB
	text []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.text = append(r.text, fmt.Sprintf(format, args...))
}

func TestCheck(t *testing.T) {
	fields := []golden.Field{{2, "first"}, {5, ""}, {1, "last"}}
	golden.Check(t, "sample", "two numbers with a gap", 8, []byte("\x01\x02\x00\x00\x00\x00\x00\xff"), fields)
	for _, c := range []struct{ encoded, want string }{
		{"\x01\x03\x00\x00\x00\x00\x00\xff", "encoding changed"},
		{"\x01\x02\x00\x00\x00\x01\x00\xff", "5 bytes before ff are not zero"},
		{"\x01\x02\x00\x00\x00\x00\x00\xff\x07", "07 is not described"},
	} {
		r := &recorder{TB: t}
		golden.Check(r, "sample", "two numbers with a gap", 8, []byte(c.encoded), fields)
		if !strings.Contains(strings.Join(r.text, "\n"), c.want) {
			t.Errorf("%x: reports are %q, want %q", c.encoded, r.text, c.want)
		}
	}
}
