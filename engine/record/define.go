package record

import (
	"encoding/binary"

	"github.com/tidewheel/tidewheel/engine/internal/invariant"
	"github.com/tidewheel/tidewheel/engine/message"
)

// MaxQueues is how many queues a topic can have.
const MaxQueues = 65536

// Op says what happened to a topic or group.
type Op uint8

// The operations. Zero is never written.
const (
	Define Op = 1 // made, under an id that was never used
	Change Op = 2 // queues or attributes are others now
	Delete Op = 3 // gone; the id is not used again
)

// Attributes of a topic that are the engine's: the upper eight bits. They are part of the format, do not change.
const (
	TopicPaused uint32 = 1 << 31   // groups do not read it; messages are stored and delivered all the same
	TopicStaged uint32 = 1 << 30   // its messages are delivered to its stage, and are visible when they were kept
	TopicHost   uint32 = 1<<24 - 1 // the bits of the host
)

// StagePrefix begins the name of a stage: that of the topic follows. It is part of the format, do not change.
const StagePrefix = "%STAGE%"

// Topic is a change to the table of topics.
type Topic struct {
	Op     Op
	ID     uint32
	Queues uint32 // 1 to MaxQueues; of a deleted topic also 0
	Attrs  uint32 // bits of the host (TopicHost), which the engine only keeps, and of the engine (TopicPaused, TopicStaged)
	Name   string // empty only when the id alone is meant: Change and Delete
}

// Sizes of the payloads without the name.
const (
	topicHead = 1 + 4 + 4 + 4 + 1
	groupHead = 1 + 4 + 4 + 1
)

// PayloadSize is what Append appends.
func (t *Topic) PayloadSize() int { return topicHead + len(t.Name) }

// Append appends the payload to b. The name has passed message.ValidTopic.
func (t *Topic) Append(b []byte) []byte {
	b = append(b, byte(t.Op))
	b = binary.BigEndian.AppendUint32(b, t.ID)
	b = binary.BigEndian.AppendUint32(b, t.Queues)
	b = binary.BigEndian.AppendUint32(b, t.Attrs)
	return appendText(b, t.Name)
}

// Decode reads a payload into t. The name is a copy.
func (t *Topic) Decode(payload []byte) error {
	r := reader{kind: KindTopic, b: payload}
	t.Op = r.op()
	t.ID = r.u32()
	at := r.at
	t.Queues = r.u32()
	if t.Queues > MaxQueues || t.Queues == 0 && t.Op != Delete {
		r.fail(at, "%d queues, allowed are 1 to %d", t.Queues, MaxQueues)
	}
	t.Attrs = r.u32()
	t.Name = r.name(t.Op, message.ValidTopic)
	return r.end()
}

// GroupBroadcast is the bit of a group's attributes that says that each of its readers reads everything: messages with a
// delay are not for it, and the engine keeps the two apart. It is part of the format, do not change.
const GroupBroadcast uint32 = 1

// Group is a change to the table of consumer groups.
type Group struct {
	Op    Op
	ID    uint32
	Attrs uint32 // GroupBroadcast, and bits of the host that the engine only keeps
	Name  string // empty only when the id alone is meant: Change and Delete
}

// PayloadSize is what Append appends.
func (g *Group) PayloadSize() int { return groupHead + len(g.Name) }

// Append appends the payload to b. The name has passed message.ValidGroup.
func (g *Group) Append(b []byte) []byte {
	b = append(b, byte(g.Op))
	b = binary.BigEndian.AppendUint32(b, g.ID)
	b = binary.BigEndian.AppendUint32(b, g.Attrs)
	return appendText(b, g.Name)
}

// Decode reads a payload into g. The name is a copy.
func (g *Group) Decode(payload []byte) error {
	r := reader{kind: KindGroup, b: payload}
	g.Op = r.op()
	g.ID = r.u32()
	g.Attrs = r.u32()
	g.Name = r.name(g.Op, message.ValidGroup)
	return r.end()
}

// appendText appends a length byte and the text.
func appendText(b []byte, text string) []byte {
	if invariant.On {
		invariant.That(len(text) <= maxText, "record: text of %d bytes", len(text))
	}
	b = append(b, byte(len(text)))
	return append(b, text...)
}

// maxText is what a length byte can say.
const maxText = 1<<8 - 1

func (r *reader) op() Op {
	at := r.at
	op := Op(r.u8())
	if op < Define || op > Delete {
		r.fail(at, "operation %d is unknown", op)
	}
	return op
}

// name takes a name that the check allows, or none where the operation can do without.
func (r *reader) name(op Op, check func(string) error) string {
	at := r.at
	name := string(r.text())
	if name == "" && op != Define {
		return ""
	}
	if err := check(name); err != nil {
		r.fail(at, "%v", err)
	}
	return name
}
