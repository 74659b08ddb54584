package engine_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

// lifeOf wants the life of a message: its events, its outcome, and a word of the reason.
func lifeOf(t *testing.T, s *enginetest.Store, a engine.Answer, outcome engine.Outcome, reason string, events ...string) engine.Explanation {
	t.Helper()
	x, err := s.Explain(a.Handle(), 0)
	if err != nil {
		t.Fatalf("explain message %d: %v", a.ID, err)
	}
	var kinds []string
	last := engine.Offset(-1)
	for _, ev := range x.Events {
		kinds = append(kinds, ev.Kind)
		if ev.Position <= last || ev.WallMs < enginetest.Epoch || ev.WallMs > s.Clock.Wall() || ev.DueMs != a.DueMs || ev.Topic != a.Topic {
			t.Errorf("message %d: event %+v", a.ID, ev)
		}
		if delivered := ev.Kind == "delivered" || ev.Kind == "staged"; delivered != (ev.Offset >= 0) {
			t.Errorf("message %d: offset of event %+v", a.ID, ev)
		}
		last = ev.Position
	}
	if got, want := strings.Join(kinds, " "), strings.Join(events, " "); got != want || x.Outcome != outcome {
		t.Fatalf("message %d: %v, events %q; want %v, %q", a.ID, x.Outcome, got, outcome, want)
	}
	if !strings.Contains(x.Reason, reason) {
		t.Errorf("message %d: reason %q does not say %q", a.ID, x.Reason, reason)
	}
	if x.Position > s.Released() || x.ScannedTo > s.Released() {
		t.Errorf("message %d: looked up to %d, holds at %d, released is %d", a.ID, x.ScannedTo, x.Position, s.Released())
	}
	return x
}

// Every life that a message can have, as the log tells it.
func TestTimerExplainLives(t *testing.T) {
	for pauseName, pause := range pauses() {
		t.Run(pauseName, func(t *testing.T) {
			s := enginetest.Open(t, enginetest.Config{Options: timers()})
			stay, fire := stored(t, s, later("stay", 5*time.Hour)), stored(t, s, later("fire", time.Hour))
			gone, back := stored(t, s, later("gone", time.Hour)), stored(t, s, later("back", 2*time.Hour))
			moved, level := stored(t, s, later("moved", time.Hour)), stored(t, s, put("level", 3))
			answerOf(t, s, &engine.Cancel{Handle: gone.Handle()}, engine.Cancelled)
			again := move(t, s, moved, s.Clock.Wall()+1000)
			answerOf(t, s, &engine.Cancel{Handle: back.Handle()}, engine.Cancelled)
			record, err := s.ReadCancelled(back.Handle())
			if err != nil {
				t.Fatal(err)
			}
			s.Pass(time.Second)
			pause(t, s)
			lifeOf(t, s, back, engine.AlreadyCancelled, "cancelled", "scheduled", "cancelled")
			restored := answerOf(t, s, &engine.Undo{Handle: back.Handle(), Record: record}, engine.Restored)
			s.Pass(time.Hour)
			pause(t, s)

			lifeOf(t, s, stay, engine.Scheduled, "due in", "scheduled")
			x := lifeOf(t, s, fire, engine.Delivered, "delivered", "scheduled", "delivered")
			if m := s.Pull("t", 0, x.Events[1].Offset); m == nil || string(m.Key) != "fire" || x.Events[1].Queue != 0 {
				t.Errorf("at the offset of the delivery there is %+v", m)
			}
			lifeOf(t, s, gone, engine.AlreadyCancelled, "cancelled", "scheduled", "cancelled")
			if x := lifeOf(t, s, moved, engine.Superseded, "moved", "scheduled", "moved"); x.Events[1].NewID != again.ID ||
				x.Next != again.Handle() || x.Events[1].NewDueMs != again.DueMs {
				t.Errorf("moved to %d due at %d, %+v; want %+v", x.Events[1].NewID, x.Events[1].NewDueMs, x.Next, again)
			}
			lifeOf(t, s, again, engine.Delivered, "delivered", "scheduled", "delivered")
			lifeOf(t, s, level, engine.Delivered, "delivered", "scheduled", "delivered")
			if x := lifeOf(t, s, back, engine.Superseded, "moved", "scheduled", "cancelled", "undone"); x.Events[2].NewID != restored.ID ||
				x.Next != restored.Handle() {
				t.Errorf("brought back as %d, %+v; want %+v", x.Events[2].NewID, x.Next, restored)
			}
			lifeOf(t, s, restored, engine.Scheduled, "due in", "scheduled")
			for from, x := engine.Offset(0), x; from < s.Released(); from = x.ScannedTo { // nothing is told twice
				x, err = s.Explain(fire.Handle(), max(from, x.ScannedTo))
				if err != nil || len(x.Events) > 0 {
					t.Fatalf("from %d on: %+v: %v", from, x.Events, err)
				}
				if x.ScannedTo == from {
					break
				}
			}
		})
	}
}

// A roll is told, and a life whose begin went with the log's head is told from where the log begins.
func TestTimerExplainRolled(t *testing.T) {
	o := timers()
	o.Retention, o.RollAfter = time.Second, time.Minute
	s := enginetest.Open(t, enginetest.Config{Options: o})
	a, b := stored(t, s, later("a", 30*time.Hour)), stored(t, s, later("b", 30*time.Hour))
	rollHead(t, s)
	answerOf(t, s, &engine.Cancel{Handle: b.Handle()}, engine.Cancelled)
	for range 2 {
		for _, life := range []struct {
			a    engine.Answer
			want string
		}{{a, ""}, {b, " cancelled"}} {
			x, err := s.Explain(life.a.Handle(), 0)
			if err != nil {
				t.Fatal(err)
			}
			var kinds []string
			for _, ev := range x.Events {
				kinds = append(kinds, ev.Kind)
			}
			got := strings.Join(kinds, " ")
			if !strings.HasPrefix(got, "rolled") || strings.ReplaceAll(got, " rolled", "") != "rolled"+life.want {
				t.Errorf("message %d: %q", life.a.ID, got)
			}
		}
		s.Reopen(0)
	}
}

// What is not released is not told; the answer may leave when all is that it was computed from.
func TestTimerExplainUnreleased(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: timers()})
	a := stored(t, s, later("a", time.Hour))
	if _, _, err := s.Append([]engine.Command{&engine.Cancel{Handle: a.Handle()}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(); err != nil {
		t.Fatal(err)
	}
	x, err := s.Explain(a.Handle(), 0)
	if err != nil || len(x.Events) != 1 || x.Outcome != engine.AlreadyCancelled || x.Position <= s.Released() {
		t.Errorf("%+v, released is %d: %v", x, s.Released(), err)
	}
	release(t, s)
	lifeOf(t, s, a, engine.AlreadyCancelled, "cancelled", "scheduled", "cancelled")
}

// The one reason why a message has not fired.
func TestTimerExplainReasons(t *testing.T) {
	disk := crashfs.New(crashfs.Options{})
	faults := faultfs.New(disk)
	o := timers()
	o.HoursEntries = 4
	s := enginetest.Open(t, enginetest.Config{FS: faults, Options: o, Damaged: true})
	a := stored(t, s, later("a", 30*time.Hour))
	for i := range 8 { // it goes to a group
		stored(t, s, later(name(i), 30*time.Hour))
		s.Step()
	}
	lifeOf(t, s, a, engine.Scheduled, "due in 1d6h0m0s", "scheduled")
	s.Clock.Pass(30*time.Hour - time.Millisecond)
	lifeOf(t, s, a, engine.Scheduled, "due in 1ms", "scheduled")
	s.Clock.Pass(time.Millisecond)
	lifeOf(t, s, a, engine.Scheduled, "next ticks", "scheduled")

	// Its index cannot be read: the tick says so, and so does this.
	faults.Add(faultfs.Rule{Op: faultfs.Read, Path: "timerlog/1/hours/*", Err: syscall.EIO, Sticky: true})
	status := s.Tick()
	if status.Err == nil || status.Fired != 0 {
		t.Fatalf("tick: %+v", status)
	}
	release(t, s)
	for _, j := range status.Jobs {
		_ = j.Run()
		for !s.Install(j) {
		}
	}
	lifeOf(t, s, a, engine.Scheduled, "index cannot be read", "scheduled")
	faults.Clear()
	answerOf(t, s, &engine.DeleteTopic{Topic: "t"}, engine.Done)
	x, err := s.Explain(a.Handle(), 0)
	if err != nil || !strings.Contains(x.Reason, "index cannot be read") && !strings.Contains(x.Reason, "topic was deleted") {
		t.Errorf("reason %q: %v", x.Reason, err)
	}
	s.Clock.Pass(time.Second)
	b := stored(t, s, &engine.Put{Topic: "t", Queue: 0, DelayMs: 1})
	s.Clock.Pass(time.Second)
	faults.Add(faultfs.Rule{Op: faultfs.Sync, Err: syscall.EIO, Sticky: true})
	if _, err := s.Sync(); err == nil {
		if _, _, err := s.Append([]engine.Command{later("c", time.Hour)}); err == nil {
			_ = s.Commit()
			_, _ = s.Sync()
		}
	}
	x, err = s.Explain(b.Handle(), 0)
	if err != nil || !strings.Contains(x.Reason, "failed") {
		t.Errorf("reason %q: %v", x.Reason, err)
	}
}
