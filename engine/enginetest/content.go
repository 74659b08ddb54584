package enginetest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
)

// tags that messages have, by turns.
var tags = [...]string{"", "red", "blue"}

// fillPut gives a Put the bytes of content n. They follow from n, so that a reader can tell a foreign or damaged message
// from the right one. A size below 8 makes an empty body.
func fillPut(p *engine.Put, n, size int) {
	p.Key = strconv.AppendInt([]byte("m"), int64(n), 10)
	p.Tag = []byte(tags[n%len(tags)])
	p.Properties = contentProperties(n)
	p.Body = contentBody(n, size)
	p.UserFlag = uint32(n) * 7
	p.BornMs = 1_000_000 + int64(n)
}

func contentProperties(n int) []byte {
	if n%4 == 0 {
		return nil
	}
	return message.AppendProperty(nil, "content", strconv.Itoa(n))
}

func contentBody(n, size int) []byte {
	if size < 8 {
		return nil
	}
	b := make([]byte, size)
	x := uint64(n)*0x9e3779b97f4a7c15 + 1
	for i := 0; i+8 <= size; i += 8 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		binary.BigEndian.PutUint64(b[i:], x)
	}
	return b
}

// contentOf says which content a message has, and checks every byte of it.
func contentOf(m *message.Message, sizeOf func(n int) (size int, ok bool)) (n int, err error) {
	if len(m.Key) < 2 || m.Key[0] != 'm' {
		return 0, fmt.Errorf("key %q is none of ours", m.Key)
	}
	n, err = strconv.Atoi(string(m.Key[1:]))
	if err != nil {
		return 0, fmt.Errorf("key %q is none of ours", m.Key)
	}
	size, ok := sizeOf(n)
	if !ok {
		return 0, fmt.Errorf("key %q was never put", m.Key)
	}
	_, properties := m.IdempotencyKey()
	switch tag := tags[n%len(tags)]; {
	case string(m.Tag) != tag || m.Tags != message.TagHash(tag):
		return 0, fmt.Errorf("%s has tag %q with hash %d", m.Key, m.Tag, m.Tags)
	case !bytes.Equal(properties, contentProperties(n)):
		return 0, fmt.Errorf("%s has properties %q", m.Key, []byte(m.Properties))
	case !bytes.Equal(m.Body, contentBody(n, size)):
		return 0, fmt.Errorf("%s has another body", m.Key)
	case m.UserFlag != uint32(n)*7 || m.BornMs != 1_000_000+int64(n):
		return 0, fmt.Errorf("%s has flag %d and born time %d", m.Key, m.UserFlag, m.BornMs)
	}
	return n, nil
}
