package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// batchesOf lists the batches of the first segment, but for its state record: their positions, and the kinds of their records.
func batchesOf(t *testing.T, disk *crashfs.FS) (positions []int64, kinds []string) {
	t.Helper()
	out, err := dumpText(t, disk, "commitlog", true)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out) {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatal(err)
		}
		switch o["item"] {
		case "batch":
			pos, _ := strconv.ParseInt(o["pos"].(string), 10, 64)
			positions, kinds = append(positions, pos), append(kinds, "")
		case "record":
			kinds[len(kinds)-1] += o["kind"].(string) + " "
		}
	}
	return positions, kinds
}

// drainStage keeps everything that is in the stage of a topic.
func drainStage(t *testing.T, e *engine.Solo, topic string) {
	t.Helper()
	stage, ok, _ := e.Topic(engine.StagePrefix + topic)
	for queue := range stage.Queues {
		var p engine.Pulled
		for steps := 0; ok; steps++ {
			at, _, _ := e.Committed(engine.StageGroup, stage.Name, queue)
			at = max(at, stage.Queues[queue].Min)
			if err := e.Pull(engine.PullRequest{Topic: stage.Name, Queue: queue, Offset: at, MaxCount: 1, MaxBytes: 1 << 20}, &p); err != nil {
				t.Fatalf("pull of the stage at %d: %v", at, err)
			}
			if len(p.Messages) == 0 {
				break
			}
			it := p.Messages[0].Settled()
			it.Keep, it.Action = true, keep
			answers, err := e.Do(&engine.Settle{Group: engine.StageGroup, Topic: stage.Name, Queue: queue, Items: []engine.Settled{it}})
			if err != nil || answers[0].Err != nil || answers[0].Offset <= at || steps > 1000 {
				t.Fatalf("settle at %d: %+v, %v", at, answers, err)
			}
		}
	}
}

// Any batch of a life with stages may be lost: the definition of a topic, of its stage or of the group, deliveries, verdicts, the
// end of a topic. After a repair the store opens, what is in the stage is decided, and the next state record says what holds.
func TestRepairStages(t *testing.T) {
	disk := crashfs.New(crashfs.Options{})
	o := engine.Options{Queues: 1, SegmentSize: 64 << 10, Stage: func(topic string) bool { return !strings.HasPrefix(topic, "plain") }}
	s := enginetest.Open(t, enginetest.Config{FS: disk, Damaged: true, Options: o})
	inStage(t, s, "t", "a", "b", "c")
	s.Do(settle("t", 0, keep, undecided(t, s, "t", 0)[1]))
	c := settle("t", 0, drop, undecided(t, s, "t", 0)[0])
	c.Puts = []*engine.Put{{Topic: "t", Queue: 0, Unstaged: true, Body: []byte("A")}, {Topic: "new", Queue: 0, Body: []byte("copy")}}
	s.Do(c)
	s.Step()
	s.Do(&engine.DefineTopic{Topic: "t", Queues: 2}, &engine.Put{Topic: "t", Queue: 1, DelayMs: 1000, Body: []byte("later")})
	s.Pass(2 * time.Second)
	inStage(t, s, "gone", "x", "y")
	s.Do(settle("gone", 0, keep, undecided(t, s, "gone", 0)[1]))
	s.Do(&engine.DeleteTopic{Topic: "gone"})
	inStage(t, s, "gone", "z")
	s.Do(settle("gone", 0, keep, undecided(t, s, "gone", 0)...))
	s.Do(&engine.StageTopic{Topic: "t"}, &engine.Put{Topic: "t", Queue: 0, Body: []byte("free")})
	s.Do(&engine.StageTopic{Topic: "t", Staged: true})
	s.Do(&engine.Settle{Group: "g", Topic: "t", Items: []engine.Settled{{Offset: 1, Plugin: engine.Nobody}}})
	s.Do(&engine.DeleteGroup{Group: "g"})
	inStage(t, s, "t", "last", "of", "all")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	positions, kinds := batchesOf(t, disk.Clone())
	met := map[string]bool{}
	for i, pos := range positions {
		if i == 0 || i == len(positions)-1 {
			continue // the state record; and a torn end is cut, not repaired
		}
		for _, kind := range strings.Fields(kinds[i]) {
			met[kind] = true
		}
		t.Run(fmt.Sprint(i, " ", strings.TrimSpace(kinds[i])), func(t *testing.T) {
			d := disk.Clone()
			if err := d.Rot("commitlog/00000000000000000000", (pos+120)*8); err != nil {
				t.Fatal(err)
			}
			env := dumpEnv(d)
			if lost, err := engine.Repair(env, ".", o); err != nil || len(lost) != 1 {
				t.Fatalf("repair: %v, %v", lost, err)
			}
			if _, err := engine.Check(env, ".", o); err != nil {
				t.Fatalf("check after the repair: %v", err)
			}
			e, err := engine.OpenSolo(env, ".", o)
			if err != nil {
				t.Fatalf("open after the repair: %v", err)
			}
			for range 2 {
				for _, topic := range []string{"t", "new", "gone"} {
					drainStage(t, e, topic)
					answers, err := e.Do(&engine.Put{Topic: topic, Queue: 0, Body: []byte("after")})
					if err != nil || answers[0].Err != nil && !errors.Is(answers[0].Err, engine.ErrQueue) {
						t.Fatalf("put into %s: %+v, %v", topic, answers, err)
					}
				}
				if _, err := e.Step(); err != nil {
					t.Fatal(err)
				}
				for range 60 { // over the next segment, whose state record is made from what is known now
					if _, err := e.Do(&engine.Put{Topic: "plain", Queue: 0, Body: make([]byte, 2000)}); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, topic := range []string{"t", "new", "gone"} {
				drainStage(t, e, topic)
				var p engine.Pulled
				info, _, _ := e.Topic(topic)
				if info.StageLag != 0 {
					t.Errorf("topic %s: %d are in the stage for ever", topic, info.StageLag)
				}
				if err := e.Pull(engine.PullRequest{Topic: topic, Queue: 0, Offset: info.Queues[0].Min, MaxCount: 1000, MaxBytes: 1 << 20}, &p); err != nil {
					t.Fatal(err)
				}
				last := p.Messages[len(p.Messages)-1]
				if last.Err != nil || string(last.Body) != "after" {
					t.Errorf("the last message of %s: %q, %v", topic, last.Body, last.Err)
				}
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := engine.Check(env, ".", o); err != nil {
				t.Errorf("check later: %v", err)
			}
		})
	}
	for _, kind := range []string{"topic", "group", "deliver", "verdict", "message"} {
		if !met[kind] {
			t.Errorf("no batch with a %s record was lost: %v", kind, slices.Sorted(slices.Values(kinds)))
		}
	}
}
