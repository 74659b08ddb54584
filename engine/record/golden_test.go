package record_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/record"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

var update = flag.Bool("update", false, "write the golden files")

// payload is what every type of the package is.
type payload interface {
	PayloadSize() int
	Append(b []byte) []byte
	Decode(b []byte) error
}

// empty makes a value of each kind to decode into.
var empty = map[commitlog.Kind]func() payload{
	record.KindDeliver:   func() payload { return new(record.Deliver) },
	record.KindCancel:    func() payload { return new(record.Cancel) },
	record.KindSupersede: func() payload { return new(record.Supersede) },
	record.KindTopic:     func() payload { return new(record.Topic) },
	record.KindGroup:     func() payload { return new(record.Group) },
	record.KindCommit:    func() payload { return new(record.Commit) },
	record.KindRoll:      func() payload { return new(record.Roll) },
	record.KindTrim:      func() payload { return new(record.Trim) },
	record.KindState:     func() payload { return new(record.State) },
	record.KindHole:      func() payload { return new(record.Hole) },
}

// field is a run of bytes in a golden file.
type field struct {
	width int
	name  string
}

// golden has one value of each kind, with the fields of its encoding as the package comment has them.
var golden = []struct {
	kind   commitlog.Kind
	value  payload
	fields []field
}{
	{record.KindDeliver, chunk(), []field{
		{1, "lane"}, {8, "frontier: due"}, {8, "frontier: id"}, {1, "queue count"}, {1, "item count"},
		{1, "queue 0: topic"}, {1, "queue 0: queue"}, {2, "queue 0: base + 1"},
		{2, "queue 1: topic"}, {1, "queue 1: queue"}, {1, "queue 1: base + 1: the topic is gone"},
		{1, "item 0: due, against the frontier"}, {1, "item 0: id, against the frontier"},
		{2, "item 0: position"}, {2, "item 0: size"}, {1, "item 0: queue 0, tags follow"}, {4, "item 0: tags"},
		{1, "item 1: due, one less than item 0"}, {1, "item 1: id"}, {2, "item 1: position, before that of item 0"},
		{2, "item 1: size"}, {1, "item 1: queue 1, late, no tags"},
	}},
	{record.KindCancel, &record.Cancel{ID: 77, Due: 1_796_036_533_123, Topic: 3, Lane: 1}, []field{
		{8, "id"}, {8, "due"}, {4, "topic"}, {1, "lane"},
	}},
	{record.KindSupersede, &record.Supersede{
		Cancel: record.Cancel{ID: 77, Due: 1_796_036_533_123, Topic: 3, Lane: 1}, NewID: 1234,
	}, []field{
		{8, "id"}, {8, "due"}, {4, "topic"}, {1, "lane"}, {8, "new id"},
	}},
	{record.KindTopic, &record.Topic{Op: record.Define, ID: 3, Queues: 8, Attrs: 5, Name: "orders"}, []field{
		{1, "op: define"}, {4, "id"}, {4, "queues"}, {4, "attributes"}, {1, "length of the name"}, {6, "name"},
	}},
	{record.KindGroup, &record.Group{Op: record.Change, ID: 9, Attrs: 1, Name: "billing"}, []field{
		{1, "op: change"}, {4, "id"}, {4, "attributes"}, {1, "length of the name"}, {7, "name"},
	}},
	{record.KindCommit, &record.Commit{Group: 9, Topic: 3, Queue: 7, Offset: 1 << 40, Seek: true}, []field{
		{4, "group"}, {4, "topic"}, {4, "queue"}, {8, "offset"}, {1, "seek"},
	}},
	{record.KindRoll, &record.Roll{To: 134_217_728}, []field{{8, "to"}}},
	{record.KindTrim, &record.Trim{Head: 134_217_728, Mins: []record.TrimMin{{Topic: 3, Queue: 0, Min: 100}, {Topic: 300, Queue: 1, Min: 0}}}, []field{
		{8, "head"}, {1, "count"},
		{1, "topic"}, {1, "queue"}, {1, "minimum"},
		{2, "topic"}, {1, "queue"}, {1, "minimum"},
	}},
	{record.KindState, &record.State{Part: 1, Parts: 2, Digest: [16]byte{0: 0xd1, 15: 0x9e}, Data: []byte("end of the state")}, []field{
		{4, "part"}, {4, "parts"}, {16, "digest"}, {16, "data"},
	}},
	{record.KindHole, &record.Hole{From: 4096, To: 5000, Reason: "EIO"}, []field{
		{8, "from"}, {8, "to"}, {1, "length of the reason"}, {3, "reason"},
	}},
}

// chunk is a delivery of two messages, one of them late and of a topic that is gone.
func chunk() *record.Deliver {
	const due = 1_796_036_533_123
	return &record.Deliver{
		Lane: 1, Frontier: timerlog.Key{Due: due, ID: 40},
		Queues: []record.DeliverQueue{{Topic: 3, Queue: 1, Base: 200}, {Topic: 300, Queue: 0, Base: record.Gone}},
		Items: []record.DeliverItem{
			{Key: timerlog.Key{Due: due, ID: 40}, Position: 4096, Size: 300, Queue: 0, Tags: 2598919},
			{Key: timerlog.Key{Due: due - 1, ID: 50}, Position: 1024, Size: 200, Queue: 1, Late: true},
		},
	}
}

func annotate(t *testing.T, kind commitlog.Kind, b []byte, fields []field) string {
	t.Helper()
	var s strings.Builder
	fmt.Fprintf(&s, "# %s, kind %d\n", record.Name(kind), kind)
	for _, f := range fields {
		if f.width > len(b) {
			t.Fatalf("%s: %d bytes are left for %s", record.Name(kind), len(b), f.name)
		}
		fmt.Fprintf(&s, "%-36x # %s\n", b[:f.width], f.name)
		b = b[f.width:]
	}
	if len(b) > 0 {
		t.Errorf("%s: %x is not described", record.Name(kind), b)
	}
	return s.String()
}

func goldenFile(kind commitlog.Kind) string {
	return filepath.Join("testdata", "golden", record.Name(kind)+".hex")
}

// readGolden returns text and bytes of a golden file.
func readGolden(t testing.TB, kind commitlog.Kind) (text string, b []byte) {
	t.Helper()
	file, err := os.ReadFile(goldenFile(kind))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		digits, _, _ := strings.Cut(line, "#")
		part, err := hex.DecodeString(strings.TrimSpace(digits))
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, part...)
	}
	return string(file), b
}

func TestGolden(t *testing.T) {
	for _, c := range golden {
		t.Run(record.Name(c.kind), func(t *testing.T) {
			text := annotate(t, c.kind, c.value.Append(nil), c.fields)
			if *update {
				if err := os.MkdirAll(filepath.Dir(goldenFile(c.kind)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(goldenFile(c.kind), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, b := readGolden(t, c.kind)
			if text != want {
				t.Errorf("encoding changed; a new layout needs a new kind. got:\n%s", text)
			}
			got := empty[c.kind]()
			if err := got.Decode(b); err != nil {
				t.Fatal(err)
			}
			equal(t, got, c.value)
			if !bytes.Equal(got.Append(nil), b) {
				t.Error("decoded and encoded again it differs")
			}
		})
	}
	if len(golden) != len(empty) {
		t.Errorf("%d golden files for %d kinds", len(golden), len(empty))
	}
}
