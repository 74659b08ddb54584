package engine_test

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

// B2: topic, group and offsets stood in a segment that is gone; then both copies of the checkpoint are lost. Whatever
// suffix of the log is left knows them.
func TestReviewB2SuffixIsComplete(t *testing.T) {
	o := fast()
	o.Levels, o.Retention, o.RollAfter = "1s 10s", time.Second, time.Minute
	s := enginetest.Open(t, enginetest.Config{Options: o})
	do(s, &engine.DefineTopic{Topic: "t", Queues: 1, Attrs: 7})
	for i := range 20 {
		do(s, put(fmt.Sprint(i), 0))
	}
	do(s, &engine.CommitOffset{Group: "g", Topic: "t", Queue: 0, Offset: 15})
	waiting := move(t, s, stored(t, s, put("far", 2)), s.Clock.Wall()+24*3600_000)
	first := segments(t, s.FS)[0]
	for range 60 {
		s.Do(traffic(8)...)
		s.Pass(20 * time.Second)
	}
	if segments(t, s.FS)[0] == first {
		t.Fatal("the head of the log was not deleted")
	}
	digest := s.Digest()
	for _, name := range []string{"checkpoint/a", "checkpoint/b"} {
		if err := s.FS.(*crashfs.FS).Vanish(name); err != nil {
			t.Fatal(err)
		}
	}
	s.Kill(true)
	if s.Digest() != digest {
		t.Error("a rebuild from what is left of the log gives another state")
	}
	info, ok, _ := s.Topic("t")
	if !ok || info.Attrs != 7 || info.Queues[0].Next != 20 {
		t.Errorf("the topic is %+v, %v", info, ok)
	}
	if off, ok, _ := s.Committed("g", "t", 0); !ok || off != 15 {
		t.Errorf("the group's offset is %d, %v", off, ok)
	}
	if got := do(s, put("next", 0)); got.Offset != 20 {
		t.Errorf("the next message has offset %d", got.Offset)
	}
	wantFate(t, s, waiting, engine.Scheduled)
	s.Pass(24 * time.Hour)
	if got := read(t, s); !strings.HasSuffix(got, "far") {
		t.Errorf("topic t has %q", got)
	}
}

// B3: messages that lay long in a sealed segment and fell due after a stop are readable for the retention from then on.
func TestReviewB3RetentionCountsFromVisible(t *testing.T) {
	o := fast()
	o.Retention = time.Minute
	s := enginetest.Open(t, enginetest.Config{Options: o})
	for i := range 10 {
		stored(t, s, put(fmt.Sprint(i), 3))
	}
	for range 4 {
		s.Do(traffic(8)...)
		s.Pass(10 * time.Second)
	}
	s.Reopen(9 * 24 * time.Hour)
	for range 11 {
		s.Do(traffic(8)...)
		s.Pass(5 * time.Second)
		wantRead(t, s, "0,1,2,3,4,5,6,7,8,9")
	}
	for range 10 {
		s.Do(traffic(8)...)
		s.Pass(time.Hour)
	}
	wantRead(t, s, "")
}

// Found as seed 224: what waits in the head of the log fires while a roll job has read a part of it. The roll goes on without
// the job, whose result is dropped.
func TestRollMeetsFiring(t *testing.T) {
	o := fast()
	o.Levels, o.Retention, o.RollAfter, o.LooseEntries = "1s 10m", time.Second, time.Minute, 1
	s := enginetest.Open(t, enginetest.Config{Options: o})
	for i := range 3 {
		a := stored(t, s, put(fmt.Sprint(i), 1))
		move(t, s, a, s.Clock.Wall()+10*60_000)
		s.Step()
	}
	for range 6 {
		s.Do(traffic(8)...)
	}
	s.Clock.Pass(9 * time.Minute)
	var roll *engine.Job
	for i := 0; roll == nil; i++ {
		if i == 1000 {
			t.Fatal("the head was not to be rolled")
		}
		for _, j := range tickAndSync(t, s) {
			if j.Kind() == "roll" {
				roll = j
			} else if err := j.Run(); err != nil {
				t.Fatal(err)
			} else {
				s.Install(j)
			}
		}
		s.Do(traffic(1)...)
	}
	if err := roll.Run(); err != nil {
		t.Fatal(err)
	}
	s.Clock.Pass(2 * time.Minute)
	for range 10 {
		tickAndSync(t, s) // all three fire, they are read long enough, and nothing is left to roll
		s.Clock.Pass(time.Second)
	}
	s.Install(roll)
	for range 5 {
		tickAndSync(t, s)
	}
	wantRead(t, s, "0,1,2")
}

// tickAndSync ticks once, and makes durable and visible what came of it. The jobs are the caller's.
func tickAndSync(t *testing.T, s *enginetest.Store) []*engine.Job {
	t.Helper()
	st := s.Tick()
	jobs := append([]*engine.Job(nil), st.Jobs...)
	if err := errors.Join(st.Err, s.Commit()); err != nil {
		t.Fatal(err)
	}
	pos, err := s.Sync()
	if err != nil {
		t.Fatal(err)
	}
	s.Release(pos)
	return jobs
}

// S7: a checkpoint over many queues that grew a little does not sync a file for each.
func TestReviewS7ManyQueues(t *testing.T) {
	disk := faultfs.New(crashfs.New(crashfs.Options{}))
	o := fast()
	o.CheckpointEvery, o.SegmentSize, o.UnitsPerFile = 1<<20, 1<<20, 4096
	s := enginetest.Open(t, enginetest.Config{FS: disk, Options: o})
	const queues = 2000
	do(s, &engine.DefineTopic{Topic: "wide", Queues: queues})
	for done := false; !done; done = s.Stats().Checkpoints > 0 {
		var cmds []engine.Command
		for q := range queues {
			cmds = append(cmds, &engine.Put{Topic: "wide", Queue: q, Body: make([]byte, 100)})
		}
		s.Do(cmds...)
		before := disk.Ops(faultfs.Sync)
		s.Step()
		if syncs := disk.Ops(faultfs.Sync) - before; syncs > 60 {
			t.Fatalf("a checkpoint over %d queues synced %d times", queues, syncs)
		}
	}
}

// S14: where nothing can be preallocated, a store takes no more space than it uses.
func TestReviewS14NoPreallocation(t *testing.T) {
	disk := crashfs.New(crashfs.Options{})
	plain := faultfs.New(disk, faultfs.Rule{Op: faultfs.Preallocate, Err: errors.ErrUnsupported, Sticky: true})
	clock := enginetest.NewClock(enginetest.Epoch)
	e, err := engine.OpenSolo(engine.Env{FS: plain, Wall: clock.Wall, Mono: clock.Mono}, ".", engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Do(&engine.Put{Topic: "t", Queue: 0, DelayMs: 1000, Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	clock.Pass(time.Second)
	if _, err := e.Step(); err != nil {
		t.Fatal(err)
	}
	if used := disk.Used(); used > 256<<10 {
		t.Errorf("a store with one message takes %d bytes", used)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// M6, NATS 5876: files of a cache that are gone are noticed at once, not when a message is due, and made anew.
func TestReviewM6MissingFiles(t *testing.T) {
	o := fast()
	o.SecondsEntries, o.HoursEntries, o.SecondsSlots = 8, 8, 4096
	s := enginetest.Open(t, enginetest.Config{Options: o, Damaged: true})
	var waiting []engine.Answer
	for i := range 300 {
		a := stored(t, s, put(fmt.Sprint(i), 1+i%3))
		if i%4 == 3 {
			a = move(t, s, a, s.Clock.Wall()+5*60_000+int64(i))
		}
		waiting = append(waiting, a)
		do(s, put("now", 0))
		s.Step()
	}
	base := s.FS.(*crashfs.FS).Kill()
	for _, dir := range []string{"consumequeue", "schedule", "timerlog", "timerwheel"} {
		disk := base.Clone()
		name := firstFile(t, disk, dir)
		if err := disk.Vanish(name); err != nil {
			t.Fatal(err)
		}
		e, err := engine.OpenSolo(engine.Env{FS: disk, Wall: s.Clock.Wall, Mono: s.Clock.Mono}, ".", withLevels(o))
		if err != nil {
			t.Fatalf("without %s: %v", name, err)
		}
		for _, a := range waiting {
			if got, _, err := e.Verdict(a.Handle()); err != nil || got != engine.Scheduled {
				t.Fatalf("without %s the verdict on message %d is %v, %v", name, a.ID, got, err)
			}
		}
		clock := s.Clock.Wall()
		s.Clock.Pass(time.Hour)
		if _, err := e.Step(); err != nil {
			t.Fatal(err)
		}
		if got := e.Stats().Pending; got != 0 {
			t.Errorf("without %s %d messages still wait", name, got)
		}
		s.Clock.Step(time.Duration(clock-s.Clock.Wall()) * time.Millisecond)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// firstFile finds a file below a directory.
func firstFile(t *testing.T, disk *crashfs.FS, dir string) string {
	t.Helper()
	list, err := disk.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range list {
		if !info.Dir {
			return path.Join(dir, info.Name)
		}
	}
	for _, info := range list {
		if name := firstFile(t, disk, path.Join(dir, info.Name)); name != "" {
			return name
		}
	}
	return ""
}

// L8: the process dies right after one delivery of a chunk: that message is not delivered again, the next one is.
func TestKillAfterOneDelivery(t *testing.T) {
	o := fast()
	o.FireChunk = 1
	s := enginetest.Open(t, enginetest.Config{Options: o})
	for i := range 5 {
		stored(t, s, put(fmt.Sprint(i), 1))
	}
	s.Clock.Pass(time.Second)
	for i := range 5 {
		st := s.Tick()
		if st.Fired != 1 {
			t.Fatalf("tick %d fired %d", i, st.Fired)
		}
		if err := s.Commit(); err != nil {
			t.Fatal(err)
		}
		pos, err := s.Sync()
		if err != nil {
			t.Fatal(err)
		}
		s.Release(pos)
		disk := s.FS.(*crashfs.FS).Snapshot(newRand(uint64(i)), crashfs.Policy{})
		e, err := engine.OpenSolo(engine.Env{FS: disk, Wall: s.Clock.Wall, Mono: s.Clock.Mono}, ".", withLevels(o))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Step(); err != nil {
			t.Fatal(err)
		}
		if info, _, _ := e.Topic("t"); info.Queues[0].Next != 5 || info.Pending != 0 {
			t.Errorf("after a crash behind delivery %d the topic is %+v", i+1, info)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wantRead(t, s, "0,1,2,3,4")
}

// L4: a graceful stop at any moment delivers nothing again.
func TestGracefulStop(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: fast()})
	var want []string
	for i := range 30 {
		stored(t, s, put(fmt.Sprint(i), 1))
		want = append(want, fmt.Sprint(i))
		s.Pass(100 * time.Millisecond)
		s.Reopen(50 * time.Millisecond)
	}
	s.Pass(time.Second)
	wantRead(t, s, strings.Join(want, ","))
}

// L7, T3, T18: the write of a delivery fails; the store gives up, and after it is opened again each message is delivered
// once. A delivery for which there is no room in the log (the next segment cannot be made) waits until there is.
func TestFailedDelivery(t *testing.T) {
	disk := faultfs.New(crashfs.New(crashfs.Options{}))
	o := fast()
	o.Retention = 72 * time.Hour
	s := enginetest.Open(t, enginetest.Config{FS: disk, Options: o})
	s.Do(traffic(2)...)
	for i := range 40 {
		stored(t, s, put(fmt.Sprintf("%d-%s", i, strings.Repeat("x", 20)), 2))
	}
	disk.Add(faultfs.Rule{Op: faultfs.Create, Path: "commitlog/*", Err: errors.New("too many open files"), Sticky: true})
	for range 100 {
		s.Clock.Pass(time.Minute)
		if _, err := s.Solo.Step(); err != nil {
			t.Fatal(err)
		}
		if got := s.Solo; got.Stats().JobFailures > 3 {
			break
		}
		if _, err := s.Solo.Do(traffic(1)[0]); err != nil && !errors.Is(err, engine.ErrBusy) {
			t.Fatal(err)
		}
	}
	if s.Stats().JobFailures == 0 {
		t.Fatal("the next segment was made, though nothing can be created")
	}
	disk.Clear()
	s.Pass(time.Minute)
	s.Pass(time.Minute)
	if got := strings.Count(read(t, s), "x,") + 1; got != 40 {
		t.Errorf("%d of 40 messages were delivered", got)
	}
}
