package engine_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine/enginetest"
)

// regressions are histories that failed once: the seed chooses the options. Each names what it found.
var regressions = []struct {
	name string
	seed uint64
	ops  string
}{}

func TestModelRegressions(t *testing.T) {
	for _, r := range regressions {
		t.Run(r.name, func(t *testing.T) {
			list, err := enginetest.ParseOps(r.ops)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := play(t, enginetest.History{Seed: r.seed, Ops: list}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestModel runs random histories; the model judges every answer and every delivery.
func TestModel(t *testing.T) {
	n := enginetest.ReadVolume(t).Pick(300, 20_000, 200_000)
	if testing.Short() {
		n /= 5
	}
	met := &coverage{counts: enginetest.Coverage{}}
	ran := enginetest.Seeds(t, 1, n, func(seed uint64) error {
		h := enginetest.RandomHistory(seed, 160)
		c, err := play(t, h)
		met.add(c)
		return explain(t, h, err)
	})
	t.Logf("%d histories; met: %s", ran, met)
	if ran >= 300 {
		met.want(t, "flush", "compaction", "group of seconds", "group of hours", "checkpoint", "rolled message", "dropped message", "deleted head", "replay",
			"job segment", "job mark", "crash", "kill", "reopen", "busy", "fired", "answer Stored", "answer Scheduled",
			"answer Cancelled", "answer Moved", "answer AlreadyCancelled", "answer Superseded", "answer Delivered",
			"answer NotFound", "answer Refused", "answer Restored", "listing", "horizon")
	}
}

// play runs a history to its end.
func play(t *testing.T, h enginetest.History) (enginetest.Coverage, error) {
	s, err := enginetest.NewSim(enginetest.SeedConfig(h.Seed))
	if err != nil {
		return nil, err
	}
	if _, ok := enginetest.Seed(t); ok {
		s.Log = t.Logf
	}
	err = s.Run(h.Ops)
	return s.Cover(), err
}

// explain adds the shortest history that fails in the same way to an error.
func explain(t *testing.T, h enginetest.History, err error) error {
	if err == nil {
		return nil
	}
	small := enginetest.Shrink(h, 20*time.Second, time.Now, func(h enginetest.History) error {
		s, err := enginetest.NewSim(enginetest.SeedConfig(h.Seed))
		if err != nil {
			return err
		}
		return s.Run(h.Ops)
	})
	return fmt.Errorf("%w\nshortest history: %v", err, small)
}

// coverage adds up what many runs met.
type coverage struct {
	mu     sync.Mutex
	counts enginetest.Coverage
}

func (c *coverage) add(o enginetest.Coverage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.Add(o)
}

func (c *coverage) String() string {
	var b strings.Builder
	for _, what := range sortedKeys(c.counts) {
		fmt.Fprintf(&b, "%s %d, ", what, c.counts[what])
	}
	return strings.TrimSuffix(b.String(), ", ")
}

// want fails the test if one of these was never met: a clean result says nothing about it then.
func (c *coverage) want(t *testing.T, what ...string) {
	t.Helper()
	for _, w := range what {
		if c.counts[w] == 0 {
			t.Errorf("the histories never met %q", w)
		}
	}
}
