package state_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/record"
	"github.com/tidewheel/tidewheel/engine/statebits"
)

// Each kind of record in a peopled world: what the index hears, and what is true afterwards.
func TestFoldEachKind(t *testing.T) {
	const at = 512 + 112 + 3*size + 112 + 2*size + 112 // of the record
	late := deliver(0, key(begin+500, 3))
	late.Items[0].Late, late.Frontier = true, key(begin, 0)
	gone := deliver(record.Gone, key(begin+1000, 1))
	gone.Queues[0].Topic = 9
	for _, c := range []struct {
		name    string
		records []payload
		calls   []string
		check   func(s *state.State) bool
	}{
		{"message visible at once", []payload{visible(1, 1, 0)},
			[]string{"unit 1/1 at 0: position 1348 size 100 tags 7 log 40"},
			func(s *state.State) bool {
				return s.Topics[1].Queues[1] == state.Queue{Next: 1} && s.NextID == 3 && s.Pending == 2 && s.Segments[0].Visible == 40
			}},
		{"message of a level", []payload{waiting(3, begin+1040, 1000)},
			[]string{"put (1001040, 3) delay 1000: position 1348 size 100 to 1/0 late false level 3"},
			func(s *state.State) bool {
				return s.NextID == 4 && s.Pending == 3 && s.Topics[1].Pending == 3 && s.Levels[1000] == begin+1040 &&
					s.Live == 300 && s.Credit == 300 && s.Chunks[0] == state.Chunk{Pending: 3, Changed: at, ChangedAt: 40}
			}},
		{"message that is late", []payload{flagged(3, begin-5, message.Late)},
			[]string{"bits 3 late and pending", "put (999995, 3) delay 0: position 1348 size 100 to 1/0 late true level 0"},
			func(s *state.State) bool { return s.Pending == 3 && len(s.Levels) == 1 }},
		{"late message of a level leaves its tail", []payload{&message.Message{
			ID: 3, QueueOffset: -1, Topic: 1, DueMs: begin - 5, DelayMs: 1000, Flags: message.Late,
		}},
			[]string{"bits 3 late and pending", "put (999995, 3) delay 0: position 1348 size 100 to 1/0 late true level 0"},
			func(s *state.State) bool { return s.Levels[1000] == begin+1000 }},
		{"copy by a roll", []payload{flagged(2, begin+5000, message.Copy)},
			[]string{"put (1005000, 2) delay 0: position 1348 size 100 to 1/0 late false level 0"},
			func(s *state.State) bool {
				return s.Pending == 2 && s.NextID == 3 && s.Live == 200 && s.Credit == 100 && s.Chunks[0].Pending == 2 && s.Chunks[0].Changed == at
			}},
		{"deliver", []payload{deliver(0, key(begin+1000, 1), key(begin+5000, 2))},
			[]string{
				"gone 0 (1001000, 1)", "unit 1/0 at 0: position 700 size 100 tags 0 log 40",
				"gone 0 (1005000, 2)", "unit 1/0 at 1: position 700 size 100 tags 0 log 40",
			},
			func(s *state.State) bool {
				return s.Lanes[0] == key(begin+5000, 2) && s.Pending == 0 && s.Topics[1].Pending == 0 &&
					s.Topics[1].Queues[0].Next == 2 && s.Chunks[0].Pending == 0 && s.Dropped == 0
			}},
		{"deliver of a late message", []payload{flagged(3, begin+500, message.Late), late},
			[]string{
				"bits 3 late and pending", "put (1000500, 3) delay 0: position 1348 size 100 to 1/0 late true level 0",
				"bits 3 regular", "gone 0 (1000500, 3)", "unit 1/0 at 0: position 700 size 100 tags 0 log 40",
			},
			func(s *state.State) bool { return s.Lanes[0] == key(begin, 0) && s.Pending == 2 }},
		{"deliver to a topic that is gone", []payload{gone}, []string{"gone 0 (1001000, 1)"},
			func(s *state.State) bool { return s.Dropped == 1 && s.Pending == 1 }},
		{"cancel", []payload{&record.Cancel{ID: 2, Due: begin + 5000, Topic: 1}},
			[]string{"bits 2 cancelled", "gone 0 (1005000, 2)"},
			func(s *state.State) bool {
				return s.Pending == 1 && s.Topics[1].Pending == 1 && s.Chunks[0].Pending == 1
			}},
		{"move", []payload{
			&record.Supersede{Cancel: record.Cancel{ID: 2, Due: begin + 5000, Topic: 1}, NewID: 3}, flagged(3, begin+9000, message.Moved),
		},
			[]string{
				"bits 2 superseded", "gone 0 (1005000, 2)",
				"put (1009000, 3) delay 0: position 1448 size 100 to 1/0 late false level 0",
			},
			func(s *state.State) bool { return s.Pending == 2 && s.NextID == 4 }},
		{"undo of a cancel", []payload{
			&record.Cancel{ID: 2, Due: begin + 5000, Topic: 1},
			undo{&record.Supersede{Cancel: record.Cancel{ID: 2, Due: begin + 5000, Topic: 1}, NewID: 3}}, flagged(3, begin+5000, message.Moved),
		},
			[]string{
				"bits 2 cancelled", "gone 0 (1005000, 2)", "bits 2 superseded",
				"put (1005000, 3) delay 0: position 1548 size 100 to 1/0 late false level 0",
			},
			func(s *state.State) bool { return s.Pending == 2 && s.NextID == 4 && s.Chunks[0].Pending == 2 }},
		{"topic", []payload{topic(3, "new", 5)}, nil,
			func(s *state.State) bool {
				return s.TopicByName("new").ID == 3 && s.NextTopic == 4 && len(s.Topics[3].Queues) == 5
			}},
		{"topic with more queues", []payload{&record.Topic{Op: record.Change, ID: 2, Queues: 3, Attrs: 8}}, nil,
			func(s *state.State) bool {
				return s.Topics[2].Count == 3 && len(s.Topics[2].Queues) == 3 && s.Topics[2].Attrs == 8 && s.Topics[2].Name == "mail"
			}},
		{"topic with fewer queues", []payload{&record.Topic{Op: record.Change, ID: 1, Queues: 1}}, nil,
			func(s *state.State) bool { return s.Topics[1].Count == 1 && len(s.Topics[1].Queues) == 2 }},
		{"end of a topic", []payload{
			&record.Commit{Group: 1, Topic: 1}, &record.Commit{Group: 1, Topic: 2}, &record.Topic{Op: record.Delete, ID: 1},
		}, []string{"topic 1 gone"},
			func(s *state.State) bool {
				return s.TopicByName("orders") == nil && s.Topics[1] == nil && s.Offsets.Len() == 1 && s.NextTopic == 3 && s.Pending == 2
			}},
		{"group", []payload{group(2, "audit")}, nil,
			func(s *state.State) bool { return s.GroupByName("audit").ID == 2 && s.NextGroup == 3 }},
		{"group with other attributes", []payload{&record.Group{Op: record.Change, ID: 1, Attrs: 4}}, nil,
			func(s *state.State) bool { return s.Groups[1].Attrs == 4 && s.Groups[1].Name == "billing" }},
		{"end of a group", []payload{&record.Commit{Group: 1, Topic: 1}, &record.Group{Op: record.Delete, ID: 1}}, nil,
			func(s *state.State) bool {
				return s.GroupByName("billing") == nil && s.Offsets.Len() == 0 && s.NextGroup == 2
			}},
		{"commit", []payload{&record.Commit{Group: 1, Topic: 1, Queue: 1, Offset: 12}}, nil,
			func(s *state.State) bool {
				at, ok := s.Offsets.Get(state.OffsetKey{Group: 1, Topic: 1, Queue: 1})
				return ok && at == 12
			}},
		{"roll", []payload{&record.Roll{To: 1000}}, nil, func(s *state.State) bool { return s.Rolled == 1000 }},
		{"hole", []payload{&record.Hole{From: 600, To: 700}}, nil,
			func(s *state.State) bool { return s.InHole(600) && s.InHole(699) && !s.InHole(599) && !s.InHole(700) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := peopled(t)
			w.pass(40)
			if w.next() != at {
				t.Fatalf("the record will stand at %d", w.next())
			}
			w.must(c.records...)
			if got := w.ix.take(); !slices.Equal(got, c.calls) {
				t.Errorf("the index heard %q, want %q", got, c.calls)
			}
			if !c.check(w.s) {
				t.Errorf("state: %+v", w.s)
			}
			if want := commitlog.Offset(at + len(c.records)*size); w.s.End != want {
				t.Errorf("the log ends at %d, want %d", w.s.End, want)
			}
		})
	}
}

// A record that contradicts what was folded is an error, never a guess. Behind a lost range most of them are no
// contradictions: what they stand on may lie in it.
func TestFoldContradictions(t *testing.T) {
	lane1, backwards, unknownID, offset, noTopic := deliver(0, key(begin+1000, 1)), deliver(0, key(begin+1000, 1)),
		deliver(0, key(begin+9000, 3)), deliver(1, key(begin+1000, 1)), deliver(0, key(begin+1000, 1))
	lane1.Lane = 1
	backwards.Frontier = key(begin-1, 5)
	noTopic.Queues[0].Topic = 9
	inLane1 := flagged(3, begin+9000, 0)
	inLane1.Lane = 1
	move := func(newID uint64) *record.Supersede {
		return &record.Supersede{Cancel: record.Cancel{ID: 2, Due: begin + 5000, Topic: 1}, NewID: newID}
	}
	for _, c := range []struct {
		name  string
		bad   payload
		want  string
		lossy bool // is accepted behind a lost range
	}{
		{"lane of a message", inLane1, "lane 1 of 1", false},
		{"id given twice", flagged(2, begin+9000, 0), "id 2, the next is 3", false},
		{"id left out", flagged(4, begin+9000, 0), "id 4, the next is 3", true},
		{"id that no store gives out", flagged(1<<40, begin+9000, 0), "the next is 3", false},
		{"copy of nothing", flagged(3, begin+9000, message.Copy), "copy of id 3, the next is 3", true},
		{"copy of an id that no store gives out", flagged(1<<40, begin+9000, message.Copy), "copy of id", false},
		{"due before the tail of its queue", waiting(3, begin+999, 1000), "its tail is 1001000", false},
		{"message to no topic", visible(9, 0, 0), "topic 9 has no queue 0", true},
		{"message to no queue", visible(2, 1, 0), "topic 2 has no queue 1", true},
		{"queue offset left out", visible(1, 0, 1), `offset 1 in queue 0 of topic "orders", the next is 0`, true},
		{"queue offset given twice", visible(1, 0, -1), "offset -1", false},
		{"lane of a deliver", lane1, "lane 1 of 1", false},
		{"frontier goes back", backwards, "goes back", false},
		{"deliver of an unknown id", unknownID, "id 3 is delivered, the next is 3", true},
		{"deliver of id 0", deliver(0, key(begin+9000, 0)), "id 0 is delivered", false},
		{"deliver to another offset", offset, "offset 1", true},
		{"deliver to no topic", noTopic, "topic 9 has no queue 0", true},
		{"cancel of an unknown id", &record.Cancel{ID: 3, Topic: 1}, "id 3 of lane 0, the next id is 3", true},
		{"cancel of id 0", &record.Cancel{Topic: 1}, "id 0", false},
		{"cancel in no lane", &record.Cancel{ID: 2, Topic: 1, Lane: 1}, "lane 1", false},
		{"move to another id", move(4), "moved to id 4, the next is 3", true},
		{"undo as another id", undo{move(4)}, "undone as id 4, the next is 3", true},
		{"undo of an unknown id", undo{&record.Supersede{Cancel: record.Cancel{ID: 3, Topic: 1}, NewID: 3}}, "cancel of 3", true},
		{"undo of id 0", undo{&record.Supersede{Cancel: record.Cancel{Topic: 1}, NewID: 3}}, "cancel of 0", false},
		{"topic's id given twice", topic(2, "new", 1), `topic "new" with id 2, the next is 3`, false},
		{"topic's id left out", topic(4, "new", 1), "with id 4, the next is 3", true},
		{"topic's name given twice", topic(3, "mail", 1), `topic "mail"`, true},
		{"change of no topic", &record.Topic{Op: record.Change, ID: 9, Queues: 1}, "topic 9 is not known", true},
		{"end of no topic", &record.Topic{Op: record.Delete, ID: 9}, "topic 9 is not known", true},
		{"group's id given twice", group(1, "new"), `group "new" with id 1, the next is 2`, false},
		{"group's id left out", group(3, "new"), "with id 3, the next is 2", true},
		{"group's name given twice", group(2, "billing"), `group "billing"`, true},
		{"change of no group", &record.Group{Op: record.Change, ID: 9}, "group 9 is not known", true},
		{"end of no group", &record.Group{Op: record.Delete, ID: 9}, "group 9 is not known", true},
		{"commit of no group", &record.Commit{Group: 9, Topic: 1}, "group 9, topic 1", true},
		{"commit in no topic", &record.Commit{Group: 1, Topic: 9}, "group 1, topic 9", true},
		{"roll beyond the end", &record.Roll{To: 1 << 30}, "rolled to", false},
		{"roll goes back", &record.Roll{To: 599}, "before it was 600", false},
		{"trim to within a segment", &record.Trim{Head: 600}, "begin at 600, where no segment does", false},
		{"trim beyond the end", &record.Trim{Head: 1 << 30}, "where no segment does", false},
		{"state record of another state", &record.State{Parts: 1, Digest: [16]byte{1}}, "has digest 01", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := peopled(t)
			w.must(&record.Roll{To: 600})
			if err := w.apply(c.bad); !errors.Is(err, state.ErrFold) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			w = peopled(t)
			w.must(&record.Roll{To: 600})
			w.s.LostBatches(w.s.End, w.s.End+1000)
			w.s.EndBatch(w.s.End+1000, false)
			if err := w.apply(c.bad); (err == nil) != c.lossy {
				t.Errorf("behind a lost range: %v", err)
			}
		})
	}
}

func TestFoldDamagedPayload(t *testing.T) {
	w := peopled(t)
	for kind, payload := range map[commitlog.Kind][]byte{
		message.KindMessage: {1}, record.KindDeliver: {1}, record.KindCancel: {1}, record.KindSupersede: {1}, record.KindTopic: {1},
		record.KindGroup: {1}, record.KindCommit: {1}, record.KindRoll: {1}, record.KindTrim: {1}, record.KindState: {1},
		record.KindHole: {1},
	} {
		err := w.s.Apply(&commitlog.Record{Pos: 4711, Size: 13, Kind: kind, Payload: payload}, true, w.ix)
		if !errors.Is(err, corrupt.ErrCorrupt) || !strings.Contains(err.Error(), "state: "+record.Name(kind)+" record at 4711") {
			t.Errorf("kind %d: %v", kind, err)
		}
	}
}

func TestFoldUnknownKind(t *testing.T) {
	w := peopled(t)
	before := w.s.Digest()
	r := commitlog.Record{Pos: 1, Size: 12, Kind: 200}
	if err := w.s.Apply(&r, true, w.ix); !errors.Is(err, state.ErrNewer) {
		t.Errorf("must understand: %v", err)
	}
	if err := w.s.Apply(&r, false, w.ix); err != nil {
		t.Errorf("need not understand: %v", err)
	}
	if len(w.ix.take()) > 0 || w.s.Digest() != before {
		t.Error("it was folded")
	}
}

// What the index cannot do, the fold reports.
func TestFoldIndexFails(t *testing.T) {
	for _, p := range []payload{
		undo{&record.Supersede{Cancel: record.Cancel{ID: 2, Topic: 1}, NewID: 3}}, visible(1, 0, 0), waiting(3, begin+1000, 1000), flagged(3, begin, message.Late), deliver(0, key(begin+1000, 1)),
		&record.Cancel{ID: 2, Topic: 1},
	} {
		w := peopled(t)
		w.ix.fail = errBroken
		if err := w.apply(p); !errors.Is(err, errBroken) || errors.Is(err, state.ErrFold) {
			t.Errorf("%T: %v", p, err)
		}
	}
}

func TestAliveAndFate(t *testing.T) {
	w := peopled(t)
	w.must(
		flagged(3, begin+100, message.Late), flagged(4, begin+6000, 0), flagged(5, begin+7000, 0),
		&record.Cancel{ID: 4, Due: begin + 6000, Topic: 1},
		&record.Supersede{Cancel: record.Cancel{ID: 5, Due: begin + 7000, Topic: 1}, NewID: 6}, flagged(6, begin+8000, message.Moved),
		deliver(0, key(begin+1000, 1)),
	)
	b := bits(w.ix.bits)
	for _, c := range []struct {
		id    uint64
		due   int64
		late  bool
		alive bool
		fate  state.Fate
	}{
		{1, begin + 1000, false, false, state.Fired},
		{2, begin + 5000, false, true, state.Waiting},
		{3, begin + 100, true, true, state.Waiting},
		{4, begin + 6000, false, false, state.Cancelled},
		{5, begin + 7000, false, false, state.Superseded},
		{6, begin + 8000, false, true, state.Waiting},
		{7, begin + 9000, false, true, state.Unknown}, // not given out: nobody asks whether its entry is alive
	} {
		e := timerEntry(c.due, c.id, c.late)
		if alive, err := w.s.Alive(&e, 0, b); alive != c.alive || err != nil {
			t.Errorf("id %d: alive %t, %v", c.id, alive, err)
		}
		if fate, err := w.s.Fate(0, e.Key, b); fate != c.fate || err != nil {
			t.Errorf("id %d: fate %d, %v", c.id, fate, err)
		}
	}
	stale := timerEntry(begin+5000, 2, false)
	stale.Position = 599
	w.must(&record.Roll{To: 600})
	if alive, err := w.s.Alive(&stale, 0, b); alive || err != nil {
		t.Errorf("an entry below R is alive, %v", err)
	}
	for name, fate := range map[string]func() (state.Fate, error){
		"id 0":    func() (state.Fate, error) { return w.s.Fate(0, key(1, 0), b) },
		"no lane": func() (state.Fate, error) { return w.s.Fate(1, key(begin+5000, 2), b) },
	} {
		if f, err := fate(); f != state.Unknown || err != nil {
			t.Errorf("%s: %d, %v", name, f, err)
		}
	}
	e := timerEntry(begin+5000, 2, false)
	if _, err := w.s.Alive(&e, 0, brokenBits{}); !errors.Is(err, errBroken) {
		t.Errorf("alive: %v", err)
	}
	if _, err := w.s.Fate(0, e.Key, brokenBits{}); !errors.Is(err, errBroken) {
		t.Errorf("fate: %v", err)
	}
}

// After a rebuild from a suffix of the log an older id is known only if the suffix speaks of it.
func TestFateOfOldIDs(t *testing.T) {
	w := peopled(t)
	w.s.Oldest = 3 // as if 1 and 2 were put before the suffix began
	b := bits(w.ix.bits)
	if f, err := w.s.Fate(0, key(begin+5000, 2), b); f != state.Unknown || err != nil {
		t.Errorf("not spoken of: %d, %v", f, err)
	}
	w.must(flagged(2, begin+5000, message.Copy))
	if f, err := w.s.Fate(0, key(begin+5000, 2), b); f != state.Waiting || err != nil {
		t.Errorf("copied: %d, %v", f, err)
	}
	w.s.Seen = brokenBits{}
	if _, err := w.s.Fate(0, key(begin+5000, 2), b); !errors.Is(err, errBroken) {
		t.Errorf("broken set: %v", err)
	}
	// The fold does not stop over the set; who asks hears of it, for good.
	w.must(flagged(1, begin+1000, message.Copy))
	w.s.Seen = bits{2: statebits.Cancelled}
	if _, err := w.s.Fate(0, key(begin+5000, 2), b); !errors.Is(err, errBroken) {
		t.Errorf("after a set that failed: %v", err)
	}
}

// Counts by hour are exact: what does not wait is in none of them.
func TestHours(t *testing.T) {
	const hour = 3600 * 1000
	w := newWorld(t)
	want := map[int64]int64{}
	check := func() {
		t.Helper()
		got := map[int64]int64{}
		for h, n := range w.s.Hours {
			got[h] = *n
		}
		if !maps.Equal(got, want) {
			t.Fatalf("hours %v, want %v", got, want)
		}
	}
	w.must(topic(1, "orders", 1), flagged(1, 3*hour, 0), flagged(2, 4*hour-1, 0), flagged(3, 4*hour, 0))
	want[3], want[4] = 2, 1
	check()
	w.must(&record.Cancel{ID: 1, Due: 3 * hour, Topic: 1})
	want[3] = 1
	check()
	w.must(&record.Supersede{Cancel: record.Cancel{ID: 3, Due: 4 * hour, Topic: 1}, NewID: 4}, flagged(4, 3*hour+1, message.Moved))
	delete(want, 4)
	want[3] = 2
	check()
	w.must(flagged(2, 4*hour-1, message.Copy)) // rolled: it waits as before
	check()
	w.must(deliver(0, key(3*hour+1, 4), key(4*hour-1, 2)))
	delete(want, 3)
	check()
}

func TestLive(t *testing.T) {
	w := newWorld(t)
	if got := w.s.Live; got != 0 {
		t.Errorf("a new store has %d", got)
	}
	w = peopled(t)
	if got := w.s.Live; got != 2*size {
		t.Errorf("two waiting: %d", got)
	}
	d := deliver(0, key(begin+1000, 1))
	d.Items[0].Size = size - 10
	w.must(d)
	if got := w.s.Live; got != size+10 {
		t.Errorf("one waiting: %d", got)
	}
	w.must(&record.Cancel{ID: 2, Topic: 1, Due: begin + 5000})
	if got := w.s.Live; got != 0 {
		t.Errorf("none waiting: %d", got)
	}
}

// Holes may be said in any order, twice, and one in another.
func TestHoles(t *testing.T) {
	holes := [][2]commitlog.Offset{{100, 200}, {300, 400}, {120, 130}, {350, 500}, {600, 700}, {500, 550}, {100, 200}, {90, 95}}
	in := func(pos commitlog.Offset) bool {
		for _, h := range holes {
			if pos >= h[0] && pos < h[1] {
				return true
			}
		}
		return false
	}
	w := newWorld(t)
	for _, h := range holes {
		w.must(&record.Hole{From: h[0], To: h[1], Reason: "test"})
	}
	for pos := commitlog.Offset(0); pos < 800; pos += 5 {
		if got := w.s.InHole(pos); got != in(pos) {
			t.Errorf("position %d: in a hole: %t", pos, got)
		}
	}
	if want := []state.Hole{{90, 95}, {100, 200}, {300, 550}, {600, 700}}; !slices.Equal(w.s.Holes, want) {
		t.Errorf("holes %v, want %v", w.s.Holes, want)
	}
}
