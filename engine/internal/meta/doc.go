// Package meta is the file that says that a directory is a data directory of Tidewheel, of which store, and made how. It is
// written once, before anything else, and never changed.
//
// Open a store with Load. If it returns fs.ErrNotExist the directory is new: make the store with Create.
//
// # File
//
// The file is named meta. Integers are big-endian. Reserved bytes are written zero and ignored when read.
//
//	+-----------+-------------+-----------+--------------+------------+-------------+-------------+---------------+---------+
//	| magic (8) | version (4) | lanes (4) | store id (8) | log id (8) | created (8) | node id (8) | reserved (12) | crc (4) |
//	+-----------+-------------+-----------+--------------+------------+-------------+-------------+---------------+---------+
//	  64 bytes: magic "TIDEWHEL"; version of the whole data directory; created in ms since 1970; crc is CRC-32C over the 60
//	  bytes before it
//
// Rule for growth: this layout is kept for ever, so that every program can tell which version it has before it. A new field
// goes into reserved bytes; a change of any file that older programs must not touch raises the version.
package meta
