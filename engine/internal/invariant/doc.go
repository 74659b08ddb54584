// Package invariant holds assertions about the engine's own memory. They are compiled in with the build tag
// "invariants", in tests, and cost nothing without it:
//
//	invariant.That(l.dispatched <= l.flushed, "dispatched %d is beyond flushed %d", l.dispatched, l.flushed)
//
// A condition that costs something to compute stands behind the constant On, so that the compiler drops it:
//
//	if invariant.On {
//		invariant.That(slices.IsSorted(keys), "keys are not in order")
//	}
//
// Bytes from disk, a caller's arguments and what a file system answers are never asserted: those are errors.
package invariant
