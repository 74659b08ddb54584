// Package message is the message record: what of a message stands in the CommitLog, and the hashes, names and limits
// that belong to it.
//
// A producer's message is checked with Message.Check and CheckProperties, then encoded with Message.Append into the
// payload of a record of kind KindMessage. Decode reads it back without copying: its byte slices lie in the payload.
// DecodeHead reads only the head, which is all that the fold over the log needs. The frame around the payload (length,
// CRC, kind) is package commitlog's.
//
// # Format
//
// All integers are big-endian. A payload is a head, then five variable parts without gaps or padding:
//
//	+------+-----------+-----+-----+------------+------+
//	| head | born host | tag | key | properties | body |
//	+------+-----------+-----+-----+------------+------+
//
//	at   bytes  head
//	  0      2  length of the head in bytes: 104
//	  2      2  flags: 1 late, 2 copy, 4 moved, 8 keyed
//	  4      1  level: number of the delay level, 0 none
//	  5      1  lane
//	  6      2  attempts: deliveries of the same message before this one
//	  8      8  id: dense timer number, 0 without delay
//	 16      8  first: position of the message's first copy in the CommitLog
//	 24      4  topic
//	 28      4  queue
//	 32      8  queue offset, -1 while the message waits
//	 40      8  store time, ms since 1970
//	 48      8  born time, ms since 1970, by the producer's clock
//	 56      8  due time, ms since 1970, 0 without delay
//	 64      8  delay of the level, ms, 0 without level
//	 72      8  key hash
//	 80      4  tag hash
//	 84      4  user flag, the producer's
//	 88      4  system flag, RocketMQ's bits
//	 92      1  length of the born host: 0, 6 (IPv4, port) or 18 (IPv6, port)
//	 93      1  length of the tag, at most 127
//	 94      1  length of the key, at most 127
//	 95      1  reserved, written zero, ignored when read
//	 96      4  length of the properties, at most 32,768
//	100      4  length of the body, at most 4,194,304
//	104
//
// The properties are a list of pairs, each
//
//	+------------------+-------------------+------+-------+
//	| name length (1B) | value length (2B) | name | value |
//	+------------------+-------------------+------+-------+
//
// with a name of 1 to 255 bytes. The lengths stand before the texts, so no byte of a text can end it.
//
// # Growth
//
// The head may get longer: new fields follow the old ones, and a reader skips what is beyond the fields it knows. Flags
// that a reader does not know are kept. A field is never moved, widened or given another meaning; what cannot be said
// that way gets another record kind.
package message
