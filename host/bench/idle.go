package bench

import (
	"context"
	"time"
)

// settleTime bounds the wait until a store has nothing more to do.
const settleTime = time.Minute

// idle measures what the process takes of a processor when nobody asks anything of it.
func (w *worker) idle(ctx context.Context, r request) (outcome, error) {
	const look, still = 500 * time.Millisecond, 0.05
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	began := time.Now()
	stop := w.progress("settling", int(settleTime.Milliseconds()), func() int { return int(time.Since(began).Milliseconds()) })
	defer func() { stop() }()
	for quiet := 0; quiet < 4 && time.Since(began) < settleTime; quiet++ {
		before := cpuTime()
		if err := until(ctx, timer, time.Now().Add(look)); err != nil {
			return outcome{}, err
		}
		if float64(cpuTime()-before) > still*float64(look) {
			quiet = -1
		}
	}
	stop()
	stop = func() {}
	// From here on nothing but the store runs: no progress, and nobody looks at the memory.
	w.say(event{Progress: &Progress{Phase: "doing nothing", Total: int(r.Load.Duration.Milliseconds())}})
	began = time.Now()
	before := cpuTime()
	if err := until(ctx, timer, began.Add(r.Load.Duration)); err != nil {
		return outcome{}, err
	}
	used, took := cpuTime()-before, time.Since(began)
	w.peak.look()
	pending, err := w.t.pending(ctx)
	return outcome{Pending: pending, Took: took, CPU: 100 * float64(used) / float64(took)}, err
}
