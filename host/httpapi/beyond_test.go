package httpapi

import (
	"context"
	"fmt"
	"testing"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
)

// TestDetail: the detail of a problem is for who sent the request: no packages, and nothing that the title has said.
func TestDetail(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("broker: %w: %q", engine.ErrNoTopic, "orders"), `"orders"`},
		{fmt.Errorf("broker: engine: put: %w: 9d", engine.ErrDelay), "put: 9d"},
		{fmt.Errorf("%w: key %q", broker.ErrIdempotencyMismatch, "k"), `key "k"`},
		{fmt.Errorf("broker: flush: %w", engine.ErrFailed), "flush"},
		{fmt.Errorf("broker: %w", context.Canceled), ""},
		{broker.ErrClosed, ""},
	} {
		if got := asProblem(c.err).Detail; got != c.want {
			t.Errorf("%v has detail %q, want %q", c.err, got, c.want)
		}
	}
}
