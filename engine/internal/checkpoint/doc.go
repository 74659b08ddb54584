// Package checkpoint is the container of redo checkpoints: sections of bytes, with the log position up to which they are
// the state, in two files that are complete or not there. It does not know what a section means.
//
// A checkpoint is written as two copies, CopyA and CopyB, one after the other, with equal content. Nothing may change in
// place and nothing may be deleted before both are there; so whichever copy a restart finds, what it refers to is there.
// Load takes the newer copy that is whole, and Settle makes the other one equal before anything goes on.
//
// # Files
//
// Integers are big-endian. A CRC is CRC-32C. Reserved bytes are written zero and ignored when read.
//
//	+-----------+-------------+--------------+---------+-------+--------------+------------+------------+--------------+---------+
//	| magic (8) | version (4) | sections (4) | seq (8) | X (8) | store id (8) | log id (8) | length (8) | reserved (4) | crc (4) |
//	+-----------+-------------+--------------+---------+-------+--------------+------------+------------+--------------+---------+
//	  header, 64 bytes: magic "TWCHECKP"; version 1; length of the whole file; crc over the 60 bytes before it
//
//	+----------+-----------+---------+------------+----------------+
//	| kind (2) | flags (2) | crc (4) | length (8) | data (length)  |
//	+----------+-----------+---------+------------+----------------+
//	  section: head of 16 bytes, then the data without padding; crc over the 16 bytes of the head with 0 in its place, and
//	  the data
//
//	+---------+-----------+
//	| end (4) | crc (4)   |
//	+---------+-----------+
//	  trailer, 8 bytes: end "TWEN"; crc over everything before it
//
// Rule for growth: the header keeps its layout for ever. A new kind of section may appear without a new version: readers
// that do not know it pass over it, unless its flag must-understand (1) is set; then they refuse, see File.Understood.
// Everything else raises the version, and a reader refuses a version above its own.
package checkpoint
