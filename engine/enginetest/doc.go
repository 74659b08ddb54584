// Package enginetest is for tests of the engine and of what is built on it: an engine that is checked when the test
// ends, a clock that only the test moves, a model that judges what the engine answers, and random histories that drive
// both.
//
// A test of something built on the engine wants Open: a store in memory, one goroutine, and at the end Check and the
// comparison with a rebuild from the log.
//
//	s := enginetest.Open(t, enginetest.Config{})
//	answers := s.Do(&engine.Put{Topic: "orders", Level: 1, Queue: engine.AnyQueue, Body: body})
//	s.Pass(time.Second) // the clock moves, what is due is delivered
//
// A test of the engine itself wants a Sim: an engine driven call by call, with answers, syncs and jobs as late and in
// as odd an order as the contract allows, on a file system that can lose power. A History is a list of such calls that
// a seed makes; any part of a history is a history, so one that fails can be made shorter (Shrink). The Model hears of
// every answer when it is released, not before, and judges by the promises alone:
//
//   - what was acknowledged is there, once, in its topic, with its bytes, at one offset for ever;
//   - nothing is early by the wall clock, against the due time that was asked for;
//   - messages of a topic fall due in the order of (due, id), so those of a level in the order of storing;
//   - queue offsets are dense and never go back; neither do committed offsets;
//   - a cancel or a move was answered once and for all;
//   - what was refused or clamped had a reason;
//   - the counts are the truth.
//
// An operation whose answer was not released when the power went may have happened or not, but with all before it or
// not at all; the model finds out from the store which, and holds the store to it from then on.
//
// The package comment of package engine says what the calls may do. Environment variables: TIDEWHEEL_VOLUME is how
// much a sweep does ("" as part of go test, "ci", "campaign"), TIDEWHEEL_SEED makes it replay one seed, loudly.
package enginetest
