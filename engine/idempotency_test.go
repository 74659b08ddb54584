package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// keyedPut is a message with an idempotency key that was looked for and not found.
func keyedPut(t testing.TB, s *enginetest.Store, key string, d time.Duration) *engine.Put {
	t.Helper()
	p := later(key, d)
	p.IdempotencyKey, p.KeySince = []byte(key), notFound(t, s, "t", key)
	return p
}

// lookFor looks for a key.
func lookFor(t testing.TB, s *enginetest.Store, topic, key string) engine.KeyFound {
	t.Helper()
	f, err := s.FindKey(topic, []byte(key))
	if err != nil {
		t.Fatalf("find key %q: %v", key, err)
	}
	if f.Position > s.Released() {
		t.Fatalf("key %q holds at %d, released is %d", key, f.Position, s.Released())
	}
	return f
}

func notFound(t testing.TB, s *enginetest.Store, topic, key string) engine.Offset {
	t.Helper()
	f := lookFor(t, s, topic, key)
	if f.Found {
		t.Fatalf("key %q of topic %q is found: %+v", key, topic, f)
	}
	return f.Position
}

// wantFound wants the answer of the put.
func wantFound(t testing.TB, s *enginetest.Store, key string, a engine.Answer) {
	t.Helper()
	f := lookFor(t, s, "t", key)
	f.Answer.Clamped = a.Clamped
	if !f.Found || f.Answer != a || string(f.Message.Body) != key || len(f.Message.Properties) != 0 {
		t.Fatalf("key %q: %v, %+v, message %+v; the put was answered %+v", key, f.Found, f.Answer, f.Message, a)
	}
}

// keyed are options with a window of keys.
func keyed(window time.Duration) engine.Options {
	o := timers()
	o.IdempotencyWindow = window
	return o
}

// A key is found for the length of its window, whatever comes between, and then no more.
func TestKeysFound(t *testing.T) {
	for pauseName, pause := range pauses() {
		t.Run(pauseName, func(t *testing.T) {
			s := enginetest.Open(t, enginetest.Config{Options: keyed(time.Hour)})
			waits, now := s.Do(keyedPut(t, s, "waits", 90*time.Minute))[0], s.Do(keyedPut(t, s, "now", 0))[0]
			moved := s.Do(keyedPut(t, s, "moved", 20*time.Minute))[0]
			if waits.Outcome != engine.Scheduled || now.Outcome != engine.Stored || moved.Outcome != engine.Scheduled {
				t.Fatalf("puts: %+v, %+v, %+v", waits, now, moved)
			}
			move(t, s, moved, s.Clock.Wall()+1000)
			for i := range 40 {
				pause(t, s)
				s.Do(traffic(3)...)
				s.Do(keyedPut(t, s, fmt.Sprint("key ", i), time.Hour))
				s.Pass(time.Minute)
				wantFound(t, s, "waits", waits)
				wantFound(t, s, "now", now)
				wantFound(t, s, "moved", moved)
				notFound(t, s, "t", "other")
				notFound(t, s, "u", "now")
			}
			if m := s.Pull("t", 0, now.Offset); m == nil {
				t.Fatal("the message is not in its queue")
			} else if key, rest := m.IdempotencyKey(); string(key) != "now" || len(rest) != 0 {
				t.Errorf("the message has key %q and properties %q", key, rest)
			}
			s.Pass(21 * time.Minute)
			pause(t, s)
			notFound(t, s, "t", "waits")
			notFound(t, s, "t", "now")
			if a := s.Do(keyedPut(t, s, "now", 0))[0]; a.Outcome != engine.Stored || a.Offset == now.Offset {
				t.Errorf("a put after the window: %+v", a)
			}
			answerOf(t, s, &engine.DeleteTopic{Topic: "t"}, engine.Done)
			answerOf(t, s, &engine.DefineTopic{Topic: "t", Queues: 1}, engine.Done)
			notFound(t, s, "t", "now") // a topic made later under the same name is another one
		})
	}
}

// A put is refused when one with its key may have come since it was looked for.
func TestKeysRace(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: keyed(time.Hour)})
	a, b := keyedPut(t, s, "k", 0), keyedPut(t, s, "k", 0)
	answers := s.Do(a, b)
	if answers[0].Outcome != engine.Stored || !errors.Is(answers[1].Err, engine.ErrKey) {
		t.Errorf("two of one batch: %+v", answers)
	}
	if got := s.Do(b)[0]; !errors.Is(got.Err, engine.ErrKey) {
		t.Errorf("a put that looked before: %+v", got)
	}
	if n := visible(s, "t", 0); n != 1 {
		t.Errorf("%d messages are there", n)
	}
	old := keyedPut(t, s, "other", 0)
	for range 40 { // several checkpoints: what the writer remembers begins later
		s.Do(traffic(8)...)
		s.Pass(time.Second)
	}
	if got := s.Do(old)[0]; !errors.Is(got.Err, engine.ErrKey) {
		t.Errorf("a put that looked long ago: %+v", got)
	}
	if got := s.Do(keyedPut(t, s, "other", 0))[0]; got.Outcome != engine.Stored {
		t.Errorf("a put that looked again: %+v", got)
	}
	for _, bad := range []struct {
		key  string
		kind error
	}{{string(make([]byte, 256)), engine.ErrTooLarge}, {"a\x01b", engine.ErrProperties}} {
		p := later("bad", 0)
		p.IdempotencyKey, p.KeySince = []byte(bad.key), s.Released()
		if got := s.Do(p)[0]; !errors.Is(got.Err, bad.kind) {
			t.Errorf("key of %d bytes: %+v", len(bad.key), got)
		}
	}
	off := enginetest.Open(t, enginetest.Config{Options: keyed(-1)})
	p := later("k", 0)
	p.IdempotencyKey, p.KeySince = []byte("k"), off.Released()
	if got := off.Do(p)[0]; !errors.Is(got.Err, engine.ErrBadCommand) {
		t.Errorf("a key where keys are off: %+v", got)
	}
}

// The log's head stays while a key in it is remembered, and goes after that.
func TestKeysKeepTheirSegment(t *testing.T) {
	o := keyed(time.Hour)
	o.Retention, o.RollAfter = time.Second, time.Minute
	s := enginetest.Open(t, enginetest.Config{Options: o})
	a := s.Do(keyedPut(t, s, "k", 0))[0]
	for range 55 {
		s.Do(traffic(8)...)
		s.Pass(time.Minute)
		wantFound(t, s, "k", a)
	}
	if s.First() > a.Position {
		t.Fatalf("the log begins at %d, the key is at %d", s.First(), a.Position)
	}
	for range 30 {
		s.Do(traffic(8)...)
		s.Pass(time.Minute)
	}
	if s.First() <= a.Position {
		t.Errorf("the log begins at %d, the key at %d is long forgotten", s.First(), a.Position)
	}
	notFound(t, s, "t", "k")
	if infos, err := s.FS.ReadDir("idempotency"); err != nil || len(infos) > 1 {
		t.Errorf("files of keys: %v, %v", infos, err)
	}
}

// Power cuts and kills at random: a key that was acknowledged is found, and one that was not is found with its message or
// not at all.
func TestKeysCrash(t *testing.T) {
	n := enginetest.ReadVolume(t).Pick(12, 300, 3000)
	for seed := range uint64(n) {
		rng := rand.New(rand.NewPCG(seed, 7))
		s := enginetest.Open(t, enginetest.Config{Options: keyed(24 * time.Hour)})
		answers := map[string]engine.Answer{}
		for i := range 150 {
			switch rng.IntN(10) {
			case 0:
				s.Kill(rng.IntN(2) == 0)
			case 1:
				s.Reopen(0)
			case 2:
				s.Do(traffic(1 + rng.IntN(8))...)
			case 3:
				s.Pass(time.Duration(rng.IntN(2000)) * time.Millisecond)
			default:
				key := fmt.Sprint("key ", i)
				delay := time.Duration(rng.IntN(3)) * time.Minute
				a := s.Do(keyedPut(t, s, key, delay))[0]
				for errors.Is(a.Err, engine.ErrKey) { // a checkpoint came between: the writer remembers less
					a = s.Do(keyedPut(t, s, key, delay))[0]
				}
				if !errors.Is(a.Err, engine.ErrBacklog) {
					answers[key] = a
				}
			}
			if rng.IntN(5) == 0 {
				for key, a := range answers {
					wantFound(t, s, key, a)
				}
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// A file of keys that is damaged is made again from the log.
func TestKeysDamagedFile(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, disk *crashfs.FS, file string){
		"missing": func(t *testing.T, disk *crashfs.FS, file string) {
			if err := disk.Remove(file); err != nil {
				t.Fatal(err)
			}
		},
		"header": func(t *testing.T, disk *crashfs.FS, file string) {
			f, err := disk.OpenFile(file, os.O_RDWR, 0)
			if err == nil {
				_, err = f.WriteAt([]byte("x"), 20)
			}
			if err != nil {
				t.Fatal(err)
			}
			_ = f.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := enginetest.Open(t, enginetest.Config{Options: keyed(24 * time.Hour)})
			answers := map[string]engine.Answer{}
			for i := range 100 {
				key := fmt.Sprint("key ", i)
				answers[key] = s.Do(keyedPut(t, s, key, 0))[0]
				s.Pass(time.Second)
			}
			disk := s.FS.(*crashfs.FS)
			infos, err := disk.ReadDir("idempotency")
			if err != nil || len(infos) == 0 {
				t.Fatalf("files of keys: %v, %v", infos, err)
			}
			damage(t, disk, path.Join("idempotency", infos[0].Name))
			if name == "header" {
				disk = disk.Kill()
				s.FS = disk
				if _, err := engine.Check(engine.Env{FS: disk, Wall: s.Clock.Wall, Mono: s.Clock.Mono}, ".", enginetest.SmallOptions()); !errors.Is(err, engine.ErrCorrupt) {
					t.Errorf("check: %v", err)
				}
			}
			s.Reopen(0)
			for key, a := range answers {
				wantFound(t, s, key, a)
			}
		})
	}
}

// A damaged block in a file of keys is told to who looks for a key there. All else goes on: messages are stored, checkpoints
// are made.
func TestKeysDamagedBlock(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: keyed(24 * time.Hour)})
	for i := range 60 {
		s.Do(keyedPut(t, s, fmt.Sprint("key ", i), 0))
		s.Pass(time.Second)
	}
	disk := s.FS.(*crashfs.FS)
	infos, err := disk.ReadDir("idempotency")
	if err != nil || len(infos) == 0 {
		t.Fatalf("files of keys: %v, %v", infos, err)
	}
	name := path.Join("idempotency", infos[0].Name)
	f, err := disk.OpenFile(name, os.O_RDWR, 0)
	if err == nil {
		_, err = f.WriteAt([]byte("x"), 80)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	s.Reopen(0)
	if _, err := s.FindKey("t", []byte("key 0")); !errors.Is(err, engine.ErrCorrupt) || !strings.Contains(err.Error(), name) {
		t.Errorf("a key in the damaged block: %v", err)
	}
	for i := range 200 { // many times the log between two checkpoints
		p := later("more", 0)
		p.IdempotencyKey, p.KeySince = fmt.Append(nil, "more ", i), s.Released()
		a := s.Do(p)[0]
		for errors.Is(a.Err, engine.ErrKey) {
			p.KeySince = s.Released()
			a = s.Do(p)[0]
		}
		s.Do(traffic(4)...)
		if s.Pass(time.Second); a.Err != nil {
			t.Fatalf("put %d: %v", i, a.Err)
		}
	}
	if err := disk.Remove(name); err != nil { // as an operator does: it is made again from the log
		t.Fatal(err)
	}
	s.Reopen(0)
	for i := range 60 {
		if f := lookFor(t, s, "t", fmt.Sprint("key ", i)); !f.Found {
			t.Errorf("key %d is not found", i)
		}
	}
}

// The key of a message that cannot be read is refused, since what it belongs to cannot be compared, until the message is
// declared lost: then the producer's repetition brings it back.
func TestKeysOfALostMessage(t *testing.T) {
	o := keyed(24 * time.Hour)
	o.TailBytes = 4096
	s := enginetest.Open(t, enginetest.Config{Options: o, Damaged: true})
	bad := s.Do(keyedPut(t, s, "badbad", 0))[0]
	for range 3 {
		s.Do(traffic(8)...)
		s.Pass(100 * time.Millisecond)
	}
	disk := s.FS.(*crashfs.FS)
	name := "commitlog/" + segments(t, disk)[0]
	if err := disk.Rot(name, int64(bytes.LastIndex(contents(t, disk, name), []byte("badbad")))*8); err != nil {
		t.Fatal(err)
	}
	if _, err := s.FindKey("t", []byte("badbad")); !errors.Is(err, engine.ErrCorrupt) {
		t.Fatalf("the key of a damaged message: %v", err)
	}
	answerOf(t, s, &engine.MarkHole{From: bad.Position, To: bad.Position + engine.Offset(bad.Size), Reason: "a flipped bit"}, engine.Done)
	again := s.Do(keyedPut(t, s, "badbad", 0))[0]
	wantFound(t, s, "badbad", again)
	s.Kill(true)
	wantFound(t, s, "badbad", again)
}
