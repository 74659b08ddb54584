package httpapi_test

import "sync/atomic"

// clock is a wall clock that stands until it is set. It is safe for concurrent use.
type clock struct{ at atomic.Int64 }

func (c *clock) ms() int64    { return c.at.Load() }
func (c *clock) set(ms int64) { c.at.Store(ms) }
