package message

import (
	"github.com/tidewheel/tidewheel/engine/commitlog"
)

// KindMessage is the kind of a message record.
const KindMessage commitlog.Kind = 1

// Flags say how a message record came to be. Bits without a name are reserved: kept when read.
type Flags uint16

// The flags.
const (
	Late  Flags = 1 // (due, id) was not above the frontier when the message was stored
	Copy  Flags = 2 // a roll's copy of a message that waits
	Moved Flags = 4 // made by a move or an undo
	Keyed Flags = 8 // put with an idempotency key: the property PropertyKey, the first of the list
)

// Message is a message as it stands in the log. It is not safe for concurrent use while it is written to.
//
// After Decode the byte slices lie in the payload: they are valid as long as the payload is, and must not be changed.
// Append only reads them.
type Message struct {
	ID    uint64           // dense timer number; 0 for a message without delay
	First commitlog.Offset // position of the first copy; a message that was not rolled has its own position here

	Topic, Queue uint32
	QueueOffset  int64 // -1 while the message waits

	StoreMs int64 // ms since 1970, the writer's clock
	BornMs  int64 // ms since 1970, the producer's clock
	DueMs   int64 // ms since 1970; 0 without delay

	DelayMs int64 // of a level message: the delay, which names its schedule queue; else 0
	Level   uint8 // of a level message: the level's number; else 0
	Lane    uint8
	Flags   Flags

	Tags    int32  // TagHash of Tag
	KeyHash uint64 // KeyHash of Key

	UserFlag uint32 // the producer's, never looked at
	SysFlag  uint32 // RocketMQ's bits: compression and the like
	Attempts uint16 // deliveries of the same message before this one

	BornHost   []byte // empty, or address and port (big-endian): 6 bytes for IPv4, 18 for IPv6
	Tag, Key   []byte
	Properties Properties
	Body       []byte
}
