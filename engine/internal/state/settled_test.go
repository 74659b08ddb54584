package state_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/golden"
	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/record"
)

// stageOf is a stage's topic record.
func stageOf(id uint32, name string, queues uint32) *record.Topic {
	return topic(id, record.StagePrefix+name, queues)
}

// toStage makes items visible in queue 0 of the stage.
func toStage(base int64, ids ...uint64) *record.Deliver {
	d := &record.Deliver{Queues: []record.DeliverQueue{{Topic: 4, Base: base}}}
	for _, id := range ids {
		k := key(begin+1000*int64(id), id)
		d.Items = append(d.Items, record.DeliverItem{Key: k, Position: 700, Size: size})
		d.Frontier = k
	}
	return d
}

// settled is a verdict of group 2, the stage's, about offsets in queue 0 of the stage; those from base on are kept.
func settled(base int64, kept bool, offsets ...int64) *record.Verdict {
	v := &record.Verdict{Group: 2, Topic: 4, Origin: 1, To: 1, Base: base, Digests: [][32]byte{{1}}}
	for _, at := range offsets {
		v.Items = append(v.Items, record.VerdictItem{Offset: at, Position: 700, Size: size, Tags: 7, Action: 1, Kept: kept})
	}
	return v
}

// withStage is a world with topics 1 and 2, a group, the stage (topic 4) of topic 1, its group, and five messages in it, of
// which 1 and 3 are settled.
func withStage(t testing.TB) *world {
	w := newWorld(t)
	w.must(topic(1, "orders", 2), topic(2, "mail", 1), group(1, "billing"), topic(3, "other", 1), stageOf(4, "orders", 2), group(2, record.StagePrefix))
	w.must(flagged(1, begin+1000, 0), flagged(2, begin+2000, 0), flagged(3, begin+3000, 0), flagged(4, begin+4000, 0), flagged(5, begin+5000, 0))
	w.must(toStage(0, 1, 2, 3, 4, 5))
	w.must(settled(0, true, 1, 3))
	w.ix.take()
	return w
}

var stageKey = state.OffsetKey{Group: 2, Topic: 4}

func TestFoldVerdict(t *testing.T) {
	for _, c := range []struct {
		name    string
		records []payload
		calls   []string
		at      int64
		ranges  string
	}{
		{"nothing", nil, nil, 0, "[{1 2} {3 4}]"},
		{"above the last", []payload{settled(2, true, 4)}, []string{"unit 1/1 at 2: position 700 size 100 tags 7 log 40"}, 0, "[{1 2} {3 5}]"},
		{"what closes the gap", []payload{settled(0, false, 0)}, nil, 2, "[{3 4}]"},
		{"all gaps", []payload{settled(2, true, 0, 2, 4)}, []string{
			"unit 1/1 at 2: position 700 size 100 tags 7 log 40", "unit 1/1 at 3: position 700 size 100 tags 7 log 40",
			"unit 1/1 at 4: position 700 size 100 tags 7 log 40"}, 5, "[]"},
		{"between two", []payload{settled(0, false, 2)}, nil, 0, "[{1 4}]"},
		{"a commit drops what is below and moves on", []payload{&record.Commit{Group: 2, Topic: 4, Offset: 3}}, nil, 4, "[]"},
		{"a commit before a gap", []payload{&record.Commit{Group: 2, Topic: 4, Offset: 2}}, nil, 2, "[{3 4}]"},
		{"a seek forgets all", []payload{&record.Commit{Group: 2, Topic: 4, Offset: 3, Seek: true}}, nil, 3, "[]"},
		{"a seek to where it stands", []payload{&record.Commit{Group: 2, Topic: 4, Seek: true}}, nil, 0, "[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := withStage(t)
			w.pass(40)
			w.must(c.records...)
			if calls := w.ix.take(); !slices.Equal(calls, c.calls) {
				t.Errorf("the index heard %q, want %q", calls, c.calls)
			}
			at, ok := w.s.Offsets.Get(stageKey)
			if ranges := fmt.Sprint(w.s.Offsets.Settled(stageKey)); !ok || at != c.at || ranges != c.ranges {
				t.Errorf("at %d, settled %s, want %d, %s", at, ranges, c.at, c.ranges)
			}
			if got := clone(t, w.s); got.Digest() != w.s.Digest() {
				t.Error("decoded it is another")
			}
		})
	}
}

// A delivery to a stage takes the message off its topic's count, and a verdict about what was trimmed begins behind it.
func TestFoldStage(t *testing.T) {
	w := withStage(t)
	s := w.s
	if s.Pending != 0 || s.Topics[1].Pending != 0 || s.Topics[4].Pending != 0 || s.Topics[4].Queues[0].Next != 5 || s.Topics[1].Queues[1].Next != 2 {
		t.Errorf("topic %+v, stage %+v, %d wait", s.Topics[1], s.Topics[4], s.Pending)
	}
	if s.Topics[1].Stage != s.Topics[4] || s.Topics[4].Origin != s.Topics[1] || s.Topics[1].Staged() || s.Stages() != 1 {
		t.Error("topic and stage do not know each other")
	}
	behind := settled(2, false, 4)
	behind.Low = 3
	w.must(behind)
	if at, _ := s.Offsets.Get(stageKey); at != 5 {
		t.Errorf("at %d: what is not there is passed", at)
	}
	w.must(&record.Topic{Op: record.Change, ID: 1, Queues: 2, Attrs: record.TopicStaged}, &record.Topic{Op: record.Delete, ID: 1})
	if calls := w.ix.take(); !slices.Equal(calls, []string{"topic 4 gone", "topic 1 gone"}) {
		t.Errorf("the index heard %q", calls)
	}
	if s.Stages() != 0 || s.Offsets.Len() != 0 || s.TopicByName("%STAGE%orders") != nil {
		t.Errorf("the end of a topic leaves its stage: %+v", s.Topics)
	}
}

func TestFoldVerdictRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		v    *record.Verdict
	}{
		{"settled already", settled(0, false, 1)},
		{"settled twice", &record.Verdict{Group: 2, Topic: 4, Items: []record.VerdictItem{{Offset: 3, Plugin: record.Nobody}}}},
		{"not there yet", settled(0, false, 5)},
		{"below the committed offset", settled(0, false, 0, 1)},
		{"topic", &record.Verdict{Group: 2, Topic: 9}},
		{"group", &record.Verdict{Group: 9, Topic: 4}},
		{"queue", &record.Verdict{Group: 2, Topic: 4, Queue: 2}},
		{"kept at another offset", settled(3, true, 0)},
	} {
		w := withStage(t)
		if err := w.apply(c.v); !errors.Is(err, state.ErrFold) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	w := withStage(t)
	w.ix.fail = errBroken
	if err := w.apply(settled(2, true, 0)); !errors.Is(err, errBroken) || errors.Is(err, state.ErrFold) {
		t.Errorf("an index that fails: %v", err)
	}
}

// Behind a lost range a verdict may speak of what is not known: its units come, and what can be settled is.
func TestFoldVerdictLossy(t *testing.T) {
	for _, c := range []struct {
		name  string
		v     *record.Verdict
		units int
		at    int64
	}{
		{"of a topic that was lost", &record.Verdict{Group: 2, Topic: 9, Digests: [][32]byte{{1}}, Items: settled(0, false, 7).Items}, 0, 0},
		{"of a group that was lost", &record.Verdict{Group: 9, Topic: 4, Origin: 1, To: 1, Base: 8, Digests: [][32]byte{{1}}, Items: settled(0, true, 7, 9).Items}, 2, 0},
		{"of a stage that was lost", &record.Verdict{Group: 2, Topic: 9, Origin: 1, To: 1, Base: 8, Digests: [][32]byte{{1}}, Items: settled(0, true, 7).Items}, 1, 0},
		{"of a topic whose stage is there", &record.Verdict{Group: 2, Topic: 4, Origin: 9, Base: 8, Digests: [][32]byte{{1}}, Items: settled(0, true, 0).Items}, 0, 2},
		{"of messages that were lost", settled(8, true, 0, 70), 2, 2}, // and the next one is offset 71
		{"of what is settled", settled(8, true, 0, 1), 2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := withStage(t)
			w.lose(func(*world) {})
			w.must(c.v)
			if calls := w.ix.take(); len(calls) != c.units {
				t.Errorf("the index heard %q", calls)
			}
			if at, _ := w.s.Offsets.Get(stageKey); at != c.at {
				t.Errorf("at %d, want %d", at, c.at)
			}
			last := c.v.Items[len(c.v.Items)-1].Offset
			if topic := w.s.Topics[c.v.Topic]; topic != nil && w.s.Groups[c.v.Group] != nil && topic.Queues[0].Next <= last {
				t.Errorf("the next offset is %d, and %d is settled", topic.Queues[0].Next, last)
			}
			if w.s.NextTopic <= c.v.Topic || w.s.NextTopic <= c.v.Origin || w.s.NextGroup <= c.v.Group {
				t.Errorf("the next topic is %d, the next group %d: they are taken", w.s.NextTopic, w.s.NextGroup)
			}
		})
	}
}

// A topic that was made again in a lost range takes nothing from the stage of the one before.
func TestFoldStageLossy(t *testing.T) {
	w := withStage(t)
	w.lose(func(*world) {})
	w.must(topic(7, "orders", 2))
	if w.s.Stages() != 0 || w.s.Topics[4] != nil || w.s.Topics[7].Stage != nil {
		t.Errorf("the stage of the topic before is there: %+v", w.s.Topics[4])
	}
	w.must(stageOf(8, "orders", 2), stageOf(9, "lost", 1))
	if w.s.Topics[7].Stage != w.s.Topics[8] || w.s.Topics[9].Origin != nil || w.s.Stages() != 2 {
		t.Error("topics and stages do not know each other")
	}
	w.must(&record.Deliver{Frontier: key(begin+5000, 5), Queues: []record.DeliverQueue{{Topic: 9}}, Items: []record.DeliverItem{{Key: key(begin+5000, 5)}}})
}

// What is settled is a set of offsets, and the committed one its lower end, whatever the order.
func TestSettledRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		w := newWorld(t)
		w.must(topic(1, "t", 1), group(1, "g"))
		w.s.Topics[1].Queues[0].Next = 200
		k := state.OffsetKey{Group: 1, Topic: 1}
		set, at := map[int64]bool{}, int64(0)
		for range 150 {
			var offsets []int64
			for range 1 + r.IntN(4) {
				if o := int64(r.IntN(200)); !w.s.Offsets.IsSettled(k, 0, o) && !slices.Contains(offsets, o) {
					offsets = append(offsets, o)
				}
			}
			slices.Sort(offsets)
			wouldAt, wouldAbove := w.s.Offsets.Would(k, 0, offsets)
			v := &record.Verdict{Group: 1, Topic: 1}
			for _, o := range offsets {
				set[o] = true
				v.Items = append(v.Items, record.VerdictItem{Offset: o, Plugin: record.Nobody})
			}
			w.must(v)
			if r.IntN(30) == 0 {
				to := at + int64(r.IntN(20))
				w.must(&record.Commit{Group: 1, Topic: 1, Offset: to})
				at = to
				wouldAt = -1
			}
			for set[at] {
				at++
			}
			for o := int64(0); o < 200; o++ {
				if w.s.Offsets.IsSettled(k, 0, o) != (set[o] || o < at) {
					t.Fatalf("offset %d: settled is wrong; %v above %d", o, w.s.Offsets.Settled(k), at)
				}
			}
			got, _ := w.s.Offsets.Get(k)
			if got != at || wouldAt >= 0 && (wouldAt != at || wouldAbove != w.s.Offsets.SettledCount(k)) {
				t.Fatalf("at %d, want %d; foretold were %d and %d above", got, at, wouldAt, wouldAbove)
			}
			if clone(t, w.s).Digest() != w.s.Digest() {
				t.Fatal("decoded it is another")
			}
		}
	}
}

// stagesLayout is what version 2 adds to the layout of a state.
const stagesLayout = "u:settled u:group u:topic u:queue u:ranges u:gap u:length u:gap u:length"

func TestGoldenStages(t *testing.T) {
	s := withStage(t).s
	b := s.Append(nil)
	before, _, _ := strings.Cut(annotateTail(t, b, 9), "\n\n")
	got := state.New(0)
	if err := got.Decode(golden.Match(t, "stages", before)); err != nil {
		t.Fatal(err)
	}
	if got.Digest() != s.Digest() || got.Topics[1].Stage != got.Topics[4] {
		t.Error("decoded it is another")
	}
}

// annotateTail writes the last n fields of an encoding line by line, and what is before them in one.
func annotateTail(t *testing.T, b []byte, n int) string {
	names := strings.Fields(stagesLayout)
	if len(names) != n {
		t.Fatalf("%d fields, the layout has %d", n, len(names))
	}
	at := len(b) - n // each has one byte here
	var s strings.Builder
	fmt.Fprintf(&s, "# a state with a stage: version 2\n%x # as version 1\n", b[:at])
	for i, name := range names {
		fmt.Fprintf(&s, "%02x # %s: %d\n", b[at+i], strings.TrimPrefix(name, "u:"), b[at+i])
	}
	return s.String()
}

// A store without stages is written as before there were some; one with a stage, or with something settled, is not.
func TestVersions(t *testing.T) {
	if v := peopled(t).s.Append(nil)[0]; v != 1 {
		t.Errorf("a state without a stage has version %d", v)
	}
	w := newWorld(t)
	w.must(topic(1, "t", 1), group(1, "g"), visible(1, 0, 0), visible(1, 0, 1))
	w.must(&record.Verdict{Group: 1, Topic: 1, Items: []record.VerdictItem{{Offset: 1, Plugin: record.Nobody}}})
	if v := w.s.Append(nil)[0]; v != 2 {
		t.Errorf("a state with something settled has version %d", v)
	}
	w.must(&record.Verdict{Group: 1, Topic: 1, Items: []record.VerdictItem{{Offset: 0, Plugin: record.Nobody}}})
	if v := w.s.Append(nil)[0]; v != 1 {
		t.Errorf("a state in which nothing is settled above a gap has version %d", v)
	}
	w.must(stageOf(2, "t", 1))
	if v := w.s.Append(nil)[0]; v != 2 {
		t.Errorf("a state with a stage has version %d", v)
	}
}

func TestDecodeStagesCorruptions(t *testing.T) {
	whole := withStage(t).s.Append(nil)
	tail := whole[:len(whole)-8] // up to the count of settled offsets, which is 1
	big := binary.AppendUvarint(nil, math.MaxInt64)
	for _, c := range []struct {
		name string
		tail []byte
		want string
	}{
		{"none", nil, "longer than its bytes"},
		{"group that has no offset", []byte{1, 4, 0, 2, 1, 1, 1, 1}, "of no committed one"},
		{"no range", []byte{2, 4, 0, 0}, "none"},
		{"more ranges than bytes", []byte{2, 4, 0, 9, 1, 1}, "longer than its bytes"},
		{"range without a gap", []byte{2, 4, 0, 2, 0, 1, 1, 1}, "range of settled offsets"},
		{"empty range", []byte{2, 4, 0, 2, 1, 0, 1, 1}, "range of settled offsets"},
		{"gap beyond 63 bits", slices.Concat([]byte{2, 4, 0, 1}, big, []byte{1}), "range of settled offsets"},
		{"length beyond 63 bits", slices.Concat([]byte{2, 4, 0, 1, 1}, big), "range of settled offsets"},
		{"bytes left over", []byte{2, 4, 0, 2, 1, 1, 1, 1, 0}, "left over"},
	} {
		err := state.New(0).Decode(slices.Concat(tail, c.tail))
		if !errors.Is(err, corrupt.ErrCorrupt) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	twice := slices.Concat(tail[:len(tail)-1], []byte{2}, whole[len(whole)-8:], whole[len(whole)-8:])
	if err := state.New(0).Decode(twice); !errors.Is(err, corrupt.ErrCorrupt) || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("an offset twice: %v", err)
	}
	first := bytes.Clone(peopled(t).s.Append(nil))
	first[0] = 2
	if err := state.New(0).Decode(append(first, 0)); !errors.Is(err, corrupt.ErrCorrupt) || !strings.Contains(err.Error(), "one encoding") {
		t.Errorf("version 2 without a stage: %v", err)
	}
	for n := range whole {
		if err := state.New(0).Decode(whole[:n]); !errors.Is(err, corrupt.ErrCorrupt) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
}

// Behind a lost range a commit says how long a queue was: no message that comes gets an offset that the group has passed.
func TestCommitLossy(t *testing.T) {
	w := withStage(t)
	w.lose(func(*world) {})
	w.must(&record.Commit{Group: 1, Topic: 2, Offset: 12}, &record.Commit{Group: 7, Topic: 8, Offset: 3})
	if w.s.Topics[2].Queues[0].Next != 12 || w.s.NextTopic != 9 || w.s.NextGroup != 8 {
		t.Errorf("the next offset is %d, the next topic %d, the next group %d", w.s.Topics[2].Queues[0].Next, w.s.NextTopic, w.s.NextGroup)
	}
	w.must(visible(2, 0, 12))
}
