// Package broker makes the passive engine concurrent: any number of goroutines put, cancel, pull and commit, and each
// gets its answer when it is durable. It is the public face for a program that embeds Tidewheel.
//
//	b, err := broker.Open(broker.Env{FS: fs}, ".", broker.Options{})
//	defer b.Close()
//	r, err := b.Put(ctx, broker.Message{Topic: "orders", Body: body, At: broker.In(30 * time.Minute)})
//	moved, err := b.Move(ctx, r.Handle, dueMs)
//	outcome, err := b.Cancel(ctx, moved.Handle)
//	for w, err := range b.Timers(ctx, engine.Filter{Topic: "orders"}) { … }
//	err = b.Consume(ctx, "orders", "billing", handler, broker.ConsumeOptions{})
//	err = b.Pull(ctx, broker.PullRequest{Topic: "orders", Group: "billing", Wait: 20 * time.Second}, &pulled)
//
// # Consumer groups
//
// A group's pull leases messages under receipts. Leases, and what was acked above a message that was not, are in memory;
// committed offsets, retries and dead letters are in the log, and each of Ack, Retry and Reject returns when its part of
// that is durable. A retry is a copy in the topic %RETRY%group that waits as any message with a level does; a dead letter is
// a copy in %DLQ%group. Acks gather while a commit of their group is on its way, as puts do during an fsync. No lease has a
// timer or a goroutine: the writer wakes when the first one ends.
//
// # Hooks
//
// Hooks decide about messages: Publish in the goroutine of whoever puts, before anything is stored; Consume in that of a group's pull,
// between reading and leasing; Due in a worker. None of them is called by the writer, with a lock, or after Close has returned.
//
// Due messages of a topic with a Due hook stand in its stage, the topic %STAGE%topic, which belongs to the broker. While something is
// there, a worker reads it, asks, and has what was decided settled (engine.Settle): verdicts, and what takes the place of messages, in
// one batch. Settles of a queue are done in order, two on their way at a time: when one is refused, so is the next, and the worker finds
// the message that is to blame by settling one by one; its verdict becomes a dead letter's. What a crash takes is asked about again, and
// what is in the log is not.
//
// # Goroutines
//
// A broker has one writer, one goroutine that syncs, and a few workers; one more for each stage in which something is. Close waits for
// all of them.
//
//	callers ──requests──► writer: Append · Commit · Tick · Install ──jobs──► workers: Job.Run
//	   ▲                     │  ▲                                               │
//	   └──────answers────────┘  └── syncer: Sync ◄───────── finished jobs ──────┘
//
// Group commit has no timer: while one fsync runs, requests gather; when it is done, they become one batch, one write
// and the next fsync. So a lone put on an idle broker waits for exactly one fsync, and a thousand at once wait for one
// or two. Only when more gathers than a batch can hold is it appended beside the running fsync.
//
// The writer sleeps until the engine's next due time, and no longer than a second, so that no wake-up can be missed for
// good and a step of the clock is seen.
//
// Every answer, read and wake-up is held until the log is durable up to the point where it was computed, also a refusal
// and a read that changed nothing: before that, a power cut can undo what it is based on.
//
// # Clocks
//
// The zero Env takes the time from package time. In a testing/synctest bubble that is the bubble's clock, so on a file
// system in memory two hours of delay pass in the time it takes to run the deliveries.
package broker
