package engine_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/engine/vfs/osfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// tickOnce is one Tick with what follows from it: durable, released, jobs run and installed.
func tickOnce(t testing.TB, s *enginetest.Store) engine.Status {
	t.Helper()
	status := s.Tick()
	if status.Err != nil {
		t.Fatalf("tick: %v", status.Err)
	}
	release(t, s)
	for _, j := range status.Jobs {
		if err := j.Run(); err != nil {
			t.Fatalf("job %s: %v", j.Kind(), err)
		}
		for !s.Install(j) {
		}
	}
	release(t, s)
	return status
}

func release(t testing.TB, s *enginetest.Store) {
	t.Helper()
	if err := s.Commit(); err != nil {
		t.Fatal(err)
	}
	pos, err := s.Sync()
	if err != nil {
		t.Fatal(err)
	}
	s.Release(pos)
}

// burst stores n messages of a topic that are due in the span that begins at a time, without bodies.
func burst(t testing.TB, s *enginetest.Store, topic string, n int, dueMs, spanMs int64) {
	t.Helper()
	p := make([]engine.Put, 1000)
	cmds := make([]engine.Command, len(p))
	for from := 0; from < n; from += len(p) {
		part := cmds[:0]
		for i := range min(len(p), n-from) {
			p[i] = engine.Put{Topic: topic, Queue: 0, DueMs: dueMs + int64(from+i)*spanMs/int64(n)}
			part = append(part, &p[i])
		}
		for len(part) > 0 {
			answers, _, err := s.Append(part)
			if errors.Is(err, engine.ErrBusy) {
				release(t, s)
				tickOnce(t, s)
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range answers {
				if a.Outcome != engine.Scheduled {
					t.Fatalf("put: %v: %v", a.Outcome, a.Err)
				}
			}
			part = part[len(answers):]
		}
		release(t, s)
		tickOnce(t, s)
	}
}

// ordered reads a whole queue and wants n messages in the order of (due, id).
func ordered(t testing.TB, s *enginetest.Store, topic string, n int) {
	t.Helper()
	var p engine.Pulled
	lastDue, lastID, count := int64(0), uint64(0), 0
	for next := int64(0); ; next = p.Next {
		err := s.Solo.Pull(engine.PullRequest{Topic: topic, Queue: 0, Offset: next, MaxCount: 1024, MaxBytes: 8 << 20}, &p)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Messages) == 0 {
			break
		}
		for _, m := range p.Messages {
			if m.Err != nil || m.DueMs < lastDue || m.DueMs == lastDue && m.ID <= lastID {
				t.Fatalf("offset %d: (%d, %d) after (%d, %d): %v", m.Offset, m.DueMs, m.ID, lastDue, lastID, m.Err)
			}
			lastDue, lastID = m.DueMs, m.ID
			count++
		}
	}
	if count != n {
		t.Fatalf("topic %s has %d messages, want %d", topic, count, n)
	}
}

// quick are options of a store whose burst is longer than its memtables: it is in several groups of one slot.
func quick() engine.Options {
	o := roomy()
	o.MaxDelay, o.Retention, o.TailBytes = 7*day, day, 4<<20
	o.SecondsEntries, o.HoursEntries, o.LooseEntries = 16384, 16384, 16384
	return o
}

// A million messages are due in one millisecond. None comes before, all come then, in order; a slot is read block by block
// as it is delivered, and never whole.
func TestTimerMillionInOneMillisecond(t *testing.T) {
	n := enginetest.ReadVolume(t).Pick(50_000, 1_000_000, 1_000_000)
	s := enginetest.Open(t, enginetest.Config{Options: quick()})
	due := s.Clock.Wall() + 3*3600_000
	burst(t, s, "t", n, due, 0)
	s.Reopen(0)
	goTo(t, s, due-1)
	if got := visible(s, "t", 0); got != 0 {
		t.Fatalf("%d messages came early", got)
	}
	s.Clock.Pass(time.Millisecond)

	const block = 8 + 256*52
	groups := int64(n/16384 + 1)
	var read, most int64
	s.FS.(*crashfs.FS).SetInject(func(op crashfs.Op) error {
		if op.Kind == crashfs.Read && strings.HasPrefix(op.Name, "timerlog/") {
			read += int64(op.Len)
		}
		return nil
	})
	ticks := 0
	for fired := 0; fired < n; ticks++ {
		status := tickOnce(t, s)
		fired += status.Fired
		if status.Fired == 0 && ticks > n {
			t.Fatalf("%d of %d messages after %d ticks", fired, n, ticks)
		}
		if ticks > 0 { // the first one opens every group
			most = max(most, read)
		}
		read = 0
	}
	s.FS.(*crashfs.FS).SetInject(nil)
	// A chunk of 1,024 is at most 1024/256 blocks and one more for each group.
	if limit := (4 + groups) * (block + 128); most > limit {
		t.Errorf("one tick read %d bytes of the TimerLog, a chunk is %d", most, limit)
	}
	if ticks > n/1024+20 {
		t.Errorf("%d ticks for %d messages", ticks, n)
	}
	ordered(t, s, "t", n)
}

// Ten million messages are due within one second: they are streamed within the memory budget. By hand: it takes some
// gigabytes of disk and minutes.
func TestTimerTenMillionInOneSecond(t *testing.T) {
	if enginetest.ReadVolume(t) < enginetest.Campaign {
		t.Skip("TIDEWHEEL_VOLUME=campaign")
	}
	const n = 10_000_000
	fsys, err := osfs.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o := engine.Options{
		SegmentSize: 128 << 20, CheckpointEvery: 64 << 20, Queues: 1, FireChunk: 1024, TailBytes: 32 << 20, BitsBytes: 8 << 20,
		UnitsPerFile: 262144, EntriesPerFile: 65536, SecondsEntries: 524288, HoursEntries: 262144, LooseEntries: 65536, LooseRuns: 64,
		SecondsSlots: 1209600,
	}
	s := enginetest.Open(t, enginetest.Config{FS: fsys, Options: o, Damaged: true})
	due := s.Clock.Wall() + 3*3600_000
	burst(t, s, "t", n, due, 1000)
	s.Reopen(0)
	goTo(t, s, due-1)
	before, most := heapNow(), uint64(0)
	s.Clock.Pass(time.Second)
	start := time.Now()
	for fired, ticks := 0, 0; fired < n; ticks++ {
		fired += tickOnce(t, s).Fired
		if ticks%256 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
		}
	}
	took := time.Since(start)
	t.Logf("%d messages in %v, %.0f/s with a sync for each chunk; heap %d MiB before, at most %d MiB",
		n, took, n/took.Seconds(), before>>20, most>>20)
	if most > 200<<20 {
		t.Errorf("the heap grew to %d MiB", most>>20)
	}
	ordered(t, s, "t", n)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := engine.Check(engine.Env{FS: fsys, Wall: s.Clock.Wall, Mono: s.Clock.Mono}, ".", o)
	if err != nil || report.Units != n || report.Pending != 0 {
		t.Errorf("check: %+v: %v", report, err)
	}
}

// heapNow is what is alive on the heap.
func heapNow() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// laneTopics defines topics until there is one in each of the lanes.
func laneTopics(s *enginetest.Store, lanes int) (names []string) {
	for i := range lanes {
		names = append(names, fmt.Sprintf("lane%d", i))
		s.Do(&engine.DefineTopic{Topic: names[i], Queues: 1})
	}
	return names
}

// Half a million messages of one topic are due in one second. With four lanes a message of a topic in another lane waits
// for a few chunks, not for all of them; in the same lane it waits for all: that is what lanes are for.
func TestTimerBurstDelaysNoOtherLane(t *testing.T) {
	n := enginetest.ReadVolume(t).Pick(20_000, 500_000, 500_000)
	ticksUntil := func(lanes int, due func(burstDue int64) int64) int {
		o := quick()
		o.Lanes = lanes
		s := enginetest.Open(t, enginetest.Config{Options: o})
		topics := laneTopics(s, 4)
		start := s.Clock.Wall() + 3*3600_000
		burst(t, s, topics[0], n, start, 1000)
		for _, topic := range topics[1:] {
			s.Do(&engine.Put{Topic: topic, Queue: 0, DueMs: due(start)})
		}
		goTo(t, s, start-1)
		s.Clock.Pass(2 * time.Second)
		for ticks := 1; ; ticks++ {
			tickOnce(t, s)
			delivered := 0
			for _, topic := range topics[1:] {
				delivered += int(visible(s, topic, 0))
			}
			if delivered == 3 {
				if left := s.Stats().Pending; left == 0 && lanes > 1 {
					t.Errorf("the burst was over before, after %d ticks: this says nothing", ticks)
				}
				return ticks
			}
			if ticks > 2*n {
				t.Fatal("they never came")
			}
		}
	}
	first := func(burstDue int64) int64 { return burstDue }
	last := func(burstDue int64) int64 { return burstDue + 999 }
	for name, due := range map[string]func(int64) int64{"due with the first": first, "due with the last": last} {
		if ticks := ticksUntil(4, due); ticks > 8 {
			t.Errorf("%s: three messages of other lanes came after %d ticks", name, ticks)
		}
	}
	if ticks := ticksUntil(1, last); ticks < n/1024 {
		t.Errorf("one lane: the messages behind the burst came after %d ticks, before the burst was over", ticks)
	}
}

// What becomes due in another lane while the burst is under way does not wait for its end either, and neither do levels.
func TestTimerBurstUnderWay(t *testing.T) {
	n := enginetest.ReadVolume(t).Pick(20_000, 500_000, 500_000)
	o := quick()
	o.Lanes = 4
	s := enginetest.Open(t, enginetest.Config{Options: o})
	topics := laneTopics(s, 4)
	start := s.Clock.Wall() + 3*3600_000
	burst(t, s, topics[0], n, start, 0)
	goTo(t, s, start-1)
	s.Clock.Pass(time.Millisecond)
	for range 5 {
		tickOnce(t, s)
	}
	before := visible(s, topics[0], 0)
	s.Do(&engine.Put{Topic: topics[2], Queue: 0, DelayMs: 1}, &engine.Put{Topic: topics[0], Queue: 0, Level: 1})
	s.Clock.Pass(time.Second)
	for range 6 {
		tickOnce(t, s)
	}
	if visible(s, topics[2], 0) != 1 {
		t.Error("a message of another lane was not delivered")
	}
	if st := s.Stats(); st.Pending == 0 || visible(s, topics[0], 0)-before < 2*1024 {
		t.Errorf("the burst did not go on beside it: %d wait", st.Pending)
	}
	var p engine.Pulled
	level := false
	for next := before; !level; next = p.Next {
		if err := s.Solo.Pull(engine.PullRequest{Topic: topics[0], Queue: 0, Offset: next, MaxCount: 1024}, &p); err != nil {
			t.Fatal(err)
		}
		if len(p.Messages) == 0 {
			break
		}
		for _, m := range p.Messages {
			level = level || m.Level == 1
		}
	}
	if !level {
		t.Error("a level message of the same topic was not delivered")
	}
	s.Step()
	if got := visible(s, topics[0], 0); got != int64(n+1) {
		t.Errorf("%d messages, want %d", got, n+1)
	}
}
