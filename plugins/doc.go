// Package plugins runs WASM plugins that decide about messages, and keeps them from hurting the process they run in.
//
// A plugin is a file that speaks the ABI of package abi. The caller makes one Runtime per process, loads files with
// Runtime.Load (checks, fuel, compilation, a first instance), and makes a Plugin of each module. Plugin.Decide then takes
// batches of records and returns one decision per record. Loader does the same for files in a directory, and exchanges them
// while the process runs.
//
// What a plugin can't do, whatever is in its file:
//
//   - run for ever: its module counts steps down, see package fuel. The count is deterministic. On the way the module passes
//     through the runtime again and again, so that neither the garbage collector nor another goroutine waits for a call to end.
//   - take memory: Limits.MemoryMax is for one instance, and NewPlugin refuses what would exceed Options.MemoryTotal in sum.
//   - take compile time: package wasm refuses shapes that compilers are slow on, before they see them.
//   - see the world: there is no file, no socket, no environment, no clock but the batch's, no random number but from a seed.
//   - answer nonsense: every pointer, length and verdict is checked.
//   - take others down with it: when it dies on a record, that record alone is decided by the failure policy (Policy), the
//     others go to a fresh instance, and the failure says why. A plugin that only dies is quarantined.
//
// The package has no clock of its own: times come with the calls. Goroutines are only started to load and to close, and Close
// waits for them.
package plugins
