package engine_test

import (
	"errors"
	"testing"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
)

// What goes with a put is done if the message is stored, in the same batch, and not if it is refused.
func TestPutThen(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: engine.Options{CheckpointEvery: 8 << 20}})
	s.Do(&engine.Put{Topic: "t", Queue: 0}, &engine.Put{Topic: "t", Queue: 0})
	commit := func(offset int64) *engine.CommitOffset {
		return &engine.CommitOffset{Group: "g", Topic: "t", Offset: offset}
	}
	answers := s.Do(
		&engine.Put{Topic: "retry", Level: 1, Body: make([]byte, 1<<20), Then: commit(1)},
		&engine.Put{Topic: "retry", Level: -1, Then: commit(2)},
		&engine.Put{Topic: "copy", Then: &engine.Put{Topic: "mark", Level: 1, Then: &engine.Put{Topic: "mark"}}},
	)
	if answers[0].Outcome != engine.Scheduled || !errors.Is(answers[1].Err, engine.ErrLevel) || answers[2].Outcome != engine.Stored {
		t.Fatalf("answers: %+v", answers)
	}
	if at, _, _ := s.Committed("g", "t", 0); at != 1 {
		t.Errorf("committed is %d, want 1: the second put was refused", at)
	}
	if info, ok, _ := s.Topic("mark"); !ok || info.Pending != 1 || info.Queues[0].Next+info.Queues[1].Next != 1 {
		t.Errorf("topic mark: %+v", info)
	}
	s.Kill(true)
	if at, _, _ := s.Committed("g", "t", 0); at != 1 {
		t.Errorf("after a power cut committed is %d, want 1", at)
	}
}

// A group that was deleted has no offsets, and is another one when it comes again.
func TestDeleteGroup(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{})
	s.Do(&engine.Put{Topic: "t", Queue: 0}, &engine.DefineGroup{Group: "g", Attrs: 3}, &engine.CommitOffset{Group: "g", Topic: "t", Offset: 1})
	old, ok, _ := s.Group("g")
	if !ok || old.Attrs != 3 {
		t.Fatalf("group: %+v, %v", old, ok)
	}
	answers := s.Do(&engine.DeleteGroup{Group: "g"}, &engine.DeleteGroup{Group: "g"})
	if answers[0].Outcome != engine.Done || !errors.Is(answers[1].Err, engine.ErrNoGroup) {
		t.Errorf("answers: %+v", answers)
	}
	s.Kill(true)
	if _, ok, _ := s.Group("g"); ok {
		t.Error("the group is there after its end")
	}
	s.Do(&engine.DefineGroup{Group: "g"})
	if g, _, _ := s.Group("g"); g.ID == old.ID {
		t.Errorf("the new group has the old id %d", g.ID)
	}
	if at, ok, _ := s.Committed("g", "t", 0); ok {
		t.Errorf("the new group has committed %d", at)
	}
}
