// Package idempotency finds the messages that were put with an idempotency key, for as long as the window of keys lasts.
//
// It follows the fold over the log: an entry for each such message, hash and position. What came since the last
// checkpoint is a table in memory; a checkpoint writes it as a run, a file of entries sorted by hash, and lists the runs
// that there are. So memory is bounded by the log between two checkpoints, whatever the number of keys. A look-up goes
// over the table and the runs, newest first, and reads a block or two of each run.
//
// A run that a checkpoint writes takes older ones in: small ones, and, when there are four of about one size, those. So
// there are three of each size, 65,536 to 16 million entries, and beyond that one for each 16 million keys in the window;
// an entry is written some five times. A run that cannot be read is left as it is, and the others behind it are merged:
// damage is met by who looks for a key, and keeps no checkpoint from being made.
//
// A hash says nothing for sure: whoever finds an entry reads the message and compares the key.
//
// # Hash
//
// The first 8 bytes of SHA-256 over the topic's id (4 bytes) and the key. It is part of the file format.
//
// # Files
//
// A run has the entries of the messages at positions [from, to) of the log. Its file is named by both, 20 digits each, with
// a "-" between. Integers are big-endian, a CRC is CRC-32C, reserved bytes are written zero and ignored when read.
//
//	+-----------+-------------+--------------+------------+----------+--------+-----------+--------------+---------------+---------+
//	| magic (8) | version (4) | reserved (4) | log id (8) | from (8) | to (8) | count (8) | last log (8) | reserved (4)  | crc (4) |
//	+-----------+-------------+--------------+------------+----------+--------+-----------+--------------+---------------+---------+
//	  header, 64 bytes: magic "TWIDEMPO"; version 1; number of entries, at least 1; logTime of the last one, ms; crc over the
//	  60 bytes before it
//
//	+----------+--------------+ … +--------------+---------+
//	| hash (8) | position (8) |   | reserved (12)| crc (4) |
//	+----------+--------------+ … +--------------+---------+
//	  block, 4,096 bytes: 255 entries, sorted by hash and position; in the last block zeros follow those that there are; crc
//	  over the block's number, 8 bytes, and the bytes of the block before the crc
//
// The section of a checkpoint lists the runs, oldest first:
//
//	low 8 | memory 8 | count 4 | runs: from 8, to 8, entries 8, last log 8, each
//
// where low is a position before which entries were dropped, since their time was over, and memory the position from which
// on the table goes: that of the checkpoint.
//
// Rule for growth: the header of a file keeps its layout for ever; everything else raises the version, and a reader refuses a
// version above its own. The section never grows: what has another layout gets another kind of section.
package idempotency
