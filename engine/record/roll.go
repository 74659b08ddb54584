package record

import (
	"encoding/binary"

	"github.com/tidewheel/tidewheel/engine/commitlog"
)

const rollSize = 8 // part of the format, do not change

// Roll moves R: every message that waits below To has been copied to the tail of the log, by the records before this
// one.
type Roll struct {
	To commitlog.Offset
}

// PayloadSize is what Append appends.
func (r *Roll) PayloadSize() int { return rollSize }

// Append appends the payload to b.
func (r *Roll) Append(b []byte) []byte { return binary.BigEndian.AppendUint64(b, uint64(r.To)) }

// Decode reads a payload into r.
func (r *Roll) Decode(payload []byte) error {
	from := reader{kind: KindRoll, b: payload}
	r.To = commitlog.Offset(from.natural("to"))
	return from.end()
}
