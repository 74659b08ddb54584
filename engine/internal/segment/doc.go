// Package segment keeps an append-only array of fixed-size cells in files of equal size. ConsumeQueues and schedule
// queues are such arrays.
//
// An Array is a cache of the fold over the CommitLog. It is durable by reference: a checkpoint records a State, which
// says how many cells are in files and holds the few that are not, and Open believes it. What the files hold beyond
// that was written before a crash, is never read, and is overwritten when the array gets there again.
//
// The writer calls Append, and at a checkpoint Mark. A job gives the mark to Flush, which writes what is worth writing,
// syncs it, and returns the State to record. When the checkpoint is durable the writer calls Installed with that State
// and the memory of flushed cells goes. Trim gives up cells at the front; a job calls Delete to unlink their files when
// no checkpoint refers to them any more.
//
// # Format
//
// A file is named by the index of its first cell, 20 decimal digits, a multiple of the number of cells per file. All
// integers are big-endian.
//
//	+------------+--------------+-----------+---------------+---------------+
//	| magic (8B) | version (4B) | cell (4B) | per file (4B) | reserved (4B) |
//	+------------+--------------+-----------+------------+--+-------+-------+
//	| ident (16B)  | first (8B)   | reserved (12B)       | crc (4B) |    header, 64 bytes in all
//	+--------------+--------------+----------------------+----------+
//	| cell 0 | cell 1 | …                                                per file × cell bytes
//	+------------------------------------------------------
//
//	 0  magic      8   says which kind of array it is
//	 8  version    4   1
//	12  cell       4   bytes of a cell
//	16  per file   4   cells of a full file
//	20  reserved   4   written zero, ignored
//	24  ident     16   two numbers that name the array, so that a file of another one is seen
//	40  first      8   index of cell 0, as in the name
//	48  reserved  12   written zero, ignored
//	60  crc        4   crc32c of bytes 0 to 59
//
// Cell n of the array is at 64 + (n - first) × cell. Cells carry their own CRC (see Checksum); the array does not look
// into them. A file is as long as what was written to it. The header's length and its CRC stay in every version;
// another layout of the rest is a new version, and a program refuses a version that is newer than its own.
//
// A state in a checkpoint is
//
//	+------------+--------------+-----------+------+
//	| first (8B) | flushed (8B) | tail (4B) | tail |    20 bytes and the tail, tail = its length in bytes
//	+------------+--------------+-----------+------+
package segment
