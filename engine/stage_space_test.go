package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// short stages topic t in a store whose log begins anew all the time.
func short() engine.Options {
	o := fast()
	o.RollAfter = 10 * time.Second
	o.Stage = func(topic string) bool { return topic == "t" }
	return o
}

// What is in a stage stays until it is decided, however long that takes, and is readable for the retention from the verdict on.
func TestStageHoldsTheHead(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: short()})
	round := func() {
		t.Helper()
		s.Do(traffic(1)...)
		s.Pass(1500 * time.Millisecond)
	}
	inStage(t, s, "t", "first", "held", "last")
	s.Do(settle("t", 0, keep, undecided(t, s, "t", 0)[0]))
	for range 60 {
		round()
	}
	if head := s.Stats().Head; head > 0 {
		t.Fatalf("the log begins at %d", head)
	}
	want(t, "held by", s.Stats().HeldBy, "t")
	want(t, "what was kept long ago", bodies(t, s, "t", 0, 0), "[first]")
	s.Kill(true)
	items := undecided(t, s, "t", 0)
	want(t, "in the stage after 90 s", len(items), 2)
	s.Do(settle("t", 0, keep, items[1])) // above a gap: the head is still held
	for range 20 {
		round()
	}
	if head := s.Stats().Head; head > 0 {
		t.Fatalf("the log begins at %d, and offset 1 of the stage is not decided", head)
	}
	s.Do(settle("t", 0, keep, items[0]))
	kept := s.Clock.Wall()
	offset := int64(2)
	for s.Clock.Wall() < kept+9000 {
		round()
		if m := s.Pull("t", 0, offset); m == nil || string(m.Body) != "held" || m.Err != nil {
			t.Fatalf("%d ms after the verdict: %+v", s.Clock.Wall()-kept, m)
		}
	}
	for range 30 {
		round()
	}
	if st := s.Stats(); st.Head == 0 || st.HeldBy != "" {
		t.Errorf("the log begins at %d, held by %q", st.Head, st.HeldBy)
	}
	info, _, _ := s.Topic("%STAGE%t")
	if info.Queues[0].Min != 3 {
		t.Errorf("the stage begins at %d", info.Queues[0].Min)
	}
	inStage(t, s, "t", "after")
	s.Do(settle("t", 0, keep, undecided(t, s, "t", 0)...))
	s.Kill(true)
	want(t, "the topic", bodies(t, s, "t", 0, 3), "[after]")
}

// A message that a stage keeps while the new beginnings of the queues are looked for is not trimmed with the head, and when its
// time is over before the trim is made, its queue begins behind it.
func TestStageKeepsDuringATrim(t *testing.T) {
	for _, when := range []string{"before", "between", "installed", "long before"} {
		t.Run(when, func(t *testing.T) {
			s := enginetest.Open(t, enginetest.Config{Options: short()})
			inStage(t, s, "t", "held")
			items := undecided(t, s, "t", 0)
			keepIt := func() {
				if got := s.Do(settle("t", 0, keep, items...)); got[0].Err != nil {
					t.Fatal(got[0].Err)
				}
			}
			for range 30 {
				s.Do(traffic(1)...)
				s.Pass(1500 * time.Millisecond)
			}
			s.Clock.Pass(2 * time.Second)
			met := false
			for range 20 {
				st := s.Tick()
				for _, job := range st.Jobs {
					drops := job.Kind() == "drop"
					met = met || drops
					if drops && strings.HasSuffix(when, "before") {
						keepIt()
					}
					if err := job.Run(); err != nil {
						t.Fatal(err)
					}
					if drops && when == "between" {
						keepIt()
					}
					if drops && when == "long before" {
						s.Clock.Pass(20 * time.Second)
					}
					for !s.Install(job) {
					}
					if drops && when == "installed" {
						keepIt()
					}
				}
				if met {
					break
				}
			}
			if !met {
				t.Fatal("no trim was tried")
			}
			for range 3 {
				s.Do(traffic(1)...)
				s.Pass(time.Second)
			}
			if info, _, _ := s.Topic("t"); when == "long before" && info.Queues[0].Min > 0 {
				return
			}
			if m := s.Pull("t", 0, 0); m == nil || m.Err != nil {
				t.Errorf("what was kept is gone: %+v", m)
			}
		})
	}
}

// A trim that a stage holds up is not tried at every tick.
func TestStageHoldsTheHeadQuietly(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: short()})
	inStage(t, s, "t", "held")
	for range 30 {
		s.Do(traffic(1)...)
		s.Pass(1500 * time.Millisecond)
	}
	s.Pass(time.Second) // the mark behind the log's end
	m := count(s.FS.(*crashfs.FS))
	drops := 0
	for range 20 {
		s.Clock.Pass(100 * time.Millisecond)
		st := s.Tick()
		for _, job := range st.Jobs {
			if job.Kind() == "drop" {
				drops++
			}
			if err := job.Run(); err != nil {
				t.Fatal(err)
			}
			for !s.Install(job) {
			}
		}
	}
	if drops > 3 {
		t.Errorf("in 2 s it was tried %d times", drops)
	}
	if m.written > 0 {
		t.Errorf("%d bytes were written: %v", m.written, m.byFile)
	}
	s.FS.(*crashfs.FS).SetInject(nil)
}
