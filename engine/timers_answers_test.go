package engine_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/engine/handle"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// place is somewhere a message can wait: make puts one there, named "x", that is due an hour or more later.
type place struct {
	name    string
	options func(o *engine.Options)
	make    func(t *testing.T, s *enginetest.Store) engine.Answer
}

// fillers puts n messages of another topic, due round a delay, so that memtables are flushed.
func fillers(t *testing.T, s *enginetest.Store, n int, d time.Duration) {
	t.Helper()
	for i := range n {
		p := later(name(i), d+time.Duration(i)*time.Millisecond)
		p.Topic = "other"
		if a := s.Do(p)[0]; a.Outcome != engine.Scheduled {
			t.Fatalf("put: %v: %v", a.Outcome, a.Err)
		}
		s.Step()
	}
}

func places() []place {
	small := func(o *engine.Options) { o.SecondsEntries, o.HoursEntries, o.LooseEntries = 4, 4, 4 }
	return []place{
		{"memtable of seconds", nil, func(t *testing.T, s *enginetest.Store) engine.Answer {
			return stored(t, s, later("x", time.Hour))
		}},
		{"memtable of hours", nil, func(t *testing.T, s *enginetest.Store) engine.Answer {
			return stored(t, s, later("x", 30*time.Hour))
		}},
		{"loose memtable", nil, func(t *testing.T, s *enginetest.Store) engine.Answer {
			return stored(t, s, later("x", 20*year))
		}},
		{"frozen memtable", func(o *engine.Options) { o.HoursEntries = 1 }, func(t *testing.T, s *enginetest.Store) engine.Answer {
			a := stored(t, s, later("x", 30*time.Hour))
			if b := s.Do(later("y", 31*time.Hour))[0]; b.Outcome != engine.Scheduled { // no tick: the flush does not run
				t.Fatalf("put: %v: %v", b.Outcome, b.Err)
			}
			return a
		}},
		{"group of the ring of seconds", small, func(t *testing.T, s *enginetest.Store) engine.Answer {
			a := stored(t, s, later("x", time.Hour))
			fillers(t, s, 12, time.Hour)
			return a
		}},
		{"group of the ring of hours", small, func(t *testing.T, s *enginetest.Store) engine.Answer {
			a := stored(t, s, later("x", 30*time.Hour))
			fillers(t, s, 12, 30*time.Hour)
			return a
		}},
		{"loose run", small, func(t *testing.T, s *enginetest.Store) engine.Answer {
			a := stored(t, s, later("x", 20*year))
			fillers(t, s, 12, 20*year)
			return a
		}},
		{"compacted loose run", small, func(t *testing.T, s *enginetest.Store) engine.Answer {
			a := stored(t, s, later("x", 20*year))
			fillers(t, s, 60, 20*year)
			return a
		}},
		{"level queue", nil, func(t *testing.T, s *enginetest.Store) engine.Answer {
			return stored(t, s, put("x", 3))
		}},
		{"rolled, in memory", func(o *engine.Options) { o.Retention, o.RollAfter = time.Second, time.Minute },
			func(t *testing.T, s *enginetest.Store) engine.Answer {
				a := stored(t, s, later("x", 30*time.Hour))
				rollHead(t, s)
				return a
			}},
		{"rolled, in a group", func(o *engine.Options) { small(o); o.Retention, o.RollAfter = time.Second, time.Minute },
			func(t *testing.T, s *enginetest.Store) engine.Answer {
				a := stored(t, s, later("x", 30*time.Hour))
				fillers(t, s, 12, 30*time.Hour)
				rollHead(t, s)
				fillers(t, s, 12, 31*time.Hour)
				return a
			}},
		{"late", nil, func(t *testing.T, s *enginetest.Store) engine.Answer {
			s.Pass(24 * time.Hour)
			do(s, &engine.Put{Topic: "other", Queue: 0, DelayMs: 1})
			s.Pass(time.Second) // the frontier is here
			s.Clock.Step(-24 * time.Hour)
			return stored(t, s, later("x", 10*time.Hour))
		}},
		{"late, in a loose run", small, func(t *testing.T, s *enginetest.Store) engine.Answer {
			s.Pass(24 * time.Hour)
			do(s, &engine.Put{Topic: "other", Queue: 0, DelayMs: 1})
			s.Pass(time.Second)
			s.Clock.Step(-24 * time.Hour)
			a := stored(t, s, later("x", 10*time.Hour))
			fillers(t, s, 12, 11*time.Hour)
			return a
		}},
	}
}

// rollHead writes until the segment that the log begins with now is gone.
func rollHead(t *testing.T, s *enginetest.Store) {
	t.Helper()
	before := segments(t, s.FS)[0]
	for range 120 {
		s.Do(traffic(8)...)
		s.Pass(20 * time.Second)
		if segments(t, s.FS)[0] != before {
			return
		}
	}
	t.Fatalf("the head of the log was not rolled and deleted: %+v", s.Stats())
}

// pauses are what may come between two commands. None of them changes an answer.
func pauses() map[string]func(t *testing.T, s *enginetest.Store) {
	return map[string]func(t *testing.T, s *enginetest.Store){
		"at once":   func(*testing.T, *enginetest.Store) {},
		"a tick":    func(_ *testing.T, s *enginetest.Store) { s.Pass(time.Millisecond) },
		"reopened":  func(_ *testing.T, s *enginetest.Store) { s.Reopen(0) },
		"power cut": func(_ *testing.T, s *enginetest.Store) { s.Kill(true) },
		"rebuilt":   rebuildStore,
	}
}

// rebuildStore throws away everything but the log.
func rebuildStore(t *testing.T, s *enginetest.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	disk := s.FS.(*crashfs.FS).Kill()
	for _, dir := range []string{"checkpoint/a", "checkpoint/b"} {
		if err := disk.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	s.FS = disk
	s.Kill(false)
}

// eachPlace runs a test for each place and pause.
func eachPlace(t *testing.T, run func(t *testing.T, s *enginetest.Store, a engine.Answer, pause func())) {
	for _, p := range places() {
		for pauseName, pause := range pauses() {
			t.Run(p.name+"/"+pauseName, func(t *testing.T) {
				o := timers()
				if p.options != nil {
					p.options(&o)
				}
				s := enginetest.Open(t, enginetest.Config{Options: o})
				a := p.make(t, s)
				run(t, s, a, func() { pause(t, s) })
			})
		}
	}
}

// refusals gives every command by a handle of which nothing can be done any more, and wants one answer.
func refusals(t *testing.T, s *enginetest.Store, h handle.Handle, record engine.Pending, want engine.Outcome) {
	t.Helper()
	before := s.Stats()
	if got, _, err := s.Verdict(h); err != nil || got != want {
		t.Fatalf("verdict %v, want %v: %v", got, want, err)
	}
	answerOf(t, s, &engine.Cancel{Handle: h}, want)
	answerOf(t, s, &engine.Move{Handle: h, DueMs: s.Clock.Wall() + 1000, Record: record}, want)
	if _, err := s.ReadPending(h); !errors.Is(err, engine.ErrNoMessage) {
		t.Fatalf("read of a message that does not wait: %v", err)
	}
	if want != engine.AlreadyCancelled {
		answerOf(t, s, &engine.Undo{Handle: h, Record: record}, want)
		if _, err := s.ReadCancelled(h); !errors.Is(err, engine.ErrNoMessage) {
			t.Fatalf("read of a message that is not cancelled: %v", err)
		}
	}
	if after := s.Stats(); after.NextID != before.NextID || after.Pending != before.Pending {
		t.Fatalf("a refusal did something: %+v, before %+v", after, before)
	}
}

// copies counts deliveries of the message x in topic t.
func copies(t *testing.T, s *enginetest.Store) (n int) {
	t.Helper()
	for _, key := range keysOf(t, s, "t", 0) {
		if key == "x" {
			n++
		}
	}
	return n
}

// pending of x: it waits.
func waits(t *testing.T, s *enginetest.Store, a engine.Answer) {
	t.Helper()
	wantFate(t, s, a, engine.Scheduled)
	record, err := s.ReadPending(a.Handle())
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	m, err := record.Message()
	if err != nil || string(m.Body) != "x" || m.ID != a.ID || m.DueMs != a.DueMs {
		t.Fatalf("read body %q of message %d due %d: %v", m.Body, m.ID, m.DueMs, err)
	}
	answerOf(t, s, &engine.Undo{Handle: a.Handle(), Record: record}, engine.Scheduled) // nothing to undo
}

func recordOf(t *testing.T, s *enginetest.Store, a engine.Answer) engine.Pending {
	t.Helper()
	record, err := s.ReadPending(a.Handle())
	if err != nil {
		t.Fatalf("read message %d: %v", a.ID, err)
	}
	return record
}

// A message that is left alone fires once, at its time; then every command answers that it was delivered.
func TestTimerAnswersDelivered(t *testing.T) {
	eachPlace(t, func(t *testing.T, s *enginetest.Store, a engine.Answer, pause func()) {
		pause()
		waits(t, s, a)
		record := recordOf(t, s, a)
		goTo(t, s, a.DueMs-1)
		if n := copies(t, s); n != 0 {
			t.Fatal("it came early")
		}
		waits(t, s, a)
		s.Clock.Pass(time.Millisecond)
		// It is due, and no tick has come yet: a cancel would still be in time, an undo of a cancel would not.
		wantFate(t, s, a, engine.Scheduled)
		s.Step()
		if n := copies(t, s); n != 1 {
			t.Fatalf("%d deliveries", n)
		}
		pause()
		refusals(t, s, a.Handle(), record, engine.Delivered)
	})
}

// A cancel is answered once with Cancelled, and holds for ever.
func TestTimerAnswersCancelled(t *testing.T) {
	eachPlace(t, func(t *testing.T, s *enginetest.Store, a engine.Answer, pause func()) {
		record := recordOf(t, s, a)
		pause()
		pending := s.Stats().Pending
		answerOf(t, s, &engine.Cancel{Handle: a.Handle()}, engine.Cancelled)
		if got := s.Stats().Pending; got != pending-1 {
			t.Fatalf("%d wait after a cancel, %d did before", got, pending)
		}
		pause()
		refusals(t, s, a.Handle(), record, engine.AlreadyCancelled)
		goTo(t, s, a.DueMs)
		s.Pass(day)
		if n := copies(t, s); n != 0 {
			t.Fatalf("%d deliveries after a cancel", n)
		}
		refusals(t, s, a.Handle(), record, engine.AlreadyCancelled)
	})
}

// A move gives a new handle; the old one is superseded for ever, the message fires once, at the new time.
func TestTimerAnswersMoved(t *testing.T) {
	eachPlace(t, func(t *testing.T, s *enginetest.Store, a engine.Answer, pause func()) {
		record := recordOf(t, s, a)
		pause()
		pending := s.Stats().Pending
		due := s.Clock.Wall() + 40*24*3600*1000
		b := answerOf(t, s, &engine.Move{Handle: a.Handle(), DueMs: due, Record: record}, engine.Moved)
		if got := s.Stats().Pending; got != pending || b.ID == a.ID || b.DueMs != due {
			t.Fatalf("%d wait after a move, %d did before; %+v", got, pending, b)
		}
		pause()
		refusals(t, s, a.Handle(), record, engine.Superseded)
		waits(t, s, b)
		goTo(t, s, due-1)
		if n := copies(t, s); n != 0 {
			t.Fatal("it came at its old time")
		}
		s.Pass(time.Millisecond)
		if n := copies(t, s); n != 1 {
			t.Fatalf("%d deliveries", n)
		}
		s.Pass(20 * year) // also past a late or far old time
		if n := copies(t, s); n > 1 {
			t.Fatalf("%d deliveries", n)
		}
		pause()
		refusals(t, s, a.Handle(), record, engine.Superseded)
		refusals(t, s, b.Handle(), record, engine.Delivered)
	})
}

// A move to now, or to a time that is past, fires at the next tick.
func TestTimerAnswersFired(t *testing.T) {
	eachPlace(t, func(t *testing.T, s *enginetest.Store, a engine.Answer, pause func()) {
		record := recordOf(t, s, a)
		pause()
		due := s.Clock.Wall()
		if a.ID%2 == 0 {
			due = 0
		}
		b := answerOf(t, s, &engine.Move{Handle: a.Handle(), DueMs: due, Record: record}, engine.Moved)
		s.Step()
		if n := copies(t, s); n != 1 {
			t.Fatalf("%d deliveries", n)
		}
		pause()
		refusals(t, s, a.Handle(), record, engine.Superseded)
		refusals(t, s, b.Handle(), record, engine.Delivered)
		goTo(t, s, a.DueMs+1)
		if n := copies(t, s); n > 1 {
			t.Fatalf("%d deliveries", n)
		}
	})
}

// A cancel is undone until the due time: the message waits again under a new handle, and the old one is superseded.
func TestTimerAnswersUndone(t *testing.T) {
	eachPlace(t, func(t *testing.T, s *enginetest.Store, a engine.Answer, pause func()) {
		first := recordOf(t, s, a)
		answerOf(t, s, &engine.Cancel{Handle: a.Handle()}, engine.Cancelled)
		pause()
		record, err := s.ReadCancelled(a.Handle())
		if errors.Is(err, engine.ErrNoMessage) && s.Stats().Rolled > 0 {
			record = first // the handle's own copy went with the log's head; a caller who has read it before may go on
		} else if err != nil {
			t.Fatalf("read cancelled: %v", err)
		}
		goTo(t, s, a.DueMs-1)
		b := answerOf(t, s, &engine.Undo{Handle: a.Handle(), Record: record}, engine.Restored)
		if b.DueMs != a.DueMs || b.ID == a.ID {
			t.Fatalf("restored as %+v", b)
		}
		pause()
		refusals(t, s, a.Handle(), record, engine.Superseded)
		if s.Clock.Wall() < b.DueMs {
			waits(t, s, b)
			goTo(t, s, b.DueMs)
		}
		if n := copies(t, s); n != 1 {
			t.Fatalf("%d deliveries", n)
		}
		refusals(t, s, b.Handle(), record, engine.Delivered)
	})
}

// At its due time a cancelled message cannot be brought back.
func TestTimerUndoTooLate(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: timers()})
	a := stored(t, s, later("x", time.Hour))
	answerOf(t, s, &engine.Cancel{Handle: a.Handle()}, engine.Cancelled)
	record, err := s.ReadCancelled(a.Handle())
	if err != nil {
		t.Fatal(err)
	}
	for _, pass := range []time.Duration{time.Hour, year} {
		s.Pass(pass)
		if got := do(s, &engine.Undo{Handle: a.Handle(), Record: record}); got.Outcome != engine.Refused || !errors.Is(got.Err, engine.ErrTooLate) {
			t.Fatalf("undo %v after: %v: %v", pass, got.Outcome, got.Err)
		}
	}
	wantFate(t, s, a, engine.AlreadyCancelled)
	s.Pass(time.Hour)
	wantRead(t, s, "")
}

// When the body went with the log's head there is nothing to bring back.
func TestTimerUndoWithoutBody(t *testing.T) {
	o := timers()
	o.Retention, o.RollAfter = time.Second, time.Minute
	s := enginetest.Open(t, enginetest.Config{Options: o})
	a := stored(t, s, later("x", 30*time.Hour))
	answerOf(t, s, &engine.Cancel{Handle: a.Handle()}, engine.Cancelled)
	rollHead(t, s)
	if _, err := s.ReadCancelled(a.Handle()); !errors.Is(err, engine.ErrNoMessage) {
		t.Fatalf("read: %v", err)
	}
	if got := do(s, &engine.Undo{Handle: a.Handle()}); got.Outcome != engine.Refused || !errors.Is(got.Err, engine.ErrBadCommand) {
		t.Fatalf("undo without a record: %v: %v", got.Outcome, got.Err)
	}
	wantFate(t, s, a, engine.AlreadyCancelled)
}

// Cancel and undo may follow each other as often as one likes; each handle counts once.
func TestTimerUndoAgainAndAgain(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: timers()})
	a := stored(t, s, later("x", time.Hour))
	var old []engine.Answer
	for i := range 20 {
		answerOf(t, s, &engine.Cancel{Handle: a.Handle()}, engine.Cancelled)
		record, err := s.ReadCancelled(a.Handle())
		if err != nil {
			t.Fatal(err)
		}
		if i%3 == 2 {
			s.Reopen(0)
		}
		old = append(old, a)
		a = answerOf(t, s, &engine.Undo{Handle: a.Handle(), Record: record}, engine.Restored)
		answerOf(t, s, &engine.Undo{Handle: old[i].Handle(), Record: record}, engine.Superseded)
	}
	for _, o := range old {
		wantFate(t, s, o, engine.Superseded)
	}
	s.Pass(time.Hour)
	if n := copies(t, s); n != 1 {
		t.Fatalf("%d deliveries", n)
	}
	wantFate(t, s, a, engine.Delivered)
}

// The record of another message, or none, is no move and no undo.
func TestTimerMoveWithForeignRecord(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: timers()})
	a, b := stored(t, s, later("x", time.Hour)), stored(t, s, later("y", time.Hour))
	for _, record := range []engine.Pending{recordOf(t, s, b), {}} {
		got := do(s, &engine.Move{Handle: a.Handle(), DueMs: s.Clock.Wall() + 5, Record: record})
		if got.Outcome != engine.Refused || !errors.Is(got.Err, engine.ErrBadCommand) {
			t.Errorf("move: %v: %v", got.Outcome, got.Err)
		}
	}
	wantFate(t, s, a, engine.Scheduled)
	answerOf(t, s, &engine.Cancel{Handle: a.Handle()}, engine.Cancelled)
	if got := do(s, &engine.Undo{Handle: a.Handle(), Record: recordOf(t, s, b)}); !errors.Is(got.Err, engine.ErrBadCommand) {
		t.Errorf("undo: %v: %v", got.Outcome, got.Err)
	}
	s.Pass(time.Hour)
	wantRead(t, s, "y")
}

// Several commands about one message in one batch are decided in their order.
func TestTimerAnswersWithinABatch(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: timers()})
	a, b, c := stored(t, s, later("x", time.Hour)), stored(t, s, later("y", time.Hour)), stored(t, s, later("z", time.Hour))
	ra, rb, rc := recordOf(t, s, a), recordOf(t, s, b), recordOf(t, s, c)
	soon := s.Clock.Wall() + 1000
	answers := s.Do(
		&engine.Cancel{Handle: a.Handle()}, &engine.Cancel{Handle: a.Handle()}, &engine.Move{Handle: a.Handle(), DueMs: soon, Record: ra},
		&engine.Undo{Handle: a.Handle(), Record: ra}, &engine.Cancel{Handle: a.Handle()},
		&engine.Move{Handle: b.Handle(), DueMs: soon, Record: rb}, &engine.Move{Handle: b.Handle(), DueMs: soon, Record: rb},
		&engine.Cancel{Handle: b.Handle()}, &engine.Undo{Handle: b.Handle(), Record: rb},
		&engine.Undo{Handle: c.Handle(), Record: rc}, &engine.Cancel{Handle: c.Handle()}, &engine.Undo{Handle: c.Handle(), Record: rc},
	)
	want := []engine.Outcome{
		engine.Cancelled, engine.AlreadyCancelled, engine.AlreadyCancelled, engine.Restored, engine.Superseded,
		engine.Moved, engine.Superseded, engine.Superseded, engine.Superseded,
		engine.Scheduled, engine.Cancelled, engine.Restored,
	}
	for i, a := range answers {
		if a.Outcome != want[i] {
			t.Errorf("answer %d is %v, want %v: %v", i, a.Outcome, want[i], a.Err)
		}
	}
	s.Reopen(0)
	s.Pass(time.Hour)
	if got := fmt.Sprint(keysOf(t, s, "t", 0)); got != "[y x z]" {
		t.Errorf("topic t has %v", got)
	}
}
