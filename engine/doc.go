// Package engine is Tidewheel's durable delay engine: messages go in, with a delay or without, and become visible in
// their topic at their time, never early, exactly once, also after a crash.
//
// The engine is passive. It starts no goroutine, reads no clock and opens no file but through Env, so the same code
// runs in a server, in a simulation that lasts a month in a second, and as a WASM guest. The caller's duties, in a loop:
//
//	answers, pos, err := e.Append(commands) // decide, encode and fold; nothing is written yet
//	err = e.Commit()                        // write what was appended; no fsync
//	pos, err := e.Sync()                    // fsync; may run on one other goroutine, beside the next Append
//	e.Release(pos)                          // what was computed up to here may leave: answers, reads, wake-ups
//	status := e.Tick()                      // deliver a chunk of what is due; say what to do next and when
//	err = job.Run()                         // for each of status.Jobs, on any goroutine
//	done := e.Install(job)                  // link the job's result, a slice at a time
//
// Append, Tick, Commit and Install belong to one goroutine, the writer. An answer, also a refusal and one that wrote
// nothing, may reach its asker only when the position that came with it is released: before that, a power cut can undo
// what it was computed from. Solo does all of this in one goroutine, for guests, tests and small programs.
//
// # Stages
//
// A topic can be staged (StageTopic, Options.Stage): what is due in it goes to its stage, a topic of its own, and becomes
// visible when a Settle has kept it. A Settle is the commit of what plugins decided about messages of a queue: each offset once,
// with what takes the messages' place, in one batch. The engine asks no plugin; it keeps what was decided.
//
// # What is where
//
// The CommitLog (package commitlog) is the only truth: every message, delivery, cancel, committed offset and topic is a
// record in it, and the state is a fold over it (package internal/state). All other files are caches of that fold, and
// Rebuild makes them again:
//
//	meta                     who this store is (internal/meta)
//	keys                     keys of handles (handle)
//	lock                     held while a process has the store open
//	commitlog/               the segments, and the mark: how far they are known to be durable (commitlog)
//	consumequeue/<topic>/<queue>/  what is visible, by queue offset (consumequeue)
//	schedule/<delay>/        messages of one delay value, in order of due time (schedule)
//	timerlog/loose/          waiting messages that are out of that order (timerlog)
//	statebits/, seenbits/    what became of each waiting message (statebits)
//	idempotency/             the messages with an idempotency key (internal/idempotency)
//	checkpoint/a, b          where a restart begins (internal/checkpoint)
package engine
