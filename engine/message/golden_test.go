package message_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/message"
)

var update = flag.Bool("update", false, "write the golden files")

// field is a run of bytes in a golden file.
type field struct {
	width int
	name  string
}

// head are the fields of the head, as the package comment has them.
var head = []field{
	{2, "head length"}, {2, "flags"}, {1, "level"}, {1, "lane"}, {2, "attempts"}, {8, "id"}, {8, "first"},
	{4, "topic"}, {4, "queue"}, {8, "queue offset"}, {8, "store ms"}, {8, "born ms"}, {8, "due ms"}, {8, "delay ms"},
	{8, "key hash"}, {4, "tag hash"}, {4, "user flag"}, {4, "system flag"},
	{1, "born host length"}, {1, "tag length"}, {1, "key length"}, {1, "reserved"},
	{4, "properties length"}, {4, "body length"},
}

// annotate writes one line of hex for each field.
func annotate(title string, b []byte, fields []field) string {
	var s strings.Builder
	fmt.Fprintf(&s, "# %s\n", title)
	for _, f := range fields {
		fmt.Fprintf(&s, "%-36x # %s\n", b[:f.width], f.name)
		b = b[f.width:]
	}
	if len(b) > 0 {
		fmt.Fprintf(&s, "%x # not described\n", b)
	}
	return s.String()
}

// readGolden returns the bytes of a golden file.
func readGolden(t testing.TB, name string) (text string, b []byte) {
	t.Helper()
	file, err := os.ReadFile(filepath.Join("testdata", "golden", name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		digits, _, _ := strings.Cut(line, "#")
		part, err := hex.DecodeString(strings.TrimSpace(digits))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b = append(b, part...)
	}
	return string(file), b
}

var golden = []struct {
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
	for _, c := range golden {
		t.Run(c.name, func(t *testing.T) {
			encoded := c.m.Append(nil)
			text := annotate(c.title, encoded, append(head[:len(head):len(head)], c.parts...))
			if *update {
				if err := os.MkdirAll(filepath.Join("testdata", "golden"), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join("testdata", "golden", c.name+".hex"), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, b := readGolden(t, c.name)
			if text != want {
				t.Errorf("encoding changed; a new layout needs a new field behind the old ones. got:\n%s", text)
			}
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
