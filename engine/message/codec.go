package message

import (
	"encoding/binary"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/invariant"
)

// HeadSize is the length of the head in bytes, as this version writes it. It is part of the format, do not change; new
// fields are added behind.
const HeadSize = 2 + 2 + 1 + 1 + 2 + 8 + 8 + 4 + 4 + 8 + 8 + 8 + 8 + 8 + 8 + 4 + 4 + 4 + 1 + 1 + 1 + 1 + 4 + 4

// file stands in the place of a file's name in errors about damage: only the caller knows where the payload is from.
const file = "message record"

// PayloadSize is the number of bytes that m.Append appends.
func PayloadSize(m *Message) int { return HeadSize + m.lengths().sum() }

// Append appends the payload to b. The message must have passed Check.
func (m *Message) Append(b []byte) []byte {
	if invariant.On {
		err := m.Check()
		invariant.That(err == nil, "message: append: %v", err)
	}
	b = binary.BigEndian.AppendUint16(b, HeadSize)
	b = binary.BigEndian.AppendUint16(b, uint16(m.Flags))
	b = append(b, m.Level, m.Lane)
	b = binary.BigEndian.AppendUint16(b, m.Attempts)
	b = binary.BigEndian.AppendUint64(b, m.ID)
	b = binary.BigEndian.AppendUint64(b, uint64(m.First))
	b = binary.BigEndian.AppendUint32(b, m.Topic)
	b = binary.BigEndian.AppendUint32(b, m.Queue)
	b = binary.BigEndian.AppendUint64(b, uint64(m.QueueOffset))
	b = binary.BigEndian.AppendUint64(b, uint64(m.StoreMs))
	b = binary.BigEndian.AppendUint64(b, uint64(m.BornMs))
	b = binary.BigEndian.AppendUint64(b, uint64(m.DueMs))
	b = binary.BigEndian.AppendUint64(b, uint64(m.DelayMs))
	b = binary.BigEndian.AppendUint64(b, m.KeyHash)
	b = binary.BigEndian.AppendUint32(b, uint32(m.Tags))
	b = binary.BigEndian.AppendUint32(b, m.UserFlag)
	b = binary.BigEndian.AppendUint32(b, m.SysFlag)
	b = append(b, byte(len(m.BornHost)), byte(len(m.Tag)), byte(len(m.Key)), 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.Properties)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.Body)))
	b = append(b, m.BornHost...)
	b = append(b, m.Tag...)
	b = append(b, m.Key...)
	b = append(b, m.Properties...)
	return append(b, m.Body...)
}

// Decode reads a payload into m, whose slices then lie in the payload. It checks every length, those of the properties
// too. The error is a *corrupt.Error with the byte in the payload as offset and the kind of record in the place of the
// file; the caller, who knows where the payload is from, may set both. After an error m holds nothing of use.
func Decode(payload []byte, m *Message) error {
	head, l, err := decodeHead(payload, m)
	if err != nil {
		return err
	}
	rest := payload[head:]
	cut := func(n int) []byte {
		part := rest[:n:n]
		rest = rest[n:]
		return part
	}
	m.BornHost = cut(l.host)
	m.Tag = cut(l.tag)
	m.Key = cut(l.key)
	m.Properties = cut(l.properties)
	m.Body = cut(l.body)
	if at, reason := m.Properties.walk(); reason != "" {
		return corrupt.Errorf(file, int64(head+l.host+l.tag+l.key+at), "properties: %s", reason)
	}
	return nil
}

// DecodeHead is Decode without the variable parts: it holds their lengths against the payload and leaves the slices
// nil. It reads nothing beyond the head.
func DecodeHead(payload []byte, m *Message) error {
	_, _, err := decodeHead(payload, m)
	return err
}

// decodeHead returns the length of the head and those of the parts behind it, which together are the payload's.
func decodeHead(payload []byte, m *Message) (head int, l lengths, err error) {
	if len(payload) < HeadSize {
		return 0, l, corrupt.Errorf(file, 0, "%d bytes, the head alone has %d", len(payload), HeadSize)
	}
	head = int(binary.BigEndian.Uint16(payload))
	if head < HeadSize || head > len(payload) {
		return 0, l, corrupt.Errorf(file, 0, "head of %d bytes, allowed are %d to %d", head, HeadSize, len(payload))
	}
	b := payload[:HeadSize]
	// Compared before they become int, which has 32 bits on some machines.
	properties, body := binary.BigEndian.Uint32(b[96:]), binary.BigEndian.Uint32(b[100:])
	l = lengths{
		host: int(b[92]), tag: int(b[93]), key: int(b[94]),
		properties: int(min(properties, MaxProperties+1)), body: int(min(body, MaxBody+1)),
	}
	if err := checkLengths(l); err != nil {
		return 0, l, corrupt.Errorf(file, 92, "%v", err)
	}
	if head+l.sum() != len(payload) {
		return 0, l, corrupt.Errorf(file, 92, "head and parts have %d bytes, the payload %d", head+l.sum(), len(payload))
	}
	*m = Message{
		Flags:       Flags(binary.BigEndian.Uint16(b[2:])),
		Level:       b[4],
		Lane:        b[5],
		Attempts:    binary.BigEndian.Uint16(b[6:]),
		ID:          binary.BigEndian.Uint64(b[8:]),
		First:       commitlog.Offset(binary.BigEndian.Uint64(b[16:])),
		Topic:       binary.BigEndian.Uint32(b[24:]),
		Queue:       binary.BigEndian.Uint32(b[28:]),
		QueueOffset: int64(binary.BigEndian.Uint64(b[32:])),
		StoreMs:     int64(binary.BigEndian.Uint64(b[40:])),
		BornMs:      int64(binary.BigEndian.Uint64(b[48:])),
		DueMs:       int64(binary.BigEndian.Uint64(b[56:])),
		DelayMs:     int64(binary.BigEndian.Uint64(b[64:])),
		KeyHash:     binary.BigEndian.Uint64(b[72:]),
		Tags:        int32(binary.BigEndian.Uint32(b[80:])),
		UserFlag:    binary.BigEndian.Uint32(b[84:]),
		SysFlag:     binary.BigEndian.Uint32(b[88:]),
	}
	return head, l, nil
}
