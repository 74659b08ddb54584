package engine_test

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

// Histories of the second review, of the engine with timers.

// in makes a message that is due so many ms from now.
func in(name string, delayMs int64) *engine.Put {
	return &engine.Put{Topic: "t", Queue: 0, DelayMs: delayMs, Key: []byte(name), Body: []byte(name)}
}

// ins makes n of them, due one ms after the other.
func ins(n int, delayMs int64) []engine.Command {
	cmds := make([]engine.Command, n)
	for i := range cmds {
		cmds[i] = in(fmt.Sprint(i), delayMs+int64(i))
	}
	return cmds
}

const (
	dayMs  = 24 * 3600 * 1000
	yearMs = 365 * dayMs
)

// young are options under which the log's head goes soon, and timers may be years away.
func young() engine.Options {
	o := fast()
	o.Retention, o.RollAfter, o.MaxDelay = time.Second, time.Minute, 100*365*24*time.Hour
	return o
}

// A roll copies no more at once than the smallest memtable takes; else it waits for ever for one that is empty enough.
func TestReviewRollWithSmallRings(t *testing.T) {
	o := young()
	o.SecondsEntries, o.HoursEntries, o.LooseEntries = 2, 2, 64
	s := enginetest.Open(t, enginetest.Config{Options: o})
	s.Do(ins(40, yearMs)...)
	before := segments(t, s.FS)[0]
	for range 60 {
		s.Do(traffic(8)...)
		s.Pass(20 * time.Second)
	}
	if segments(t, s.FS)[0] == before {
		t.Fatalf("the head of the log was not rolled and deleted: %+v", s.Stats())
	}
	if got := s.Stats().Pending; got != 40 {
		t.Errorf("%d messages wait, want 40", got)
	}
}

// Check changes nothing, also when what it replays, or folds from the log's head, is more than the memtables hold.
func TestReviewCheckWritesNothing(t *testing.T) {
	o := young()
	o.SecondsEntries, o.HoursEntries, o.LooseEntries, o.CheckpointEvery = 4, 4, 4, 1<<20
	for _, checkpoint := range []bool{false, true} {
		s := enginetest.Open(t, enginetest.Config{Options: o})
		for i := range 5 {
			s.Do(ins(20, int64(i+1)*dayMs)...)
		}
		if checkpoint {
			s.Do(ins(20, yearMs)...)
			s.Reopen(0)
		}
		disk := s.FS.(*crashfs.FS).Kill()
		watched := faultfs.New(disk)
		env := engine.Env{FS: watched, Wall: s.Clock.Wall, Mono: s.Clock.Mono}
		if _, err := engine.Check(env, ".", checkOptions(o)); err != nil {
			t.Fatalf("check: %v", err)
		}
		for _, op := range []faultfs.Op{faultfs.Mkdir, faultfs.Create, faultfs.Write, faultfs.Sync, faultfs.Rename,
			faultfs.Remove, faultfs.Truncate, faultfs.Preallocate, faultfs.Lock} {
			if n := watched.Ops(op); n != 0 {
				t.Errorf("check did %d operations of kind %s", n, op)
			}
		}
	}
}

// checkOptions are the options with which enginetest.Open opens o.
func checkOptions(o engine.Options) engine.Options {
	small := withLevels(o)
	small.SecondsEntries, small.HoursEntries, small.LooseEntries = o.SecondsEntries, o.HoursEntries, o.LooseEntries
	small.CheckpointEvery, small.MaxDelay = o.CheckpointEvery, o.MaxDelay
	return small
}

// Damage at the end of a long log is found by one reading of it, not by one for each segment.
func TestReviewDamageIsFoundOnce(t *testing.T) {
	o := young()
	o.CheckpointEvery = 1 << 30
	s := enginetest.Open(t, enginetest.Config{Options: o, Damaged: true})
	for range 40 {
		s.Do(traffic(8)...)
		s.Step()
	}
	s.Pass(time.Second)
	disk := s.FS.(*crashfs.FS).Kill()
	names := segments(t, disk)
	if len(names) < 20 {
		t.Fatalf("%d segments", len(names))
	}
	damaged := names[len(names)-2]
	if err := disk.Rot("commitlog/"+damaged, 8*9000); err != nil {
		t.Fatal(err)
	}
	size := s.Stats().LogBytes
	last, folded := int64(0), int64(0)
	o = checkOptions(o)
	o.Progress = func(done, _ int64) {
		if done < last {
			last = 0
		}
		folded, last = folded+done-last, done
	}
	_, err := engine.Open(engine.Env{FS: disk, Wall: s.Clock.Wall, Mono: s.Clock.Mono}, ".", o)
	var c *engine.CorruptError
	if !errors.As(err, &c) || path.Base(c.File) != damaged {
		t.Fatalf("open: %v, want damage in %s", err, damaged)
	}
	if folded > 2*size {
		t.Errorf("%d bytes were folded to find damage in a log of %d", folded, size)
	}
}

// timerBytes is what the TimerLog of all lanes takes.
func timerBytes(t *testing.T, fsys vfs.FS) (n int64) {
	t.Helper()
	var walk func(dir string)
	walk = func(dir string) {
		list, err := fsys.ReadDir(dir)
		if err != nil {
			return
		}
		for _, info := range list {
			if info.Dir {
				walk(dir + "/" + info.Name)
			}
			n += info.Size
		}
	}
	walk("timerlog")
	return n
}

// A checkpoint that cannot be written is tried again and again; its spills are written once.
func TestReviewFailedCheckpointSpillsOnce(t *testing.T) {
	disk := faultfs.New(crashfs.New(crashfs.Options{}), faultfs.Rule{Op: faultfs.Create, Path: "checkpoint/*", Err: syscall.EMFILE, Sticky: true})
	o := young()
	o.SecondsEntries, o.HoursEntries, o.LooseEntries = 1000, 1000, 1000
	s := enginetest.Open(t, enginetest.Config{FS: disk, Options: o})
	s.Do(ins(100, dayMs)...)
	s.Pass(time.Second)
	early := timerBytes(t, disk)
	for range 30 {
		s.Pass(20 * time.Second)
	}
	if late := timerBytes(t, disk); late > early {
		t.Errorf("the TimerLog grew from %d to %d bytes while a checkpoint failed", early, late)
	}
	disk.Clear()
	s.Pass(20 * time.Second)
	s.Reopen(0)
	if got := s.Stats().Pending; got != 100 {
		t.Errorf("%d wait", got)
	}
}

// A flush that fails half way and is tried again does not leave its groups behind each time.
func TestReviewFailedFlushLeavesNothing(t *testing.T) {
	disk := faultfs.New(crashfs.New(crashfs.Options{}))
	o := young()
	o.SecondsEntries, o.HoursEntries, o.LooseEntries, o.CheckpointEvery = 1000, 64, 1000, 1<<20
	s := enginetest.Open(t, enginetest.Config{FS: disk, Options: o})
	disk.Add(faultfs.Rule{Op: faultfs.Write, Path: "timerlog/1/hours/*", Nth: 40, Err: syscall.EIO, Sticky: true})
	for i := range 70 {
		s.Do(in(fmt.Sprint(i), int64(i+3)*3600_000)) // a slot each
	}
	s.Pass(time.Second)
	early := timerBytes(t, disk)
	for range 20 {
		disk.Clear()
		disk.Add(faultfs.Rule{Op: faultfs.Write, Path: "timerlog/1/hours/*", Nth: 40, Err: syscall.EIO, Sticky: true})
		s.Pass(20 * time.Second)
	}
	if late := timerBytes(t, disk); late > early {
		t.Errorf("the TimerLog grew from %d to %d bytes while a flush failed", early, late)
	}
	disk.Clear()
	s.Pass(20 * time.Second)
	s.Pass(200 * time.Hour)
	if got := strings.Count(read(t, s), ","); got != 69 {
		t.Errorf("%d messages were delivered, want 70", got+1)
	}
}

// A compaction that comes to damage is tried again; it leaves nothing behind.
func TestReviewFailedCompactionLeavesNothing(t *testing.T) {
	inner := crashfs.New(crashfs.Options{})
	disk := faultfs.New(inner)
	o := young()
	o.LooseEntries, o.LooseRuns, o.CheckpointEvery = 300, 3, 1<<30
	s := enginetest.Open(t, enginetest.Config{FS: disk, Options: o, Damaged: true})
	s.Pass(2 * time.Hour)
	s.Do(in("now", 1))
	s.Pass(time.Second)
	s.Clock.Step(-time.Hour) // from now on all is late
	for i := range 4 {
		if i == 3 {
			disk.Add(faultfs.Rule{Op: faultfs.Write, Path: "timerlog/1/loose/*", Nth: 4, Err: syscall.EIO, Sticky: true})
		}
		s.Do(ins(300, 1000*1000)...)
		s.Do(in("one more", 999*1000))
		s.Pass(10 * time.Millisecond)
	}
	early := timerBytes(t, disk)
	if n := s.Stats().LooseRuns; n != 4 {
		t.Fatalf("%d loose runs", n)
	}
	for range 10 {
		disk.Clear()
		disk.Add(faultfs.Rule{Op: faultfs.Write, Path: "timerlog/1/loose/*", Nth: 3, Err: syscall.EIO, Sticky: true})
		s.Pass(20 * time.Second)
	}
	if late := timerBytes(t, disk); late > early+20_000 {
		t.Errorf("the TimerLog grew from %d to %d bytes while a compaction failed", early, late)
	}
}

// Files that cannot be deleted hold up neither checkpoints nor flushes.
func TestReviewCleaningFails(t *testing.T) {
	disk := faultfs.New(crashfs.New(crashfs.Options{}), faultfs.Rule{Op: faultfs.Remove, Path: "consumequeue/*/*/*", Err: syscall.EACCES, Sticky: true})
	o := young()
	o.SecondsEntries, o.HoursEntries, o.LooseEntries = 8, 8, 8
	s := enginetest.Open(t, enginetest.Config{FS: disk, Options: o})
	do(s, &engine.DefineTopic{Topic: "gone", Queues: 1})
	for i := range 40 {
		do(s, &engine.Put{Topic: "gone", Queue: 0, Body: []byte(fmt.Sprint(i))})
	}
	s.Do(traffic(8)...)
	s.Pass(time.Second)
	do(s, &engine.DeleteTopic{Topic: "gone"})
	for i := range 50 {
		if a := do(s, in(fmt.Sprint(i), dayMs)); a.Outcome != engine.Scheduled {
			t.Fatalf("put %d: %v: %v", i, a.Outcome, a.Err)
		}
		if a := do(s, traffic(1)[0]); a.Outcome != engine.Stored {
			t.Fatalf("traffic %d: %v", i, a.Err)
		}
		s.Pass(20 * time.Second)
	}
	disk.Clear()
	for range 10 {
		s.Do(traffic(8)...)
		s.Pass(20 * time.Second)
	}
	if _, err := disk.Stat("consumequeue/1"); err == nil {
		t.Error("the files of a deleted topic are still there")
	}
}

// A listing that falls between a roll and its release has what was rolled.
func TestReviewPendingDuringRoll(t *testing.T) {
	o := young()
	s := enginetest.Open(t, enginetest.Config{Options: o})
	s.Do(ins(5, yearMs)...)
	for range 12 {
		s.Do(traffic(8)...)
		s.Pass(4 * time.Second)
	}
	for i := 0; s.Stats().RolledMessages == 0; i++ {
		if i == 1000 {
			t.Fatal("nothing is rolled")
		}
		if i%20 == 0 {
			s.Do(traffic(8)...)
		}
		s.Clock.Pass(time.Second)
		st := s.Tick()
		if s.Stats().RolledMessages > 0 {
			break // not released
		}
		if err := s.Commit(); err != nil {
			t.Fatal(err)
		}
		pos, err := s.Sync()
		if err != nil {
			t.Fatal(err)
		}
		s.Release(pos)
		for _, j := range st.Jobs {
			_ = j.Run()
			for !s.Install(j) {
			}
		}
	}
	page, err := s.Solo.Pending(engine.Filter{}, "", 100)
	if err != nil || len(page.Messages) != 5 {
		t.Errorf("%d messages are listed between a roll and its release, 5 wait: %v", len(page.Messages), err)
	}
	s.Step()
}

// Options that no file or memory can have are refused when the store is opened, not by the first message.
func TestReviewAbsurdOptions(t *testing.T) {
	for name, set := range map[string]func(o *engine.Options){
		"UnitsPerFile":    func(o *engine.Options) { o.UnitsPerFile = 1 << 40 },
		"EntriesPerFile":  func(o *engine.Options) { o.EntriesPerFile = 1 << 40 },
		"SecondsEntries":  func(o *engine.Options) { o.SecondsEntries = 1<<63 - 1 },
		"HoursEntries":    func(o *engine.Options) { o.HoursEntries = 1 << 50 },
		"LooseEntries":    func(o *engine.Options) { o.LooseEntries = 1 << 50 },
		"CheckpointEvery": func(o *engine.Options) { o.CheckpointEvery = 1<<63 - 1 },
		"Reserve":         func(o *engine.Options) { o.Reserve = 1 << 40 },
		"TailBytes":       func(o *engine.Options) { o.TailBytes = 1<<63 - 1 },
		"BitsBytes":       func(o *engine.Options) { o.BitsBytes = -1 },
	} {
		o := enginetest.SmallOptions()
		set(&o)
		clock := enginetest.NewClock(enginetest.Epoch)
		e, err := engine.Open(engine.Env{FS: crashfs.New(crashfs.Options{}), Wall: clock.Wall, Mono: clock.Mono}, ".", o)
		if err == nil {
			t.Errorf("%s: no error", name)
			_ = e.Close()
		} else if !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A lane whose index is damaged does not make the messages of another one late.
func TestReviewDamagedLaneDelaysNoOther(t *testing.T) {
	disk := faultfs.New(crashfs.New(crashfs.Options{}))
	o := young()
	o.Lanes, o.SecondsEntries = 2, 4
	s := enginetest.Open(t, enginetest.Config{FS: disk, Options: o, Damaged: true})
	for i := range 2 {
		do(s, &engine.DefineTopic{Topic: fmt.Sprint("lane", i), Queues: 1})
	}
	for i := range 20 {
		do(s, &engine.Put{Topic: "lane0", Queue: 0, DelayMs: int64(1000 + i)})
	}
	s.Step()
	s.Reopen(0)
	disk.Add(faultfs.Rule{Op: faultfs.Read, Path: "timerlog/*/seconds/*", Err: syscall.EIO, Sticky: true})
	s.Clock.Pass(1500 * time.Millisecond)
	do(s, &engine.Put{Topic: "lane1", Queue: 0, DelayMs: 200})
	s.Step()
	s.Pass(100 * time.Millisecond) // the mark is written
	st := s.Tick()
	if st.Err == nil {
		t.Fatal("the damage is not met")
	}
	if now := s.Clock.Wall(); st.Next > now+100 {
		t.Errorf("a message is due in 100 ms, Tick wants to be called in %d", st.Next-now)
	}
}

// A file of a ring's TimerLog that is missing is found when the store is opened, and made again from the log.
func TestReviewMissingRingFile(t *testing.T) {
	o := young()
	o.SecondsEntries, o.HoursEntries = 4, 4
	for _, ring := range []string{"seconds", "hours"} {
		s := enginetest.Open(t, enginetest.Config{Options: o})
		delay := int64(600_000)
		if ring == "hours" {
			delay = dayMs
		}
		s.Do(ins(50, delay)...)
		for range 4 {
			s.Do(traffic(8)...)
			s.Pass(time.Second)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		dir := "timerlog/1/" + ring
		list, err := s.FS.ReadDir(dir)
		if err != nil || len(list) == 0 {
			t.Fatalf("%s: %v, %v", dir, list, err)
		}
		for _, info := range list {
			if err := s.FS.Remove(dir + "/" + info.Name); err != nil {
				t.Fatal(err)
			}
		}
		var b strings.Builder
		log := slog.New(slog.NewTextHandler(&b, nil))
		e, err := engine.OpenSolo(engine.Env{FS: s.FS, Wall: s.Clock.Wall, Mono: s.Clock.Mono, Log: log}, ".", checkOptions(o))
		if err != nil {
			t.Fatal(err)
		}
		s.Solo = e
		if !strings.Contains(b.String(), "rebuilding") {
			t.Errorf("%s: the missing file was not noticed: %s", ring, b.String())
		}
		s.Pass(2 * dayMs * time.Millisecond)
		if got := strings.Count(read(t, s), ","); got != 49 {
			t.Errorf("%s: %d messages were delivered, want 50", ring, got+1)
		}
	}
}

// While the memtables are full, what needs none is taken; and a message that is refused for long is refused with a reason.
func TestReviewFullMemtables(t *testing.T) {
	disk := faultfs.New(crashfs.New(crashfs.Options{}))
	o := young()
	o.SecondsEntries, o.HoursEntries, o.LooseEntries, o.CheckpointEvery = 4, 4, 4, 1<<20
	s := enginetest.Open(t, enginetest.Config{FS: disk, Options: o})
	first := do(s, in("first", dayMs))
	disk.Add(faultfs.Rule{Op: faultfs.Write, Path: "timerlog/1/hours/*", Err: syscall.EIO, Sticky: true})
	disk.Add(faultfs.Rule{Op: faultfs.Create, Path: "timerlog/1/hours/*", Err: syscall.EIO, Sticky: true})
	full := false
	for i := 0; i < 100 && !full; i++ {
		answers, _, err := s.Append([]engine.Command{in(fmt.Sprint(i), dayMs)})
		switch {
		case errors.Is(err, engine.ErrBusy):
			full = true
		case err != nil:
			t.Fatal(err)
		case answers[0].Outcome == engine.Refused:
			t.Fatal(answers[0].Err)
		}
	}
	if !full {
		t.Fatal("the memtables never filled")
	}
	answers, _, err := s.Append([]engine.Command{&engine.Cancel{Handle: first.Handle()}, in("next", dayMs)})
	if err != nil || len(answers) != 1 || answers[0].Outcome != engine.Cancelled {
		t.Errorf("a cancel before a put: %v, %v", answers, err)
	}
	for range 5 {
		s.Pass(20 * time.Second)
	}
	a := do(s, in("refused", dayMs))
	if a.Outcome != engine.Refused || !errors.Is(a.Err, engine.ErrBacklog) {
		t.Errorf("a put while the flush fails: %v, %v", a.Outcome, a.Err)
	}
	if a := do(s, put("visible", 0)); a.Outcome != engine.Stored {
		t.Errorf("a put that is visible at once, while the flush fails: %v, %v", a.Outcome, a.Err)
	}
	disk.Clear()
	s.Pass(20 * time.Second)
	stored(t, s, in("after", dayMs))
}

// With a high-water mark a message does not cost a look at the disk; and when there is room again this is noticed without one.
func TestReviewHighWater(t *testing.T) {
	disk := faultfs.New(crashfs.New(crashfs.Options{}))
	o := young()
	o.HighWater = 200 << 10
	s := enginetest.Open(t, enginetest.Config{FS: disk, Options: o})
	before := disk.Ops(faultfs.Free)
	for range 100 {
		do(s, put("a", 0))
	}
	if n := disk.Ops(faultfs.Free) - before; n > 10 {
		t.Errorf("100 messages looked at the disk %d times", n)
	}
	full := false
	for i := 0; i < 100 && !full; i++ {
		full = do(s, traffic(1)[0]).Outcome == engine.Refused
	}
	if !full {
		t.Fatal("the log never became full")
	}
	for range 100 {
		s.Pass(20 * time.Second)
	}
	if st := s.Stats(); st.Full != "" {
		t.Errorf("nobody puts, the log has %d bytes of %d, and it is full: %s", st.LogBytes, o.HighWater, st.Full)
	}
}

// A read that fails when the store was just opened refuses a message at most; the store goes on.
func TestReviewReadErrorRefusesAtMost(t *testing.T) {
	disk := faultfs.New(crashfs.New(crashfs.Options{}))
	s := enginetest.Open(t, enginetest.Config{FS: disk, Options: young()})
	for i := range 20 {
		stored(t, s, put(fmt.Sprint(i), 2))
	}
	for range 8 {
		s.Do(traffic(8)...)
		s.Pass(time.Second)
	}
	s.Reopen(0)
	disk.Add(faultfs.Rule{Op: faultfs.Read, Path: "schedule/*/*", Err: syscall.EIO, Sticky: true})
	a := do(s, put("a", 2))
	if a.Outcome != engine.Scheduled && a.Outcome != engine.Refused {
		t.Errorf("%v, %v", a.Outcome, a.Err)
	}
	disk.Clear()
	stored(t, s, put("b", 2))
}

// What was folded and will never be in the log tells nobody anything.
func TestReviewTornBatchTellsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("66,000 messages")
	}
	o := young()
	o.SegmentSize, o.CheckpointEvery, o.FireChunk, o.BitsBytes = 1<<20, 1<<20, 1024, 1
	o.UnitsPerFile, o.EntriesPerFile, o.Retention = 65536, 65536, time.Hour
	s := enginetest.Open(t, enginetest.Config{Options: o})
	s.Pass(time.Hour)
	stored(t, s, in("first", 1))
	s.Pass(time.Second)
	s.Clock.Step(-30 * time.Minute)
	waiting := []engine.Answer{stored(t, s, in("late", 20*60_000))}
	for n := 0; n < 65_600; n += 1000 {
		cmds := make([]engine.Command, 1000)
		for i := range cmds {
			cmds[i] = &engine.Put{Topic: "many", Queue: 0, DelayMs: 1}
		}
		s.Do(cmds...)
		s.Pass(10 * time.Millisecond)
	}
	waiting = append(waiting, stored(t, s, in("late", 20*60_000)), stored(t, s, in("above the frontier", 45*60_000)))
	for range 4 {
		s.Do(traffic(200)...)
		s.Step()
	}
	s.Clock.Step(time.Hour)
	torn := false
	for nth := int64(1); nth < 12 && !t.Failed(); nth++ {
		disk := faultfs.New(s.FS.(*crashfs.FS).Kill(), faultfs.Rule{Op: faultfs.Read, Path: "statebits/*", Nth: nth, Err: syscall.EIO})
		e, err := engine.OpenSolo(engine.Env{FS: disk, Wall: s.Clock.Wall, Mono: s.Clock.Mono}, ".", tornOptions(o))
		if err != nil {
			continue // the read was one of opening
		}
		st := e.Tick()
		for _, a := range waiting {
			got, pos, err := e.Verdict(a.Handle())
			if err == nil && got == engine.Delivered && pos <= e.Released() {
				t.Errorf("read %d failed, and the verdict on message %d is %v; Tick says %+v", nth, a.ID, got, st)
			}
		}
		torn = torn || errors.Is(st.Err, engine.ErrFailed)
		_ = e.Close()
	}
	if !torn {
		t.Error("no batch was torn")
	}
}

// tornOptions are the options with which enginetest.Open opens o.
func tornOptions(o engine.Options) engine.Options {
	small := checkOptions(o)
	small.SegmentSize, small.CheckpointEvery, small.FireChunk, small.BitsBytes = 1<<20, 1<<20, 1024, 1
	small.UnitsPerFile, small.EntriesPerFile, small.LooseEntries, small.LooseRuns = 65536, 65536, 16, 4
	small.SecondsEntries, small.HoursEntries = 0, 0
	return small
}

// What is alive is not told by the average of all messages there ever were: after many small ones that are gone, a few large
// ones that wait for years are not copied again and again.
func TestReviewRollOfUnevenSizes(t *testing.T) {
	for _, end := range []string{"delivered", "cancelled"} {
		s := enginetest.Open(t, enginetest.Config{Options: young()})
		var small []engine.Answer
		for range 40 {
			small = append(small, s.Do(ins(100, 5000)...)...)
			s.Step()
		}
		for i := range 30 {
			p := in(fmt.Sprint("large", i), yearMs+int64(i))
			p.Body = make([]byte, 8<<10)
			if a := do(s, p); a.Outcome != engine.Scheduled {
				t.Fatal(a.Err)
			}
			s.Step()
		}
		for i, a := range small {
			if end == "cancelled" {
				do(s, &engine.Cancel{Handle: a.Handle()})
			}
			if i%100 == 0 {
				s.Step()
			}
		}
		for range 50 {
			s.Pass(time.Minute)
		}
		before := s.Stats()
		for range 600 { // with next to no traffic
			do(s, put("a", 0))
			s.Pass(time.Minute)
		}
		after := s.Stats()
		if copied, grown := after.RolledMessages-before.RolledMessages, int64(after.End-before.End); copied > 60 {
			t.Errorf("%s: 30 messages that wait were copied %d times, the log grew by %d bytes", end, copied, grown)
		}
		if after.LogBytes > 4*30*8<<10 {
			t.Errorf("%s: the log has %d bytes", end, after.LogBytes)
		}
	}
}

// Files of the TimerLog go when nothing in them waits: also those that a message years away lies in, once the roll of its
// record has put its entry into a newer one.
func TestReviewTimerFilesGo(t *testing.T) {
	o := young()
	o.SecondsEntries, o.HoursEntries, o.LooseEntries, o.LooseRuns, o.TimerFileSize = 16, 16, 16, 2, 256
	s := enginetest.Open(t, enginetest.Config{Options: o})
	count := 0
	put := func(n int, delayMs int64) {
		for _, a := range s.Do(ins(n, delayMs)...) {
			if a.Outcome == engine.Scheduled {
				count++
			}
		}
	}
	var most int64
	for i := range 300 {
		put(10, 30*60_000)
		put(10, 5*3600_000)
		if i%50 == 0 {
			put(10, 100*dayMs)
		}
		s.Do(traffic(2)...)
		s.Pass(10 * time.Minute)
		if i%40 == 7 {
			s.Reopen(time.Hour)
		}
		if i > 100 {
			most = max(most, timerBytes(t, s.FS))
		}
	}
	if limit := int64(60 * 4096); most > limit { // some 400 wait
		t.Errorf("the TimerLog had up to %d bytes, want at most %d", most, limit)
	}
	s.Pass(101 * 24 * time.Hour)
	for range 5 {
		s.Do(traffic(8)...)
		s.Pass(20 * time.Second)
	}
	info, _, _ := s.Topic("t")
	if got := info.Queues[0].Next; got != int64(count) {
		t.Errorf("%d messages were delivered, want %d", got, count)
	}
}

// A flush writes by slot, a roll goes by position: a file that was rolled whole stays while one of the same flush before it is
// needed, since the chain of a slot leads through it.
func TestReviewRollWithinAFlush(t *testing.T) {
	o := young()
	o.SecondsEntries, o.HoursEntries, o.LooseEntries, o.TimerFileSize, o.CheckpointEvery = 32, 32, 4, 256, 4096
	s := enginetest.Open(t, enginetest.Config{Options: o})
	const n = 24
	for range 4 {
		for i := range n { // later ones are due earlier
			p := in(fmt.Sprint(i), int64(n-i+100)*dayMs)
			p.Body = make([]byte, 600)
			stored(t, s, p)
			s.Step()
		}
	}
	for i := range 2000 {
		if i%8 == 0 {
			s.Do(traffic(1)...)
		}
		s.Clock.Pass(time.Second)
		turn(t, s, true)
		page, err := s.Solo.Pending(engine.Filter{}, "", 1000)
		if err != nil || len(page.Messages) != 4*n {
			t.Fatalf("step %d: %d are listed, %d wait: %v", i, len(page.Messages), 4*n, err)
		}
	}
	if s.Stats().RolledMessages < 4*n {
		t.Errorf("only %d messages were rolled", s.Stats().RolledMessages)
	}
}

// A message without a time is visible at once, whatever the clock shows.
func TestReviewClockBefore1970(t *testing.T) {
	for _, wall := range []int64{-1 << 62, -1, 0, 1 << 62} {
		s := enginetest.Open(t, enginetest.Config{Options: young(), Clock: enginetest.NewClock(wall)})
		if a := do(s, put("a", 0)); a.Outcome != engine.Stored {
			t.Errorf("at %d: %v until %d: %v", wall, a.Outcome, a.DueMs, a.Err)
		}
		wantRead(t, s, "a")
	}
}
