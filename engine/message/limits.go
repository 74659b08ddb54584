package message

import (
	"errors"
	"fmt"
)

// Limits in bytes. They are part of the format: a record beyond them is damage.
const (
	MaxBody       = 4 << 20
	MaxProperties = 32 << 10 // of the encoded list
	MaxTag        = 127
	MaxKey        = 127
)

// Limits of names in bytes.
const (
	MaxTopic = 127
	// MaxGroup leaves room for the topic of a group's retries, "%RETRY%" and the group's name.
	MaxGroup = MaxTopic - len("%RETRY%")
)

// Lengths of a born host: address and port.
const (
	hostIPv4 = 4 + 2
	hostIPv6 = 16 + 2
)

// Returned by Check, CheckProperties, ValidTopic and ValidGroup; the text has the numbers.
var (
	ErrTooLarge   = errors.New("too large")   // a part is longer than its limit
	ErrProperties = errors.New("properties")  // the list is malformed, or has a name that may not be in it
	ErrName       = errors.New("not allowed") // a topic's or group's name
	ErrBornHost   = errors.New("born host")   // neither empty nor address and port
)

// Check says whether the message can be encoded: every part within its limit, the properties well-formed. It does not
// look for reserved property names, since the engine's own messages may have them; that is CheckProperties.
func (m *Message) Check() error {
	if err := checkLengths(m.lengths()); err != nil {
		return fmt.Errorf("message: %w", err)
	}
	if at, reason := m.Properties.walk(); reason != "" {
		return fmt.Errorf("message: %w: %s at byte %d", ErrProperties, reason, at)
	}
	return nil
}

// lengths are the lengths of a message's variable parts, in the order of the parts.
type lengths struct{ host, tag, key, properties, body int }

func (l lengths) sum() int { return l.host + l.tag + l.key + l.properties + l.body }

func (m *Message) lengths() lengths {
	return lengths{len(m.BornHost), len(m.Tag), len(m.Key), len(m.Properties), len(m.Body)}
}

// checkLengths holds a message against the limits, for the encoder's caller and for the decoder alike.
func checkLengths(l lengths) error {
	switch {
	case l.host != 0 && l.host != hostIPv4 && l.host != hostIPv6:
		return fmt.Errorf("%w of %d bytes, allowed are 0, %d and %d", ErrBornHost, l.host, hostIPv4, hostIPv6)
	case l.tag > MaxTag:
		return fmt.Errorf("tag of %d bytes is %w, allowed are %d", l.tag, ErrTooLarge, MaxTag)
	case l.key > MaxKey:
		return fmt.Errorf("key of %d bytes is %w, allowed are %d", l.key, ErrTooLarge, MaxKey)
	case l.properties > MaxProperties:
		return fmt.Errorf("properties of %d bytes are %w, allowed are %d", l.properties, ErrTooLarge, MaxProperties)
	case l.body > MaxBody:
		return fmt.Errorf("body of %d bytes is %w, allowed are %d", l.body, ErrTooLarge, MaxBody)
	}
	return nil
}

// ValidTopic says whether a topic may have this name: 1 to 127 letters, digits, "_", "%" or "-" of ASCII. There is no
// dot among them, so no name means something to a file system.
func ValidTopic(name string) error { return validName("topic", name, MaxTopic) }

// ValidGroup says whether a consumer group may have this name: as ValidTopic, at most 120 bytes.
func ValidGroup(name string) error { return validName("group", name, MaxGroup) }

func validName(what, name string, most int) error {
	if len(name) == 0 || len(name) > most {
		return fmt.Errorf("message: %s name of %d bytes is %w, allowed are 1 to %d", what, len(name), ErrName, most)
	}
	for i := range len(name) {
		if !nameByte(name[i]) {
			return fmt.Errorf("message: %s name %q is %w: byte %d; allowed are A-Z a-z 0-9 _ %% -", what, name, ErrName, i)
		}
	}
	return nil
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '%' || c == '-'
}
