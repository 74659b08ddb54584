package enginetest

import (
	"sync/atomic"
	"time"
)

// Clock is a wall clock and a monotonic one that move only when told. It is safe for concurrent use.
type Clock struct {
	wallMs atomic.Int64
	monoNs atomic.Int64
}

// NewClock returns a clock whose wall stands at wallMs, milliseconds since 1970.
func NewClock(wallMs int64) *Clock {
	c := &Clock{}
	c.wallMs.Store(wallMs)
	c.monoNs.Store(int64(time.Hour)) // any origin, but not zero, so that nobody takes it for one
	return c
}

// Wall is the time of day in milliseconds since 1970, for engine.Env.
func (c *Clock) Wall() int64 { return c.wallMs.Load() }

// Mono is the monotonic reading in nanoseconds, for engine.Env.
func (c *Clock) Mono() int64 { return c.monoNs.Load() }

// Pass lets time pass: both clocks go on by d, which must not be negative.
func (c *Clock) Pass(d time.Duration) {
	c.monoNs.Add(int64(d))
	c.wallMs.Add(d.Milliseconds())
}

// Step sets the wall clock by d, either way; the monotonic clock does not notice.
func (c *Clock) Step(d time.Duration) { c.wallMs.Add(d.Milliseconds()) }

// Restart is a stop of the machine for d of wall time: the monotonic clock begins anew.
func (c *Clock) Restart(d time.Duration) {
	c.wallMs.Add(d.Milliseconds())
	c.monoNs.Store(int64(7 * time.Second))
}

// clone returns a clock that shows the same and moves on its own.
func (c *Clock) clone() *Clock {
	n := &Clock{}
	n.wallMs.Store(c.Wall())
	n.monoNs.Store(c.Mono())
	return n
}
