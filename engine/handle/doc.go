// Package handle makes and checks handles: the texts by which a producer names a message that waits, to cancel, move or
// look it up. A handle carries all that the engine needs for that, so no index is kept of them, and it is signed, so
// nobody can make one up for a message he did not send.
//
// A caller creates or loads a Ring of keys once, then seals a Handle into a text with Ring.Seal and gets it back with
// Ring.Open. Ring.Rotate adds a key: it seals from then on, and the older ones still open what they sealed.
//
// # Text
//
// A handle is "tw1." and the base64url form, without padding, of 46 bytes (62 letters). Integers are big-endian:
//
//	+-------------+-----------+------------+---------+----------+---------------+-----------+
//	| key id (1B) | lane (1B) | topic (4B) | id (8B) | due (8B) | position (8B) | MAC (16B) |
//	+-------------+-----------+------------+---------+----------+---------------+-----------+
//
// Due is in ms since 1970, the position is that of the message's record in the CommitLog when the handle was made. The
// MAC is the first 16 bytes of HMAC-SHA-256, under the key, of "tw1." and the 30 bytes before it. There is one text for
// a handle and a key: other spellings of the same bytes are refused. Another layout gets another prefix.
//
// # File of keys
//
// One file, mode 0600, replaced as a whole by rename. All integers are big-endian:
//
//	+------------+--------------+------------+--------------+--------------+
//	| magic (8B) | version (4B) | count (4B) | keys (40B ×) | CRC-32C (4B) |
//	+------------+--------------+------------+--------------+--------------+
//
//	+---------+---------------+--------------+
//	| id (1B) | reserved (7B) | secret (32B) |      one key
//	+---------+---------------+--------------+
//
// The magic is "TWKEYS\r\n". There are 1 to 255 keys with ascending ids from 1, zero is never written; the last is the
// newest. Reserved bytes are written zero and ignored when read. The CRC covers all before it. A file with a higher
// version is refused before anything else of it is looked at.
package handle
