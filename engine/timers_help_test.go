package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

const (
	day     = 24 * time.Hour
	year    = 365 * day
	century = 100 * year

	yearEndMs = 253402300799999 // the end of the year 9999
)

// timers are options for timers up to a century ahead, with memtables that are full after a few puts.
func timers() engine.Options {
	return engine.Options{
		Levels: "1s 10s 1h", Retention: 10 * time.Second, RollAfter: 3 * time.Hour, Queues: 1, MaxDelay: century,
		SecondsEntries: 16, HoursEntries: 16, LooseEntries: 16, SecondsSlots: 16384,
	}
}

// roomy are options for many timers: nothing happens because of a size.
func roomy() engine.Options {
	o := timers()
	o.SegmentSize, o.CheckpointEvery, o.FireChunk, o.TailBytes, o.BitsBytes = 64<<20, 64<<20, 1024, 1<<20, 1<<20
	o.UnitsPerFile, o.EntriesPerFile = 65536, 65536
	o.SecondsEntries, o.HoursEntries, o.LooseEntries = 65536, 65536, 65536
	return o
}

// later is a message of topic t that is due after d.
func later(name string, d time.Duration) *engine.Put {
	return &engine.Put{Topic: "t", Queue: 0, DelayMs: d.Milliseconds(), Key: []byte(name), Body: []byte(name)}
}

// at is a message of topic t that is due at a time.
func at(name string, dueMs int64) *engine.Put {
	return &engine.Put{Topic: "t", Queue: 0, DueMs: dueMs, Key: []byte(name), Body: []byte(name)}
}

// goTo lets the clock pass to a time.
func goTo(t testing.TB, s *enginetest.Store, wallMs int64) {
	t.Helper()
	d := wallMs - s.Clock.Wall()
	if d < 0 {
		t.Fatalf("the clock is %d ms past %d", -d, wallMs)
	}
	s.Pass(time.Duration(d) * time.Millisecond)
}

// putAll stores messages that wait, as many at once as a batch takes.
func putAll(t testing.TB, s *enginetest.Store, puts []*engine.Put) []engine.Answer {
	t.Helper()
	cmds := make([]engine.Command, len(puts))
	for i, p := range puts {
		cmds[i] = p
	}
	var answers []engine.Answer
	for len(cmds) > 0 { // jobs run between, so that memtables have room
		n := min(len(cmds), 500)
		answers = append(answers, s.Do(cmds[:n]...)...)
		cmds = cmds[n:]
		s.Step()
	}
	for i, a := range answers {
		if a.Outcome != engine.Scheduled {
			t.Fatalf("put %d: outcome %v: %v", i, a.Outcome, a.Err)
		}
	}
	return answers
}

// keysOf lists the keys of a queue's messages, in order, and wants each body to be its key.
func keysOf(t testing.TB, s *enginetest.Store, topic string, queue int) (keys []string) {
	t.Helper()
	info, ok, _ := s.Topic(topic)
	if !ok {
		return nil
	}
	var p engine.Pulled
	for next := info.Queues[queue].Min; ; next = p.Next {
		err := s.Solo.Pull(engine.PullRequest{Topic: topic, Queue: queue, Offset: next, MaxCount: 1024, MaxBytes: 8 << 20}, &p)
		if err != nil {
			t.Fatalf("pull %s/%d from %d: %v", topic, queue, next, err)
		}
		if len(p.Messages) == 0 {
			return keys
		}
		for _, m := range p.Messages {
			if m.Err != nil || string(m.Key) != string(m.Body) {
				t.Fatalf("%s/%d offset %d: key %q body %q: %v", topic, queue, m.Offset, m.Key, m.Body, m.Err)
			}
			if m.ID != 0 && m.DueMs > s.Clock.Wall() {
				t.Fatalf("%s/%d offset %d: due at %d, now is %d", topic, queue, m.Offset, m.DueMs, s.Clock.Wall())
			}
			keys = append(keys, string(m.Key))
		}
	}
}

// visible is how many messages of a queue can be read.
func visible(s *enginetest.Store, topic string, queue int) int64 {
	info, ok, _ := s.Topic(topic)
	if !ok {
		return 0
	}
	return info.Queues[queue].Visible
}

// answerOf gives a command and wants an outcome.
func answerOf(t testing.TB, s *enginetest.Store, c engine.Command, want engine.Outcome) engine.Answer {
	t.Helper()
	a := s.Do(c)[0]
	if a.Outcome != want {
		t.Fatalf("%T: outcome %v, want %v: %v", c, a.Outcome, want, a.Err)
	}
	return a
}

// listAll walks through all waiting messages of a filter, a few at a time.
func listAll(t testing.TB, s *enginetest.Store, f engine.Filter, most int) (all []engine.Waiting) {
	t.Helper()
	for token, calls := "", 0; ; calls++ {
		page, err := s.Pending(f, token, most)
		if err != nil {
			t.Fatalf("pending: %v", err)
		}
		all = append(all, page.Messages...)
		if token = page.Next; token == "" {
			return all
		}
		if calls > 1<<20 {
			t.Fatal("a listing has no end")
		}
	}
}

// meter counts what goes to a file system.
type meter struct {
	ops, reads, changes, syncs int64
	written                    int64            // bytes
	byFile                     map[string]int64 // bytes written, by the first part of the name
}

// count counts from now on what is done to a disk. It must not be used while another hook is set.
func count(disk *crashfs.FS) *meter {
	m := &meter{byFile: map[string]int64{}}
	disk.SetInject(func(op crashfs.Op) error {
		m.ops++
		switch {
		case op.Kind == crashfs.Read:
			m.reads++
		case op.Changes():
			m.changes++
		}
		switch op.Kind {
		case crashfs.Write:
			m.written += int64(op.Len)
			first, _, _ := strings.Cut(op.Name, "/")
			m.byFile[first] += int64(op.Len)
		case crashfs.Sync, crashfs.SyncDir:
			m.syncs++
		}
		return nil
	})
	return m
}

// wantKeys compares what a queue has with what it should have.
func wantKeys(t testing.TB, s *enginetest.Store, topic string, queue int, want []string) {
	t.Helper()
	got := keysOf(t, s, topic, queue)
	if slices.Equal(got, want) {
		return
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("%s/%d has %d messages, want %d; from %d on it has %v, want %v", topic, queue, len(got), len(want), i,
				got[min(i, len(got)):min(i+5, len(got))], want[min(i, len(want)):min(i+5, len(want))])
		}
	}
}

func name(i int) string { return fmt.Sprintf("m%06d", i) }
