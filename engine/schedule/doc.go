// Package schedule holds the messages that wait for a fixed delay: the table of delay levels, and one schedule queue
// for each delay value.
//
// Messages of one delay fall due in the order in which they were stored, so a queue is sorted by construction and
// delivery reads it from its head, in order. RocketMQ shows the same as topic SCHEDULE_TOPIC_XXXX, queue level - 1;
// here a queue belongs to the delay value and not to the level, so that a new table opens new queues and the old ones
// drain: a message in flight keeps its time.
//
// The writer appends entries with Queue.Append and calls Queue.Trim when all before an index were delivered. The queues
// are a cache of the CommitLog and become durable by a checkpoint: Set.Mark at a batch boundary, Set.Flush in a job,
// the states that it returns into the checkpoint, Set.Installed and then Set.Delete when that is durable.
//
// # Format
//
// The entries of a delay are in schedule/<delay in ms>/<20-digit index>, files of package segment with the magic
// "twschedq" and 56-byte cells, 65,536 to a file. All integers are big-endian.
//
//	+-------------+----------+
//	| entry (52B) | crc (4B) |      one cell, 56 bytes
//	+-------------+----------+
//
//	entry   timerlog.Entry: due, id, position, size, topic, queue, tags, key hash, flags
//	crc     crc32c of the cell's index as 8 bytes and of the entry
//
// The index in the CRC makes a cell in the wrong place as bad as a damaged one. Entries ascend strictly by (due, id).
// The identity in the header of a file is (log id, delay in ms). An entry of another size is a new version of the file.
//
// A checkpoint section of schedule queues is
//
//	+---------------+------------+   +------------+-------+
//	| per file (4B) | count (4B) | ( | delay (8B) | state | ) × count, ascending by delay
//	+---------------+------------+   +------------+-------+
//
// with a state as package segment describes it: a section of package arrays whose numbers are delays. A change of the
// layout is another kind of section.
package schedule
