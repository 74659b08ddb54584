// Package bench measures a store: how much it takes in a second, how late its messages come, what it needs of memory and
// disk, and whether it loses, repeats or hastens any of them meanwhile. It is what `tidewheel bench` runs.
//
//	r, err := bench.Run(ctx, bench.Config{Bench: bench.Fire, Exe: exe, Count: 100_000})
//	if err == nil && !r.OK() { … } // something was lost, twice or early
//
// # Where the store runs
//
// Without a URL the store and its load run in a child process, which this package starts with the hidden verb that calls
// Child: then memory and processor time are those of the store (with a generator and a ledger that take little), and it
// can be killed for real. The parent keeps the account. With a URL the load goes to that server over HTTP, from here.
//
//	parent: Run ──requests, a line of JSON each──► child: Child ──► broker
//	   ▲                                              │
//	   └────acknowledged numbers, progress, results───┘
//
// # How load is made
//
// Messages have sequence numbers. With a rate the load is an open loop: batch i is sent at its time, and a batch that had
// to wait for its turn has waited since then, so a store that stalls can't hide it. Without a rate each client sends
// again when it was answered.
//
// With a plugin the load of Fire is sent twice, the second time into a topic whose messages the plugin decides about when they are
// due, in the same store. Both times another topic, of which the plugin knows nothing, has messages that fall due meanwhile.
//
// # How it is judged
//
// Each number is sent once. A number that was acknowledged and does not come is lost; one that stands in its topic more
// often than once is twice; one that is read before its due time, by the clock of this machine, is early. What is due
// after the run is counted where it waits. Run returns the counts; none of them is allowed to be above 0.
//
// # What the disk does
//
// The times of an answer and of a delivery are those of an fsync and a little more. So each run also measures what an
// fdatasync of 4 KiB takes on the same file system, before the load and after it, with the store at rest.
package bench
