package message_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/golden"
	"github.com/tidewheel/tidewheel/engine/message"
)

type field = golden.Field

// head are the fields of the head, as the package comment has them.
var head = []field{
	{2, "head length"}, {2, "flags"}, {1, "level"}, {1, "lane"}, {2, "attempts"}, {8, "id"}, {8, "first"},
	{4, "topic"}, {4, "queue"}, {8, "queue offset"}, {8, "store ms"}, {8, "born ms"}, {8, "due ms"}, {8, "delay ms"},
	{8, "key hash"}, {4, "tag hash"}, {4, "user flag"}, {4, "system flag"},
	{1, "born host length"}, {1, "tag length"}, {1, "key length"}, {1, "reserved"},
	{4, "properties length"}, {4, "body length"},
}

var goldens = []struct {
	name, title string
	m           message.Message
	parts       []field
}{
	{"plain", "a message without delay, stored at position 4096", plain(), []field{{4, "body"}}},
	{"full", "a level message with every field set, a copy made by a roll", full(), []field{
		{6, "born host: 192.0.2.1, port 10911"}, {4, "tag"}, {8, "key"},
		{1, "property name length"}, {2, "property value length"}, {6, "name"}, {5, "value"},
		{1, "property name length"}, {2, "property value length"}, {5, "name"},
		{11, "body"},
	}},
}

func plain() message.Message {
	return message.Message{
		First: 4096, Topic: 1, Queue: 3, QueueOffset: 17, StoreMs: 1_796_036_523_123, BornMs: 1_796_036_523_100,
		Body: []byte("tide"),
	}
}

func full() message.Message {
	m := message.Message{
		ID: 0x0102030405060708, First: 512, Topic: 7, Queue: 2, QueueOffset: -1,
		StoreMs: 1_796_036_523_123, BornMs: 1_796_036_523_100, DueMs: 1_796_036_533_123, DelayMs: 10_000,
		Level: 3, Lane: 1, Flags: message.Copy | message.Late, UserFlag: 0xdeadbeef, SysFlag: 1, Attempts: 258,
		BornHost: []byte{192, 0, 2, 1, 0x2a, 0x9f}, Tag: []byte("TagA"), Key: []byte("order-42"),
		Body: []byte("pay or lose"),
	}
	m.Properties = message.AppendProperty(m.Properties, "region", "north")
	m.Properties = message.AppendProperty(m.Properties, "empty", "")
	m.Tags, m.KeyHash = message.TagHash(m.Tag), message.KeyHash(m.Key)
	return m
}

func TestGolden(t *testing.T) {
	for _, c := range goldens {
		t.Run(c.name, func(t *testing.T) {
			encoded := c.m.Append(nil)
			fields := slices.Concat(head, c.parts)
			b := golden.Match(t, c.name, golden.Annotate(t, c.title, 36, encoded, fields))
			var got message.Message
			if err := message.Decode(b, &got); err != nil {
				t.Fatal(err)
			}
			equalMessages(t, &got, &c.m)
			if !bytes.Equal(got.Append(nil), b) {
				t.Error("decoded and encoded again it differs")
			}
		})
	}
}
