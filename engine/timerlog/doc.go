// Package timerlog is the TimerLog: the append-only files in which pending messages wait on disk, sorted by the time
// they fall due. It is a cache of the fold over the CommitLog and can be made again from it.
//
// A Log is one family of files. A ring has a family of its own, and so have loose runs, which belong to no ring. What is
// appended is a run, a sorted memtable, as groups, one for each slot of the ring (a loose run is one group); or a spill,
// the entries that a checkpoint saves from memtables. A group or spill is known by its Ref, which a checkpoint or a slot
// remembers. Nothing in a file says that it is alive: what no Ref names is garbage, and Delete removes files that are
// all garbage.
//
// Use, in order: Open with the State that the newest checkpoint recorded, and Verify the refs that it holds. A job
// writes with WriteGroup and WriteSpill and then calls Sync; only after that may a checkpoint record refs and the State.
// When the checkpoint is committed, Delete. Meanwhile anybody reads what refs name, with Cursor in order and with Each.
//
// # Files
//
// A file is named <dir>/<family>/<number>, the number in 20 digits, counted from 1. Integers are big-endian. A CRC is
// CRC-32C. Reserved bytes are written zero and ignored when read.
//
//	+-----------+-------------+--------------+-------------+------------+-------------+---------------+----------+
//	| magic (8) | version (4) | reserved (4) | family (16) | ident (8)  | number (8)  | reserved (12) | crc (4)  |
//	+-----------+-------------+--------------+-------------+------------+-------------+---------------+----------+
//	  file header, 64 bytes: magic "TWTIMERL"; version 1; family zero-padded; crc over the 60 bytes before it
//
//	+-----------+---------+----------+----------+--------------+-----------+----------+----------------+
//	| magic (4) | crc (4) | kind (1) | ring (1) | reserved (2) | count (4) | slot (8) | prev file (8)  |
//	+-----------+---------+----------+----------+--------------+-----------+----------+----------------+
//	| prev offset (8)     | min due (8)         | min id (8)   | max due (8)          | max id (8)     |
//	+---------------------+---------------------+--------------+----------------------+----------------+
//	| length of the blocks (8)                                                                         |
//	+--------------------------------------------------------------------------------------------------+
//	  group header, 80 bytes: magic "TWGR"; kind 1 group, 2 spill; slot −1 in a loose run and a spill; prev −1, −1 when
//	  the group has none; crc over file number (8), offset of the header (8), and the header from kind on
//
//	+---------+-----------+--------------+----------------------+
//	| crc (4) | count (2) | reserved (2) | entries (count × 52) |
//	+---------+-----------+--------------+----------------------+
//	  block, at most 13,320 bytes: every block of a group has 256 entries except the last; crc over file number (8), offset
//	  of the block (8), the group's crc (4), and the block from count on
//
//	+---------+--------+--------------+----------+-----------+-----------+----------+--------------+-----------+
//	| due (8) | id (8) | position (8) | size (4) | topic (4) | queue (4) | tags (4) | key hash (8) | flags (4) |
//	+---------+--------+--------------+----------+-----------+-----------+----------+--------------+-----------+
//	  entry, 52 bytes
//
// A CRC covers the place, so bytes that were written elsewhere, or for another group, are seen.
//
// In a group entries ascend strictly by (due, id); in a spill they stand as they came, and min and max are over all.
// Groups follow each other without a gap. What lies beyond a file's recorded length was not committed: it is never read,
// and overwritten by the next group. A file is closed to further groups at the size of Options; a single group may make
// it longer.
//
// Rule for growth: the file header keeps its layout for ever. A new field goes into reserved bytes if old readers may
// ignore it; everything else raises the version, and a reader refuses a version above its own.
package timerlog
