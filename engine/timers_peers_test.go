package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// Histories that broke other brokers and schedulers; timers_sources_test.go says whose.

// What was put and cancelled leaves nothing: no entry in memory, no file once the due times have passed, no wake-up, and
// nothing that a restart would have to look through.
func TestTimerCancelledLeaveNothing(t *testing.T) {
	n := enginetest.ReadVolume(t).Pick(20_000, 300_000, 1_000_000)
	o := roomy()
	o.SecondsEntries, o.HoursEntries, o.Retention, o.RollAfter, o.TimerFileSize = 2048, 2048, 10*time.Second, time.Minute, 64<<10
	s := enginetest.Open(t, enginetest.Config{Options: o})
	start := s.Clock.Wall()
	cancels := make([]engine.Command, 0, 500)
	for from := 0; from < n; from += 500 {
		var puts []*engine.Put
		for i := range 500 {
			puts = append(puts, &engine.Put{Topic: "t", Queue: 0, DueMs: start + hourMillis + int64(from+i)*10})
		}
		cancels = cancels[:0]
		for _, a := range putAll(t, s, puts) {
			cancels = append(cancels, &engine.Cancel{Handle: a.Handle()})
		}
		for _, a := range s.Do(cancels...) {
			if a.Outcome != engine.Cancelled {
				t.Fatalf("cancel: %v", a.Outcome)
			}
		}
		s.Step()
	}
	if got := s.Stats(); got.Pending != 0 || got.InMemory != 0 {
		t.Fatalf("%d wait, %d entries are in memory", got.Pending, got.InMemory)
	}
	goTo(t, s, start+2*hourMillis+int64(n)*10)
	for range 3 {
		s.Do(traffic(500)...) // the log's head goes, and a checkpoint lets files go
		s.Pass(time.Minute)
	}
	s.Reopen(0)
	for range 3 {
		s.Pass(time.Minute)
	}
	if got := timerBytes(t, s.FS); got > 8*o.TimerFileSize {
		t.Errorf("the TimerLog has %d bytes, and nothing waits", got)
	}
	m := count(s.FS.(*crashfs.FS))
	for range 100 {
		s.Clock.Pass(time.Second)
		if status := s.Tick(); status.Next != s.Clock.Wall()+1000 || len(status.Jobs) > 0 {
			t.Fatalf("an idle tick: %+v", status)
		}
	}
	if m.ops != 0 {
		t.Errorf("idle ticks made %d operations: %+v", m.ops, *m)
	}
	s.FS.(*crashfs.FS).SetInject(nil)
}

// A cancel holds after any number of rolls, odd or even.
func TestTimerCancelAfterRolls(t *testing.T) {
	o := timers()
	o.Retention, o.RollAfter = time.Second, time.Minute
	s := enginetest.Open(t, enginetest.Config{Options: o})
	var waiting []engine.Answer
	for i := range 9 {
		waiting = append(waiting, stored(t, s, later(name(i), 60*day)))
	}
	for i, a := range waiting[:8] {
		answerOf(t, s, &engine.Cancel{Handle: a.Handle()}, engine.Cancelled)
		if i%2 == 1 {
			s.Kill(true)
		}
		rollHead(t, s)
	}
	goTo(t, s, waiting[8].DueMs)
	s.Pass(time.Hour)
	for _, a := range waiting[:8] {
		wantFate(t, s, a, engine.AlreadyCancelled)
	}
	wantFate(t, s, waiting[8], engine.Delivered)
	if got := keysOf(t, s, "t", 0); !slices.Equal(got, []string{name(8)}) && len(got) > 0 {
		t.Errorf("topic t has %v", got)
	}
}

// A message is cancelled, moved or fires between the reading of a roll and its writing: the roll does not bring it back.
func TestTimerCancelDuringRoll(t *testing.T) {
	for _, how := range []string{"cancel", "move", "fire"} {
		t.Run(how, func(t *testing.T) {
			o := timers()
			o.Retention, o.RollAfter = time.Second, time.Minute
			s := enginetest.Open(t, enginetest.Config{Options: o})
			a, b := stored(t, s, later("a", 30*day)), stored(t, s, later("b", 30*day))
			record := recordOf(t, s, a)
			for range 20 {
				s.Do(traffic(8)...)
			}
			want := engine.AlreadyCancelled
			for rolls := 0; rolls == 0; {
				s.Clock.Pass(time.Second)
				status := s.Tick()
				release(t, s)
				for _, j := range status.Jobs {
					if err := j.Run(); err != nil {
						t.Fatal(err)
					}
					for !s.Install(j) {
					}
					if j.Kind() == "roll" && rolls == 0 {
						rolls++
						switch how {
						case "cancel":
							answerOf(t, s, &engine.Cancel{Handle: a.Handle()}, engine.Cancelled)
						case "move":
							answerOf(t, s, &engine.Move{Handle: a.Handle(), DueMs: s.Clock.Wall() + 1000, Record: record}, engine.Moved)
							want = engine.Superseded
						case "fire":
							answerOf(t, s, &engine.Move{Handle: a.Handle(), DueMs: s.Clock.Wall(), Record: record}, engine.Moved)
							want = engine.Superseded
						}
					}
				}
				release(t, s)
				if s.Clock.Wall() > enginetest.Epoch+hourMillis {
					t.Fatal("nothing was rolled")
				}
			}
			s.Step()
			wantFate(t, s, a, want)
			s.Kill(true)
			wantFate(t, s, a, want)
			wantFate(t, s, b, engine.Scheduled)
			s.Pass(2 * time.Second)
			if got := s.Stats().Pending; got != 1 {
				t.Errorf("%d messages wait, want 1", got)
			}
			goTo(t, s, b.DueMs)
			wantFate(t, s, b, engine.Delivered)
		})
	}
}

// The machine dies again and again while many messages of one instant are delivered: each comes once, in order.
func TestTimerKilledInABurst(t *testing.T) {
	const n = 2000
	o := quick()
	o.FireChunk, o.SecondsEntries, o.HoursEntries, o.CheckpointEvery = 32, 500, 500, 128<<10
	s := enginetest.Open(t, enginetest.Config{Options: o})
	due := s.Clock.Wall() + 3*hourMillis
	burst(t, s, "t", n, due, 0)
	s.Clock.Pass(3 * time.Hour)
	for lives := 0; s.Stats().Pending > 0; lives++ {
		for range 1 + lives%3 {
			tickOnce(t, s)
		}
		if s.Tick(); lives%2 == 0 { // what this one delivered is not released
			if err := s.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		r := rand.New(rand.NewPCG(uint64(lives), 1))
		s.FS = s.FS.(*crashfs.FS).Crash(r, crashfs.Policies()[lives%len(crashfs.Policies())])
		s.Kill(false)
		if lives > n {
			t.Fatalf("%d wait after %d lives", s.Stats().Pending, lives)
		}
	}
	ordered(t, s, "t", n)
}

// Timers that are moved again and again cost the disk no more than a few times what is alive: the log's head is dead, and so
// are the entries behind.
func TestTimerMovedAgainAndAgain(t *testing.T) {
	const n, rounds = 200, 100
	o := timers()
	o.Retention, o.RollAfter, o.SegmentSize, o.CheckpointEvery, o.TimerFileSize = time.Second, time.Second, 32<<10, 32<<10, 16<<10
	o.SecondsEntries, o.HoursEntries, o.LooseEntries, o.MaxDelay = 64, 64, 64, 300*day
	s := enginetest.Open(t, enginetest.Config{Options: o})
	var waiting []engine.Answer
	for i := range n {
		waiting = append(waiting, stored(t, s, later(name(i), time.Duration(100+i)*day)))
	}
	live := int64(0)
	for _, a := range waiting {
		live += int64(a.Size)
	}
	for round := range rounds {
		for i, a := range waiting {
			waiting[i] = answerOf(t, s, &engine.Move{
				Handle: a.Handle(), DueMs: s.Clock.Wall() + int64(100+(i*7+round)%150)*dayMillis, Record: recordOf(t, s, a),
			}, engine.Moved)
		}
		s.Pass(10 * time.Second)
	}
	for range 10 {
		s.Pass(10 * time.Second)
	}
	st := s.Stats()
	if size := int64(st.End - st.Head); size > 3*live+4*o.SegmentSize {
		t.Errorf("the log has %d bytes, %d are alive", size, live)
	}
	if got := timerBytes(t, s.FS); got > n*400+12*o.TimerFileSize {
		t.Errorf("the TimerLog has %d bytes for %d messages", got, n)
	}
	if st.Pending != n {
		t.Errorf("%d messages wait, want %d", st.Pending, n)
	}
	s.Pass(300 * day)
	for _, a := range waiting {
		wantFate(t, s, a, engine.Delivered)
	}
}

// Messages are put while the frontier passes the time at which they are due: none is lost, none comes twice, and none early.
func TestTimerPutAtTheFrontier(t *testing.T) {
	for layout, change := range layouts() {
		t.Run(layout, func(t *testing.T) {
			n := enginetest.ReadVolume(t).Pick(400, 20_000, 200_000)
			o := timers()
			o.Retention, o.RollAfter = year, year
			change(&o)
			s := enginetest.Open(t, enginetest.Config{Options: o})
			due := map[string]int64{}
			for i := range n {
				p := later(name(i), time.Duration(i%4)*time.Millisecond)
				if i%7 == 0 {
					p.DelayMs, p.DueMs = 0, s.Clock.Wall()+int64(i%3)-1
				}
				a := s.Do(p)[0]
				if a.Outcome != engine.Scheduled && a.Outcome != engine.Stored {
					t.Fatalf("put: %v: %v", a.Outcome, a.Err)
				}
				due[name(i)] = a.DueMs
				switch i % 5 {
				case 0, 2:
					s.Pass(time.Millisecond)
				case 3:
					s.Step()
				case 4:
					if i%35 == 4 {
						s.Clock.Step(-2 * time.Millisecond)
					}
				}
			}
			s.Pass(time.Second)
			got := keysOf(t, s, "t", 0)
			seen := map[string]bool{}
			for _, key := range got {
				if seen[key] {
					t.Fatalf("%s came twice", key)
				}
				seen[key] = true
			}
			if len(got) != n || s.Stats().Pending != 0 {
				t.Errorf("%d messages of %d, %d wait", len(got), n, s.Stats().Pending)
			}
		})
	}
}

// Rings of a few slots, every delay of a few laps in steps of half a slot, put from every place in a slot.
func TestTimerSmallRings(t *testing.T) {
	for slots := 2; slots <= 6; slots++ {
		for offset := int64(0); offset < 1000; offset += 333 {
			t.Run(fmt.Sprintf("%d/%d", slots, offset), func(t *testing.T) {
				o := timers()
				o.SecondsSlots, o.SecondsEntries, o.HoursEntries = slots, 2, 2
				s := enginetest.Open(t, enginetest.Config{Options: o})
				s.Pass(time.Duration(offset) * time.Millisecond)
				var dues []int64
				put := func() {
					for half := range int64(5 * slots) {
						a := stored(t, s, later("x", time.Duration(1+half*500)*time.Millisecond))
						dues = append(dues, a.DueMs)
						s.Step()
					}
				}
				put()
				for step := range 12 * slots {
					s.Pass(500 * time.Millisecond)
					if step == 3*slots { // the frontier is in the middle of a lap
						put()
					}
					want := 0
					for _, due := range dues {
						if due <= s.Clock.Wall() {
							want++
						}
					}
					if got := visible(s, "t", 0); got != int64(want) {
						t.Fatalf("%d messages at %d, want %d", got, s.Clock.Wall(), want)
					}
				}
				s.Pass(time.Minute)
				if got := visible(s, "t", 0); got != int64(len(dues)) {
					t.Errorf("%d messages of %d", got, len(dues))
				}
			})
		}
	}
}
