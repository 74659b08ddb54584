package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/engine/handle"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// findPlace wants to find a message, and that it is the one that is read there.
func findPlace(t *testing.T, s *enginetest.Store, h handle.Handle, key string) engine.Place {
	t.Helper()
	p, ok, err := s.Place(h)
	if err != nil || !ok {
		t.Fatalf("place of %s: %v, %v", key, ok, err)
	}
	var pulled engine.Pulled
	err = s.Solo.Pull(engine.PullRequest{Topic: p.Topic, Queue: p.Queue, Offset: p.Offset, MaxCount: 1}, &pulled)
	if err != nil || string(pulled.Messages[0].Key) != key {
		t.Fatalf("%s is not at %+v, there is %q: %v", key, p, pulled.Messages[0].Key, err)
	}
	if p.AtMs < h.Due || p.AtMs > s.Clock.Wall() {
		t.Errorf("%s came at %d, was due at %d, and it is %d", key, p.AtMs, h.Due, s.Clock.Wall())
	}
	return p
}

// noPlace wants a message not to be found.
func noPlace(t *testing.T, s *enginetest.Store, h handle.Handle) {
	t.Helper()
	if p, ok, err := s.Place(h); err != nil || ok {
		t.Fatalf("message %d is at %+v: %v", h.ID, p, err)
	}
}

// Wherever a message waited, it is found where it was delivered to, also after a crash; but for one that was rolled after its handle
// was made: the handle says where the record was then.
func TestPlace(t *testing.T) {
	found := 0
	eachPlace(t, func(t *testing.T, s *enginetest.Store, a engine.Answer, pause func()) {
		h := a.Handle()
		noPlace(t, s, h)
		goTo(t, s, a.DueMs-1)
		noPlace(t, s, h)
		all := listAll(t, s, engine.Filter{Topic: "t"}, 100)
		last := all[slices.IndexFunc(all, func(w engine.Waiting) bool { return w.Handle.ID == a.ID })].Handle
		s.Clock.Pass(time.Millisecond)
		s.Step()
		pause()
		if copied := s.Pull("t", 0, 0).Position; copied == h.Position {
			found++
			findPlace(t, s, h, "x")
		} else {
			noPlace(t, s, h)
			last.Position = copied // it may have been rolled again just now
		}
		if p := findPlace(t, s, last, "x"); p.AtMs > a.DueMs+1 {
			t.Errorf("it came %d ms late", p.AtMs-a.DueMs)
		}
		s.Do(&engine.DeleteTopic{Topic: "t"})
		noPlace(t, s, last)
	})
	if found < 40 {
		t.Errorf("%d were found by their first handles", found)
	}
}

// What a stage kept is in its topic from then on. What waits in the stage, was dropped or replaced is not.
func TestPlaceStaged(t *testing.T) {
	for pauseName, pause := range pauses() {
		t.Run(pauseName, func(t *testing.T) {
			o := timers()
			o.Retention, o.Stage = time.Hour, func(string) bool { return true }
			s := enginetest.Open(t, enginetest.Config{Options: o})
			kept, dropped := stored(t, s, later("kept", time.Second)), stored(t, s, later("dropped", time.Second))
			replaced, open := stored(t, s, later("replaced", time.Second)), stored(t, s, later("open", time.Second))
			goTo(t, s, enginetest.Epoch+60_000)
			for _, a := range []engine.Answer{kept, dropped, replaced, open} {
				noPlace(t, s, a.Handle())
			}
			items := undecided(t, s, "t", 0)
			c := settle("t", 0, drop, items[1:3]...)
			c.Puts = []*engine.Put{{Topic: "t", Queue: 0, Unstaged: true, Key: []byte("instead")}}
			for _, c := range []*engine.Settle{c, settle("t", 0, keep, items[0])} {
				if got := s.Do(c); got[0].Err != nil {
					t.Fatal(got[0].Err)
				}
			}
			pause(t, s)
			if p := findPlace(t, s, kept.Handle(), "kept"); p.Offset != 1 || p.AtMs < enginetest.Epoch+60_000 {
				t.Errorf("kept at %+v", p)
			}
			for _, a := range []engine.Answer{dropped, replaced, open} {
				noPlace(t, s, a.Handle())
			}
		})
	}
}

// A message is found in the queue that it was delivered to, when the topic has fewer queues than when it was stored, and when
// what is in front of it was deleted; when it was deleted itself it is not found.
func TestPlaceQueues(t *testing.T) {
	o := timers()
	o.Queues, o.RollAfter = 4, time.Minute
	s := enginetest.Open(t, enginetest.Config{Options: o})
	var all []engine.Answer
	for q := range 4 {
		p := later(string(rune('a'+q)), time.Minute)
		p.Queue = q
		all = append(all, stored(t, s, p))
	}
	s.Do(&engine.DefineTopic{Topic: "t", Queues: 3})
	goTo(t, s, enginetest.Epoch+60_000)
	for q, a := range all {
		p := findPlace(t, s, a.Handle(), string(rune('a'+q)))
		want(t, "queue", p.Queue, q%3)
	}
	for s.First() <= all[0].Position {
		rollHead(t, s)
	}
	noPlace(t, s, all[0].Handle())
}

// The running time of a store goes with the monotonic clock. A wall clock that was set by less than a second makes the
// due time lie before or behind the message, among many others.
func TestPlaceClockSlewed(t *testing.T) {
	for name, drift := range map[string]time.Duration{"forward": 900 * time.Millisecond, "back": -900 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			o := roomy()
			o.Retention = time.Hour
			s := enginetest.Open(t, enginetest.Config{Options: o})
			a := stored(t, s, later("x", 10*time.Second))
			s.Clock.Step(drift)
			for range 300 {
				s.Do(&engine.Put{Topic: "t", Body: []byte("other")})
				s.Pass(60 * time.Millisecond)
			}
			findPlace(t, s, a.Handle(), "x")
		})
	}
}

// A look-up reads little, however many messages a topic has: a search in each queue and the units about the due time. One
// that does not find the message reads 4,096 units of a queue, and no more.
func TestPlaceIsCheap(t *testing.T) {
	o := roomy()
	o.Retention, o.Queues, o.CheckpointEvery = time.Hour, 4, 64<<10
	s := enginetest.Open(t, enginetest.Config{Options: o})
	const n = 40_000
	puts := make([]*engine.Put, n)
	for i := range puts {
		puts[i] = &engine.Put{Topic: "t", Queue: i % 4, DueMs: enginetest.Epoch + 60_000 + int64(i/10)}
	}
	puts[n/2].Key = []byte("x")
	all := putAll(t, s, puts)
	goTo(t, s, enginetest.Epoch+60_000)
	for range 45 { // as they fall due, about 1,000 at once
		s.Pass(100 * time.Millisecond)
	}
	s.Reopen(0)
	reads, read := 0, 0
	s.FS.(*crashfs.FS).SetInject(func(op crashfs.Op) error {
		if op.Kind == crashfs.Read {
			reads, read = reads+1, read+op.Len
		}
		return nil
	})
	h := all[n/2].Handle()
	p, ok, err := s.Place(h)
	if err != nil || !ok {
		t.Fatalf("not found: %v", err)
	}
	t.Logf("found at %+v with %d reads of %d bytes", p, reads, read)
	if reads > 4*(15+1) || read > 4*(15+256)*32 {
		t.Errorf("%d reads of %d bytes for one that is found", reads, read)
	}
	reads, read = 0, 0
	h.Position++
	noPlace(t, s, h)
	t.Logf("not found with %d reads of %d bytes", reads, read)
	if reads > 4*(15+2*16) || read > 4*(15+4096)*32 || reads == 0 {
		t.Errorf("%d reads of %d bytes for one that is not found", reads, read)
	}
	s.FS.(*crashfs.FS).SetInject(nil)
}
