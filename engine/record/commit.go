package record

import "encoding/binary"

const commitSize = 4 + 4 + 4 + 8 + 1 // part of the format, do not change

// Commit sets the offset at which a group goes on in a queue.
type Commit struct {
	Group, Topic, Queue uint32
	Offset              int64 // next queue offset to consume, not negative
	Seek                bool  // it may go back
}

// PayloadSize is what Append appends.
func (c *Commit) PayloadSize() int { return commitSize }

// Append appends the payload to b.
func (c *Commit) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, c.Group)
	b = binary.BigEndian.AppendUint32(b, c.Topic)
	b = binary.BigEndian.AppendUint32(b, c.Queue)
	b = binary.BigEndian.AppendUint64(b, uint64(c.Offset))
	if c.Seek {
		return append(b, 1)
	}
	return append(b, 0)
}

// Decode reads a payload into c.
func (c *Commit) Decode(payload []byte) error {
	r := reader{kind: KindCommit, b: payload}
	*c = Commit{Group: r.u32(), Topic: r.u32(), Queue: r.u32(), Offset: r.natural("offset"), Seek: r.bool("seek")}
	return r.end()
}
