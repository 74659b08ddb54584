package invariant_test

import (
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/invariant"
)

func TestThat(t *testing.T) {
	said := func(ok bool) (said any) {
		defer func() { said = recover() }()
		invariant.That(ok, "flushed %d is beyond %d", 2, 1)
		return nil
	}
	if got := said(true); got != nil {
		t.Errorf("an invariant that holds panicked: %v", got)
	}
	var want any
	if invariant.On {
		want = "invariant: flushed 2 is beyond 1"
	}
	if got := said(false); got != want {
		t.Errorf("On is %v and a broken invariant said %v", invariant.On, got)
	}
}

// TestThatCostsNothing: without the tag an assertion is no work, also with arguments.
func TestThatCostsNothing(t *testing.T) {
	if invariant.On {
		t.Skip("assertions are compiled in")
	}
	n := 1000
	if got := testing.AllocsPerRun(100, func() {
		n++
		invariant.That(n > 0, "%d of %s", n, t.Name())
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
