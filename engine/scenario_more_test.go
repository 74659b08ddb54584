package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

// crashEverywhere runs steps on a new store and cuts the power before each change of the file system from step first on,
// with every policy; each crash state is recovered, checked, compared with a rebuild, and driven until nothing waits.
func crashEverywhere(t *testing.T, opts engine.Options, table int, steps string, first int) {
	t.Helper()
	list, err := enginetest.ParseOps(steps)
	if err != nil {
		t.Fatal(err)
	}
	s, err := enginetest.NewSim(enginetest.SimConfig{Seed: 1, Options: opts, Table: table})
	if err != nil {
		t.Fatal(err)
	}
	met := &coverage{counts: enginetest.Coverage{}}
	c := &crasher{t: t, s: s, r: rand.New(rand.NewPCG(5, 5)), met: met, most: 1 << 30, all: true}
	if _, ok := enginetest.Seed(t); ok {
		s.Log = t.Logf
	}
	for i, op := range list {
		if i == first {
			s.Before = c.before
		}
		s.Do(op)
		if err := errors.Join(s.Err(), c.err); err != nil {
			t.Fatalf("step %d, %v: %v", i+1, op, err)
		}
	}
	s.Before = nil
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	if c.points == 0 {
		t.Fatal("nothing was written after the first steps")
	}
	t.Logf("%d crash points", c.points)
}

// slow are the options of crashEverywhere: nothing happens by itself but what the steps ask for.
func slow() engine.Options {
	o := enginetest.SmallOptions()
	o.LooseEntries, o.LooseRuns, o.Retention, o.RollAfter = 4, 2, 72*time.Hour, 72*time.Hour
	o.SecondsEntries, o.HoursEntries, o.SecondsSlots, o.MaxDelay = 4, 4, 4096, 100*365*24*time.Hour
	return o
}

// F4, B1: derived files and state bits are ahead of the checkpoint, or one of its copies is torn: whatever a power cut
// leaves of a checkpoint, nothing is lost or doubled.
func TestReviewB1CheckpointIsRedo(t *testing.T) {
	o := slow()
	o.CheckpointEvery = 4 << 10
	crashEverywhere(t, o, 0, `level 3 8, level 4 9, move 0 5, sane 0 0, cancel 1 0, fill 0 0, sane 0 0, jobs 0 0, sane 0 0,
		level 3 8, move 0 5, level 5 7, cancel 2 0, fill 0 0, sane 0 0, tick 0 0, jobs 0 0, sane 0 0, jobs 0 0`, 14)
}

// F8, F9: flushes and a compaction of loose runs, with a power cut before each change; entries fire and are cancelled while
// the jobs are under way.
func TestHistoryF8Compaction(t *testing.T) {
	moves := strings.Repeat("level 3 8, move 0 7, ", 5)
	o := slow()
	o.CheckpointEvery = 8 << 10
	crashEverywhere(t, o, 0, moves+"sane 0 0, jobs 0 0, "+moves+"sane 0 0, jobs 0 0, "+moves+`sane 0 0, jobs 0 0, tick 0 0,
		run 0 0, cancel 3 0, cancel 7 0, sane 0 0, install 0 0, tick 0 0, run 0 0, sane 0 0, install 0 0, fill 0 1, sane 0 0,
		jobs 0 0, sane 0 0, jobs 0 0`, 40)
}

// F12: no segment that a checkpoint would have to replay is deleted; before the first checkpoint none is.
func TestHistoryF12NoTrimAboveTheCheckpoint(t *testing.T) {
	disk := faultfs.New(crashfs.New(crashfs.Options{}), faultfs.Rule{Op: faultfs.Rename, Path: "checkpoint/*", Err: syscall.EIO, Sticky: true})
	o := fast()
	o.Levels, o.Retention, o.RollAfter, o.CheckpointEvery = "1s", time.Second, 20*time.Second, 1<<20
	s := enginetest.Open(t, enginetest.Config{FS: disk, Options: o})
	first := segments(t, disk)[0]
	for range 20 {
		s.Do(traffic(8)...)
		s.Pass(10 * time.Second)
	}
	if got := segments(t, disk)[0]; got != first {
		t.Fatalf("the log begins at %s before there was a checkpoint", got)
	}
	disk.Clear()
	for range 20 {
		s.Do(traffic(8)...)
		s.Pass(10 * time.Second)
	}
	if got := segments(t, disk)[0]; got == first {
		t.Error("the log still begins at its first segment after a checkpoint")
	}
}

// M1: when checkpoints cannot be written, messages are refused at four times their distance; what waits is delivered, and
// all goes on when they can be written again.
func TestReviewM1CheckpointsFail(t *testing.T) {
	disk := faultfs.New(crashfs.New(crashfs.Options{}), faultfs.Rule{Op: faultfs.Create, Path: "checkpoint/*", Err: syscall.EMFILE, Sticky: true})
	s := enginetest.Open(t, enginetest.Config{FS: disk, Options: fast()})
	a := stored(t, s, put("a", 1))
	refused := error(nil)
	for range 100 {
		got := do(s, traffic(1)[0])
		if s.Step(); got.Outcome == engine.Refused {
			refused = got.Err
			break
		}
	}
	if !errors.Is(refused, engine.ErrBacklog) {
		t.Fatalf("without checkpoints a put is answered %v", refused)
	}
	s.Pass(time.Second)
	wantRead(t, s, "a")
	wantFate(t, s, a, engine.Delivered)
	if s.Stats().JobFailures == 0 {
		t.Error("Stats knows of no failure")
	}
	disk.Clear()
	s.Pass(20 * time.Second)
	if got := do(s, traffic(1)[0]); got.Outcome != engine.Stored {
		t.Errorf("a put when checkpoints are written again: %v", got.Err)
	}
}

// M7, T7: a body that cannot be read stops nobody: the reader is told, the hole is recorded, and the queue goes on.
func TestReviewM7UnreadableBody(t *testing.T) {
	o := fast()
	o.TailBytes = 4096
	s := enginetest.Open(t, enginetest.Config{Options: o, Damaged: true})
	bad := stored(t, s, put("bad", 1))
	stored(t, s, put("good", 1))
	for range 3 {
		s.Do(traffic(8)...)
		s.Pass(100 * time.Millisecond)
	}
	disk := s.FS.(*crashfs.FS)
	name := "commitlog/" + segments(t, disk)[0]
	if err := disk.Rot(name, int64(bytes.Index(contents(t, disk, name), []byte("badbad")))*8); err != nil {
		t.Fatal(err)
	}
	s.Pass(time.Second)
	m := s.Pull("t", 0, 0)
	var c *engine.CorruptError
	if m == nil || !errors.As(m.Err, &c) || c.File != name {
		t.Fatalf("the damaged message reads as %+v", m)
	}
	got := do(s, &engine.MarkHole{From: bad.Position, To: bad.Position + engine.Offset(bad.Size), Reason: "a flipped bit"})
	if got.Outcome != engine.Done {
		t.Fatalf("mark a hole: %v", got.Err)
	}
	s.Kill(true)
	if m := s.Pull("t", 0, 0); m == nil || !errors.Is(m.Err, engine.ErrHole) {
		t.Fatalf("the hole reads as %+v", m)
	}
	if m := s.Pull("t", 0, 1); m == nil || string(m.Key) != "good" {
		t.Fatalf("after the hole comes %+v", m)
	}
}

// D1, D3, T18, alibaba 331: a full disk refuses messages with a clear error, deletes nothing that lives, goes on delivering
// and cancelling, and heals when there is room again.
func TestDiskFull(t *testing.T) {
	disk := crashfs.New(crashfs.Options{})
	o := fast()
	o.Reserve, o.Retention = 3, 72*time.Hour
	s := enginetest.Open(t, enginetest.Config{FS: disk, Options: o})
	var waiting []engine.Answer
	for i := range 40 {
		waiting = append(waiting, stored(t, s, put(fmt.Sprint(i), 2)))
	}
	s.Do(traffic(8)...)
	s.Step()
	disk.SetQuota(disk.Used() + 20<<10)
	var full error
	for range 200 {
		s.Clock.Pass(time.Millisecond)
		if got := do(s, traffic(1)[0]); got.Outcome == engine.Refused {
			full = got.Err
			break
		}
		s.Clock.Pass(time.Second) // the disk is asked once a second
	}
	if !errors.Is(full, engine.ErrDiskFull) {
		t.Fatalf("on a full disk a put is answered %v", full)
	}
	if got := do(s, &engine.Cancel{Handle: waiting[39].Handle()}); got.Outcome != engine.Cancelled && got.Outcome != engine.Delivered {
		t.Fatalf("cancel on a full disk: %v, %v", got.Outcome, got.Err)
	}
	s.Pass(10 * time.Minute)
	if got := len(strings.Split(read(t, s), ",")); got < 39 {
		t.Errorf("%d of 39 messages were delivered on a full disk", got)
	}
	disk.SetQuota(0)
	s.Pass(20 * time.Second)
	if got := do(s, traffic(1)[0]); got.Outcome != engine.Stored {
		t.Errorf("when there is room again: %v", got.Err)
	}
	s.Kill(true)
	if got := len(strings.Split(read(t, s), ",")); got < 39 {
		t.Errorf("%d of 39 messages are there after a restart", got)
	}
}

// L13, NATS 7556: the checkpoint has two copies: whatever happens to one, the other is used; to both, the log is.
func TestCheckpointCopies(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: fast(), Damaged: true})
	for i := range 8 {
		a := stored(t, s, put(fmt.Sprint(i), 3))
		if i%3 == 0 {
			do(s, &engine.Cancel{Handle: a.Handle()})
		}
		s.Do(traffic(2)...)
		s.Step()
	}
	digest := s.Digest()
	base := s.FS.(*crashfs.FS).Kill()
	list, err := base.ReadDir("checkpoint")
	if err != nil || len(list) != 2 {
		t.Fatalf("checkpoint has %v, %v", list, err)
	}
	step := int64(13)
	if testing.Short() {
		step = 101
	}
	for at := int64(0); at < list[0].Size; at += step {
		for how := range 4 {
			disk := base.Clone()
			for i, info := range list[:1+int(at/step)%2] { // every other time both
				name := path.Join("checkpoint", info.Name)
				var err error
				switch (how + i) % 4 {
				case 0:
					err = disk.Cut(name, at)
				case 1:
					err = disk.Rot(name, at*8)
				case 2:
					err = disk.Cut(name, 0)
				default:
					err = disk.Vanish(name)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			e, err := engine.Open(engine.Env{FS: disk, Wall: s.Clock.Wall, Mono: s.Clock.Mono}, ".", withLevels(fast()))
			if err != nil {
				t.Fatalf("byte %d, way %d: %v", at, how, err)
			}
			if e.Digest() != digest {
				t.Fatalf("byte %d, way %d: another state", at, how)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// L3, L1: the checkpoint of another store, or an older one of this store, decides nothing.
func TestForeignCheckpoint(t *testing.T) {
	fillStore := func(n int) *enginetest.Store {
		s := enginetest.Open(t, enginetest.Config{Options: fast(), Damaged: true})
		for i := range n {
			stored(t, s, put(fmt.Sprint(i), 3))
			s.Do(traffic(2)...)
			s.Step()
		}
		return s
	}
	other, s := fillStore(20), fillStore(8)
	disk := s.FS.(*crashfs.FS).Clone()
	for _, name := range []string{"checkpoint/a", "checkpoint/b"} {
		write(t, disk, name, contents(t, other.FS, name))
	}
	e, err := engine.Open(engine.Env{FS: disk, Wall: s.Clock.Wall, Mono: s.Clock.Mono}, ".", withLevels(fast()))
	if err != nil {
		var c *engine.CorruptError
		if !errors.As(err, &c) || !strings.HasPrefix(c.File, "checkpoint/") {
			t.Fatalf("with a foreign checkpoint: %v", err)
		}
		return
	}
	defer e.Close()
	if e.Digest() != s.Digest() {
		t.Error("the checkpoint of another store changed the state")
	}
}

// L24, CL-STEP: the wall clock jumps a day either way at a start; nothing is early, nothing is lost.
func TestClockJumpsAtStart(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: fast()})
	stored(t, s, put("a", 3))
	s.Reopen(-24 * time.Hour)
	s.Pass(time.Hour)
	wantRead(t, s, "")
	stored(t, s, put("b", 2))
	s.Pass(10 * time.Second)
	wantRead(t, s, "b")
	s.Reopen(24 * time.Hour)
	wantRead(t, s, "b,a")
}

// L19, T47: a level above the last is clamped and the answer says so; a negative one is refused.
func TestLevelsClampAndRefuse(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: fast()})
	if got := do(s, put("a", 1959)); got.Level != 3 || !got.Clamped || got.DueMs != s.Clock.Wall()+3600_000 {
		t.Errorf("level 1959: %+v", got)
	}
	if got := do(s, put("b", -1)); !errors.Is(got.Err, engine.ErrLevel) {
		t.Errorf("level -1: %+v", got)
	}
	if got := do(s, put("c", 3)); got.Level != 3 || got.Clamped {
		t.Errorf("level 3: %+v", got)
	}
}

// L29: what waits keeps its due time when the table of levels changes.
func TestLevelTableChanges(t *testing.T) {
	clock, disk := enginetest.NewClock(enginetest.Epoch), crashfs.New(crashfs.Options{})
	o := fast()
	t.Run("before", func(t *testing.T) {
		s := enginetest.Open(t, enginetest.Config{FS: disk, Clock: clock, Options: o})
		stored(t, s, put("hour", 3))
		stored(t, s, put("ten", 2))
	})
	o.Levels = "2s 5s"
	t.Run("after", func(t *testing.T) {
		s := enginetest.Open(t, enginetest.Config{FS: disk, Clock: clock, Options: o})
		stored(t, s, put("two", 1))
		s.Pass(2 * time.Second)
		wantRead(t, s, "two")
		s.Pass(8 * time.Second)
		wantRead(t, s, "two,ten")
		s.Pass(time.Hour)
		if got := read(t, s); !strings.HasSuffix(got, "hour") {
			t.Errorf("topic t has %q", got)
		}
	})
}

// T26, never early: a message is delivered at its millisecond, not before and, when Tick is called, not after.
func TestDeliveredToTheMillisecond(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: fast()})
	a := stored(t, s, put("a", 1))
	next := s.Step()
	if next > a.DueMs || next <= s.Clock.Wall() {
		t.Errorf("it is %d, something is due at %d, Step wants to be called at %d", s.Clock.Wall(), a.DueMs, next)
	}
	s.Pass(999 * time.Millisecond)
	wantRead(t, s, "")
	s.Pass(time.Millisecond)
	wantRead(t, s, "a")
}

// Idle is free: nothing due means no write, however often Tick is called.
func TestIdleWritesNothing(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: fast()})
	for i := range 100 {
		a := stored(t, s, put(fmt.Sprint(i), 3))
		move(t, s, a, s.Clock.Wall()+30*24*3600*1000)
		s.Step()
	}
	for range 5 {
		s.Pass(time.Second)
	}
	end, ops := s.Released(), s.FS.(*crashfs.FS).Ops()
	for range 3600 {
		s.Pass(time.Second)
	}
	if s.Released() != end || s.FS.(*crashfs.FS).Ops() != ops {
		t.Errorf("an idle hour wrote %d bytes of log in %d operations", s.Released()-end, s.FS.(*crashfs.FS).Ops()-ops)
	}
}

// T8: the largest message that can be stored can be delivered.
func TestLargestMessage(t *testing.T) {
	o := fast()
	o.SegmentSize, o.CheckpointEvery = 16<<20, 16<<20
	s := enginetest.Open(t, enginetest.Config{Options: o})
	p := &engine.Put{
		Topic: strings.Repeat("t", message.MaxTopic), Queue: 0, Level: 1,
		Key: bytes.Repeat([]byte("k"), message.MaxKey), Tag: bytes.Repeat([]byte("g"), message.MaxTag),
		Body: bytes.Repeat([]byte("b"), message.MaxBody), BornHost: make([]byte, 18),
	}
	for len(p.Properties) < message.MaxProperties-200 {
		p.Properties = message.AppendProperty(p.Properties, "name", strings.Repeat("v", 180))
	}
	a := stored(t, s, p)
	s.Pass(time.Second)
	var into engine.Pulled
	m, err := s.View(a.Position, &into)
	if err != nil || len(m.Body) != message.MaxBody || !bytes.Equal(m.Properties, p.Properties) {
		t.Fatalf("view: %d bytes of body, %d of properties, %v", len(m.Body), len(m.Properties), err)
	}
	p.Body = append(p.Body, 'b')
	if got := do(s, p); !errors.Is(got.Err, engine.ErrTooLarge) {
		t.Errorf("a byte more: %v", got.Err)
	}
}

// T28: a delay of ten times the retention; T5: nothing happens for longer than the retention, then something does.
func TestDelayLongerThanRetention(t *testing.T) {
	o := fast()
	o.Retention = time.Minute
	s := enginetest.Open(t, enginetest.Config{Options: o})
	stored(t, s, put("a", 3))
	for range 30 {
		s.Do(traffic(8)...)
		s.Pass(time.Minute)
	}
	s.Pass(29 * time.Minute)
	wantRead(t, s, "")
	s.Pass(time.Minute)
	wantRead(t, s, "a")
	for range 10 {
		s.Pass(time.Hour)
	}
	do(s, put("b", 0))
	stored(t, s, put("c", 1))
	s.Pass(time.Second)
	if got := read(t, s); !strings.HasSuffix(got, "b,c") {
		t.Errorf("topic t has %q", got)
	}
}

// T10: a cancel of what never was leaves the counts right.
func TestCountsAfterCancels(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: fast()})
	a := stored(t, s, put("a", 1))
	stored(t, s, put("b", 1))
	count := func(want int64) {
		t.Helper()
		if info, _, _ := s.Topic("t"); info.Pending != want || s.Stats().Pending != want {
			t.Errorf("%d wait, the topic says %d, Stats says %d", want, info.Pending, s.Stats().Pending)
		}
	}
	count(2)
	h := a.Handle()
	h.ID += 1000
	do(s, &engine.Cancel{Handle: h})
	count(2)
	for range 3 {
		do(s, &engine.Cancel{Handle: a.Handle()})
		count(1)
	}
	s.Reopen(0)
	count(1)
	s.Pass(time.Second)
	count(0)
}

// SearchTime finds the first message that became visible at or after a wall clock time.
func TestSearchTime(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: fast()})
	begin := s.Clock.Wall()
	for i := range 30 {
		do(s, put(fmt.Sprint(i), 0))
		s.Pass(3 * time.Second)
		if i == 15 {
			s.Reopen(time.Hour)
		}
	}
	for _, c := range []struct{ ms, want int64 }{
		{begin - 1, 0}, {begin, 0}, {begin + 1, 1}, {begin + 3000, 1}, {begin + 3001, 2}, {begin + 45_000, 15},
		{begin + 48_000, 16}, {begin + 3600_000, 16}, {begin + 3600_000 + 49_000, 17}, {begin + 10*3600_000, 30},
	} {
		if got, err := s.SearchTime("t", 0, c.ms); err != nil || got != c.want {
			t.Errorf("%d ms after the begin: offset %d, %v, want %d", c.ms-begin, got, err, c.want)
		}
	}
}

// A disk that lost a file of a cache is noticed, and the log makes it anew.
func TestRebuildHeals(t *testing.T) {
	s := enginetest.Open(t, enginetest.Config{Options: fast(), Damaged: true})
	for i := range 40 {
		a := stored(t, s, put(fmt.Sprint(i), 1+i%3))
		if i%4 == 3 {
			move(t, s, a, s.Clock.Wall()+5*60_000)
		}
		s.Do(traffic(1)...)
		s.Pass(100 * time.Millisecond)
	}
	digest := s.Digest()
	base := s.FS.(*crashfs.FS).Kill()
	for _, dir := range []string{"consumequeue", "schedule", "timerlog", "statebits", "seenbits", "checkpoint"} {
		disk := base.Clone()
		removeAll(t, disk, dir)
		env := engine.Env{FS: disk, Wall: s.Clock.Wall, Mono: s.Clock.Mono}
		if err := engine.Rebuild(env, ".", withLevels(fast())); err != nil {
			t.Fatalf("rebuild without %s: %v", dir, err)
		}
		if _, err := engine.Check(env, ".", withLevels(fast())); err != nil {
			t.Fatalf("check after a rebuild without %s: %v", dir, err)
		}
		e, err := engine.Open(env, ".", withLevels(fast()))
		if err != nil {
			t.Fatalf("open after a rebuild without %s: %v", dir, err)
		}
		if e.Digest() != digest {
			t.Errorf("without %s a rebuild gives another state", dir)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// removeAll removes a directory and what is in it, durably; one that is not there is fine.
func removeAll(t *testing.T, disk *crashfs.FS, dir string) {
	t.Helper()
	list, err := disk.ReadDir(dir)
	if err != nil {
		return
	}
	for _, info := range list {
		name := path.Join(dir, info.Name)
		if info.Dir {
			removeAll(t, disk, name)
		} else if err := disk.Vanish(name); err != nil {
			t.Fatal(err)
		}
	}
}

// write makes a file have these bytes.
func write(t *testing.T, fsys vfs.FS, name string, b []byte) {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
