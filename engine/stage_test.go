package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
)

// Actions of verdicts, as the plugins' ABI numbers them.
const (
	keep = 1
	drop = 2
)

// staged opens a store in which every topic is staged.
func staged(t *testing.T, o engine.Options) *enginetest.Store {
	t.Helper()
	o.Stage = func(string) bool { return true }
	return enginetest.Open(t, enginetest.Config{Options: o})
}

// bodies are the bodies of a queue's messages, from an offset on.
func bodies(t *testing.T, s *enginetest.Store, topic string, queue int, from int64) (list []string) {
	t.Helper()
	var p engine.Pulled
	err := s.Solo.Pull(engine.PullRequest{Topic: topic, Queue: queue, Offset: from, MaxCount: 1000, MaxBytes: 1 << 20}, &p)
	if err != nil {
		t.Fatalf("pull %s/%d from %d: %v", topic, queue, from, err)
	}
	for _, m := range p.Messages {
		list = append(list, string(m.Body))
	}
	return list
}

// undecided are the messages of a stage's queue that are not settled, as items of a Settle.
func undecided(t *testing.T, s *enginetest.Store, topic string, queue int) (items []engine.Settled) {
	t.Helper()
	stage := engine.StagePrefix + topic
	var p engine.Pulled
	from, _, _ := s.Committed(engine.StageGroup, stage, queue)
	ranges, _ := s.Settled(engine.StageGroup, stage, queue)
	info, _, _ := s.Topic(stage)
	from = max(from, info.Queues[queue].Min)
	if err := s.Solo.Pull(engine.PullRequest{Topic: stage, Queue: queue, Offset: from, MaxCount: 1000, MaxBytes: 1 << 20}, &p); err != nil {
		t.Fatalf("pull %s/%d from %d: %v", stage, queue, from, err)
	}
	for i := range p.Messages {
		at := p.Messages[i].Offset
		if !slices.ContainsFunc(ranges, func(r engine.OffsetRange) bool { return r.From <= at && at < r.To }) {
			items = append(items, p.Messages[i].Settled())
		}
	}
	return items
}

// settle is a Settle of a stage that keeps or drops some items.
func settle(topic string, queue int, action uint8, items ...engine.Settled) *engine.Settle {
	c := &engine.Settle{Group: engine.StageGroup, Topic: engine.StagePrefix + topic, Queue: queue, Items: slices.Clone(items), Digests: [][32]byte{{1, 2, 3}}}
	for i := range c.Items {
		c.Items[i].Action, c.Items[i].Plugin, c.Items[i].Keep = action, 0, action == keep
	}
	return c
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Each message of a staged topic meets a verdict before it is visible, whether it had a delay or not.
func TestStage(t *testing.T) {
	s := staged(t, engine.Options{Queues: 2})
	answers := s.Do(
		&engine.Put{Topic: "t", Queue: 1, Body: []byte("now")},
		&engine.Put{Topic: "t", Queue: 1, Level: 1, Body: []byte("level")},
		&engine.Put{Topic: "t", Queue: 1, DelayMs: 2000, Body: []byte("timed")},
		&engine.Put{Topic: "t", Queue: 1, Unstaged: true, Body: []byte("round")},
	)
	for i, want := range []engine.Outcome{engine.Scheduled, engine.Scheduled, engine.Scheduled, engine.Stored} {
		if answers[i].Outcome != want {
			t.Errorf("answer %d: %+v", i, answers[i])
		}
	}
	s.Step()
	s.Pass(1500 * time.Millisecond)
	s.Pass(time.Second)
	want(t, "the topic", bodies(t, s, "t", 1, 0), "[round]")
	want(t, "the stage", bodies(t, s, "%STAGE%t", 1, 0), "[now level timed]")
	info, _, _ := s.Topic("t")
	if !info.Staged || info.StageLag != 3 || info.Pending != 0 {
		t.Errorf("the topic is %+v", info)
	}
	for _, a := range answers[:3] {
		if got := s.Do(&engine.Cancel{Handle: a.Handle()}); got[0].Outcome != engine.Delivered {
			t.Errorf("a cancel in the stage is answered %v", got[0].Outcome)
		}
	}
	items := undecided(t, s, "t", 1)
	got := s.Do(settle("t", 1, keep, items[0], items[2]))
	if got[0].Outcome != engine.Done || got[0].Offset != 1 {
		t.Errorf("settle: %+v", got[0])
	}
	ranges, _ := s.Settled(engine.StageGroup, "%STAGE%t", 1)
	want(t, "settled above the gap", ranges, "[{2 3}]")
	want(t, "the topic", bodies(t, s, "t", 1, 0), "[round now timed]")
	got = s.Do(settle("t", 1, keep, items[2]), settle("t", 1, keep, items[0]))
	for i := range got {
		if !errors.Is(got[i].Err, engine.ErrSettled) {
			t.Errorf("settled again: %+v", got[i])
		}
	}
	s.Kill(true)
	want(t, "not decided after a power cut", len(undecided(t, s, "t", 1)), 1)
	got = s.Do(settle("t", 1, drop, items[1]))
	if got[0].Offset != 3 {
		t.Errorf("settle: %+v", got[0])
	}
	want(t, "the topic", bodies(t, s, "t", 1, 0), "[round now timed]")
	info, _, _ = s.Topic("t")
	want(t, "lag", info.StageLag, 0)
}

// What takes the place of messages is stored with the verdicts, or nothing is.
func TestSettlePuts(t *testing.T) {
	s := staged(t, engine.Options{Queues: 1})
	s.Do(&engine.Put{Topic: "t", Body: []byte("a")}, &engine.Put{Topic: "t", Body: []byte("b")}, &engine.Put{Topic: "t", Body: []byte("c")})
	s.Step()
	items := undecided(t, s, "t", 0)
	c := settle("t", 0, drop, items...)
	c.Puts = []*engine.Put{
		{Topic: "t", Queue: 0, Unstaged: true, Body: []byte("A")},
		{Topic: "other", Queue: engine.AnyQueue, Level: -1},
	}
	if got := s.Do(c); !errors.Is(got[0].Err, engine.ErrLevel) {
		t.Fatalf("with a put that is refused: %+v", got[0])
	}
	if _, ok, _ := s.Topic("other"); ok {
		t.Error("a topic was made")
	}
	want(t, "not decided", len(undecided(t, s, "t", 0)), 3)
	want(t, "the topic", bodies(t, s, "t", 0, 0), "[]")
	c.Puts[1].Level = 1
	c.Items[1].Action, c.Items[1].Keep = keep, true
	if got := s.Do(c); got[0].Outcome != engine.Done || got[0].Offset != 3 {
		t.Fatalf("settle: %+v", got[0])
	}
	want(t, "the topic", bodies(t, s, "t", 0, 0), "[A b]")
	info, _, _ := s.Topic("other")
	want(t, "waiting in the other topic", info.Pending, 1)
}

// The stage is the engine's: only Settle changes what is decided in it.
func TestStageReserved(t *testing.T) {
	s := staged(t, engine.Options{Queues: 1})
	s.Do(&engine.Put{Topic: "t", Body: []byte("a")}, &engine.Put{Topic: "%RETRY%g", Queue: 0, Body: []byte("b")})
	s.Step()
	want(t, "a topic of the host's own", bodies(t, s, "%RETRY%g", 0, 0), "[b]")
	s.Do(settle("t", 0, keep, undecided(t, s, "t", 0)...))
	other := settle("t", 0, drop, engine.Settled{Plugin: engine.Nobody})
	other.Group = "g"
	for _, c := range []engine.Command{
		&engine.CommitOffset{Group: engine.StageGroup, Topic: "%STAGE%t", Offset: 0, Seek: true},
		&engine.CommitOffset{Group: engine.StageGroup, Topic: "t", Offset: 0},
		&engine.CommitOffset{Group: "g", Topic: "%STAGE%t", Offset: 0},
		&engine.Put{Topic: "%STAGE%t"}, &engine.Put{Topic: "%STAGE%new"},
		&engine.DefineTopic{Topic: "%STAGE%t", Queues: 3}, &engine.DefineTopic{Topic: "%STAGE%new", Queues: 3},
		&engine.DeleteTopic{Topic: "%STAGE%t"}, &engine.PauseTopic{Topic: "%STAGE%t", Paused: true},
		&engine.StageTopic{Topic: "%STAGE%t", Staged: true}, &engine.StageTopic{Topic: "%RETRY%g", Staged: true},
		&engine.DefineGroup{Group: engine.StageGroup}, &engine.DeleteGroup{Group: engine.StageGroup}, other,
	} {
		if got := s.Do(c); !errors.Is(got[0].Err, engine.ErrReserved) {
			t.Errorf("%T%+v: %+v", c, c, got[0])
		}
	}
}

// A settle may be as large as MaxSettleBytes, in segments that are much smaller.
func TestSettleLarge(t *testing.T) {
	s := staged(t, engine.Options{Queues: 1, TailBytes: 16 << 20})
	s.Do(&engine.Put{Topic: "t", Body: []byte("a")})
	s.Step()
	c := settle("t", 0, drop, undecided(t, s, "t", 0)...)
	c.Puts = []*engine.Put{
		{Topic: "t", Queue: 0, Unstaged: true, Body: make([]byte, 4<<20)},
		{Topic: "t", Queue: 0, Unstaged: true, Body: make([]byte, engine.MaxSettleBytes-4<<20-1000)},
	}
	if got := s.Do(c); got[0].Outcome != engine.Done {
		t.Fatalf("settle: %+v", got[0])
	}
	s.Kill(true)
	info, _, _ := s.Topic("t")
	want(t, "in the topic", info.Queues[0].Next, 2)
}

// TestStageLongName: a topic that has to be staged and has no room for that in its name is not made.
func TestStageLongName(t *testing.T) {
	s := staged(t, engine.Options{Queues: 1})
	long, fits := strings.Repeat("t", 121), strings.Repeat("t", 120)
	for _, c := range []engine.Command{
		&engine.Put{Topic: long, Queue: 0}, &engine.Put{Topic: long, Queue: 0, Unstaged: true}, &engine.DefineTopic{Topic: long, Queues: 1},
	} {
		if got := s.Do(c); !errors.Is(got[0].Err, engine.ErrTopicName) {
			t.Errorf("%T: %+v", c, got[0])
		}
	}
	if _, ok, _ := s.Topic(long); ok {
		t.Error("it was made")
	}
	if got := s.Do(&engine.Put{Topic: fits, Queue: 0}); got[0].Outcome != engine.Scheduled {
		t.Errorf("a name with room: %+v", got[0])
	}
}
