package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
)

// eventsFrom reads all events of a topic from a place on.
func eventsFrom(t testing.TB, s *enginetest.Store, topic string, from engine.Offset) []engine.Event {
	t.Helper()
	r, err := s.NewEventReader(topic, from)
	if err != nil {
		t.Fatalf("events of %q from %d on: %v", topic, from, err)
	}
	var all []engine.Event
	for steps := 0; ; steps++ {
		n, at := len(all), r.At()
		var pos engine.Offset
		if all, pos, err = r.Read(all); err != nil {
			t.Fatalf("events of %q from %d on: %v", topic, from, err)
		}
		if pos > s.Released() {
			t.Fatalf("events hold at %d, released is %d", pos, s.Released())
		}
		if r.At() == at {
			if len(all) > n || at != s.Released() {
				t.Fatalf("the reader stands at %d with %d events, released is %d", at, len(all)-n, s.Released())
			}
			return all
		}
		if steps > 1<<16 {
			t.Fatal("the events have no end")
		}
	}
}

// eventText says what matters of an event.
func eventText(ev engine.Event) string {
	text := ev.Kind + " " + ev.TopicName + "/" + ev.GroupName + " " + ev.Key
	switch {
	case ev.NewDueMs != 0:
		text += fmt.Sprint(" to +", ev.NewDueMs-enginetest.Epoch)
	case ev.DueMs != 0:
		text += fmt.Sprint(" +", ev.DueMs-enginetest.Epoch)
	}
	if ev.Offset >= 0 {
		text += fmt.Sprint(" @", ev.Offset)
	}
	return text
}

// Each kind of event is told with what belongs to it.
func TestEventsLives(t *testing.T) {
	for pauseName, pause := range pauses() {
		t.Run(pauseName, func(t *testing.T) {
			o := timers()
			o.CheckpointEvery = 1 << 20 // what it rolls and trims is the subject of another test
			o.SegmentSize = 1 << 20
			s := enginetest.Open(t, enginetest.Config{Options: o})
			start := s.Released()
			s.Do(&engine.Put{Topic: "t", Queue: 0, Key: []byte("now"), Tag: []byte("x"), Body: []byte("now")})
			pause(t, s)
			fire, gone := stored(t, s, later("fire", 90*time.Second)), stored(t, s, later("gone", time.Hour))
			moved := stored(t, s, later("moved", time.Hour))
			pause(t, s)
			answerOf(t, s, &engine.Cancel{Handle: gone.Handle()}, engine.Cancelled)
			again := move(t, s, moved, enginetest.Epoch+120_000)
			record, err := s.ReadCancelled(gone.Handle())
			if err != nil {
				t.Fatal(err)
			}
			answerOf(t, s, &engine.Undo{Handle: gone.Handle(), Record: record}, engine.Restored)
			s.Do(&engine.CommitOffset{Group: "g", Topic: "t", Queue: 0, Offset: 1})
			pause(t, s)
			goTo(t, s, enginetest.Epoch+90_017)
			goTo(t, s, enginetest.Epoch+120_000)
			s.Do(&engine.Put{Topic: "u", Queue: 0, DelayMs: 1000, Body: []byte("drop")}, &engine.DeleteTopic{Topic: "u"})
			s.Pass(time.Second)
			pause(t, s)

			var got []string
			all := eventsFrom(t, s, "", start)
			for i, ev := range all {
				got = append(got, eventText(ev))
				if i > 0 && ev.Position <= all[i-1].Position {
					t.Errorf("event %d at %d, the one before at %d", i, ev.Position, all[i-1].Position)
				}
			}
			want := []string{
				"topic t/ ", "stored t/ now @0", "scheduled t/ fire +90000", "scheduled t/ gone +3600000", "scheduled t/ moved +3600000",
				"cancelled t/  +3600000", "moved t/ moved to +120000", "undone t/ gone to +3600000",
				"group /g ", "committed t/g  @1",
				"delivered t/ fire +90000 @1", "delivered t/ moved +120000 @2",
				"topic u/ ", "scheduled /  +121000", "topic_deleted u/ ", "dropped /  +121000",
			}
			for i := range got { // a tick of a pause may have moved the clock when a delay was counted
				if i < len(want) && pauseName == "a tick" {
					got[i], want[i], _ = strings.Cut(got[i], "+")
					want[i] = got[i]
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("events:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			byKind := map[string]engine.Event{}
			for _, ev := range all {
				if ev.Key != "moved" || ev.Kind != engine.EventDelivered {
					byKind[ev.Kind] = ev
				}
			}
			if ev := byKind[engine.EventMoved]; ev.ID != moved.ID || ev.NewID != again.ID || ev.First != again.Position {
				t.Errorf("moved: %+v; the old is %+v, the new %+v", ev, moved, again)
			}
			if ev := byKind[engine.EventDelivered]; ev.ID != fire.ID || ev.First != fire.Position || ev.LatenessMs() < 7 {
				t.Errorf("delivered: %+v; it was stored as %+v", ev, fire)
			}
			if ev := byKind[engine.EventStored]; ev.Tag != "x" || ev.ID != 0 || ev.LatenessMs() != 0 {
				t.Errorf("stored: %+v", ev)
			}
		})
	}
}

// From behind each event the rest is told, and nothing else; and a topic's events are those of all that are its own.
func TestEventsResume(t *testing.T) {
	o := timers()
	o.CheckpointEvery = 1 << 20
	s := enginetest.Open(t, enginetest.Config{Options: o})
	start := s.Released()
	for i := range 40 {
		var puts []engine.Command
		for j := range 20 {
			p := later(fmt.Sprintf("%d-%d", i, j), time.Duration(1+j%3)*time.Second)
			p.Topic = []string{"t", "u"}[j%2]
			puts = append(puts, p)
		}
		s.Do(puts...)
		s.Pass(700 * time.Millisecond)
	}
	s.Pass(time.Minute)
	all := eventsFrom(t, s, "", start)
	if n := len(all); n < 1600 {
		t.Fatalf("%d events", n)
	}
	rng := rand.New(rand.NewPCG(1, 0))
	for range 100 {
		i := rng.IntN(len(all))
		from := all[i].Position + 1
		if rest := eventsFrom(t, s, "", from); !slices.Equal(rest, all[i+1:]) {
			t.Fatalf("from %d, behind event %d of %d: %d events", from, i, len(all), len(rest))
		}
		if rest := eventsFrom(t, s, "", all[i].Position); !slices.Equal(rest, all[i:]) {
			t.Fatalf("from event %d of %d on: %d events", i, len(all), len(rest))
		}
	}
	for _, topic := range []string{"t", "u", "v"} {
		own := slices.DeleteFunc(slices.Clone(all), func(ev engine.Event) bool { return ev.TopicName != topic })
		if got := eventsFrom(t, s, topic, start); !slices.Equal(got, own) {
			t.Errorf("topic %q has %d events, %d of all are its own", topic, len(got), len(own))
		}
	}
	if _, err := s.NewEventReader("", s.Released()+1); !errors.Is(err, engine.ErrOffset) {
		t.Errorf("from behind the end: %v", err)
	}
}

// The events of a topic that was deleted later are told, also when it was made in a segment before.
func TestEventsOfADeletedTopic(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: timers()})
	answerOf(t, s, &engine.DefineTopic{Topic: "t", Queues: 1}, engine.Done)
	made := s.Released()
	for i := 0; len(segments(t, s.FS)) < 3 || i < 3; i++ { // a spare one is made ahead
		s.Do(traffic(8)...)
		s.Pass(time.Second)
	}
	from := s.Released()
	if from < made+1<<10 {
		t.Fatalf("the log ends at %d, the topic was made at %d", from, made)
	}
	now, err := s.NewEventReader("t", from)
	if err != nil {
		t.Fatal(err)
	}
	s.Do(&engine.Put{Topic: "t", Queue: 0, Key: []byte("x"), Body: []byte("x")})
	middle := s.Released()
	s.Do(&engine.Put{Topic: "t", Queue: 0, Key: []byte("y"), Body: []byte("y")})
	answerOf(t, s, &engine.DeleteTopic{Topic: "t"}, engine.Done)
	answerOf(t, s, &engine.DefineTopic{Topic: "t", Queues: 1}, engine.Done)
	s.Do(&engine.Put{Topic: "t", Queue: 0, Key: []byte("z"), Body: []byte("z")})
	texts := func(events []engine.Event) (list []string) {
		for _, ev := range events {
			list = append(list, eventText(ev))
		}
		return list
	}
	want := []string{"stored t/ x @0", "stored t/ y @1", "topic_deleted t/ ", "topic t/ ", "stored t/ z @0"}
	live, _, err := now.Read(nil)
	if got := texts(live); err != nil || !slices.Equal(got, want) {
		t.Errorf("from now on: %q, %v", got, err)
	}
	if got := texts(eventsFrom(t, s, "t", from)); !slices.Equal(got, want) {
		t.Errorf("from before the first: %q", got)
	}
	if got := texts(eventsFrom(t, s, "t", middle)); !slices.Equal(got, want[1:]) {
		t.Errorf("from the second on: %q", got)
	}
	if all := eventsFrom(t, s, "t", s.First()); eventText(all[0]) != "topic t/ " || !slices.Equal(texts(all[1:]), want) {
		t.Errorf("from the first: %q", texts(all))
	}
}

// A place that was deleted is an error that says where the log begins, at the begin and under a reader that was slow.
func TestEventsTrimmed(t *testing.T) {
	o := timers()
	o.Retention, o.RollAfter = time.Second, time.Minute
	s := enginetest.Open(t, enginetest.Config{Options: o})
	start := s.Released()
	slow, err := s.NewEventReader("", start)
	if err != nil {
		t.Fatal(err)
	}
	stay := stored(t, s, later("stay", 30*time.Hour))
	rollHead(t, s)
	if s.First() <= start {
		t.Fatalf("the log begins at %d", s.First())
	}
	wanted := fmt.Sprint("the log begins at ", s.First())
	if _, err := s.NewEventReader("", start); !errors.Is(err, engine.ErrTrimmed) || !strings.Contains(err.Error(), wanted) {
		t.Errorf("from what was deleted: %v, want %q", err, wanted)
	}
	if _, _, err := slow.Read(nil); !errors.Is(err, engine.ErrTrimmed) || !strings.Contains(err.Error(), wanted) {
		t.Errorf("a slow reader: %v, want %q", err, wanted)
	}
	var rolled, trimmed bool
	for _, ev := range eventsFrom(t, s, "", s.First()) {
		rolled = rolled || ev.Kind == engine.EventRolled && ev.ID == stay.ID && ev.First == stay.Position
		trimmed = trimmed || ev.Kind == engine.EventTrimmed && ev.First == s.First()
	}
	if !rolled || !trimmed {
		t.Errorf("rolled %v, trimmed %v", rolled, trimmed)
	}
}

// BenchmarkEvents reads the events of messages that came and were delivered.
func BenchmarkEvents(b *testing.B) {
	s := enginetest.Open(b, enginetest.Config{Options: roomy()})
	start := s.Released()
	var puts []*engine.Put
	for i := range 20_000 {
		puts = append(puts, later(fmt.Sprint(i), time.Second))
	}
	putAll(b, s, puts)
	s.Pass(2 * time.Second)
	b.ReportAllocs()
	events := 0
	for b.Loop() {
		events += len(eventsFrom(b, s, "t", start))
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}
