package record

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/tidewheel/tidewheel/engine/commitlog"
)

// Trim moves the begin of the log: the segments below Head are unlinked when this record is durable. Queues whose first
// messages were there begin later.
//
// Decode reuses Mins.
type Trim struct {
	Head commitlog.Offset // base of the new first segment
	Mins []TrimMin
}

// TrimMin is the new begin of a queue.
type TrimMin struct {
	Topic, Queue uint32
	Min          int64 // queue offset, not negative
}

// Bounds of an encoded TrimMin.
const (
	minTrimMin = 3
	maxTrimMin = 2*maxUvarint32 + maxUvarint64
)

// PayloadSize is an upper bound of what Append appends.
func (t *Trim) PayloadSize() int { return 8 + maxUvarint64 + len(t.Mins)*maxTrimMin }

// Append appends the payload to b.
func (t *Trim) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(t.Head))
	b = binary.AppendUvarint(b, uint64(len(t.Mins)))
	for _, m := range t.Mins {
		b = binary.AppendUvarint(b, uint64(m.Topic))
		b = binary.AppendUvarint(b, uint64(m.Queue))
		b = binary.AppendUvarint(b, uint64(m.Min))
	}
	return b
}

// Decode reads a payload into t. It keeps nothing of the payload.
func (t *Trim) Decode(payload []byte) error {
	r := reader{kind: KindTrim, b: payload}
	t.Head = commitlog.Offset(r.natural("head"))
	n := r.count(math.MaxInt32, minTrimMin, "count")
	t.Mins = slices.Grow(t.Mins[:0], n)[:n]
	for i := range t.Mins {
		t.Mins[i] = TrimMin{
			Topic: uint32(r.uvarint(math.MaxUint32, "topic")),
			Queue: uint32(r.uvarint(math.MaxUint32, "queue")),
			Min:   int64(r.uvarint(math.MaxInt64, "minimum")),
		}
	}
	return r.end()
}
