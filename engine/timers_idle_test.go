package engine_test

import (
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/engine/vfs/osfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// Many messages wait and none is due: a tick touches no file, hands out no job, and asks to be called again a second later
// and not before; so does a store that was just opened, once it has looked at what comes next.
func TestTimerIdleIsFree(t *testing.T) {
	n := enginetest.ReadVolume(t).Pick(100_000, 1_000_000, 1_000_000)
	for _, lanes := range []int{1, 4} {
		o := quick()
		o.Lanes, o.MaxDelay, o.Retention, o.RollAfter = lanes, year, year, year
		s := enginetest.Open(t, enginetest.Config{Options: o})
		for i, topic := range laneTopics(s, lanes) {
			burst(t, s, topic, n/lanes/2, s.Clock.Wall()+int64(i+2)*hourMillis, 10*dayMillis)
			burst(t, s, topic, n/lanes/2, s.Clock.Wall()+300*dayMillis, 50*dayMillis)
		}
		s.Do(put("level", 3))
		for _, reopened := range []bool{false, true} {
			if reopened {
				s.Reopen(0)
			}
			for range 3 { // the mark behind the end of the log, and what a checkpoint left to do
				s.Pass(time.Second)
			}
			m := count(s.FS.(*crashfs.FS))
			for range 1000 {
				s.Clock.Pass(time.Second)
				now := s.Clock.Wall()
				status := s.Tick()
				if status.Err != nil || status.Fired > 0 || status.Blocked || len(status.Jobs) > 0 {
					t.Fatalf("an idle tick: %+v", status)
				}
				if status.Next != now+1000 {
					t.Fatalf("an idle tick wants to be called again after %d ms", status.Next-now)
				}
			}
			if m.ops != 0 {
				t.Errorf("%d lanes, reopened %v: a thousand idle ticks made %d operations: %+v", lanes, reopened, m.ops, *m)
			}
			s.FS.(*crashfs.FS).SetInject(nil)
		}
		if got := s.Stats().Pending; got < int64(n/lanes/2*2*lanes) {
			t.Errorf("%d messages wait", got)
		}
	}
}

// What is due next is known to the millisecond: a tick before it asks for that time, also when an earlier one was cancelled or
// moved behind it, and when a put comes before everything else.
func TestTimerNextWakeUp(t *testing.T) {
	for layout, change := range layouts() {
		t.Run(layout, func(t *testing.T) {
			o := timers()
			change(&o)
			s := enginetest.Open(t, enginetest.Config{Options: o})
			s.Step()
			s.Pass(time.Second)
			next := func(d time.Duration) {
				t.Helper()
				now := s.Clock.Wall()
				if got := s.Step(); got < now || got > now+min(d.Milliseconds(), 1000) {
					t.Fatalf("called again after %d ms, something is due in %v", got-now, d)
				}
			}
			stored(t, s, later("c", 700*time.Millisecond))
			next(700 * time.Millisecond)
			b := stored(t, s, later("b", 300*time.Millisecond))
			a := stored(t, s, later("a", 100*time.Millisecond))
			next(100 * time.Millisecond)
			answerOf(t, s, &engine.Cancel{Handle: a.Handle()}, engine.Cancelled)
			next(300 * time.Millisecond)
			move(t, s, b, s.Clock.Wall()+900)
			next(700 * time.Millisecond)
			s.Reopen(0)
			next(700 * time.Millisecond)
			// Driven by what it asks for, and by nothing else, it is never late by more than a millisecond.
			start := s.Clock.Wall()
			for calls := 0; s.Stats().Pending > 0; calls++ {
				goTo(t, s, max(s.Step(), s.Clock.Wall()+1))
				if late := s.Clock.Wall() - start - 900; late > 1 || calls > 3000 {
					t.Fatalf("%d ms late after %d calls", late, calls)
				}
			}
			wantKeys(t, s, "t", 0, []string{"c", "b"})
		})
	}
}

// Ten million messages wait, in a real directory. By hand: it takes minutes, and says what a tick and a restart cost.
func TestTimerIdleWithTenMillion(t *testing.T) {
	if enginetest.ReadVolume(t) < enginetest.Campaign {
		t.Skip("TIDEWHEEL_VOLUME=campaign")
	}
	const n = 10_000_000
	fsys, err := osfs.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o := engine.Options{
		SegmentSize: 128 << 20, CheckpointEvery: 64 << 20, Queues: 1, TailBytes: 32 << 20, BitsBytes: 8 << 20, UnitsPerFile: 262144,
		EntriesPerFile: 65536, SecondsEntries: 524288, HoursEntries: 262144, LooseEntries: 65536, LooseRuns: 64, SecondsSlots: 1209600,
	}
	s := enginetest.Open(t, enginetest.Config{FS: fsys, Options: o, Damaged: true})
	burst(t, s, "t", n, s.Clock.Wall()+hourMillis, 6*dayMillis)
	start := time.Now()
	s.Reopen(0)
	open := time.Since(start)
	s.Pass(time.Second)
	s.Pass(time.Second)
	start = time.Now()
	const ticks = 1000
	for range ticks {
		s.Clock.Pass(time.Second)
		now := s.Clock.Wall()
		if status := s.Tick(); status.Next != now+1000 || len(status.Jobs) > 0 {
			t.Fatalf("an idle tick: %+v", status)
		}
	}
	t.Logf("opened in %v; an idle tick takes %v; heap %d MiB", open, time.Since(start)/ticks, heapNow()>>20)
}
