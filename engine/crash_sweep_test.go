package engine_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// pointsPerHistory is how many crashes one history of the sweep is put through.
const pointsPerHistory = 24

// TestCrashSweep cuts the power at random operations of random histories, and after most syncs. One run gives many crash
// states; each is opened (a part of them with further power cuts during recovery), and looked at by the model, its files
// are checked, and its state is compared with a rebuild from the log alone, of every fourth with other buffers. A part of
// them goes on until nothing waits.
func TestCrashSweep(t *testing.T) {
	want := enginetest.ReadVolume(t).Pick(300, 20_000, 150_000)
	if testing.Short() {
		want /= 4
	}
	met := &coverage{counts: enginetest.Coverage{}}
	var points atomic.Int64
	enginetest.Seeds(t, 1_000_001, (want+pointsPerHistory-1)/pointsPerHistory, func(seed uint64) error {
		n, err := crashHistory(t, seed, met)
		points.Add(int64(n))
		return err
	})
	t.Logf("%d crash points; met: %s", points.Load(), met)
}

// crashHistory runs the history of a seed and crashes it at some of its operations.
func crashHistory(t *testing.T, seed uint64, met *coverage) (points int, err error) {
	s, err := enginetest.NewSim(enginetest.SeedConfig(seed))
	if err != nil {
		return 0, err
	}
	return crashRun(t, s, enginetest.RandomHistory(seed, 110), met)
}

// crashRun runs a history on a new store and crashes it at some of its operations.
func crashRun(t *testing.T, s *enginetest.Sim, h enginetest.History, met *coverage) (points int, err error) {
	if _, ok := enginetest.Seed(t); ok {
		s.Log = t.Logf
	}
	c := &crasher{t: t, s: s, r: rand.New(rand.NewPCG(h.Seed, 77)), met: met, most: pointsPerHistory, pace: 14}
	s.Before = c.before
	err = s.Run(h.Ops)
	if c.err != nil {
		err = c.err
	}
	met.add(s.Cover())
	return c.points, err
}

// crasher crashes a Sim before some of the changes of its file system.
type crasher struct {
	t    *testing.T
	s    *enginetest.Sim
	r    *rand.Rand
	met  *coverage
	most int // crashes in all
	pace int // one change in so many is crashed at; after a sync every third
	// all makes every change a crash point, with each of the policies, and drains every one.
	all    bool
	points int
	err    error
}

func (c *crasher) before() {
	if c.err != nil || c.points >= c.most {
		return
	}
	if c.all {
		all := crashfs.Policies()
		if testing.Short() { // they take turns
			all = all[c.points%len(all):][:1]
		}
		for _, p := range all {
			c.crash(p)
		}
		return
	}
	trace := c.s.FS.Trace()
	afterSync := len(trace) > 0 && trace[len(trace)-1].Kind == crashfs.Sync
	if c.r.IntN(c.pace) == 0 || afterSync && c.r.IntN(3) == 0 {
		all := crashfs.Policies()
		c.crash(all[c.r.IntN(len(all))])
	}
}

// crash forks the Sim as a power cut leaves it, and follows the fork.
func (c *crasher) crash(p crashfs.Policy) {
	if c.err != nil {
		return
	}
	c.points++
	depth := max(c.r.IntN(16)-10, 0) // 0 to 5, mostly 0
	other := 0
	if c.r.IntN(4) == 0 {
		other = 1 + c.r.IntN(100)
	}
	f := c.s.Fork(c.r, p)
	err := f.Recover(depth, other)
	if err == nil && (c.all || c.r.IntN(3) == 0) {
		err = f.Finish()
	}
	c.met.add(f.Cover())
	if err != nil {
		c.err = fmt.Errorf("crash %d, %v, %d in recovery: %w", c.points, p, depth, err)
	}
}
