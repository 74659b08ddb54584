// Package timerwheel is the TimerWheel: a ring of slots, one for each second or hour, that says where in the TimerLog the
// waiting messages of that time lie.
//
// A slot belongs to a time: its number is the due time in milliseconds divided by the slot's width, and it lies at the
// index number mod size. Two numbers a whole lap apart share an index, so the caller takes only what is less than a lap
// ahead of the frontier; then the older one is behind it, and dead. A slot names the newest group of its time (last), from
// which the older ones are found by the links in their headers, down to the oldest (first) and never below.
//
// The ring is a cache of the fold and changes in memory. On disk it changes in place, whole pages at a time, and only from
// a checkpoint of which both copies are there: Freeze gives the pages that changed, Write puts them in place, Thaw gives
// them back; a restart calls Load with what the checkpoint says. Pages without an occupied slot are not kept in memory.
//
// A Wheel is not safe for concurrent use; only Write may run beside its other methods, one at a time.
//
// # Format
//
// One file a ring. All integers are big-endian.
//
//	+-----------+-------------+-----------+------------+-----------+---------+----------+
//	| magic (8B)| version (4B)| slots (4B)| width (8B) | ident (8B)| crc (4B)| zero     |   4,096 bytes
//	+-----------+-------------+-----------+------------+-----------+---------+----------+
//	| slot 0 | slot 1 | …                                                              |   32 bytes each
//	+-------------------------------------------------------------------------------- --+
//
//	+-----------+-----------+-----------+-----------+-----------+
//	| time (8B) | first (8B)| last (8B) | num (4B)  | crc (4B)  |      one slot, 32 bytes
//	+-----------+-----------+-----------+-----------+-----------+
//
// Width is milliseconds. Ident names store and ring, so that a swapped file is seen. Time is the slot's number. First and
// last are places in the TimerLog: the number of the file in the upper 32 bits, the byte in the lower 32. Num counts the
// entries in the slot's groups, dead ones included. The CRC (Castagnoli) covers the index as 8 bytes and the 28 bytes
// before it. A slot of zeros was never used.
//
// The seconds ring has 1,209,600 slots: 604,800 seconds of window behind and as many ahead, 38,707,200 bytes. The file is
// as long as its last page that was ever used.
//
// Rule for growth: another layout is another version; a reader refuses what it does not know.
package timerwheel
