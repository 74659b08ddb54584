package pluginhost

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// The upper bounds of histograms.
var (
	callBounds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}
	fuelBounds = []float64{100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000}
)

// The results of a call, in metrics.
const (
	resultOK        = "ok"        // it answered for all messages
	resultFailed    = "failed"    // it failed on one or more of them
	resultUndecided = "undecided" // it was not asked, or blocks
)

// meter counts what a plugin does, beyond what package plugins does. It is safe for concurrent use.
type meter struct {
	differ atomic.Int64 // verdicts of the log that a verification did not get again

	mu    sync.Mutex
	hooks [abi.Hooks]hookMeter // guarded by mu
}

// hookMeter counts the calls of one hook.
type hookMeter struct {
	calls map[string]uint64 // by result
	times histogram         // seconds
	fuel  histogram         // for each message of a call
}

// histogram has a count for each bound, and one for what is above all.
type histogram struct {
	counts []uint64
	sum    float64
}

func (h *histogram) add(bounds []float64, v float64) {
	if h.counts == nil {
		h.counts = make([]uint64, len(bounds)+1)
	}
	i, _ := slices.BinarySearch(bounds, v)
	h.counts[i]++
	h.sum += v
}

func newMeter() *meter { return new(meter) }

// copy is a moment of it.
func (m *meter) copy() [abi.Hooks]hookMeter {
	m.mu.Lock()
	defer m.mu.Unlock()
	hooks := m.hooks
	for i := range hooks {
		x := &hooks[i]
		x.calls, x.times.counts, x.fuel.counts = maps.Clone(x.calls), slices.Clone(x.times.counts), slices.Clone(x.fuel.counts)
	}
	return hooks
}

// decide asks a plugin and counts it.
func (m *meter) decide(ctx context.Context, p *plugins.Plugin, call plugins.Call, records []abi.Record, a *plugins.Answer) error {
	began := time.Now()
	err := p.Decide(ctx, call, records, a)
	took := time.Since(began).Seconds()
	result := resultOK
	for i := range a.Decisions {
		if a.Decisions[i].Failure != nil {
			result = resultFailed
		}
	}
	if err != nil || a.Decided < len(records) {
		result = resultUndecided
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	x := &m.hooks[min(call.Hook, abi.Hooks-1)]
	if x.calls == nil {
		x.calls = map[string]uint64{}
	}
	x.calls[result]++
	x.times.add(callBounds, took)
	if len(records) > 0 {
		x.fuel.add(fuelBounds, float64(a.Fuel)/float64(len(records)))
	}
	return err
}
