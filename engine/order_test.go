package engine_test

import (
	"fmt"
	"maps"
	"path"
	"syscall"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

// A power cut shows the wrong order of two writes only when it falls between them. These tests look at the order itself.

// Nothing changes in place before both copies of the checkpoint are there: a torn page is mended by the redo in them.
func TestNothingInPlaceBeforeTheCheckpoint(t *testing.T) {
	disk := faultfs.New(crashfs.New(crashfs.Options{}))
	s := enginetest.Open(t, enginetest.Config{FS: disk, Options: fast()})
	cancel := func(name string) {
		a := stored(t, s, put(name, 3))
		if got := do(s, &engine.Cancel{Handle: a.Handle()}); got.Outcome != engine.Cancelled {
			t.Fatalf("cancel: %v", got.Outcome)
		}
	}
	// until writes traffic until something happened.
	until := func(what string, happened func(engine.Stats) bool) {
		t.Helper()
		for range 100 {
			s.Do(traffic(1)...)
			s.Pass(time.Second)
			if happened(s.Stats()) {
				return
			}
		}
		t.Fatalf("%s never happened", what)
	}
	cancel("a")
	until("a checkpoint", func(now engine.Stats) bool { return now.Checkpoints > 0 })
	before := content(t, s.FS, "statebits")
	if len(before) == 0 {
		t.Fatal("the checkpoint has written no state bits")
	}
	for _, name := range []string{"checkpoint/a*", "checkpoint/b*"} {
		disk.Add(faultfs.Rule{Op: faultfs.Create, Path: name, Err: syscall.EIO, Sticky: true})
		cancel(name)
		failed := s.Stats().JobFailures
		until("a failed checkpoint", func(now engine.Stats) bool { return now.JobFailures > failed })
		if !maps.Equal(before, content(t, s.FS, "statebits")) {
			t.Errorf("state bits changed in place, although %s could not be written", name)
		}
		disk.Clear()
		done := s.Stats().Checkpoints
		until("the next checkpoint", func(now engine.Stats) bool { return now.Checkpoints > done })
		after := content(t, s.FS, "statebits")
		if maps.Equal(before, after) {
			t.Fatal("the checkpoint has not written the bits that changed")
		}
		before = after
	}
}

// content reads the files of a directory.
func content(t *testing.T, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	list, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, info := range list {
		f, err := fsys.OpenFile(path.Join(dir, info.Name), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, info.Size)
		if n, err := f.ReadAt(b, 0); n < len(b) {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		files[info.Name] = string(b)
	}
	return files
}

// turn does one Tick with its jobs, and syncs and releases what it appended if that is asked for.
func turn(t *testing.T, s *enginetest.Store, sync bool) {
	t.Helper()
	status := s.Tick()
	if status.Err != nil {
		t.Fatal(status.Err)
	}
	if err := s.Commit(); err != nil {
		t.Fatal(err)
	}
	if sync {
		pos, err := s.Sync()
		if err != nil {
			t.Fatal(err)
		}
		s.Release(pos)
	}
	for _, j := range status.Jobs {
		if err := j.Run(); err != nil {
			t.Fatalf("%s: %v", j.Kind(), err)
		}
		for !s.Install(j) {
		}
	}
}

// A segment is unlinked when the trim that says so is durable. Before that a power cut takes the trim back, and the log
// would begin with a segment that is not there.
func TestTrimIsDurableBeforeTheUnlink(t *testing.T) {
	o := fast()
	o.RollAfter = time.Second
	s := enginetest.Open(t, enginetest.Config{Options: o})
	for range 10 {
		s.Do(traffic(4)...)
		s.Step()
	}
	head := s.Stats().Head
	s.Clock.Pass(time.Minute) // the retention is over
	s.Do(traffic(1)...)
	for range 20 {
		turn(t, s, false)
	}
	if s.Stats().Head == head {
		t.Fatal("no trim was logged")
	}
	if first := segments(t, s.FS)[0]; first != fmt.Sprintf("%020d", head) {
		t.Errorf("the log begins with %s before the trim of %s is durable", first, fmt.Sprintf("%020d", head))
	}
	for range 5 {
		turn(t, s, true)
	}
	if first := segments(t, s.FS)[0]; first == fmt.Sprintf("%020d", head) {
		t.Errorf("%s is there although its trim is durable", first)
	}
}

// The copies of a roll and the new R are in one batch: a crash between two would leave copies whose originals count.
func TestRollIsOneBatch(t *testing.T) {
	o := fast()
	o.RollAfter = 2 * time.Hour
	s := enginetest.Open(t, enginetest.Config{Options: o})
	a := stored(t, s, put("a", 3))
	move(t, s, a, s.Clock.Wall()+1000*3600*1000)
	for range 5 {
		s.Do(traffic(8)...)
		s.Step()
	}
	for range 400 {
		s.Clock.Pass(time.Minute)
		s.Do(traffic(1)...)
		before := s.Stats()
		turn(t, s, true)
		after := s.Stats()
		if after.RolledMessages == before.RolledMessages {
			continue
		}
		if after.Rolled == before.Rolled {
			t.Error("messages were rolled, and R did not move")
		}
		if after.Fired != before.Fired || after.Head != before.Head {
			continue // other batches
		}
		if n := after.Batches - before.Batches; n != 1 {
			t.Errorf("a roll made %d batches, want 1", n)
		}
		return
	}
	t.Fatal("nothing was rolled")
}
