// Package statebits keeps two bits for every message id that say what a (due, id) alone does not: that it was cancelled,
// that it was superseded by a move, or that it is late and pending. An id without bits is regular: pending if it is above
// the frontier, delivered if not.
//
// Ids are dense, so the bits are an array, in chunks of 65,536 ids, 16 KiB each. A chunk has a page from its first bit
// that is not zero until it is closed; the Table says which chunks have one. Pages that were not changed lately are read
// from disk when they are asked for and dropped again, within a bounded cache.
//
// Pages change in place, which is only safe behind a checkpoint that can repeat the change. So, for each checkpoint:
//
//  1. At its batch boundary the writer calls Freeze and Table. The pages changed since the last checkpoint are shared with
//     the checkpoint, not copied; a later Set copies the page that it changes.
//  2. A job writes both copies of the checkpoint, with the pages and the table in it.
//  3. Then a job calls WritePages, which writes the pages in place and syncs.
//  4. Then the writer calls Thaw, and a job may call DeleteClosed with the table of this checkpoint.
//
// If the checkpoint could not be written there is no Thaw, and the next Freeze returns the pages again. After a restart
// Open gets the checkpoint's table, and Redo every page that it holds.
//
// # Files
//
// A file is named by its first chunk, in 20 digits, and has room for 256 chunks; the page of chunk c stands at byte
// (c mod 256) × 16,416. A page that was never written is not read, whatever stands there. Integers are big-endian, a CRC
// is CRC-32C, reserved bytes are written zero and ignored when read.
//
//	+-----------+-------------+-----------+-----------+--------------+---------+----------------+
//	| magic (4) | version (4) | chunk (8) | ident (8) | reserved (4) | crc (4) | bits (16,384)  |
//	+-----------+-------------+-----------+-----------+--------------+---------+----------------+
//	  page, 16,416 bytes: magic "TWSB"; version 1; ident is the store's id; crc over the 28 bytes before it and the bits
//
// The two bits of id i are bits 2×(i mod 4) and above, counted from the least, of byte (i mod 65,536) / 4:
// 0 regular, 1 cancelled, 2 superseded, 3 late and pending.
//
// Rule for growth: the page header keeps its layout for ever; whatever old readers may not ignore raises the version, and
// a reader refuses a version above its own.
package statebits
