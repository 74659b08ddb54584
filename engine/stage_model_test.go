package engine_test

import (
	"sync/atomic"
	"testing"

	"github.com/tidewheel/tidewheel/engine/enginetest"
)

// openStaged opens a new store with stages.
func openStaged(seed uint64) (*enginetest.Sim, error) {
	return enginetest.NewSim(enginetest.StagedConfig(seed))
}

// TestModelStages runs random histories of stores with stages; the model judges each verdict and what becomes visible by it.
func TestModelStages(t *testing.T) {
	n := enginetest.ReadVolume(t).Pick(150, 2_000, 80_000)
	if testing.Short() {
		n /= 5
	}
	met := &coverage{counts: enginetest.Coverage{}}
	ran := enginetest.Seeds(t, 3_000_001, n, func(seed uint64) error {
		h := enginetest.StagedHistory(seed, 160)
		c, err := play(t, h, openStaged)
		met.add(c)
		return explain(h, err, openStaged)
	})
	t.Logf("%d histories; met: %s", ran, met)
	if ran >= 150 {
		met.want(t, "settled message", "kept message", "settled for a group", "refused engine: already settled", "crash", "kill",
			"checkpoint", "deleted head", "answer Delivered", "rolled message")
	}
}

// TestModelFaultsStages runs such histories on a disk that fails and is full at times, and is mended.
func TestModelFaultsStages(t *testing.T) {
	n := enginetest.ReadVolume(t).Pick(60, 800, 30_000)
	if testing.Short() {
		n /= 5
	}
	met := &coverage{counts: enginetest.Coverage{}}
	open := func(seed uint64) (*enginetest.Sim, error) {
		c := enginetest.StagedConfig(seed)
		c.Faulty = true
		return enginetest.NewSim(c)
	}
	ran := enginetest.Seeds(t, 5_000_001, n, func(seed uint64) error {
		h, s := enginetest.FaultyHistory(seed, 140), enginetest.StagedHistory(seed, 140)
		for i, op := range s.Ops {
			switch op.Kind {
			case "decide", "judge", "stage", "sane":
				h.Ops[i] = op
			}
		}
		c, err := play(t, h, open)
		met.add(c)
		return explain(h, err, open)
	})
	t.Logf("%d histories; met: %s", ran, met)
	if ran >= 60 {
		met.want(t, "fault", "full disk", "healed", "gave up", "settled message", "kept message")
	}
}

// TestCrashSweepStages is the crash sweep over such histories.
func TestCrashSweepStages(t *testing.T) {
	want := enginetest.ReadVolume(t).Pick(200, 3_000, 60_000)
	if testing.Short() {
		want /= 4
	}
	met := &coverage{counts: enginetest.Coverage{}}
	var points atomic.Int64
	enginetest.Seeds(t, 4_000_001, (want+pointsPerHistory-1)/pointsPerHistory, func(seed uint64) error {
		s, err := openStaged(seed)
		if err != nil {
			return err
		}
		n, err := crashRun(t, s, enginetest.StagedHistory(seed, 110), met)
		points.Add(int64(n))
		return err
	})
	t.Logf("%d crash points; met: %s", points.Load(), met)
}
