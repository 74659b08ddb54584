package engine_test

import (
	"errors"
	"testing"

	"github.com/tidewheel/tidewheel/engine"
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
