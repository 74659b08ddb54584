package message

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
)

// Properties is an encoded list of name and value pairs, in the order they were appended. A name may stand in it more
// than once; Lookup finds the first. The methods never panic, whatever the bytes are: a malformed list ends where it
// stops to make sense, and Message.Check, CheckProperties and Decode say that it does.
type Properties []byte

// Lengths in a pair, part of the format, do not change.
const (
	pairHead = 1 + 2 // bytes before a name
	maxName  = 1<<8 - 1
	maxValue = 1<<16 - 1
)

// AppendProperty appends a pair to an encoded list. A name must have 1 to 255 bytes and a value at most 65,535: a pair
// beyond that is appended as one that CheckProperties refuses, a nameless one, so that a caller need not check twice.
func AppendProperty(b Properties, name, value string) Properties {
	if len(name) > maxName || len(value) > maxValue {
		name, value = "", ""
	}
	b = append(b, byte(len(name)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(value)))
	b = append(b, name...)
	return append(b, value...)
}

// All yields the pairs in order. Names and values lie in the list and must not be changed.
func (p Properties) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for len(p) > 0 {
			name, value, rest, reason := p.next()
			if reason != "" || !yield(name, value) {
				return
			}
			p = rest
		}
	}
}

// Lookup returns the value of the first pair with the name. The value lies in the list and must not be changed.
func (p Properties) Lookup(name string) (value []byte, ok bool) {
	for n, v := range p.All() {
		if string(n) == name {
			return v, true
		}
	}
	return nil, false
}

// next takes the first pair off a list that is not empty; the reason says why it is malformed.
func (p Properties) next() (name, value []byte, rest Properties, reason string) {
	if len(p) < pairHead {
		return nil, nil, nil, "a pair is cut off"
	}
	n, v := int(p[0]), int(binary.BigEndian.Uint16(p[1:]))
	switch {
	case n == 0:
		return nil, nil, nil, "a pair has no name"
	case len(p)-pairHead < n+v:
		return nil, nil, nil, "a pair is longer than the list"
	}
	name, value = p[pairHead:pairHead+n:pairHead+n], p[pairHead+n:pairHead+n+v:pairHead+n+v]
	return name, value, p[pairHead+n+v:], ""
}

// walk looks at every pair; the reason says what is malformed at which byte, and is empty when nothing is.
func (p Properties) walk() (at int, reason string) {
	for rest := p; len(rest) > 0; {
		at = len(p) - len(rest)
		if _, _, rest, reason = rest.next(); reason != "" {
			return at, reason
		}
	}
	return 0, ""
}

// PropertyKey is the name of the property that holds an idempotency key. A producer gives the key beside its properties.
const PropertyKey = "TIDEWHEEL_IDEMPOTENCY_KEY"

// MaxIdempotencyKey is the length of the longest idempotency key, bytes.
const MaxIdempotencyKey = 255

// IdempotencyKey returns the key that the message, or the one that it was moved from, was put with, and the properties
// without it. Without one the key is empty.
func (m *Message) IdempotencyKey() (key []byte, rest Properties) {
	if len(m.Properties) == 0 {
		return nil, m.Properties
	}
	name, value, rest, reason := m.Properties.next()
	if reason != "" || string(name) != PropertyKey {
		return nil, m.Properties
	}
	return value, rest
}

// CheckIdempotencyKey says whether a key may be one: at most MaxIdempotencyKey bytes, and no byte 1 or 2.
func CheckIdempotencyKey(key []byte) error {
	if len(key) > MaxIdempotencyKey {
		return fmt.Errorf("message: idempotency key of %d bytes is %w, allowed are %d", len(key), ErrTooLarge, MaxIdempotencyKey)
	}
	if separator(key) {
		return fmt.Errorf("message: %w: the idempotency key has a byte 1 or 2", ErrProperties)
	}
	return nil
}

// reserved are the names a producer's properties may not have, with the reason.
var reserved = [...]struct{ name, why string }{
	{"DELAY", "the delay level is a field of the message"},
	{"TAGS", "the tag is a field of the message"},
	{"REAL_TOPIC", "the topic is a field of the message"},
	{"REAL_QID", "the queue is a field of the message"},
	{"__STARTDELIVERTIME", "the due time is a field of the message"},
	{"__CRC32#", "the log has checksums of its own"},
	{"MIN_OFFSET", "the broker says it to a consumer"},
	{"MAX_OFFSET", "the broker says it to a consumer"},
	{"POP_CK", "it is a receipt that the broker gives to a consumer"},
	{"POP_CK_OFFSET", "it is a receipt that the broker gives to a consumer"},
	{"1ST_POP_TIME", "it is a receipt that the broker gives to a consumer"},
}

// reservedPrefixes are reserved with all that follows.
var reservedPrefixes = [...]struct{ name, why string }{
	{"TIMER_", "the due time is a field of the message"},
	{"TIDEWHEEL_", "the engine's own names begin so"},
}

// CheckProperties says whether a producer may send this list: it is well-formed and at most MaxProperties long, has no
// reserved name (RocketMQ's names of what is a field of the record or a broker's business, and the engine's own), and
// no byte 1 or 2, which end names and values in RocketMQ's protocol: with them a value could pass for other
// properties at a consumer.
func CheckProperties(p Properties) error {
	if len(p) > MaxProperties {
		return fmt.Errorf("message: properties of %d bytes are %w, allowed are %d", len(p), ErrTooLarge, MaxProperties)
	}
	if at, reason := p.walk(); reason != "" {
		return fmt.Errorf("message: %w: %s at byte %d", ErrProperties, reason, at)
	}
	for name, value := range p.All() {
		if why := whyReserved(name); why != "" {
			return fmt.Errorf("message: %w: name %q is reserved: %s", ErrProperties, name, why)
		}
		if separator(name) || separator(value) {
			return fmt.Errorf("message: %w: %q has a byte 1 or 2, which separate properties", ErrProperties, name)
		}
	}
	return nil
}

// whyReserved is empty for a name that a producer may use.
func whyReserved(name []byte) string {
	for i := range reserved {
		if string(name) == reserved[i].name {
			return reserved[i].why
		}
	}
	for i := range reservedPrefixes {
		if bytes.HasPrefix(name, []byte(reservedPrefixes[i].name)) {
			return reservedPrefixes[i].why
		}
	}
	return ""
}

func separator(text []byte) bool {
	for _, c := range text {
		if c == 1 || c == 2 {
			return true
		}
	}
	return false
}
