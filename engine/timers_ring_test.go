package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// lapped are options with a ring of 64 seconds, whose memtables are flushed after a few puts.
func lapped() engine.Options {
	o := timers()
	o.SecondsSlots, o.SecondsEntries = 64, 4
	return o
}

// A due time of exactly one lap ahead would take the index of the slot that the frontier stands in, whose rest is not
// delivered yet. It goes elsewhere, and a restart finds both.
func TestTimerExactlyALapAhead(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: lapped()})
	start := s.Clock.Wall()/1000*1000 + 10_000
	for i := range 8 { // one slot, in groups
		stored(t, s, at(name(i), start+int64(i)*100))
		s.Step()
	}
	goTo(t, s, start) // the frontier is in the slot
	if got := visible(s, "t", 0); got != 1 {
		t.Fatalf("%d messages", got)
	}
	var laps []engine.Answer
	for i := range 8 {
		laps = append(laps, stored(t, s, at("lap"+name(i), start+64_000+int64(i))))
		s.Step()
	}
	for range 20 { // a checkpoint saves the ring
		s.Do(traffic(1)...)
		s.Step()
	}
	s.Kill(true)
	s.Pass(time.Second)
	if got := visible(s, "t", 0); got != 8 {
		t.Fatalf("%d messages of 8 in the slot that was half delivered", got)
	}
	goTo(t, s, start+63_999)
	if got := visible(s, "t", 0); got != 8 {
		t.Fatalf("%d messages: some came a lap early", got)
	}
	s.Pass(time.Second)
	if got := visible(s, "t", 0); got != 16 {
		t.Fatalf("%d messages of 16 after the lap", got)
	}
	wantFate(t, s, laps[7], engine.Delivered)
}

// F2: a flush that is under way holds an entry which fires; then another one a lap later gets the same index, and only
// then is the flush installed.
func TestTimerInstallBehindTheFrontier(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: lapped()})
	start := s.Clock.Wall()/1000*1000 + 5000
	for i := range 5 { // the fifth freezes those before
		stored(t, s, at(name(i), start+int64(i)*1000))
	}
	status := s.Tick()
	release(t, s)
	var flush []*engine.Job
	for _, j := range status.Jobs {
		if err := j.Run(); err != nil {
			t.Fatal(err)
		}
		if j.Kind() == "index" {
			flush = append(flush, j)
			continue
		}
		for !s.Install(j) {
		}
	}
	if len(flush) != 1 {
		t.Fatalf("%d flushes", len(flush))
	}
	s.Clock.Pass(time.Duration(start+2000-s.Clock.Wall()) * time.Millisecond)
	for s.Tick().Fired > 0 {
		release(t, s)
	}
	release(t, s)
	if got := visible(s, "t", 0); got != 3 {
		t.Fatalf("%d messages, want 3", got)
	}
	for i := range 3 { // a lap behind the ones that fired
		stored(t, s, at("lap"+name(i), start+64_000+int64(i)*1000))
	}
	for !s.Install(flush[0]) {
	}
	for i := range 9 { // their flush
		stored(t, s, at("more"+name(i), start+60_000))
		s.Step()
	}
	s.Reopen(0)
	s.Pass(time.Hour)
	var want []string
	for i := range 5 {
		want = append(want, name(i))
	}
	for i := range 9 {
		want = append(want, "more"+name(i))
	}
	for i := range 3 {
		want = append(want, "lap"+name(i))
	}
	wantKeys(t, s, "t", 0, want)
}

// F10: the frontier stands still for years, and what is put meanwhile is due within seconds: laps away from the frontier.
func TestTimerFrontierStandsStill(t *testing.T) {
	for _, slots := range []int{2, 64, 16384} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			o := lapped()
			o.SecondsSlots = slots
			s := enginetest.Open(t, enginetest.Config{Options: o})
			far := stored(t, s, later("far", 20*year))
			var want []string
			for i := range 10 {
				s.Pass(300 * day)
				for k := range 6 {
					p := later(fmt.Sprintf("%d/%d", i, k), time.Duration(1+k)*time.Second)
					if i == 5 && k == 5 {
						p.DelayMs = 70 * 1000
					}
					stored(t, s, p)
					s.Step()
					want = append(want, string(p.Key))
				}
				a := stored(t, s, later("gone", 3*time.Second))
				answerOf(t, s, &engine.Cancel{Handle: a.Handle()}, engine.Cancelled)
				if i%3 == 1 {
					s.Reopen(0)
				}
				s.Pass(2 * time.Minute)
				got := keysOf(t, s, "t", 0)
				if !slices.Equal(got, want[len(want)-len(got):]) || visible(s, "t", 0) != int64(len(want)) {
					t.Fatalf("round %d: %v, want the last of %v", i, got, want)
				}
			}
			goTo(t, s, far.DueMs)
			wantFate(t, s, far, engine.Delivered)
		})
	}
}

// F8: a flush is linked in slices, since it may have more groups than a call may link. In between an entry is both in the
// memtable and in a group: it fires once, in order; and none is in neither.
func TestTimerFlushLinkedInSlices(t *testing.T) {
	const n = 20_000 // groups, of which a slice links some thousands
	o := roomy()
	o.Near, o.SecondsSlots, o.SecondsEntries = 7*day, 1209600, n
	s := enginetest.Open(t, enginetest.Config{Options: o})
	start := s.Clock.Wall()/1000*1000 + 1000
	var cmds []engine.Command
	for i := range n + 1 { // the last one freezes those before
		p := at(name(i), start+int64(i)*1000)
		cmds = append(cmds, p)
	}
	s.Do(cmds...)
	var flush *engine.Job
	for flush == nil {
		status := s.Tick()
		release(t, s)
		for _, j := range status.Jobs {
			if err := j.Run(); err != nil {
				t.Fatal(err)
			}
			if j.Kind() == "index" {
				flush = j
			} else {
				for !s.Install(j) {
				}
			}
		}
	}
	fired := 0
	fireTo := func(wallMs int64) {
		s.Clock.Pass(time.Duration(wallMs-s.Clock.Wall()) * time.Millisecond)
		for {
			status := s.Tick()
			release(t, s)
			if status.Err != nil {
				t.Fatal(status.Err)
			}
			fired += status.Fired
			for _, j := range status.Jobs { // others than the flush
				_ = j.Run()
				for !s.Install(j) {
				}
			}
			if status.Fired == 0 {
				break
			}
		}
		if want := int((wallMs-start)/1000) + 1; fired != want {
			t.Fatalf("%d messages were delivered, want %d", fired, want)
		}
	}
	slices := 1
	for ; !s.Install(flush); slices++ {
		// All that is linked fires, and some that is not.
		fireTo(start + int64(slices)*8_500_000)
	}
	if slices < 3 {
		t.Fatalf("the flush was linked in %d slices: this says nothing", slices)
	}
	s.Reopen(0)
	fireTo(start + n*1000)
	ordered(t, s, "t", n+1)
}

// A whole week of seconds is drained without a put in between: what was passed costs no memory.
func TestTimerDrainKeepsFewSources(t *testing.T) {
	n := enginetest.ReadVolume(t).Pick(30_000, 600_000, 600_000)
	o := roomy()
	o.Near, o.SecondsSlots, o.SecondsEntries, o.MaxDelay, o.Retention, o.RollAfter = 7*day, 1209600, 1000, 8*day, year, year
	s := enginetest.Open(t, enginetest.Config{Options: o})
	start := s.Clock.Wall() + 1000
	burst(t, s, "t", n, start, int64(n)*1000)
	s.Reopen(0)
	goTo(t, s, start-1)
	disk := s.FS.(*crashfs.FS)
	before, files := heapNow(), disk.Used()
	s.Clock.Pass(time.Duration(n) * time.Second)
	for s.Stats().Pending > 0 {
		tickOnce(t, s)
	}
	grown, written := int64(heapNow()-before), disk.Used()-files // the disk is in memory
	if limit := written + 2<<20; grown > limit {
		t.Errorf("the heap grew by %d bytes, allowed are %d", grown, limit)
	}
	ordered(t, s, "t", n)
}
