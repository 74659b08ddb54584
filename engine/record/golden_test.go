package record_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/golden"
	"github.com/tidewheel/tidewheel/engine/record"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

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
	record.KindVerdict:   func() payload { return new(record.Verdict) },
}

type field = golden.Field

// goldens has one value of each kind, with the fields of its encoding as the package comment has them.
var goldens = []struct {
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
	{record.KindVerdict, decided(), []field{
		{4, "group"}, {4, "topic: the stage"}, {4, "queue"}, {4, "origin: its topic"}, {4, "to: queue of that"}, {8, "base"}, {8, "low"},
		{1, "digest count"}, {1, "item count"}, {32, "digest 0"},
		{1, "item 0: offset"}, {1, "item 0: action: keep"}, {1, "item 0: plugin 0"}, {1, "item 0: code"}, {6, "item 0: due"},
		{1, "item 0: id"}, {2, "item 0: position"}, {2, "item 0: size"}, {1, "item 0: kept, tags follow"}, {4, "item 0: tags"},
		{1, "item 1: offset: two were passed over"}, {1, "item 1: action: drop"}, {1, "item 1: nobody"}, {2, "item 1: code"},
		{1, "item 1: due, one more than item 0"}, {1, "item 1: id"}, {2, "item 1: position, before that of item 0"},
		{2, "item 1: size"}, {1, "item 1: not kept, no tags"},
	}},
}

// decided is what a stage's worker says about two messages: one is kept, the other dropped.
func decided() *record.Verdict {
	const due = 1_796_036_533_123
	return &record.Verdict{
		Group: 9, Topic: 4, Queue: 5, Origin: 3, To: 1, Base: 200, Low: 90, Digests: [][32]byte{{0: 0xab, 31: 0xcd}},
		Items: []record.VerdictItem{
			{Key: timerlog.Key{Due: due, ID: 40}, Offset: 100, Position: 4096, Size: 300, Tags: 2598919, Action: 1, Kept: true},
			{Key: timerlog.Key{Due: due + 1, ID: 50}, Offset: 103, Position: 1024, Size: 200, Action: 2, Plugin: record.Nobody, Code: 400},
		},
	}
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

func TestGolden(t *testing.T) {
	for _, c := range goldens {
		t.Run(record.Name(c.kind), func(t *testing.T) {
			title := fmt.Sprintf("%s, kind %d", record.Name(c.kind), c.kind)
			b := golden.Match(t, record.Name(c.kind), golden.Annotate(t, title, 36, c.value.Append(nil), c.fields))
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
	if len(goldens) != len(empty) {
		t.Errorf("%d golden files for %d kinds", len(goldens), len(empty))
	}
}
