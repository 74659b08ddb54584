package engine

import (
	"fmt"
)

// maxBuckets bounds a horizon.
const maxBuckets = 10000

// Horizon says how many messages fall due when.
type Horizon struct {
	FromMs, StepMs int64
	Counts         []int64 // of [FromMs + i·StepMs, FromMs + (i+1)·StepMs)
	// ScannedTo is a due time, ms, before which everything is counted, and nothing from there on: counters know all, a scan
	// may not come to the end. Asking again from there gives the rest. It is always above FromMs.
	ScannedTo int64
	// Position: the answer may leave when the log is released up to here.
	Position Offset
}

// Horizon counts waiting messages by due time, in steps from fromMs to toMs. Over all topics and in whole hours it is
// exact, and costs nothing: the fold counts them. For one topic, or finer steps, it looks at a bounded number of entries
// and says how far it came. Safe for concurrent use.
func (e *Engine) Horizon(topic string, fromMs, toMs, stepMs int64) (Horizon, error) {
	if stepMs < 1 || toMs <= fromMs || fromMs < 0 || toMs > maxDueMs+1 {
		return Horizon{}, fmt.Errorf("%w: horizon from %d to %d ms in steps of %d", ErrBadCommand, fromMs, toMs, stepMs)
	}
	n := (toMs - fromMs + stepMs - 1) / stepMs
	if n > maxBuckets {
		return Horizon{}, fmt.Errorf("%w: horizon of %d steps, allowed are %d", ErrBadCommand, n, maxBuckets)
	}
	h := Horizon{FromMs: fromMs, StepMs: stepMs, Counts: make([]int64, n), ScannedTo: toMs}
	if topic == "" && fromMs%hourMs == 0 && stepMs%hourMs == 0 && toMs%hourMs == 0 {
		e.countHours(&h, toMs)
		return h, nil
	}
	return h, e.countScan(&h, topic, toMs)
}

func (e *Engine) countHours(h *Horizon, toMs int64) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	h.Position = e.asOf()
	add := func(hour, count int64) { h.Counts[(hour*hourMs-h.FromMs)/h.StepMs] += count }
	from, to := h.FromMs/hourMs, toMs/hourMs
	if to-from < int64(len(e.st.Hours)) { // timers over a century are 876,000 hours
		for hour := from; hour < to; hour++ {
			if count := e.st.Hours[hour]; count != nil {
				add(hour, *count)
			}
		}
		return
	}
	for hour, count := range e.st.Hours {
		if hour >= from && hour < to {
			add(hour, *count)
		}
	}
}

// horizonPages bounds what one call looks at.
const horizonPages = 16

// countScan counts what a listing gives, up to where it came: what is due then may not be complete and is left out, so that
// the next call, from there, counts nothing twice. The first millisecond is always counted to its end, else a call that
// begins in a large one would never come further.
func (e *Engine) countScan(h *Horizon, topic string, toMs int64) error {
	f := Filter{Topic: topic, FromMs: h.FromMs, ToMs: toMs}
	token, due, count := "", int64(0), int64(0) // messages of the last millisecond
	for pages := 0; pages < horizonPages || h.ScannedTo == h.FromMs; pages++ {
		page, err := e.Pending(f, token, maxPendingCount)
		if err != nil {
			return err
		}
		for _, w := range page.Messages {
			if w.DueMs != due {
				due, count = w.DueMs, 0
			}
			count++
			h.Counts[(w.DueMs-h.FromMs)/h.StepMs]++
		}
		h.ScannedTo, h.Position = min(page.ScannedTo, toMs), page.Position
		if token = page.Next; token == "" {
			return nil
		}
	}
	if due == h.ScannedTo {
		h.Counts[(due-h.FromMs)/h.StepMs] -= count
	}
	return nil
}
