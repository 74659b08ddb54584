package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
)

// A pause is in the log: it outlives restarts, a checkpoint, a rebuild and the segment that it stands in; deleting the
// topic ends it.
func TestPauseTopic(t *testing.T) {
	for pauseName, pause := range pauses() {
		t.Run(pauseName, func(t *testing.T) {
			s := enginetest.Open(t, enginetest.Config{Options: timers()})
			if a := s.Do(&engine.PauseTopic{Topic: "t", Paused: true})[0]; !errors.Is(a.Err, engine.ErrNoTopic) {
				t.Errorf("pause of a topic that is not there: %+v", a)
			}
			want := func(paused bool, attrs uint32) {
				t.Helper()
				info, ok, pos := s.Topic("t")
				if !ok || info.Paused != paused || info.Attrs != attrs || pos > s.Released() {
					t.Errorf("topic %+v, %v at %d; want paused %v, attributes %d", info, ok, pos, paused, attrs)
				}
				if got, _ := s.Paused(info.ID); got != paused {
					t.Errorf("topic %d is paused: %v, want %v", info.ID, got, paused)
				}
			}
			answerOf(t, s, &engine.DefineTopic{Topic: "t", Queues: 1, Attrs: 5}, engine.Done)
			want(false, 5)
			answerOf(t, s, &engine.PauseTopic{Topic: "t", Paused: true}, engine.Done)
			end := s.Released()
			answerOf(t, s, &engine.PauseTopic{Topic: "t", Paused: true}, engine.Done)
			if s.Released() != end {
				t.Error("a pause of what is paused was logged")
			}
			pause(t, s)
			want(true, 5)
			stored(t, s, later("due", time.Second))
			answerOf(t, s, &engine.DefineTopic{Topic: "t", Queues: 2, Attrs: 6}, engine.Done)
			pause(t, s)
			s.Pass(2 * time.Second)
			want(true, 6)
			if n := visible(s, "t", 0); n != 1 {
				t.Errorf("%d messages were delivered, want 1", n)
			}
			answerOf(t, s, &engine.PauseTopic{Topic: "t"}, engine.Done)
			pause(t, s)
			want(false, 6)
			answerOf(t, s, &engine.PauseTopic{Topic: "t", Paused: true}, engine.Done)
			answerOf(t, s, &engine.DeleteTopic{Topic: "t"}, engine.Done)
			answerOf(t, s, &engine.DefineTopic{Topic: "t", Queues: 1}, engine.Done)
			want(false, 0)
			if a := s.Do(&engine.DefineTopic{Topic: "t", Queues: 1, Attrs: 1 << 31})[0]; !errors.Is(a.Err, engine.ErrBadCommand) {
				t.Errorf("attributes of the engine: %+v", a)
			}
		})
	}
}

// A pause outlives the part of the log in which it was recorded.
func TestPauseOutlivesItsSegment(t *testing.T) {
	o := timers()
	o.Retention, o.RollAfter = time.Second, time.Minute
	s := enginetest.Open(t, enginetest.Config{Options: o})
	answerOf(t, s, &engine.DefineTopic{Topic: "quiet", Queues: 1}, engine.Done)
	answerOf(t, s, &engine.PauseTopic{Topic: "quiet", Paused: true}, engine.Done)
	at := s.Released()
	for s.First() < at {
		rollHead(t, s)
	}
	rebuildStore(t, s)
	if info, ok, _ := s.Topic("quiet"); !ok || !info.Paused {
		t.Errorf("topic %+v, %v", info, ok)
	}
}
