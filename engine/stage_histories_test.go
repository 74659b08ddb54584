package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// inStage puts messages into queue 0 of a staged topic and lets them fall due.
func inStage(t *testing.T, s *enginetest.Store, topic string, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		if got := s.Do(&engine.Put{Topic: topic, Queue: 0, Body: []byte(body)}); got[0].Outcome != engine.Scheduled {
			t.Fatalf("put: %+v", got[0])
		}
	}
	s.Step()
}

// A Settle is one batch: a power cut before it is durable leaves all of it or nothing, whatever of its bytes is on the disk.
func TestSettleTorn(t *testing.T) {
	whole, none := 0, 0
	for seed := range uint64(40) {
		for _, policy := range crashfs.Policies() {
			disk := crashfs.New(crashfs.Options{})
			o := engine.Options{Queues: 1, Stage: func(string) bool { return true }}
			s := enginetest.Open(t, enginetest.Config{FS: disk, Options: o, Damaged: true})
			inStage(t, s, "t", "a", "b", "c")
			c := settle("t", 0, keep, undecided(t, s, "t", 0)...)
			c.Items[1].Action, c.Items[1].Keep = drop, false
			c.Puts = []*engine.Put{{Topic: "other", Unstaged: true, Queue: 0, Body: bytes.Repeat([]byte("B"), 3000)}}
			if _, _, err := s.Append([]engine.Command{c}); err != nil {
				t.Fatal(err)
			}
			if err := s.Commit(); err != nil { // written, and not synced
				t.Fatal(err)
			}
			after := enginetest.Open(t, enginetest.Config{FS: disk.Crash(rand.New(rand.NewPCG(seed, 1)), policy), Options: o, Clock: s.Clock})
			open, visible := len(undecided(t, after, "t", 0)), len(bodies(t, after, "t", 0, 0))
			_, other, _ := after.Topic("other")
			switch {
			case open == 3 && visible == 0 && !other:
				none++
				c.Puts[0].Body = []byte("again")
				if got := after.Do(c); got[0].Outcome != engine.Done {
					t.Errorf("decided again: %+v", got[0])
				}
			case open == 0 && visible == 2 && other:
				whole++
				if got := after.Do(c); !errors.Is(got[0].Err, engine.ErrSettled) {
					t.Errorf("decided again: %+v", got[0])
				}
			default:
				t.Fatalf("seed %d, %v: %d are not decided, %d are in the topic, the other topic is there: %v", seed, policy, open, visible, other)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if whole == 0 || none == 0 {
		t.Errorf("all of it was there %d times, nothing %d times", whole, none)
	}
}

// A worker that has read from a stage whose topic goes meanwhile, and is there again, settles nothing of the new one.
func TestSettleTopicMadeAgain(t *testing.T) {
	s := staged(t, engine.Options{Queues: 1})
	inStage(t, s, "t", "a", "b")
	stage, _, _ := s.Topic("%STAGE%t")
	c := settle("t", 0, keep, undecided(t, s, "t", 0)...)
	c.TopicID = stage.ID
	s.Do(&engine.DeleteTopic{Topic: "t"})
	if _, ok, _ := s.Topic("%STAGE%t"); ok {
		t.Error("the stage is there without its topic")
	}
	if got := s.Do(c); !errors.Is(got[0].Err, engine.ErrNoTopic) {
		t.Errorf("settled in a stage that is gone: %+v", got[0])
	}
	inStage(t, s, "t", "new", "newer")
	for _, again := range []bool{false, true} {
		if again {
			s.Kill(true)
		}
		if got := s.Do(c); !errors.Is(got[0].Err, engine.ErrNoTopic) {
			t.Errorf("settled in another stage: %+v", got[0])
		}
		want(t, "the topic", bodies(t, s, "t", 0, 0), "[]")
		want(t, "not decided", len(undecided(t, s, "t", 0)), 2)
	}
	s.Do(settle("t", 0, keep, undecided(t, s, "t", 0)...))
	want(t, "the topic", bodies(t, s, "t", 0, 0), "[new newer]")
	// One that waits for a topic that goes is dropped, stage or not.
	s.Do(&engine.Put{Topic: "t", Queue: 0, DelayMs: 1000}, &engine.DeleteTopic{Topic: "t"})
	s.Pass(2 * time.Second)
	want(t, "dropped", s.Stats().Dropped, 1)
}

// Queues that a topic has no more are settled all the same: what is kept goes to queue modulo count.
func TestStageFewerQueues(t *testing.T) {
	s := staged(t, engine.Options{Queues: 4})
	for q := range 4 {
		s.Do(&engine.Put{Topic: "t", Queue: q, Body: fmt.Appendf(nil, "%d", q)})
	}
	s.Step()
	s.Do(&engine.Put{Topic: "t", Queue: 3, DelayMs: 1000, Body: []byte("later")})
	s.Do(&engine.DefineTopic{Topic: "t", Queues: 2})
	stage, _, _ := s.Topic("%STAGE%t")
	if stage.Count != 2 || len(stage.Queues) != 4 {
		t.Fatalf("the stage: %+v", stage)
	}
	s.Pass(time.Second)
	s.Kill(true)
	for q := range 4 {
		if items := undecided(t, s, "t", q); len(items) > 0 {
			s.Do(settle("t", q, keep, items...))
		}
	}
	want(t, "queue 0", bodies(t, s, "t", 0, 0), "[0 2]")
	want(t, "queue 1", bodies(t, s, "t", 1, 0), "[1 later 3]")
	info, _, _ := s.Topic("t")
	want(t, "lag", info.StageLag, 0)
	if info.Queues[3].Next != 0 || !info.Staged {
		t.Errorf("the topic: %+v", info)
	}
	s.Do(&engine.DefineTopic{Topic: "t", Queues: 5})
	if stage, _, _ = s.Topic("%STAGE%t"); stage.Count != 5 || len(stage.Queues) != 5 {
		t.Errorf("the stage: %+v", stage)
	}
}

// A topic that is staged no more keeps its stage until it goes: what is in there is still to be settled, also when the topic is
// staged again.
func TestUnstage(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: engine.Options{Queues: 1}})
	if got := s.Do(&engine.StageTopic{Topic: "t", Staged: true}); !errors.Is(got[0].Err, engine.ErrNoTopic) {
		t.Errorf("a topic that is not there: %+v", got[0])
	}
	s.Do(&engine.Put{Topic: "t", Queue: 0, Body: []byte("before")}, &engine.Put{Topic: "t", Queue: 0, DelayMs: 1000, Body: []byte("waits")})
	on, off := &engine.StageTopic{Topic: "t", Staged: true}, &engine.StageTopic{Topic: "t"}
	if got := s.Do(on, on); got[0].Outcome != engine.Done || got[1].Outcome != engine.Done {
		t.Fatalf("staged: %+v", got)
	}
	end := s.Released()
	s.Do(on)
	want(t, "the log, after what changes nothing", s.Released(), end)
	s.Pass(time.Second)
	inStage(t, s, "t", "at once")
	s.Do(off)
	s.Do(&engine.Put{Topic: "t", Queue: 0, Body: []byte("free")}, &engine.Put{Topic: "t", Queue: 0, DelayMs: 1000, Body: []byte("later")})
	s.Kill(true)
	s.Pass(time.Second)
	want(t, "the topic", bodies(t, s, "t", 0, 0), "[before free later]")
	info, _, _ := s.Topic("t")
	if info.Staged || info.StageLag != 2 {
		t.Errorf("the topic: %+v", info)
	}
	first := undecided(t, s, "t", 0)[0]
	s.Do(settle("t", 0, keep, first), on)
	inStage(t, s, "t", "again")
	s.Do(settle("t", 0, keep, undecided(t, s, "t", 0)...))
	want(t, "the topic", bodies(t, s, "t", 0, 0), "[before free later waits at once again]")
	long := string(bytes.Repeat([]byte("t"), 121))
	s.Do(&engine.DefineTopic{Topic: long, Queues: 1})
	if got := s.Do(&engine.StageTopic{Topic: long, Staged: true}); !errors.Is(got[0].Err, engine.ErrTopicName) {
		t.Errorf("a name that leaves no room: %+v", got[0])
	}
}

// Settled offsets of a consumer group above a gap: they outlive a stop, a commit passes over them, a seek forgets them, and
// they go with their topic or group.
func TestSettleGroup(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: engine.Options{Queues: 1}})
	for range 10 {
		s.Do(&engine.Put{Topic: "t", Queue: 0, Body: bytes.Repeat([]byte("x"), 1000)})
	}
	items := func(offsets ...int64) *engine.Settle {
		c := &engine.Settle{Group: "g", Topic: "t"}
		for _, o := range offsets {
			c.Items = append(c.Items, s.Pull("t", 0, o).Settled())
		}
		return c
	}
	state := func() string {
		at, ok, _ := s.Committed("g", "t", 0)
		ranges, _ := s.Settled("g", "t", 0)
		return fmt.Sprint(at, ok, ranges)
	}
	commit := func(at int64, seek bool) *engine.CommitOffset {
		return &engine.CommitOffset{Group: "g", Topic: "t", Offset: at, Seek: seek}
	}
	steps := []struct {
		c    engine.Command
		want string
	}{
		{items(2, 3, 7), "0 true [{2 4} {7 8}]"},
		{commit(1, false), "1 true [{2 4} {7 8}]"},
		{items(1), "4 true [{7 8}]"},
		{commit(5, false), "5 true [{7 8}]"},
		{commit(7, false), "8 true []"},
		{items(9), "8 true [{9 10}]"},
		{commit(8, true), "8 true []"},
		{items(9), "8 true [{9 10}]"},
		{commit(2, true), "2 true []"},
		{items(4, 5), "2 true [{4 6}]"},
	}
	for i, step := range steps {
		if got := s.Do(step.c); got[0].Outcome != engine.Done {
			t.Fatalf("step %d: %+v", i, got[0])
		}
		want(t, fmt.Sprint("step ", i), state(), step.want)
		s.Kill(true)
		want(t, fmt.Sprint("after a power cut, step ", i), state(), step.want)
		s.Do(&engine.Put{Topic: "fill", Body: make([]byte, 6000)}, &engine.Put{Topic: "fill", Body: make([]byte, 6000)})
		s.Step() // over a segment, whose state record says it
		s.Reopen(0)
		want(t, fmt.Sprint("opened again, step ", i), state(), step.want)
	}
	if got := s.Do(commit(1, false)); !errors.Is(got[0].Err, engine.ErrOffset) {
		t.Errorf("a commit that goes back: %+v", got[0])
	}
	groups, _ := s.Groups()
	want(t, "groups", groups[0].Offsets, "[{t 0 2 2}]")
	s.Do(&engine.DeleteGroup{Group: "g"})
	want(t, "without the group", state(), "0 false []")
	s.Do(items(4))
	want(t, "another group of the name", state(), "0 true [{4 5}]")
	s.Do(&engine.DeleteTopic{Topic: "t"}, &engine.Put{Topic: "t", Queue: 0})
	want(t, "another topic of the name", state(), "0 false []")
}

// Every reason for which a Settle is refused.
func TestSettleRefused(t *testing.T) {
	s := staged(t, engine.Options{Queues: 1})
	inStage(t, s, "t", "a", "b", "c")
	s.Do(&engine.Put{Topic: "plain", Queue: 0, Unstaged: true})
	good := func() *engine.Settle { return settle("t", 0, keep, undecided(t, s, "t", 0)...) }
	for _, c := range []struct {
		name   string
		change func(c *engine.Settle)
		want   error
	}{
		{"unknown topic", func(c *engine.Settle) { c.Topic = "%STAGE%u" }, engine.ErrNoTopic},
		{"topic of another id", func(c *engine.Settle) { c.TopicID = 99 }, engine.ErrNoTopic},
		{"queue", func(c *engine.Settle) { c.Queue = 1 }, engine.ErrQueue},
		{"negative queue", func(c *engine.Settle) { c.Queue = -1 }, engine.ErrQueue},
		{"group", func(c *engine.Settle) { c.Group = "g" }, engine.ErrReserved},
		{"the stage's group elsewhere", func(c *engine.Settle) { c.Topic = "plain" }, engine.ErrReserved},
		{"group with the name of a stage", func(c *engine.Settle) { c.Group = "%STAGE%t" }, engine.ErrReserved},
		{"name of a group", func(c *engine.Settle) { c.Group, c.Topic = "a b", "plain" }, engine.ErrGroupName},
		{"nothing", func(c *engine.Settle) { c.Items = nil }, engine.ErrBadCommand},
		{"too many", func(c *engine.Settle) { c.Items = make([]engine.Settled, engine.MaxSettled+1) }, engine.ErrBadCommand},
		{"too many plugins", func(c *engine.Settle) { c.Digests = make([][32]byte, engine.MaxDigests+1) }, engine.ErrBadCommand},
		{"order", func(c *engine.Settle) { slices.Reverse(c.Items) }, engine.ErrBadCommand},
		{"twice", func(c *engine.Settle) { c.Items[1] = c.Items[0] }, engine.ErrBadCommand},
		{"plugin", func(c *engine.Settle) { c.Items[2].Plugin = 1 }, engine.ErrBadCommand},
		{"offset that is not there", func(c *engine.Settle) { c.Items[2].Offset = 3 }, engine.ErrOffset},
		{"negative offset", func(c *engine.Settle) { c.Items[0].Offset = -1 }, engine.ErrOffset},
		{"position", func(c *engine.Settle) { c.Items[0].Position = s.Released() }, engine.ErrBadCommand},
		{"size", func(c *engine.Settle) { c.Items[0].Size = -1 }, engine.ErrBadCommand},
		{"kept in no stage", func(c *engine.Settle) { c.Topic, c.Group, c.Items = "plain", "g", c.Items[:1] }, engine.ErrBadCommand},
		{"put with a commit", func(c *engine.Settle) {
			c.Puts = []*engine.Put{{Topic: "t", Then: &engine.CommitOffset{Group: "g", Topic: "t"}}}
		}, engine.ErrBadCommand},
		{"put with a key", func(c *engine.Settle) { c.Puts = []*engine.Put{{Topic: "t", IdempotencyKey: []byte("k")}} }, engine.ErrBadCommand},
		{"put round the stage with a delay", func(c *engine.Settle) { c.Puts = []*engine.Put{{Topic: "t", Unstaged: true, DelayMs: 1}} }, engine.ErrBadCommand},
		{"put into a stage", func(c *engine.Settle) { c.Puts = []*engine.Put{{Topic: "%STAGE%t"}} }, engine.ErrReserved},
		{"second put", func(c *engine.Settle) { c.Puts = []*engine.Put{{Topic: "u"}, {Topic: "a b"}} }, engine.ErrTopicName},
		{"large puts", func(c *engine.Settle) {
			c.Puts = []*engine.Put{{Topic: "t", Body: make([]byte, 4<<20)}, {Topic: "t", Body: make([]byte, 2<<20)}}
		}, engine.ErrTooLarge},
		{"many that wait", func(c *engine.Settle) {
			for range 17 {
				c.Puts = append(c.Puts, &engine.Put{Topic: "t", DelayMs: 1000})
			}
		}, engine.ErrTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			end := s.Released()
			bad := good()
			c.change(bad)
			got := s.Do(bad)
			if !errors.Is(got[0].Err, c.want) {
				t.Errorf("got %v, want %v", got[0].Err, c.want)
			}
			if s.Released() != end {
				t.Error("something was written")
			}
		})
	}
	if got := s.Do(good()); got[0].Offset != 3 {
		t.Errorf("settle: %+v", got[0])
	}
	if got := s.Do(&engine.Settle{Group: engine.StageGroup, Topic: "%STAGE%t", Items: make([]engine.Settled, 1)}); !errors.Is(got[0].Err, engine.ErrBadCommand) {
		t.Errorf("plugin 0 of none: %+v", got[0])
	}
}

// No more than MaxSettledAbove offsets are settled above a gap; what closes it is taken at any time.
func TestSettleLimit(t *testing.T) {
	const most = engine.MaxSettledAbove
	s := enginetest.Open(t, enginetest.Config{Options: engine.Options{
		Queues: 1, SegmentSize: 32 << 20, CheckpointEvery: 1 << 30, UnitsPerFile: 1 << 20, TailBytes: 1 << 20,
	}})
	puts := make([]engine.Command, 0, 1000)
	for n := 0; n < most+1100; n += len(puts) {
		for puts = puts[:0]; len(puts) < 1000; {
			puts = append(puts, &engine.Put{Topic: "t", Queue: 0})
		}
		s.Do(puts...)
	}
	batch := func(from, to int64) *engine.Settle {
		c := &engine.Settle{Group: "g", Topic: "t"}
		for o := from; o < to; o++ {
			c.Items = append(c.Items, engine.Settled{Offset: o, Plugin: engine.Nobody})
		}
		return c
	}
	for o := int64(1); o <= most; o += 1024 {
		if got := s.Do(batch(o, min(o+1024, most+1))); got[0].Err != nil {
			t.Fatalf("from %d: %v", o, got[0].Err)
		}
	}
	if got := s.Do(batch(most+1, most+2)); !errors.Is(got[0].Err, engine.ErrSettled) {
		t.Errorf("one more: %+v", got[0])
	}
	c := batch(0, 1)
	c.Items = append(c.Items, batch(most+1, most+900).Items...)
	if got := s.Do(c); got[0].Offset != most+900 {
		t.Errorf("with what closes the gap: %+v", got[0])
	}
	if ranges, _ := s.Settled("g", "t", 0); len(ranges) > 0 {
		t.Errorf("settled: %v", ranges)
	}
}
