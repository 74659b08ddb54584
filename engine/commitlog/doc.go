// Package commitlog is the CommitLog: an append-only log of batches in segment files, the only synchronous write of the
// engine and its only truth. It knows framing, durability and recovery; what the records mean is the fold's business.
//
// # Use
//
//	l, err := commitlog.Open(fsys, "commitlog", id, commitlog.Options{})
//	rec, err := l.Recover(start, fold)   // finds the end, calls fold for each batch
//	for l.RotateNeeded() { l.Rotate() }  // the first segment of a new log
//	w, err := l.Begin(n, info)           // a state record first, then anything
//	pos := w.Open(kind, 0); w.Buf = append(w.Buf, payload...); w.Close()
//	w.Finish(0); l.Commit(); l.Sync()    // appended; in the file; durable
//
// Each method belongs to a thread:
//
//	the writer   Room, Begin, the Writer, Seal, Commit, SpareNeeded, SegmentUsed, LastCRC
//	one other    Sync
//	jobs         PrepareSpare, Rotate, PrepareReserve, WriteMark, DropBefore
//	any          ReadRecord, ReadRaw, Scan, SegmentOf, Segments, First, Size, End, Written, Durable, Mark,
//	             Incarnation, RotateNeeded, ReserveMissing, Close
//
// The package has no goroutine, no clock, and syncs only in Sync, in jobs and in Recover.
//
// # Positions
//
// A position is the base of a segment plus the byte in its file, header included. The base of a segment is the end of
// the one before it; the first one of a log has base 0. A file is named by its base, 20 decimal digits. All integers
// are big-endian, all CRCs are crc32c (Castagnoli), all reserved bytes are written zero and ignored.
//
//	+--------+-------+-------+-----+------+--------------+--------+-------+-------+----
//	| header | batch | batch |  …  | seal |  blank       | header | batch | batch | …
//	+--------+-------+-------+-----+------+--------------+--------+-------+-------+----
//	0        512                          E                       E+512
//	file 00000000000000000000                            file of base E
//
// # Segment header
//
//	+------------+--------------+---------------+-------------+-----------+------+----------+
//	| magic (8B) | version (4B) | reserved (4B) | log id (8B) | base (8B) | zero | crc (4B) |    512 bytes
//	+------------+--------------+---------------+-------------+-----------+------+----------+
//
//	  0  magic     8   "TIDEWLOG"
//	  8  version   4   1
//	 12  reserved  4
//	 16  log id    8   shared by all replicas of a log
//	 24  base      8   as in the name
//	 32  reserved 476
//	508  crc       4   over bytes 0 to 507
//
// # Batch
//
// The unit of append and of atomicity. It begins at a multiple of 8 and is at most 8 MiB long. The replicated part and
// the content are the same on every replica; the local part says what this node knew.
//
//	+-----------------------+-----------------+--------+--------+-----+---------+
//	| replicated part (76B) | local part (36B)| record | record |  …  | zeros   |    a multiple of 8
//	+-----------------------+-----------------+--------+--------+-----+---------+
//
//	  0  magic         4   "TWBT"
//	  4  length        4   of the batch with padding, a multiple of 8
//	  8  crc           4   over bytes 0 to 7, 12 to 75, and 112 to the end
//	 12  previous crc  4   of the batch before, also across segments; 0 in the first batch of a log
//	 16  base          8   position of the batch
//	 24  epoch         4   of the writer, in a cluster; 0 alone
//	 28  writer        2   in a cluster; 0 alone
//	 30  flags         2   below
//	 32  append time   8   wall clock, ms since 1970, UTC
//	 40  log time      8   running time of the log, ms
//	 48  base id       8
//	 56  count         4   of records
//	 60  reserved     16
//	 76  durable       8   the log was known durable up to here when the batch was encoded
//	 84  incarnation   4   counts the times the log was opened for writing
//	 88  order gen     4   generation of the ordering log, in a cluster
//	 92  order pos     8   position in the ordering log
//	100  reserved      8
//	108  local crc     4   over the crc (bytes 8 to 11) and bytes 76 to 107
//
// Flags:
//
//	 1  seal             the segment ends behind this batch; it has no records
//	 2  must understand  a reader that does not know all flags refuses the log; the fold does so for kinds of records
//	 4  state            the batch is part of the segment's state record
//	 8  state end        and the last part
//	16  hole             stands for a range that was lost
//
// A hole is written by Repair alone. Its length goes up to 4 GiB - 8, its CRC covers bytes 0 to 75 without the crc, its
// content is not read and need not be in the file, and the previous crc of the batch behind it is not checked.
//
// # Record
//
//	+-------------+----------+-----------+------------+---------------+---------+
//	| length (4B) | crc (4B) | kind (1B) | flags (1B) | reserved (2B) | payload |
//	+-------------+----------+-----------+------------+---------------+---------+
//
// The length is that of the whole record; records are not aligned. The CRC covers the record's position, as 8 bytes,
// and all behind the CRC: a record is checked without its batch, and at another place it is not right. Kind 0 was never
// written. Kinds and flags belong to the fold.
//
// # Mark
//
// The file mark holds two slots of 64 bytes, at 0 and 4096, written in turn; the right one with the greater sequence
// number counts.
//
//	+------------+--------------+-------------+----------+--------------+---------------+------------------+----------------+----------+
//	| magic (4B) | version (4B) | log id (8B) | seq (8B) | durable (8B) | log time (8B) | incarnation (4B) | reserved (16B) | crc (4B) |
//	+------------+--------------+-------------+----------+--------------+---------------+------------------+----------------+----------+
//
// The magic is "TWMK", the CRC covers bytes 0 to 59. Recover writes one with the new incarnation before anything is
// appended, WriteMark one after idleness: the last batch before a crash has no later batch as a witness.
//
// # Redo
//
// The file redo is a copy of the end of the log, while Recover writes that in its place anew; an interrupted one is
// brought to its end by the next. Without it, a second power cut could tear sectors that had survived the first.
//
//	+------------+--------------+-------------+---------------+-------------+----------+----------------+----------+---------+
//	| magic (4B) | version (4B) | log id (8B) | position (8B) | length (8B) | sum (4B) | reserved (24B) | crc (4B) | content |
//	+------------+--------------+-------------+---------------+-------------+----------+----------------+----------+---------+
//
// The magic is "TWRD"; sum is the crc32c of the content, crc that of bytes 0 to 59.
//
// # Growth
//
// Magic, version and CRC of header and mark keep their places. Fields are added in reserved bytes when a reader that
// ignores them is right, with a flag and "must understand" when it would be wrong for some batches, and with a new
// version otherwise. A program refuses a version that is newer than its own (ErrNewerFormat) and reads all older ones.
//
// # Life of a segment
//
// Next first, seal second, state before all else:
//
//  1. The file next is created, preallocated, synced (PrepareSpare, when three quarters of the segment are used).
//  2. The writer appends the seal batch (Seal). Commit holds it back.
//  3. next gets its header, is synced, renamed to its base, and the directory is synced (Rotate).
//  4. Commit writes the seal batch, Sync makes the segment durable whole.
//  5. Begin goes on to the new segment, with its state record.
//  6. With the last batch of the state record durable, the segment counts.
//
// So whatever the crash: a sealed segment has a next one, or a file was lost; a file with the name of a segment has its
// header; and a segment with a batch has a durable one before it. A segment without a complete state record does not
// count: recovery blanks it if the one before is sealed, and removes it if not, since its base is not decided then. A
// segment that begins with a seal batch was removed so and came back; it is no part of the log.
//
// Where space can be preallocated, reserve segments (reserve.0, reserve.1, …) are kept; Rotate takes one when the disk is
// full.
//
// # Torn tail or damage
//
// Recover reads to the first place X without a right batch. It is damage, and Recover changes nothing, when
//
//   - the checkpoint or the mark says that the log was durable beyond X, or
//   - behind X, in this segment or a later one, stands the header of a batch that knew the log durable beyond X. (A
//     later segment that counts is such a case: its first batch knew the one before durable.)
//
// Any header counts that stands in its place with its local part right. So a producer that foresees the position of its
// own bytes can make a torn tail look like damage; it can't make damage look like a torn tail.
//
// Otherwise no one was promised what lies behind X: it is cut, blanked and synced. A batch of an earlier incarnation than
// the one before it is no batch: it was blanked once and came back.
package commitlog
