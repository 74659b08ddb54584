package record

import (
	"encoding/binary"
	"math"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
)

// reader takes fields off a payload. After the first fault all of them are zero and err stays, so that a decoder looks
// once, at the end, or before it allocates.
type reader struct {
	kind commitlog.Kind
	b    []byte
	at   int
	err  error
}

// fail remembers the first fault.
func (r *reader) fail(at int, format string, args ...any) {
	if r.err == nil {
		r.err = corrupt.Errorf(Name(r.kind)+" record", int64(at), format, args...)
		r.at = len(r.b)
	}
}

// left is the number of bytes not taken yet.
func (r *reader) left() int { return len(r.b) - r.at }

// bytes takes n bytes, which lie in the payload; nil when there are fewer.
func (r *reader) bytes(n int) []byte {
	if r.err != nil || r.left() < n {
		r.fail(r.at, "cut off: %d bytes of a field of %d", r.left(), n)
		return nil
	}
	part := r.b[r.at : r.at+n : r.at+n]
	r.at += n
	return part
}

func (r *reader) u8() uint8 {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// natural takes 8 bytes that are not negative: a position or a queue offset.
func (r *reader) natural(what string) int64 {
	at := r.at
	v := r.u64()
	if v > math.MaxInt64 {
		r.fail(at, "%s is negative", what)
		return 0
	}
	return int64(v)
}

// bool takes a byte that is 0 or 1.
func (r *reader) bool(what string) bool {
	at := r.at
	v := r.u8()
	if v > 1 {
		r.fail(at, "%s is %d, allowed are 0 and 1", what, v)
	}
	return v == 1
}

// text takes a length byte and the text behind it, which lies in the payload.
func (r *reader) text() []byte { return r.bytes(int(r.u8())) }

// uvarint takes a uvarint of at most the limit. A longer form than the value needs is a fault: a value has one
// encoding.
func (r *reader) uvarint(limit uint64, what string) uint64 {
	var v uint64
	rest := r.b[r.at:]
	for i := 0; i < len(rest) && i < maxUvarint64; i++ {
		c := rest[i]
		v |= uint64(c&0x7f) << (7 * i)
		if c >= 0x80 {
			continue
		}
		if v > limit || c == 0 && i > 0 || c > 1 && i == maxUvarint64-1 {
			break
		}
		r.at += i + 1
		return v
	}
	r.badUvarint(limit, what)
	return 0
}

// badUvarint says why a uvarint was refused.
func (r *reader) badUvarint(limit uint64, what string) {
	switch v, n := binary.Uvarint(r.b[r.at:]); {
	case n == 0:
		r.fail(r.at, "cut off in %s", what)
	case n < 0:
		r.fail(r.at, "%s has more than 64 bits", what)
	case v > limit:
		r.fail(r.at, "%s is %d, the limit %d", what, v, limit)
	default:
		r.fail(r.at, "%s has more bytes than it needs", what)
	}
}

// svarint takes a zigzag varint.
func (r *reader) svarint(what string) uint64 {
	v := r.uvarint(math.MaxUint64, what)
	return v>>1 ^ -(v & 1)
}

// count takes the length of a list whose elements have at least size bytes each, so that a list never allocates more
// than the payload can hold.
func (r *reader) count(limit, size int, what string) int {
	at := r.at
	n := int(r.uvarint(uint64(limit), what))
	if n > r.left()/size {
		r.fail(at, "%s is %d, %d bytes are left", what, n, r.left())
		return 0
	}
	return n
}

// end says what was wrong with the payload, bytes left over included.
func (r *reader) end() error {
	if r.err == nil && r.left() > 0 {
		r.fail(r.at, "%d bytes left over", r.left())
	}
	return r.err
}

// appendSvarint appends the zigzag form of a difference.
func appendSvarint(b []byte, v uint64) []byte {
	return binary.AppendUvarint(b, v<<1^-(v>>63))
}
