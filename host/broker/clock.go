package broker

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidewheel/tidewheel/engine"
)

// ManualClock is a clock that stands still until it is moved by hand: two days pass at once for whoever tests a
// reminder of two days. Its Wall and Mono are for an Env; tell the broker of a move with CatchUp. It is safe for
// concurrent use.
type ManualClock struct {
	startMs int64
	movedNs atomic.Int64
}

// clockEndMs is where a ManualClock ends, ms since 1970: no message can be due later.
const clockEndMs = 253402300799999 // the end of the year 9999

// NewManualClock makes a clock that shows a time, ms since 1970.
func NewManualClock(startMs int64) *ManualClock { return &ManualClock{startMs: startMs} }

// Wall is the time of day, ms since 1970.
func (c *ManualClock) Wall() int64 { return c.startMs + c.movedNs.Load()/int64(time.Millisecond) }

// Mono is how far the clock was moved, ns.
func (c *ManualClock) Mono() int64 { return c.movedNs.Load() }

// Advance moves the clock forward and returns the time that it shows then, ms since 1970. Backwards, and beyond the
// year 9999 or 292 years, is an error of kind ErrRequest, and the clock stays.
func (c *ManualClock) Advance(d time.Duration) (wallMs int64, err error) {
	if d < 0 {
		return 0, fmt.Errorf("%w: a clock is not moved back, by %v", ErrRequest, d)
	}
	for {
		old := c.movedNs.Load()
		most := math.MaxInt64 - old
		if ms := clockEndMs - c.Wall(); ms < most/int64(time.Millisecond) {
			most = ms * int64(time.Millisecond)
		}
		if int64(d) > most {
			return 0, fmt.Errorf("%w: a clock that is moved by %v leaves what can be told", ErrRequest, d)
		}
		if c.movedNs.CompareAndSwap(old, old+int64(d)) {
			return c.startMs + (old+int64(d))/int64(time.Millisecond), nil
		}
	}
}

// CatchUp returns when whatever was due by the broker's clock at the call is delivered and durable, and of what is in stages
// everything is decided that hooks decide at once. It makes the broker
// look at its clock, which it does once a second otherwise: call it after a ManualClock was moved. While something
// cannot be delivered (Stats says so) it waits until the context ends.
func (b *Broker) CatchUp(ctx context.Context) error {
	at := make(chan engine.Offset, 1)
	b.asks.add(at)
	b.queue.signal()
	select {
	case pos := <-at:
		if err := b.gate.wait(ctx, pos); err != nil {
			return err
		}
		return b.stages.quiet(ctx)
	case <-b.closing:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err() // the writer answers into the channel's buffer
	}
}

// asks are callers of CatchUp. It is safe for concurrent use.
type asks struct {
	mu      sync.Mutex
	waiting []chan<- engine.Offset
}

func (a *asks) add(at chan<- engine.Offset) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, at)
}

// answer tells them the position up to which the log has to be released.
func (a *asks) answer(pos engine.Offset) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, at := range a.waiting {
		at <- pos
	}
	a.waiting = nil
}

// caughtUp answers the callers of CatchUp once nothing is due: what was due stands in the log below its end. After a
// failure the gate refuses every position, and says why.
func (w *writer) caughtUp() {
	switch {
	case w.failed != nil:
		w.b.asks.answer(math.MaxInt64)
	case w.next > w.b.env.Wall() && !w.troubled():
		w.b.asks.answer(w.appended)
	}
}

// troubled says that the last Tick could not deliver something.
func (w *writer) troubled() bool {
	text := w.b.trouble.Load()
	return text != nil && *text != ""
}
