package record

import (
	"encoding/binary"

	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// Sizes of the payloads, part of the format, do not change.
const (
	cancelSize    = 8 + 8 + 4 + 1
	supersedeSize = cancelSize + 8
)

// Cancel says that a waiting message was taken back. Due, topic and lane are the message's, so that the fold can count
// without finding it.
type Cancel struct {
	ID    uint64
	Due   int64 // ms since 1970
	Topic uint32
	Lane  uint8
}

// Key is the message's place in the order of its lane.
func (c *Cancel) Key() timerlog.Key { return timerlog.Key{Due: c.Due, ID: c.ID} }

// PayloadSize is what Append appends.
func (c *Cancel) PayloadSize() int { return cancelSize }

// Append appends the payload to b.
func (c *Cancel) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, c.ID)
	b = binary.BigEndian.AppendUint64(b, uint64(c.Due))
	b = binary.BigEndian.AppendUint32(b, c.Topic)
	return append(b, c.Lane)
}

// Decode reads a payload into c.
func (c *Cancel) Decode(payload []byte) error {
	r := reader{kind: KindCancel, b: payload}
	*c = r.cancel()
	return r.end()
}

// Supersede says that a waiting message was moved: it is gone under its id, and its new message record, with the new
// id, follows in the same batch. Under the kind undo it says the same of a message that was cancelled. Due, topic and lane are those it had.
type Supersede struct {
	Cancel
	NewID uint64
}

// PayloadSize is what Append appends.
func (s *Supersede) PayloadSize() int { return supersedeSize }

// Append appends the payload to b.
func (s *Supersede) Append(b []byte) []byte {
	return binary.BigEndian.AppendUint64(s.Cancel.Append(b), s.NewID)
}

// Decode reads a payload into s.
func (s *Supersede) Decode(payload []byte) error {
	r := reader{kind: KindSupersede, b: payload}
	s.Cancel = r.cancel()
	s.NewID = r.u64()
	return r.end()
}

func (r *reader) cancel() Cancel {
	return Cancel{ID: r.u64(), Due: int64(r.u64()), Topic: r.u32(), Lane: r.u8()}
}
