package record

import (
	"encoding/binary"

	"github.com/tidewheel/tidewheel/engine/commitlog"
)

// MaxReason is how long the reason of a hole can be, in bytes.
const MaxReason = maxText

// Hole says that the bytes from From to To cannot be read: readers skip the messages that lay there.
type Hole struct {
	From, To commitlog.Offset // From < To
	Reason   string           // for people
}

const holeHead = 8 + 8 + 1

// PayloadSize is an upper bound of what Append appends.
func (h *Hole) PayloadSize() int { return holeHead + min(len(h.Reason), MaxReason) }

// Append appends the payload to b. What of the reason is beyond MaxReason is left out.
func (h *Hole) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(h.From))
	b = binary.BigEndian.AppendUint64(b, uint64(h.To))
	return appendText(b, h.Reason[:min(len(h.Reason), MaxReason)])
}

// Decode reads a payload into h. The reason is a copy.
func (h *Hole) Decode(payload []byte) error {
	r := reader{kind: KindHole, b: payload}
	h.From, h.To = commitlog.Offset(r.natural("from")), commitlog.Offset(r.natural("to"))
	if h.From >= h.To {
		r.fail(0, "from %d to %d", h.From, h.To)
	}
	h.Reason = string(r.text())
	return r.end()
}
