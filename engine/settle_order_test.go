package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
)

// Of several settles in order none is done behind one that is refused, and one that comes twice is refused.
func TestSettleInOrder(t *testing.T) {
	s := staged(t, engine.Options{Queues: 1})
	for range 4 {
		s.Do(&engine.Put{Topic: "t", Body: []byte("x")})
	}
	s.Step()
	items := undecided(t, s, "t", 0)
	inOrder := func(items ...engine.Settled) *engine.Settle {
		c := settle("t", 0, keep, items...)
		c.InOrder = true
		return c
	}
	bad := inOrder(items[1])
	bad.Puts = []*engine.Put{{Topic: "a name", Body: []byte("x")}}
	for i, c := range []struct {
		settle *engine.Settle
		want   error
	}{
		{inOrder(items[1]), engine.ErrSettled},
		{inOrder(items[0]), nil},
		{inOrder(items[0], items[1]), engine.ErrSettled},
		{bad, engine.ErrTopicName},
		{inOrder(items[2]), engine.ErrSettled},
		{inOrder(items[1], items[2]), nil},
		{inOrder(items[3]), nil},
	} {
		answers, err := s.Solo.Do(c.settle)
		if err != nil || !errors.Is(answers[0].Err, c.want) {
			t.Errorf("settle %d: %v, %v, want %v", i, answers, err, c.want)
		}
	}
	info, _, _ := s.Topic(engine.StagePrefix + "t")
	if topic, ok := s.StagedBy(info.ID); topic != "t" || !ok {
		t.Errorf("the stage's topic is %q, %v", topic, ok)
	}
	if topic, ok := s.StagedBy(info.ID - 1); ok {
		t.Errorf("a topic is the stage of %q", topic)
	}
}

// Several queues pulled at once are as each pulled by itself; one that cannot be pulled takes nothing from the others.
func TestPullAll(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: engine.Options{Queues: 3}})
	for i := range 300 {
		s.Do(&engine.Put{Topic: "t", Queue: i % 3, Body: fmt.Append(nil, "body ", i, strings.Repeat("x", i*40))})
	}
	reqs := []engine.PullRequest{
		{Topic: "t", Queue: 2, Offset: 10, MaxCount: 1000, MaxBytes: 1 << 20},
		{Topic: "t", Queue: 7},
		{Topic: "t", Queue: 0, Offset: 0, MaxCount: 20},
		{Topic: "nowhere"},
		{Topic: "t", Queue: 1, Offset: 99, MaxCount: 1000},
		{Topic: "t", Queue: 1, Offset: 200},
	}
	into := make([]*engine.Pulled, len(reqs))
	for i := range into {
		into[i] = new(engine.Pulled)
	}
	for range 2 { // and again into the same memory
		errs := s.PullAll(reqs, into)
		for i := range reqs {
			var alone engine.Pulled
			err := s.Solo.Pull(reqs[i], &alone)
			if fmt.Sprint(err) != fmt.Sprint(errs[i]) || len(alone.Messages) != len(into[i].Messages) || alone.Next != into[i].Next {
				t.Errorf("request %d: %d messages, next %d, %v; alone %d, %d, %v", i, len(into[i].Messages), into[i].Next, errs[i],
					len(alone.Messages), alone.Next, err)
				continue
			}
			for j := range alone.Messages {
				got, want := &into[i].Messages[j], &alone.Messages[j]
				if got.Err != nil || got.Offset != want.Offset || string(got.Body) != string(want.Body) || got.Position != want.Position {
					t.Fatalf("request %d: message %d is %d at %d, %v", i, j, got.Offset, got.Position, got.Err)
				}
			}
		}
	}
	if errs := s.PullAll(nil, nil); len(errs) != 0 {
		t.Error(errs)
	}
}
