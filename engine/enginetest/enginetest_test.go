package enginetest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/handle"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

func TestHistoryText(t *testing.T) {
	h := RandomHistory(7, 40)
	_, text, _ := strings.Cut(h.String(), `ops: "`)
	got, err := ParseOps(strings.TrimSuffix(text, `"}`))
	if err != nil || !slices.Equal(got, h.Ops) {
		t.Fatalf("%v came back as %v, %v", h.Ops, got, err)
	}
	for _, bad := range []string{"dance 1 2", "put", "put 1", "put x 1"} {
		if got, err := ParseOps(bad); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
}

func TestShrink(t *testing.T) {
	h := RandomHistory(3, 200)
	h.Ops[100], h.Ops[150] = Op{"put", 9, 9}, Op{"forge", 9, 9}
	calls := 0
	small := Shrink(h, time.Minute, time.Now, func(h History) error {
		calls++
		seen := 0
		for _, op := range h.Ops {
			if op.Kind == "put" {
				seen++
			}
			if op.Kind == "forge" && seen >= 1 {
				return errors.New("forged after a put")
			}
		}
		return nil
	})
	if len(small.Ops) != 2 || small.Ops[0] != (Op{"put", 0, 0}) || small.Ops[1] != (Op{"forge", 0, 0}) {
		t.Errorf("the shortest history is %v, after %d runs", small, calls)
	}
}

func TestClock(t *testing.T) {
	c := NewClock(Epoch)
	wall, mono := c.Wall(), c.Mono()
	c.Pass(1500 * time.Millisecond)
	c.Step(-time.Hour)
	if c.Wall() != wall+1500-3600_000 || c.Mono() != mono+1_500_000_000 {
		t.Errorf("wall %d, mono %d", c.Wall()-wall, c.Mono()-mono)
	}
	other := c.clone()
	other.Pass(time.Second)
	if other.Wall() != c.Wall()+1000 {
		t.Error("a clone moves with its original")
	}
}

// TestModelSees tells the model lies about an engine that behaves: each must be seen, or the model would not see an engine
// that misbehaves.
func TestModelSees(t *testing.T) {
	level := func(s *Sim) int { // a message that waits, answered and released
		c := s.put(4, 1, 1)
		s.call(c)
		s.Settle()
		return c.New
	}
	pass := func(s *Sim) {
		s.Clock.Pass(time.Minute)
		s.Settle()
	}
	for _, c := range []struct {
		name string
		lie  func(s *Sim)
		want string
	}{
		{"nothing", func(s *Sim) { level(s); pass(s); s.Verify() }, ""},
		{"a message is early", func(s *Sim) {
			n := level(s)
			s.Model.msgs[n].asked += 3600_000
			pass(s)
		}, "is early"},
		{"a message is lost", func(s *Sim) {
			n := level(s)
			s.Model.msgs = append(s.Model.msgs, s.Model.msgs[n])
			s.Verify()
		}, "wait, it is"},
		{"a waiting message is never delivered", func(s *Sim) {
			n := level(s)
			s.Model.msgs[n].due -= 3600_000
			s.Settle()
		}, "still waits"},
		{"an acknowledged put is lost", func(s *Sim) {
			s.call(s.put(4, 1, 0))
			s.Settle()
			n := s.Model.New(10)
			s.Model.msgs[n].status = visible
			s.Model.queue(1, 0).want[77] = n
			s.Verify()
		}, "answered were"},
		{"a message is delivered twice", func(s *Sim) {
			n := level(s)
			s.Model.msgs[n].status = visible
			pass(s)
		}, "is delivered"},
		{"a cancelled message is delivered", func(s *Sim) {
			n := level(s)
			s.Model.msgs[n].status = cancelled
			pass(s)
		}, "it is cancelled"},
		{"a body is another", func(s *Sim) {
			n := level(s)
			s.Model.msgs[n].size = 64
			pass(s)
		}, "another body"},
		{"a message overtakes", func(s *Sim) {
			n := level(s)
			first := s.Model.msgs[n]
			first.due, first.id = first.due-10, 0
			s.Model.msgs = append(s.Model.msgs, first)
			pass(s)
		}, "is delivered before"},
		{"a cancel answers Cancelled for what was delivered", func(s *Sim) {
			n := level(s)
			pass(s)
			s.lieAbout(&engine.Cancel{Handle: s.Model.msgs[n].handle}, n, engine.Cancelled)
		}, "it is visible"},
		{"a cancel answers Delivered for what waits", func(s *Sim) {
			n := level(s)
			s.lieAbout(&engine.Cancel{Handle: s.Model.msgs[n].handle}, n, engine.Delivered)
		}, "answered as delivered"},
		{"a cancel answers NotFound for what waits", func(s *Sim) {
			n := level(s)
			s.lieAbout(&engine.Cancel{Handle: s.Model.msgs[n].handle}, n, engine.NotFound)
		}, "was answered"},
		{"a cancel of what never was succeeds", func(s *Sim) {
			level(s)
			s.lieAbout(&engine.Cancel{Handle: handle.Handle{ID: 99}}, -1, engine.Cancelled)
		}, "never was"},
		{"a released answer does not survive", func(s *Sim) {
			s.call(s.put(4, 1, 1))
			s.commit()
			s.Model.hear(1 << 40) // as if it had been released
			s.Crash(crashfs.Policy{}, 0)
		}, "after recovery"},
		{"a committed offset goes back", func(s *Sim) {
			s.call(s.put(4, 1, 0))
			s.Settle()
			s.Do(Op{"offset", 4, 1})
			s.Settle()
			for k := range s.Model.commits {
				s.Model.commits[k] += 3
			}
			s.Verify()
		}, "has committed"},
		{"a topic changes its id", func(s *Sim) {
			s.call(s.put(4, 1, 0))
			s.Settle()
			s.Model.topics["topic-1"].id = 5
			s.Verify()
		}, "there is a topic"},
		{"a message goes before its time is over", func(s *Sim) {
			s.call(s.put(4, 1, 0))
			s.Settle()
			q := s.Model.queue(1, 0)
			w := newWindow()
			s.Model.trimmed(engine.QueueRef{Topic: 1}, q, 1, &w)
		}, "was deleted"},
		{"offsets are not dense", func(s *Sim) {
			s.call(s.put(4, 1, 0))
			s.Settle()
			s.Model.queue(1, 0).units = append(s.Model.queue(1, 0).units, unit{0, 0})
			s.Verify()
		}, "it had 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := SmallOptions()
			o.Queues, o.Retention, o.RollAfter = 1, time.Hour, 72*time.Hour
			s, err := NewSim(SimConfig{Seed: 1, Options: o})
			if err != nil {
				t.Fatal(err)
			}
			c.lie(s)
			switch err := s.Err(); {
			case c.want == "" && err != nil:
				t.Errorf("the truth is taken for a violation: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("the model says %v, want something with %q", err, c.want)
			}
		})
	}
}

// lieAbout tells the model that a command was answered so, without asking the engine.
func (s *Sim) lieAbout(c engine.Command, target int, outcome engine.Outcome) {
	pos := s.e.Released()
	s.Model.Appended(s.Clock.Wall(), s.running(), []Call{{Command: c, New: -1, Target: target}}, []engine.Answer{{Outcome: outcome}}, pos)
	s.Model.Released(s.e, pos, nil)
}

func TestOpenChecksAtTheEnd(t *testing.T) {
	s := Open(t, Config{})
	got := s.Do(&engine.Put{Topic: "orders", Queue: 0, Level: 1, Body: []byte("hello")})
	if got[0].Outcome != engine.Scheduled {
		t.Fatalf("put: %v, %v", got[0].Outcome, got[0].Err)
	}
	if m := s.Pull("orders", 0, 0); m != nil {
		t.Fatalf("%q is early", m.Body)
	}
	s.Pass(time.Second)
	if m := s.Pull("orders", 0, 0); m == nil || string(m.Body) != "hello" {
		t.Fatalf("got %+v", m)
	}
}
