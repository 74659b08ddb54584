package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
)

// The life of a staged message is told from the log: that it came to the stage, and what was decided by whom. A message that
// is in its topic is delivered by the verdict, not by the clock.
func TestStageEvents(t *testing.T) {
	for pauseName, pause := range pauses() {
		t.Run(pauseName, func(t *testing.T) {
			o := timers()
			o.CheckpointEvery, o.SegmentSize, o.Queues = 1<<20, 1<<20, 1
			o.Stage = func(string) bool { return true }
			s := enginetest.Open(t, enginetest.Config{Options: o})
			start := s.Released()
			kept, lost := stored(t, s, later("kept", time.Second)), stored(t, s, later("lost", time.Second))
			open, free := stored(t, s, later("open", time.Second)), stored(t, s, later("free", time.Second))
			pause(t, s)
			goTo(t, s, enginetest.Epoch+2000)
			pause(t, s)
			lifeOf(t, s, open, engine.Delivered, "in the stage of its topic, not yet decided", "scheduled", "staged")
			items := undecided(t, s, "t", 0)
			goTo(t, s, enginetest.Epoch+5000)
			c := settle("t", 0, keep, items[0], items[1], items[3])
			c.Items[1].Action, c.Items[1].Code, c.Items[1].Keep = drop, 77, false
			c.Items[2].Plugin = engine.Nobody
			if got := s.Do(c); got[0].Err != nil {
				t.Fatal(got[0].Err)
			}
			pause(t, s)
			lifeOf(t, s, kept, engine.Delivered, "delivered: plugin 010203000000 kept it", "scheduled", "staged", "delivered")
			lifeOf(t, s, lost, engine.Delivered, "plugin 010203000000 decided drop, code 77", "scheduled", "staged", "decided")
			lifeOf(t, s, free, engine.Delivered, "no plugin was asked", "scheduled", "staged", "delivered")

			var got []string
			for _, ev := range eventsFrom(t, s, "", start) {
				text := eventText(ev)
				if v := ev.Verdict; v != nil {
					text += " " + engine.ActionName(v.Action)
				}
				got = append(got, text)
				if ev.Kind == engine.EventDelivered && ev.LatenessMs() < 3000 {
					t.Errorf("kept %d ms after it was due", ev.LatenessMs())
				}
			}
			want := []string{
				"topic t/ ", "topic %STAGE%t/ ", "scheduled t/ kept +1000", "scheduled t/ lost +1000", "scheduled t/ open +1000",
				"scheduled t/ free +1000", "staged t/ kept +1000 @0", "staged t/ lost +1000 @1", "staged t/ open +1000 @2", "staged t/ free +1000 @3",
				"group /%STAGE% ", "delivered t/%STAGE% kept +1000 @0 keep", "decided t/%STAGE% lost +1000 drop", "delivered t/%STAGE% free +1000 @1 keep",
			}
			if !slices.Equal(got, want) {
				t.Errorf("events:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			want = slices.DeleteFunc(want, func(text string) bool { return strings.HasPrefix(text, "group") })
			var ofTopic []string
			for _, ev := range eventsFrom(t, s, "t", start) {
				text := eventText(ev)
				if v := ev.Verdict; v != nil {
					text += " " + engine.ActionName(v.Action)
				}
				ofTopic = append(ofTopic, text)
			}
			if !slices.Equal(ofTopic, want) {
				t.Errorf("events of the topic:\n%s\nwant:\n%s", strings.Join(ofTopic, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// What was told of a topic is told the same when the topic is gone.
func TestStageEventsOfATopicThatIsGone(t *testing.T) {
	s := staged(t, engine.Options{Queues: 1})
	start := s.Released()
	s.Do(&engine.Put{Topic: "t", Body: []byte("a")})
	s.Step()
	s.Do(settle("t", 0, keep, undecided(t, s, "t", 0)...))
	kinds := func(topic string) (list []string) {
		for _, ev := range eventsFrom(t, s, topic, start) {
			if ev.ID != 0 {
				list = append(list, ev.Kind)
			}
		}
		return list
	}
	want(t, "of the topic", kinds("t"), "[scheduled staged delivered]")
	s.Do(&engine.DeleteTopic{Topic: "t"})
	want(t, "of all", kinds(""), "[scheduled staged delivered]")
	want(t, "of the topic", kinds("t"), "[scheduled staged delivered]")
}
