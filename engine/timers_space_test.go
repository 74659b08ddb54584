package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

// aged are options with the ages of a real store: retention and roll of three days, a seal a day.
func aged() engine.Options {
	o := roomy()
	o.Retention, o.RollAfter, o.SealAfter = 3*day, 3*day, day
	o.SegmentSize, o.CheckpointEvery = 128<<20, 64<<20
	return o
}

// A timer of a year in a store without other traffic costs at most 250 bytes of writes beside its message, and nothing at all
// after the first minutes.
func TestTimerYearAlone(t *testing.T) {
	for _, body := range []int{200, 4096} {
		for _, reopen := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/reopen=%v", body, reopen), func(t *testing.T) {
				s := enginetest.Open(t, enginetest.Config{Options: aged()})
				s.Do(&engine.DefineTopic{Topic: "t", Queues: 1})
				s.Pass(time.Minute)
				m := count(s.FS.(*crashfs.FS))
				a := stored(t, s, &engine.Put{Topic: "t", Queue: 0, DelayMs: year.Milliseconds(), Body: make([]byte, body)})
				s.Pass(time.Minute)
				s.Pass(time.Minute) // the mark behind the log's end
				early := m.written
				if reopen {
					s.Reopen(time.Hour)
					s.Pass(time.Minute)
					s.Pass(time.Minute)
					early = m.written
				}
				due := a.DueMs - 1
				for s.Clock.Wall()+hourMillis < due {
					s.Pass(time.Hour)
				}
				goTo(t, s, due)
				if m.written > early {
					t.Errorf("%d bytes were written while nothing happened: %v", m.written-early, m.byFile)
				}
				if beside := m.written - int64(a.Size); !reopen && beside > 250 {
					t.Errorf("%d bytes were written beside a message of %d: %v", beside, a.Size, m.byFile)
				}
				s.Pass(time.Millisecond)
				if visible(s, "t", 0) != 1 {
					t.Error("it did not come")
				}
				s.FS.(*crashfs.FS).SetInject(nil)
			})
		}
	}
}

// yearly is a day's mix of a simulated year.
type yearly struct {
	name       string
	perDay     int // messages, of a kilobyte
	far, month int // of a hundred of them are due in a year, in 30 days; half of the others within 7 days
	atRest     int // timers of a year that are there before
}

// A year of a store with timers of days, a month and a year, on a log of small segments: its log takes no more than twice
// what is alive and what the ages hold, a byte is copied at most for each new byte, the TimerLog's files go when what is in
// them has fired, and in the end everything came once.
func TestTimerYearOfTraffic(t *testing.T) {
	mixes := []yearly{
		{"a week", 60, 0, 0, 0},
		{"one in a hundred for a year", 60, 1, 0, 0},
		{"one in ten for a month", 60, 0, 10, 0},
		{"a third for a year at rest", 60, 0, 0, 2000},
	}
	if enginetest.ReadVolume(t) == enginetest.Plain {
		mixes = mixes[:2]
	}
	for _, mix := range mixes {
		t.Run(mix.name, func(t *testing.T) { mix.run(t) })
	}
}

func (y yearly) run(t *testing.T) {
	o := aged()
	o.SegmentSize, o.CheckpointEvery, o.TimerFileSize = 128<<10, 128<<10, 16<<10
	o.SecondsEntries, o.HoursEntries, o.LooseEntries, o.MaxDelay = 64, 64, 64, 2*year
	s := enginetest.Open(t, enginetest.Config{Options: o, Damaged: true}) // the comparison with a rebuild would take as long again
	r := rand.New(rand.NewPCG(8, 8))
	body := bytes.Repeat([]byte("x"), 900)
	live := map[uint64]int64{} // bytes of records, by id
	dues := map[uint64]int64{}
	put := func(delay time.Duration) {
		a := s.Do(&engine.Put{Topic: "t", Queue: 0, DelayMs: delay.Milliseconds(), Body: body})[0]
		switch a.Outcome {
		case engine.Scheduled:
			live[a.ID], dues[a.ID] = int64(a.Size), a.DueMs
		case engine.Stored:
		default:
			t.Fatalf("put: %v: %v", a.Outcome, a.Err)
		}
	}
	for range y.atRest {
		put(year + time.Duration(r.Int64N(int64(30*day))))
	}
	start := s.Stats()
	ends := []int64{int64(start.End)} // of the log, by day
	var fileBytes, mostFiles int64
	for d := range 365 {
		for range 4 {
			for range y.perDay / 4 {
				switch n := r.IntN(100); {
				case n < y.far:
					put(year)
				case n < y.far+y.month:
					put(30 * day)
				case n%2 == 0:
					put(time.Duration(1 + r.Int64N(int64(7*day))))
				default:
					put(0)
				}
			}
			s.Pass(6 * time.Hour)
		}
		for id, due := range dues {
			if due <= s.Clock.Wall() {
				delete(dues, id)
				delete(live, id)
			}
		}
		st := s.Stats()
		if st.Pending != int64(len(dues)) {
			t.Fatalf("day %d: %d messages wait, the truth is %d", d, st.Pending, len(dues))
		}
		alive := int64(0)
		for _, size := range live {
			alive += size
		}
		ends = append(ends, int64(st.End))
		young := ends[len(ends)-1] - ends[max(0, len(ends)-1-7)] // retention and roll_after, and the day of the seal
		size := int64(st.End - st.Head)
		// State records, deliveries and trims are in the log too: some per cent.
		if limit := (2*alive + young + 4*o.SegmentSize) * 21 / 20; size > limit {
			t.Fatalf("day %d: the log has %d bytes, allowed are %d: %d alive, %d young", d, size, limit, alive, young)
		}
		fileBytes = timerBytes(t, s.FS)
		mostFiles = max(mostFiles, fileBytes)
		// A group of one has 150 bytes, and its entry is spilled before. A file goes when all in it has fired, or when little
		// of it still waits, which is written again.
		if limit := st.Pending*400 + 8*o.TimerFileSize; fileBytes > limit {
			t.Fatalf("day %d: the TimerLog has %d bytes for %d messages, allowed are %d", d, fileBytes, st.Pending, limit)
		}
	}
	st := s.Stats()
	fresh := int64(st.End-start.End) - st.RolledMessages*int64(len(body)+60)
	if copied := st.RolledMessages * int64(len(body)+60); copied > fresh {
		t.Errorf("%d bytes were copied for %d new ones", copied, fresh)
	}
	t.Logf("%d new bytes, %d messages copied: %.2f bytes each; the log has %d bytes, the TimerLog %d, at most %d; %d wait",
		fresh, st.RolledMessages, float64(st.RolledMessages*int64(len(body)+60))/float64(fresh), st.End-st.Head, fileBytes, mostFiles, st.Pending)
	s.Pass(2 * year)
	if got := s.Stats(); got.Pending != 0 || got.Dropped != 0 {
		t.Errorf("%d wait and %d were dropped in the end", got.Pending, got.Dropped)
	}
	s.Pass(7 * day)
	s.Pass(7 * day)
	if size := s.Stats().End - s.Stats().Head; int64(size) > 4*o.SegmentSize {
		t.Errorf("the log has %d bytes when nothing waits and all was read", size)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := engine.Check(engine.Env{FS: s.FS, Wall: s.Clock.Wall, Mono: s.Clock.Mono}, ".", o)
	if err != nil || report.Pending != 0 {
		t.Errorf("check: %+v: %v", report, err)
	}
}

// A disk that is full refuses new messages with a clear error. Delivering, cancelling and looking go on, what fires makes
// room, and then messages are taken again; nothing that was answered is lost, also not by a power cut in the middle.
func TestTimerFullDisk(t *testing.T) {
	disk := crashfs.New(crashfs.Options{})
	o := timers()
	o.Retention, o.RollAfter, o.SecondsEntries, o.HoursEntries = time.Second, time.Minute, 64, 64
	o.SegmentSize, o.Reserve = 64<<10, 3 // segments that are kept for going on
	s := enginetest.Open(t, enginetest.Config{FS: disk, Options: o})
	s.Step()
	disk.SetQuota(disk.Used() + 2<<20)
	var waiting []engine.Answer
	full := false
	for i := 0; !full; i++ {
		p := later(name(i), 10*time.Hour+time.Duration(i)*time.Minute)
		p.Body = make([]byte, 1000)
		a := s.Do(p)[0]
		switch {
		case a.Outcome == engine.Scheduled:
			waiting = append(waiting, a)
		case a.Outcome == engine.Refused && errors.Is(a.Err, engine.ErrDiskFull):
			full = true
		default:
			t.Fatalf("put %d: %v: %v", i, a.Outcome, a.Err)
		}
		s.Pass(100 * time.Millisecond) // the disk is asked once a second
		if i > 100_000 {
			t.Fatal("the disk was never full")
		}
	}
	if len(waiting) < 500 || s.Stats().Full == "" {
		t.Fatalf("%d messages were taken: %+v", len(waiting), s.Stats())
	}
	// All of the log is alive: rolling it would free nothing, and never end.
	for range 20 {
		s.Pass(10 * time.Second)
	}
	if got := s.Stats().RolledMessages; got > int64(len(waiting))/2 {
		t.Errorf("%d messages were rolled, %d wait", got, len(waiting))
	}
	for i, a := range waiting {
		if i%3 == 0 {
			answerOf(t, s, &engine.Cancel{Handle: a.Handle()}, engine.Cancelled)
		}
	}
	if got := len(listAll(t, s, engine.Filter{}, 1000)); got != len(waiting)-(len(waiting)+2)/3 {
		t.Fatalf("%d messages are listed", got)
	}
	half := waiting[len(waiting)/2]
	goTo(t, s, half.DueMs)
	wantFate(t, s, half, engine.Delivered)
	s.FS = disk.Crash(rand.New(rand.NewPCG(1, 1)), crashfs.Policy{})
	s.Kill(false)
	disk = s.FS.(*crashfs.FS)
	disk.SetQuota(0) // the operator gave it another disk
	last := waiting[len(waiting)-1]
	goTo(t, s, last.DueMs)
	for i, a := range waiting {
		want := engine.Delivered
		if i%3 == 0 {
			want = engine.AlreadyCancelled
		}
		wantFate(t, s, a, want)
	}
	s.Pass(time.Hour)
	stored(t, s, later("again", time.Hour))
}

// What fires makes room by itself: after the retention the log's head goes, and messages are taken again.
func TestTimerFullDiskHeals(t *testing.T) {
	o := timers()
	o.Retention, o.RollAfter, o.HighWater = time.Second, time.Minute, 256<<10
	s := enginetest.Open(t, enginetest.Config{Options: o})
	far := stored(t, s, later("far", 30*day))
	put := func(i int) engine.Outcome {
		a := s.Do(&engine.Put{Topic: "t", Queue: 0, DelayMs: int64(1+i%50) * 1000, Body: make([]byte, 1000)})[0]
		if a.Outcome == engine.Refused && !errors.Is(a.Err, engine.ErrDiskFull) {
			t.Fatalf("put %d: %v", i, a.Err)
		}
		s.Step()
		return a.Outcome
	}
	for round := range 5 {
		taken := 0
		for put(taken) == engine.Scheduled {
			taken++
		}
		if taken < 20 {
			t.Fatalf("round %d: %d messages were taken", round, taken)
		}
		wantFate(t, s, far, engine.Scheduled)
		for range 30 {
			s.Pass(10 * time.Second)
		}
		if got := s.Stats(); got.Pending != 1 || got.Full != "" {
			t.Fatalf("round %d: %d wait, full: %q", round, got.Pending, got.Full)
		}
	}
	goTo(t, s, far.DueMs)
	wantFate(t, s, far, engine.Delivered)
}

// The TimerLog cannot be written: messages with a time are refused when the memtables are full, not before; messages without
// one are taken, what waits is delivered, and when it can be written again everything goes on.
func TestTimerLogCannotGrow(t *testing.T) {
	for _, e := range []error{syscall.ENOSPC, syscall.EMFILE, syscall.EIO} {
		t.Run(e.Error(), func(t *testing.T) {
			faults := faultfs.New(crashfs.New(crashfs.Options{}))
			o := timers()
			o.SecondsEntries, o.HoursEntries, o.LooseEntries, o.CheckpointEvery = 20, 20, 20, 1<<20
			s := enginetest.Open(t, enginetest.Config{FS: faults, Options: o})
			faults.Add(faultfs.Rule{Op: faultfs.Create, Path: "timerlog/1/hours/*", Err: e, Sticky: true})
			faults.Add(faultfs.Rule{Op: faultfs.Write, Path: "timerlog/1/hours/*", Err: e, Sticky: true})
			var taken []engine.Answer
			refused := 0
			for i := 0; refused < 3; i++ {
				s.Pass(time.Second)
				answers, _, err := s.Append([]engine.Command{later(name(i), 30*time.Hour)})
				switch {
				case errors.Is(err, engine.ErrBusy):
				case err != nil:
					t.Fatal(err)
				case answers[0].Outcome == engine.Scheduled:
					taken = append(taken, answers[0])
				default:
					refused++
				}
				if i > 1000 {
					t.Fatalf("%d were taken, none was refused", len(taken))
				}
			}
			if len(taken) < 40 || len(taken) > 45 {
				t.Errorf("%d were taken, two memtables of 20 have room", len(taken))
			}
			release(t, s)
			answerOf(t, s, &engine.Put{Topic: "now", Queue: 0}, engine.Stored)
			answerOf(t, s, &engine.Cancel{Handle: taken[0].Handle()}, engine.Cancelled)
			goTo(t, s, taken[5].DueMs)
			for i, a := range taken[1:6] {
				if got, _, err := s.Verdict(a.Handle()); err != nil || got != engine.Delivered {
					t.Fatalf("message %d: %v: %v", i+1, got, err)
				}
			}
			faults.Clear()
			for range 60 {
				s.Pass(time.Second)
			}
			if got := s.Stats().LastJobError; !strings.Contains(got, e.Error()) {
				t.Errorf("the job's error was %q", got)
			}
			stored(t, s, later("again", 30*time.Hour))
			s.Pass(31 * time.Hour)
			if got, want := visible(s, "t", 0), int64(len(taken)); got != want {
				t.Errorf("%d messages, want %d", got, want)
			}
		})
	}
}
