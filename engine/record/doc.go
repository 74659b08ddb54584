// Package record has the payloads of all record kinds but the message's: what the fold over the CommitLog reads. The
// frame around a payload (length, CRC, kind) is package commitlog's; messages are package message's.
//
// Every type has the same three methods. PayloadSize is an upper bound of what Append appends, for reserving room.
// Append appends the payload. Decode reads one: it checks every length and count before it trusts or allocates, and
// takes nothing but what Append makes, so that one value has exactly one encoding and equal states have equal bytes.
// Its error is a *corrupt.Error with the byte in the payload as offset and the kind's name in the place of the file;
// the caller, who knows where the payload is from, may set both. After an error the value holds nothing of use.
//
// Values are not safe for concurrent use. Encoders only read. Decoders keep nothing of the payload but where a field
// says so.
//
// # Format
//
// Integers of fixed width are big-endian. A uvarint has seven bits a byte, the lowest first, in as few bytes as the
// value needs. A svarint is a uvarint of the zigzag form (0, -1, 1, -2 … as 0, 1, 2, 3 …). Lists follow their count.
//
//	deliver    lane 1 | frontier: due 8, id 8 | queue count uvarint | item count uvarint | queues | items
//	  queue    topic uvarint | queue uvarint | base + 1 uvarint
//	  item     due svarint | id svarint | position svarint | size uvarint | link uvarint | tags 4, if the link says so
//	cancel     id 8 | due 8 | topic 4 | lane 1
//	undo       as supersede
//	supersede  id 8 | due 8 | topic 4 | lane 1 | new id 8
//	topic      op 1 | id 4 | queues 4 | attributes 4 | length of the name 1 | name
//	group      op 1 | id 4 | attributes 4 | length of the name 1 | name
//	commit     group 4 | topic 4 | queue 4 | offset 8 | seek 1
//	roll       to 8
//	trim       head 8 | count uvarint | topic uvarint, queue uvarint, minimum uvarint, each
//	state      part 4 | parts 4 | digest 16 | data, up to the end
//	hole       from 8 | to 8 | length of the reason 1 | reason
//	verdict    group 4 | topic 4 | queue 4 | origin 4 | to 4 | base 8 | low 8 | digest count 1 | item count uvarint |
//	           digests | items
//	  digest   SHA-256 of a plugin's file 32
//	  item     offset uvarint | action 1 | plugin 1 | code uvarint | due svarint | id svarint | position svarint | size uvarint |
//	           flags 1 | tags 4, if the flags say so
//
// Of the attributes of a topic the lower 24 bits are the host's and the upper 8 the engine's: 1<<31 says that the topic is
// paused, 1<<30 that it is staged. The other six are reserved: written zero, kept when read. Of the attributes of a group, bit 0 says
// that it is a broadcast group; the others are the host's.
//
// Due, id and position of an item are differences to the item before, with wrap-around at 64 bits. Before the first
// stand the frontier and position 0, in a verdict zeros. The link is the index into the queues times four, plus two when tags follow (they
// do when they are not zero), plus one when the item is late.
//
// In a verdict, origin is 0 but for a stage, where it is the topic that the stage belongs to; to and base are then the queue
// and the first offset of what was kept. Low is the first offset that the queue has: what lies below counts as settled. The offset of an item is the distance to the one behind the item before, that of
// the first is the offset itself. The plugin is an index into the digests, 255 for nobody. The flags are 1 for kept, plus 2
// when tags follow (they do when they are not zero). A batch with a verdict, and one that makes a topic staged, must be understood.
//
// # Growth
//
// A payload never grows: bytes left over are damage. What has another layout gets another kind, and a batch that an
// older reader must not skip says so in its header (package commitlog).
package record
