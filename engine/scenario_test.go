package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

// put makes a message of one topic and queue whose body is its name.
func put(name string, level int) *engine.Put {
	return &engine.Put{Topic: "t", Queue: 0, Level: level, Key: []byte(name), Body: []byte(name)}
}

// traffic makes n messages of another topic, 3 KiB each: they fill segments.
func traffic(n int) []engine.Command {
	body := bytes.Repeat([]byte("traffic "), 384)
	cmds := make([]engine.Command, n)
	for i := range cmds {
		cmds[i] = &engine.Put{Topic: "traffic", Queue: 0, Body: body}
	}
	return cmds
}

// do gives one command and returns its answer.
func do(s *enginetest.Store, c engine.Command) engine.Answer { return s.Do(c)[0] }

// stored wants the answer to a message that waits.
func stored(t *testing.T, s *enginetest.Store, p *engine.Put) engine.Answer {
	t.Helper()
	a := do(s, p)
	if a.Outcome != engine.Scheduled {
		t.Fatalf("put %s: %v: %v", p.Key, a.Outcome, a.Err)
	}
	return a
}

// read returns the keys of all messages in queue 0 of topic t that can be read, with commas between.
func read(t *testing.T, s *enginetest.Store) string {
	t.Helper()
	info, ok, _ := s.Topic("t")
	if !ok {
		return ""
	}
	var keys []string
	for at := info.Queues[0].Min; ; at++ {
		m := s.Pull("t", 0, at)
		if m == nil {
			return strings.Join(keys, ",")
		}
		if m.Err != nil || !bytes.Equal(m.Key, m.Body) {
			t.Fatalf("offset %d: %q with body %q: %v", at, m.Key, m.Body, m.Err)
		}
		keys = append(keys, string(m.Key))
	}
}

// wantRead compares read with what it should be.
func wantRead(t *testing.T, s *enginetest.Store, want string) {
	t.Helper()
	if got := read(t, s); got != want {
		t.Fatalf("topic t has %q, want %q", got, want)
	}
}

// wantFate compares the verdict on a message with what it should be.
func wantFate(t *testing.T, s *enginetest.Store, a engine.Answer, want engine.Outcome) {
	t.Helper()
	if got, _, err := s.Verdict(a.Handle()); err != nil || got != want {
		t.Fatalf("the verdict on message %d is %v, want %v: %v", a.ID, got, want, err)
	}
}

// move gives a waiting message another due time.
func move(t *testing.T, s *enginetest.Store, a engine.Answer, dueMs int64) engine.Answer {
	t.Helper()
	p, err := s.ReadPending(a.Handle())
	if err != nil {
		t.Fatalf("read message %d: %v", a.ID, err)
	}
	moved := do(s, &engine.Move{Handle: a.Handle(), DueMs: dueMs, Record: p})
	if moved.Outcome != engine.Moved {
		t.Fatalf("move of message %d: %v: %v", a.ID, moved.Outcome, moved.Err)
	}
	return moved
}

// segments lists the CommitLog's segment files.
func segments(t *testing.T, fsys vfs.FS) (names []string) {
	t.Helper()
	list, err := fsys.ReadDir("commitlog")
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range list {
		if len(info.Name) == 20 {
			names = append(names, info.Name)
		}
	}
	return names
}

// fast are levels of seconds and a long one, and an age at which read messages go soon.
func fast() engine.Options {
	return engine.Options{
		Levels: "1s 10s 1h", Retention: 10 * time.Second, RollAfter: 3 * time.Hour, Queues: 1,
		MaxDelay: 100 * 365 * 24 * time.Hour,
	}
}

// F1: what was decided in a segment that is gone stays decided, since the log loses its head only.
func TestHistoryF1CancelOutlivesItsSegment(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: fast()})
	a := stored(t, s, put("a", 3))
	b := stored(t, s, put("b", 3))
	c := stored(t, s, put("c", 3))
	s.Do(traffic(8)...)
	if got := do(s, &engine.Cancel{Handle: b.Handle()}); got.Outcome != engine.Cancelled {
		t.Fatalf("cancel: %v", got.Outcome)
	}
	c2 := move(t, s, c, s.Clock.Wall()+2*3600*1000)
	for range 20 {
		s.Do(traffic(8)...)
		s.Pass(5 * time.Second)
	}
	for range 2 {
		wantFate(t, s, a, engine.Scheduled)
		wantFate(t, s, b, engine.AlreadyCancelled)
		wantFate(t, s, c, engine.Superseded)
		wantFate(t, s, c2, engine.Scheduled)
		s.Reopen(0)
	}
	s.Pass(time.Hour)
	wantRead(t, s, "a")
	s.Pass(time.Hour)
	if got := read(t, s); got != "c" && got != "a,c" {
		t.Fatalf("topic t has %q, want c", got)
	}
}

// F3: a cancelled far message stays cancelled when nothing in its chunk of state bits waits and the retention is over; its
// handle is forgotten only with the chunk, never alive again.
func TestHistoryF3ClosedChunk(t *testing.T) {
	if testing.Short() {
		t.Skip("70,000 messages")
	}
	o := fast()
	o.SegmentSize, o.CheckpointEvery, o.FireChunk = 1<<20, 1<<20, 1024
	o.Levels, o.RollAfter = "1s 10s", time.Minute
	o.UnitsPerFile, o.EntriesPerFile, o.BitsBytes = 65536, 65536, 1
	s := enginetest.Open(t, enginetest.Config{Options: o})
	first := stored(t, s, put("first", 2))
	moved := move(t, s, first, s.Clock.Wall()+100_000)
	victim := stored(t, s, put("victim", 2))
	if got := do(s, &engine.Cancel{Handle: victim.Handle()}); got.Outcome != engine.Cancelled {
		t.Fatalf("cancel: %v", got.Outcome)
	}
	for n := 0; n < 70_000; n += 1000 {
		cmds := make([]engine.Command, 1000)
		for i := range cmds {
			cmds[i] = &engine.Put{Topic: "many", Queue: 0, Level: 1}
		}
		s.Do(cmds...)
		s.Pass(time.Second)
	}
	wantFate(t, s, victim, engine.AlreadyCancelled)
	forgotten := false
	for range 60 {
		s.Do(traffic(100)...)
		s.Pass(10 * time.Second)
		got, _, _ := s.Verdict(victim.Handle())
		if got != engine.AlreadyCancelled && got != engine.NotFound || forgotten && got != engine.NotFound {
			t.Fatalf("the verdict on a cancelled message is %v", got)
		}
		forgotten = got == engine.NotFound
	}
	if !forgotten {
		t.Error("the chunk of the cancelled message never closed")
	}
	wantFate(t, s, first, engine.NotFound)
	wantFate(t, s, moved, engine.NotFound)
	s.Reopen(0)
	wantFate(t, s, victim, engine.NotFound)
}

// F5: messages come and fire for ever and the memtable never fills: what a restart reads stays small.
func TestHistoryF5SpillsDoNotGrow(t *testing.T) {
	o := fast()
	o.Retention = time.Second
	s := enginetest.Open(t, enginetest.Config{Options: o})
	size := func() (n int64) {
		list, err := s.FS.ReadDir("timerlog/loose")
		if err != nil {
			return 0
		}
		for _, info := range list {
			n += info.Size
		}
		return n
	}
	var early int64
	for i := range 400 {
		a := stored(t, s, put(fmt.Sprint(i), 2))
		move(t, s, a, s.Clock.Wall()+5000) // loose
		s.Do(traffic(1)...)
		s.Pass(700 * time.Millisecond)
		if i == 100 {
			early = size()
		}
	}
	if late := size(); late > 3*early+64<<10 {
		t.Errorf("the loose TimerLog has %d bytes after 400 messages, it had %d after 100", late, early)
	}
}

// F11, L17, S5: a clock that steps back a little keeps the order of storing in a level; one that steps back a lot does not
// hold up what is due earlier, and no handle lies.
func TestHistoryF11ClockStepsBack(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: fast()})
	a := stored(t, s, put("a", 2))
	s.Clock.Step(-900 * time.Millisecond)
	b := stored(t, s, put("b", 2)) // due before a: raised to a's time
	if b.DueMs != a.DueMs {
		t.Errorf("b is due at %d, a at %d", b.DueMs, a.DueMs)
	}
	s.Clock.Step(-time.Hour)
	c := stored(t, s, put("c", 2)) // an hour before a: not through the queue
	if c.DueMs >= a.DueMs {
		t.Errorf("c is due at %d, a at %d", c.DueMs, a.DueMs)
	}
	s.Pass(10 * time.Second)
	wantRead(t, s, "c")
	wantFate(t, s, a, engine.Scheduled)
	s.Clock.Step(time.Hour)
	s.Pass(time.Second)
	wantRead(t, s, "c,a,b")
	wantFate(t, s, b, engine.Delivered)
}

// B4, L18: what is stored after the clock went back is due in the past of what was delivered. It waits all the same, fires
// at its time, survives a restart, and memory does not hold it.
func TestReviewB4Late(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: fast()})
	s.Pass(time.Hour)
	stored(t, s, put("before", 1))
	s.Pass(time.Second)
	wantRead(t, s, "before")
	s.Clock.Step(-time.Hour)
	var late []engine.Answer
	for i := range 100 { // more than two memtables
		late = append(late, stored(t, s, put(fmt.Sprintf("late%d", i), 2)))
		s.Pass(10 * time.Millisecond)
	}
	if got := do(s, &engine.Cancel{Handle: late[3].Handle()}); got.Outcome != engine.Cancelled {
		t.Fatalf("cancel of a late message: %v", got.Outcome)
	}
	s.Reopen(0)
	s.Kill(true)
	wantRead(t, s, "before")
	wantFate(t, s, late[0], engine.Scheduled)
	wantFate(t, s, late[3], engine.AlreadyCancelled)
	s.Pass(8999 * time.Millisecond) // 1 s passed while they were stored
	wantRead(t, s, "before")
	s.Pass(time.Millisecond)
	wantRead(t, s, "before,late0")
	s.Pass(10 * time.Second)
	if got := strings.Count(read(t, s), "late"); got != 99 {
		t.Fatalf("%d late messages of 99 were delivered", got)
	}
}

// B5: a due time further away than any ring reaches.
func TestReviewB5FarAway(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: fast()})
	a := move(t, s, stored(t, s, put("far", 3)), s.Clock.Wall()+400*24*3600*1000)
	s.Reopen(399 * 24 * time.Hour)
	wantFate(t, s, a, engine.Scheduled)
	s.Pass(23 * time.Hour)
	wantRead(t, s, "")
	s.Pass(time.Hour)
	wantRead(t, s, "far")
}

// B6: a message that was rolled keeps its handle, its order and its fate. A moved one answers through the new handle.
func TestReviewB6RolledMessage(t *testing.T) {
	o := fast()
	o.Levels, o.Retention, o.RollAfter = "1s 10s", time.Second, time.Minute
	s := enginetest.Open(t, enginetest.Config{Options: o})
	far := func(name string) engine.Answer {
		return move(t, s, stored(t, s, put(name, 2)), s.Clock.Wall()+3600_000)
	}
	a, b, c := far("a"), far("b"), far("c")
	before := segments(t, s.FS)[0]
	for range 60 {
		s.Do(traffic(8)...)
		s.Pass(20 * time.Second)
	}
	if segments(t, s.FS)[0] == before {
		t.Fatal("the head of the log was not rolled and deleted")
	}
	wantFate(t, s, a, engine.Scheduled)
	if got := do(s, &engine.Cancel{Handle: b.Handle()}); got.Outcome != engine.Cancelled {
		t.Fatalf("cancel after a roll: %v", got.Outcome)
	}
	d := move(t, s, c, s.Clock.Wall()+1000)
	if got := do(s, &engine.Cancel{Handle: c.Handle()}); got.Outcome != engine.Superseded {
		t.Fatalf("cancel by the old handle: %v", got.Outcome)
	}
	s.Kill(true)
	s.Pass(time.Second)
	wantRead(t, s, "c")
	wantFate(t, s, d, engine.Delivered)
	s.Pass(time.Hour)
	if got := read(t, s); got != "a" && got != "c,a" {
		t.Fatalf("topic t has %q after a roll, want a", got)
	}
	wantFate(t, s, b, engine.AlreadyCancelled)
}

// B9: a second cancel is answered from a first one that a power cut undoes, unless its answer waits for the log too.
func TestReviewB9AnswersWaitForTheLog(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: fast()})
	a := stored(t, s, put("a", 2))
	durable := s.Released()
	for i, want := range []engine.Outcome{engine.Cancelled, engine.AlreadyCancelled} {
		got, pos, err := s.Append([]engine.Command{&engine.Cancel{Handle: a.Handle()}})
		if err != nil || got[0].Outcome != want {
			t.Fatalf("cancel %d: %v, %v", i, got, err)
		}
		if pos <= durable {
			t.Errorf("cancel %d may be answered at %d, the log is durable up to %d", i, pos, durable)
		}
	}
	if got, pos, _ := s.Verdict(a.Handle()); got != engine.AlreadyCancelled || pos <= durable {
		t.Errorf("the verdict %v may leave at %d, the log is durable up to %d", got, pos, durable)
	}
	if err := s.Commit(); err != nil {
		t.Fatal(err)
	}
	s.Kill(true) // none of it was synced
	wantFate(t, s, a, engine.Scheduled)
	s.Pass(10 * time.Second)
	wantRead(t, s, "a")
}

// B10: the writer's calls never sync, however much there is to do.
func TestReviewB10WriterNeverSyncs(t *testing.T) {
	disk := faultfs.New(crashfs.New(crashfs.Options{}))
	clock := enginetest.NewClock(enginetest.Epoch)
	o := enginetest.SmallOptions()
	o.Levels, o.Retention = "1s 10s 1h", time.Second
	env := engine.Env{FS: disk, Wall: clock.Wall, Mono: clock.Mono}
	e, err := engine.Open(env, ".", o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	never := func(what string, call func()) {
		t.Helper()
		before := disk.Ops(faultfs.Sync, faultfs.SyncDir)
		call()
		if disk.Ops(faultfs.Sync, faultfs.SyncDir) != before {
			t.Fatalf("%s synced", what)
		}
	}
	for i := range 300 {
		never("append", func() {
			cmds := []engine.Command{put(fmt.Sprint(i), 1+i%3)}
			if i%4 == 0 {
				cmds = append(cmds, traffic(2)...)
			}
			if _, _, err := e.Append(cmds); err != nil && !errors.Is(err, engine.ErrBusy) {
				t.Fatal(err)
			}
		})
		never("commit", func() {
			if err := e.Commit(); err != nil {
				t.Fatal(err)
			}
		})
		pos, err := e.Sync()
		if err != nil {
			t.Fatal(err)
		}
		never("release", func() { e.Release(pos) })
		clock.Pass(time.Second)
		var st engine.Status
		never("tick", func() { st = e.Tick() })
		for _, j := range st.Jobs {
			if err := j.Run(); err != nil {
				t.Fatal(err)
			}
			never("install", func() {
				for !e.Install(j) {
				}
			})
		}
	}
	if n := e.Stats(); n.Checkpoints == 0 {
		t.Error("there was no checkpoint")
	}
}

// S3 is the host's (a retry copies the body). S4, issue beanstalkd 43 and others: one message that waits for ever does not
// keep the log from shrinking.
func TestReviewS4DiskIsBounded(t *testing.T) {
	o := fast()
	o.Retention, o.RollAfter = time.Second, 2*time.Hour
	s := enginetest.Open(t, enginetest.Config{Options: o})
	immortal := move(t, s, stored(t, s, put("immortal", 3)), s.Clock.Wall()+10*365*24*3600*1000)
	var most int
	for i := range 300 {
		s.Do(traffic(8)...)
		s.Pass(30 * time.Second)
		if i > 250 { // two and a half hours: RollAfter is over
			most = max(most, len(segments(t, s.FS)))
		}
	}
	// What was written in the last RollAfter is kept, and twice what lives: 240 rounds of 24 KiB in segments of 16.
	if limit := 240*24/16 + 40; most > limit {
		t.Errorf("the log has up to %d segments, want at most %d", most, limit)
	}
	wantFate(t, s, immortal, engine.Scheduled)
}

// S8: what a recovery shows was only in the page cache when the process died: it is made durable before it is shown.
func TestReviewS8TailIsSyncedBeforeItIsShown(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: fast()})
	got, _, err := s.Append([]engine.Command{put("a", 0), put("b", 0)})
	if err != nil || got[1].Outcome != engine.Stored {
		t.Fatalf("append: %v, %v", got, err)
	}
	if err := s.Commit(); err != nil {
		t.Fatal(err)
	}
	s.Kill(false)
	wantRead(t, s, "a,b")
	s.Kill(true)
	wantRead(t, s, "a,b")
}

// S9: neither a clock that jumps a month ahead nor a long stop makes a message older.
func TestReviewS9WallClockDeletesNothing(t *testing.T) {
	o := fast()
	o.Retention = 24 * time.Hour
	s := enginetest.Open(t, enginetest.Config{Options: o})
	do(s, put("a", 0))
	for range 4 {
		s.Do(traffic(8)...)
	}
	s.Clock.Step(30 * 24 * time.Hour)
	s.Do(traffic(8)...)
	s.Pass(time.Minute)
	s.Reopen(5 * 24 * time.Hour)
	s.Do(traffic(8)...)
	s.Pass(time.Minute)
	wantRead(t, s, "a")
	for range 30 {
		s.Pass(time.Hour)
		s.Do(traffic(8)...)
	}
	wantRead(t, s, "")
}

// Starts do not make a message older: the running time is no more than the time in which the store was open.
func TestStartsTakeNoRetention(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: fast()})
	var open time.Duration
	for range 100 {
		do(s, put("a", 0))
		s.Pass(10 * time.Millisecond)
		open += 10 * time.Millisecond
		do(s, put("b", 0))
		if got := s.Stats().LogMs; got > open.Milliseconds() {
			t.Fatalf("the running time is %d ms after %d ms", got, open.Milliseconds())
		}
		s.Reopen(time.Hour)
	}
	if got := s.Stats().LogMs; got < open.Milliseconds() {
		t.Errorf("the running time is %d ms after %d ms", got, open.Milliseconds())
	}
}

// S12: a topic that is deleted and made again is another one; fewer queues take what was meant for more.
func TestReviewS12Topics(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: fast()})
	do(s, &engine.DefineTopic{Topic: "t", Queues: 4})
	old := stored(t, s, put("old", 1))
	do(s, &engine.DeleteTopic{Topic: "t"})
	made := do(s, &engine.DefineTopic{Topic: "t", Queues: 4})
	if made.Topic == old.Topic {
		t.Fatalf("the new topic has the id of the old one, %d", made.Topic)
	}
	p := put("three", 1)
	p.Queue = 3
	stored(t, s, p)
	do(s, &engine.DefineTopic{Topic: "t", Queues: 2})
	s.Reopen(0)
	s.Pass(time.Second)
	wantRead(t, s, "")
	if m := s.Pull("t", 1, 0); m == nil || string(m.Key) != "three" {
		t.Fatalf("queue 1 has %v", m)
	}
	if got := s.Stats().Dropped; got != 1 {
		t.Errorf("%d messages were dropped, want 1", got)
	}
	if got := do(s, &engine.CommitOffset{Group: "g", Topic: "t", Queue: 9}); !errors.Is(got.Err, engine.ErrQueue) {
		t.Errorf("commit in queue 9: %v", got.Err)
	}
}

// M2: after a moment of idleness the last batch has a witness too, so damage to it is no torn tail.
func TestReviewM2LastBatchHasAWitness(t *testing.T) {
	for _, idle := range []bool{false, true} {
		s := enginetest.Open(t, enginetest.Config{Options: fast(), Damaged: true})
		do(s, put("a", 0))
		do(s, put("b", 0))
		if idle {
			s.Pass(60 * time.Millisecond)
			s.Pass(time.Second)
		}
		disk := s.FS.(*crashfs.FS).Kill()
		names := segments(t, disk)
		last := "commitlog/" + names[len(names)-1]
		at := bytes.LastIndex(contents(t, disk, last), []byte("b"))
		if err := disk.Rot(last, int64(at)*8); err != nil {
			t.Fatal(err)
		}
		e, err := engine.Open(engine.Env{FS: disk, Wall: s.Clock.Wall, Mono: s.Clock.Mono}, ".", withLevels(fast()))
		if !idle {
			if err != nil {
				t.Fatalf("a last batch without a witness: %v", err)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		var c *engine.CorruptError
		if !errors.As(err, &c) || c.File != last {
			t.Fatalf("damage in the last batch after a moment of idleness: %v", err)
		}
	}
}

// M8: a message that waits cannot be seen, by whatever way.
func TestReviewM8PendingIsHidden(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: fast()})
	a := stored(t, s, put("a", 1))
	var p engine.Pulled
	if m, err := s.View(a.Position, &p); !errors.Is(err, engine.ErrPending) {
		t.Errorf("view shows %q, %v", m.Key, err)
	}
	if m := s.Pull("t", 0, 0); m != nil {
		t.Errorf("pull shows %q", m.Key)
	}
	s.Pass(time.Second)
	if m, err := s.View(a.Position, &p); err != nil || string(m.Key) != "a" {
		t.Errorf("view of a delivered message: %q, %v", m.Key, err)
	}
}

// M9: a group that commits the same offset again and again writes nothing.
func TestReviewM9SameOffsetWritesNothing(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: fast()})
	do(s, put("a", 0))
	commit := &engine.CommitOffset{Group: "g", Topic: "t", Queue: 0, Offset: 1}
	do(s, commit)
	end := s.Released()
	if got := do(s, commit); got.Outcome != engine.Done || s.Released() != end {
		t.Errorf("the same offset again: %v, the log went from %d to %d", got.Outcome, end, s.Released())
	}
	if got := do(s, &engine.CommitOffset{Group: "g", Topic: "t", Queue: 0, Offset: 0}); !errors.Is(got.Err, engine.ErrOffset) {
		t.Errorf("going back without a seek: %v", got.Err)
	}
	s.Kill(true)
	if off, ok, _ := s.Committed("g", "t", 0); !ok || off != 1 {
		t.Errorf("committed is %d, %v", off, ok)
	}
}

// M12: a second process is kept away.
func TestReviewM12SecondProcess(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: fast()})
	_, err := engine.Open(engine.Env{FS: s.FS, Wall: s.Clock.Wall, Mono: s.Clock.Mono}, ".", withLevels(fast()))
	if !errors.Is(err, engine.ErrLocked) {
		t.Errorf("a second open: %v", err)
	}
}

// M15: an empty segment is not sealed, however old; a batch larger than a segment has room.
func TestReviewM15SegmentSizes(t *testing.T) {
	o := fast()
	o.SealAfter = time.Minute
	s := enginetest.Open(t, enginetest.Config{Options: o})
	for range 50 {
		s.Pass(time.Hour)
	}
	if n := len(segments(t, s.FS)); n > 2 {
		t.Errorf("an idle store has %d segments", n)
	}
	p := put("large", 1)
	p.Body = bytes.Repeat([]byte("x"), 200<<10)
	p.Key = []byte("large")
	a := stored(t, s, p)
	s.Pass(time.Second)
	var into engine.Pulled
	if m, err := s.View(a.Position, &into); err != nil || len(m.Body) != 200<<10 {
		t.Errorf("a large message: %d bytes, %v", len(m.Body), err)
	}
}

// L14, L15, T23, T30: what is delivered has the producer's properties and no other; reserved ones are refused.
func TestPropertiesOfDelivered(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: fast()})
	p := put("a", 1)
	p.Properties = message.AppendProperty(message.AppendProperty(nil, "colour", "red"), "size", "")
	a := stored(t, s, p)
	s.Pass(time.Second)
	m := s.Pull("t", 0, 0)
	if m == nil || !bytes.Equal(m.Properties, p.Properties) || m.DueMs != a.DueMs || m.Level != 1 {
		t.Fatalf("delivered is %+v", m)
	}
	for _, name := range []string{"DELAY", "REAL_TOPIC", "REAL_QID", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_OUT_MS"} {
		p := put("b", 1)
		p.Properties = message.AppendProperty(nil, name, "3")
		if got := do(s, p); !errors.Is(got.Err, engine.ErrProperties) {
			t.Errorf("property %s: %v", name, got.Err)
		}
	}
	// A put of what was delivered, as a retry makes it, is visible at once: nothing of the delay is left in it.
	again := &engine.Put{Topic: "t", Queue: 0, Key: m.Key, Tag: m.Tag, Properties: m.Properties, Body: m.Body}
	if got := do(s, again); got.Outcome != engine.Stored {
		t.Errorf("a retry: %v, %v", got.Outcome, got.Err)
	}
}

// withLevels are the options that enginetest.Open makes of o.
func withLevels(o engine.Options) engine.Options {
	small := enginetest.SmallOptions()
	small.Levels, small.Retention, small.RollAfter, small.SealAfter = o.Levels, o.Retention, o.RollAfter, o.SealAfter
	small.Queues, small.MaxDelay = max(o.Queues, 1), o.MaxDelay
	small.SecondsEntries, small.HoursEntries, small.SecondsSlots = o.SecondsEntries, o.HoursEntries, o.SecondsSlots
	return small
}

// contents reads a file.
func contents(t *testing.T, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.OpenFile(name, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		t.Fatal(err)
	}
	return b
}

// newRand returns a generator of a seed.
func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 17)) }
