package engine_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine/enginetest"
)

// regression is a history that failed once: the seed chooses the options. Its name says what it found.
type regression struct {
	name string
	seed uint64
	ops  string
}

var regressions = []regression{
	{"a topic goes between a checkpoint's snapshot and its job", 55, `delay 83 0, bad 167 0, bad 0 0, level 94 0, delay 0 0, batch 82 0,
		pass 0 245, settle 0 0, batch 106 0, level 82 0, pass 119 47, tick 0 0, run 0 0, sane 0 0, sane 0 0, levels 0 0,
		pass 171 225, delete 98 0`},
	{"a listing goes on in a run of several groups", 1246, `level 106 194, step 235 0, level 16 202, level 0 228, level 121 0,
		batch 113 98, batch 89 85, level 10 188, level 34 140, level 5 0, batch 231 126, fill 190 205, step 169 0, level 202 0,
		level 23 0, fill 110 0, level 0 238, level 0 0, level 0 0, list 88 0, level 0 218, tick 0 0, jobs 0 0, put 0 0,
		moves 83 0, put 0 204, list 0 0`},
	{"a topic goes after a cancel was too late", 10690, `level 0 0, level 250 0, level 23 0, pass 0 23, level 0 0, level 0 0, tick 0 0,
		offset 0 0, tick 0 0, cancel 152 0, commit 0 0, sync 0 0, delete 200 0, release 0 0`},
	{"each start takes a millisecond from the retention", 6261, `level 42 0, level 184 113, delay 204 184, delay 230 159, level 141 0,
		sane 0 0, reopen 183 0, levels 0 0, moves 156 0, delay 100 158, fill 50 0, delay 17 98, delay 220 115, level 0 0,
		level 213 0, fill 119 0, delay 204 199, crash 0 0, pass 0 77, move 184 0, level 0 0, kill 0 0, level 199 161, fill 41 0,
		tune 155 0, crash 230 0`},
}

// faultyRegressions are such histories on a disk that fails.
var faultyRegressions = []regression{
	{"a trim does not see what a stage kept and is not released", 2002924, `tick 0 0, batch 250 112, stage 227 56, pass 178 137, pass 0 226,
		delay 73 177, tick 0 0, fault 0 0, heal 0 0, fault 0 0, decide 0 0, heal 0 0`},
}

func TestModelRegressions(t *testing.T) {
	for _, of := range []struct {
		list []regression
		open func(uint64) (*enginetest.Sim, error)
	}{{regressions, healthy}, {faultyRegressions, failing}} {
		for _, r := range of.list {
			t.Run(r.name, func(t *testing.T) {
				ops, err := enginetest.ParseOps(r.ops)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := play(t, enginetest.History{Seed: r.seed, Ops: ops}, of.open); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// failing opens a store on a disk that fails.
func failing(seed uint64) (*enginetest.Sim, error) {
	c := enginetest.SeedConfig(seed)
	c.Faulty = true
	return enginetest.NewSim(c)
}

// TestModel runs random histories; the model judges every answer and every delivery.
func TestModel(t *testing.T) {
	n := enginetest.ReadVolume(t).Pick(300, 12_000, 200_000)
	if testing.Short() {
		n /= 5
	}
	met := &coverage{counts: enginetest.Coverage{}}
	ran := enginetest.Seeds(t, 1, n, func(seed uint64) error {
		h := enginetest.RandomHistory(seed, 160)
		c, err := play(t, h, healthy)
		met.add(c)
		return explain(h, err, healthy)
	})
	t.Logf("%d histories; met: %s", ran, met)
	if ran >= 300 {
		met.want(t, "flush", "compaction", "group of seconds", "group of hours", "checkpoint", "rolled message", "dropped message", "deleted head", "replay",
			"job segment", "job mark", "crash", "kill", "reopen", "busy", "fired", "answer Stored", "answer Scheduled",
			"answer Cancelled", "answer Moved", "answer AlreadyCancelled", "answer Superseded", "answer Delivered",
			"answer NotFound", "answer Refused", "answer Restored", "listing", "horizon", "key found",
			"refused engine: broadcast group")
	}
}

// healthy opens a new store with the options of a seed.
func healthy(seed uint64) (*enginetest.Sim, error) {
	return enginetest.NewSim(enginetest.SeedConfig(seed))
}

// play runs a history to its end.
func play(t *testing.T, h enginetest.History, open func(seed uint64) (*enginetest.Sim, error)) (enginetest.Coverage, error) {
	s, err := open(h.Seed)
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
func explain(h enginetest.History, err error, open func(seed uint64) (*enginetest.Sim, error)) error {
	if err == nil {
		return nil
	}
	small := enginetest.Shrink(h, 20*time.Second, time.Now, func(h enginetest.History) error {
		s, err := open(h.Seed)
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

// TestModelFaults runs random histories on a disk that fails and is full at times, and is mended.
func TestModelFaults(t *testing.T) {
	n := enginetest.ReadVolume(t).Pick(150, 4_000, 80_000)
	if testing.Short() {
		n /= 5
	}
	met := &coverage{counts: enginetest.Coverage{}}
	ran := enginetest.Seeds(t, 2_000_001, n, func(seed uint64) error {
		h := enginetest.FaultyHistory(seed, 140)
		c, err := play(t, h, failing)
		met.add(c)
		return explain(h, err, failing)
	})
	t.Logf("%d histories; met: %s", ran, met)
	if ran >= 150 {
		met.want(t, "fault", "full disk", "healed", "gave up", "refused engine: disk full")
	}
}
