// Package arrays keeps a set of arrays of cells (package segment), each under a number. The ConsumeQueues of an engine
// are such a set, its schedule queues another.
//
// A Kind says what the arrays of a set have in common; what its owner makes of an array is a Q. A set becomes durable by
// a checkpoint: Set.Mark at a batch boundary, Set.Flush in a job, the states that it returns into the checkpoint,
// Set.Installed and then Set.Delete when that is durable.
//
// # Format
//
// The checkpoint section of a set, in big-endian integers, is
//
//	+---------------+------------+   +-------------+-------+
//	| per file (4B) | count (4B) | ( | number (8B) | state | ) × count, ascending by number
//	+---------------+------------+   +-------------+-------+
//
//	per file  cells of a full file, the same for all arrays; 0 only if there are none
//	state     of the array, as package segment describes it
//
// A change of the layout is another kind of section.
package arrays
