package handle

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"

	"github.com/tidewheel/tidewheel/engine/commitlog"
)

// Sizes and the prefix, part of the format, do not change.
const (
	prefix   = "tw1."
	bodySize = 1 + 1 + 4 + 8 + 8 + 8
	macSize  = 16
	textSize = len(prefix) + ((bodySize+macSize)*8+5)/6
)

// ErrForged is the one error for a handle that no key of the ring made: damaged, made up, of another store, or sealed
// by an unknown key. It says no more, so that nobody learns from it; to a producer such a handle is simply not found.
var ErrForged = errors.New("handle: not made here")

// Handle names a message that waits. It is a plain value.
type Handle struct {
	KeyID    uint8 // of the key that sealed it; set by Open, ignored by Seal
	Lane     uint8
	Topic    uint32
	ID       uint64           // dense timer number
	Due      int64            // ms since 1970
	Position commitlog.Offset // of the message's record when the handle was made
}

// text is the encoding of base64url with one spelling for each value: no padding, unused bits zero.
var text = base64.RawURLEncoding.Strict()

// appendBody appends the signed part.
func (h Handle) appendBody(b []byte) []byte {
	b = append(b, h.KeyID, h.Lane)
	b = binary.BigEndian.AppendUint32(b, h.Topic)
	b = binary.BigEndian.AppendUint64(b, h.ID)
	b = binary.BigEndian.AppendUint64(b, uint64(h.Due))
	return binary.BigEndian.AppendUint64(b, uint64(h.Position))
}

// decodeBody reads bodySize bytes.
func decodeBody(b []byte) Handle {
	return Handle{
		KeyID:    b[0],
		Lane:     b[1],
		Topic:    binary.BigEndian.Uint32(b[2:]),
		ID:       binary.BigEndian.Uint64(b[6:]),
		Due:      int64(binary.BigEndian.Uint64(b[14:])),
		Position: commitlog.Offset(binary.BigEndian.Uint64(b[22:])),
	}
}

// parse splits a text into the signed part and its MAC, without believing either. It reads no more than textSize bytes
// and allocates nothing.
func parse(s string) (b [bodySize + macSize]byte, ok bool) {
	if len(s) != textSize || s[:len(prefix)] != prefix {
		return b, false
	}
	var in [textSize - len(prefix)]byte
	copy(in[:], s[len(prefix):])
	// The decoder skips line ends; the length tells, since then there are fewer bytes.
	n, err := text.Decode(b[:], in[:])
	return b, err == nil && n == len(b)
}

// equal compares two MACs in a time that does not depend on where they differ.
func equal(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }
