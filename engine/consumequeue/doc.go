// Package consumequeue holds the ConsumeQueues: for each queue of each topic, in the order of queue offsets, where in
// the CommitLog the messages are that have become visible.
//
// The writer appends a unit for each message that becomes visible, with Queue.Append, and lets readers see it with
// Queue.Release when the log is durable up to there: Queue.Units never shows more. Queue offsets are dense: the first
// unit of a new queue has offset 0, each other one more than the one before. Queue.Trim raises the minimum offset.
//
// ConsumeQueues are a cache of the CommitLog and become durable by a checkpoint: Set.Mark at a batch boundary,
// Set.Flush in a job, the states that it returns into the checkpoint, Set.Installed and then Set.Delete when that is
// durable.
//
// # Format
//
// The units of a queue are in consumequeue/<topic id>/<queue>/<20-digit index>, files of package segment with the magic
// "twconsmq" and cells that are units, 262,144 to a file (8 MiB). All integers are big-endian.
//
//	+---------------+-----------+-----------+--------------+------------+----------+
//	| position (8B) | size (4B) | tags (4B) | logTime (8B) | flags (4B) | crc (4B) |      one unit, 32 bytes
//	+---------------+-----------+-----------+--------------+------------+----------+
//
//	position  of the message's record in the CommitLog
//	size      of the record in bytes
//	tags      hash of the message's tag, for filters
//	logTime   time of the log in ms when the message became visible; it never falls within a queue
//	flags     bit 0 hole: the message is lost, position and size say which bytes; bit 1 stub: it went to the dead
//	          letters; other bits are written zero and kept when read
//	crc       crc32c of the queue offset as 8 bytes and of the 28 bytes before it
//
// The queue offset in the CRC makes a unit in the wrong place as bad as a damaged one. The identity in the header of a
// file is (log id, topic id << 32 | queue). A unit of another size or meaning is a new version of the file.
//
// A checkpoint section of ConsumeQueues is
//
//	+---------------+------------+   +------------+------------+-------+
//	| per file (4B) | count (4B) | ( | topic (4B) | queue (4B) | state | ) × count, ascending by topic and queue
//	+---------------+------------+   +------------+------------+-------+
//
// with a state as package segment describes it: a section of package arrays whose numbers are topic << 32 | queue. A
// change of the layout is another kind of section.
package consumequeue
