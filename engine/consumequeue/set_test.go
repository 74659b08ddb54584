package consumequeue_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tidewheel/tidewheel/engine/consumequeue"
	"github.com/tidewheel/tidewheel/engine/internal/segment"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

func keys(s *consumequeue.Set) (list []consumequeue.Key) {
	for q := range s.All() {
		list = append(list, q.Key())
	}
	return list
}

func TestSetIsSorted(t *testing.T) {
	s := open(t, crashfs.New(crashfs.Options{}), consumequeue.States{})
	for _, k := range []consumequeue.Key{{5, 1}, {1, 9}, {1 << 31, 0}, {1, 2}, {5, 0}, {1, 2}} {
		if q := ensure(t, s, k.Topic, k.Queue); q.Key() != k || s.Queue(k.Topic, k.Queue) != q {
			t.Errorf("%v: got %v", k, q.Key())
		}
	}
	want := []consumequeue.Key{{1, 2}, {1, 9}, {5, 0}, {5, 1}, {1 << 31, 0}}
	if got := keys(s); !slices.Equal(got, want) || s.Len() != len(want) {
		t.Errorf("got %v, %d", got, s.Len())
	}
	if s.Queue(5, 2) != nil {
		t.Error("a queue that nobody made")
	}
	for range s.All() {
		break // an iteration may end early
	}
}

func TestSetStart(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	s := open(t, fsys, consumequeue.States{})
	q, err := s.Start(3, 1, 5000)
	if err != nil {
		t.Fatal(err)
	}
	if q.First() != 5000 || q.Len() != 5000 || q.Visible() != 5000 {
		t.Errorf("bounds [%d, %d), visible %d", q.First(), q.Len(), q.Visible())
	}
	_, err = s.Start(3, 1, 0)
	if !errors.Is(err, consumequeue.ErrExists) || !strings.HasPrefix(err.Error(), "consumequeue: topic 3 queue 1: ") {
		t.Errorf("again: %v", err)
	}
	appendTo(t, q, 5020)
	q = open(t, fsys, checkpoint(t, s, 0)).Queue(3, 1)
	if q.Key() != (consumequeue.Key{Topic: 3, Queue: 1}) || q.First() != 5000 || q.Visible() != 5020 {
		t.Errorf("came back as %v, [%d, %d) visible", q.Key(), q.First(), q.Visible())
	}
	checkUnits(t, q, 7)
}

func TestSetRemoveTopic(t *testing.T) {
	disk := crashfs.New(crashfs.Options{})
	fsys := faultfs.New(disk)
	s := open(t, fsys, consumequeue.States{})
	for _, k := range []consumequeue.Key{{1, 0}, {2, 0}, {2, 1}, {3, 0}} {
		appendTo(t, ensure(t, s, k.Topic, k.Queue), 20)
	}
	checkpoint(t, s, 0)
	reader := s.Queue(2, 1)
	removeFiles := s.RemoveTopic(2)
	if got := keys(s); !slices.Equal(got, []consumequeue.Key{{1, 0}, {3, 0}}) || s.Queue(2, 0) != nil {
		t.Errorf("left are %v", got)
	}
	checkUnits(t, reader, 7) // its files are there until the job ran
	at := checkpoint(t, s, 0)
	for _, op := range []faultfs.Op{faultfs.ReadDir, faultfs.Remove} {
		fsys.Add(faultfs.Rule{Op: op, Err: syscall.EIO})
		if err := removeFiles(); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s fails: %v", op, err)
		}
	}
	if err := removeFiles(); err != nil {
		t.Fatal(err)
	}
	if err := removeFiles(); err != nil {
		t.Errorf("again: %v", err)
	}
	if _, err := reader.Unit(0); !errors.Is(err, segment.ErrClosed) {
		t.Errorf("read of a removed queue: %v", err)
	}
	after := disk.Crash(newRand(1), crashfs.Policy{})
	if _, err := after.Stat(dir + "/2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the topic's directory is there: %v", err)
	}
	s = open(t, after, at)
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	for q := range s.All() {
		checkUnits(t, q, 7)
	}
	if err := s.RemoveTopic(99)(); err != nil {
		t.Errorf("a topic without queues: %v", err)
	}
}

func TestSetSweep(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	s := open(t, fsys, consumequeue.States{})
	if err := s.Sweep(consumequeue.States{}); err != nil {
		t.Errorf("without a directory: %v", err)
	}
	for _, k := range []consumequeue.Key{{1, 0}, {1, 1}, {2, 0}} {
		appendTo(t, ensure(t, s, k.Topic, k.Queue), 20)
	}
	at := checkpoint(t, s, 0)
	at.Arrays = at.Arrays[:1] // the others ended in a life that a crash cut short
	for _, name := range []string{dir + "/notes", dir + "/007", dir + "/1/x"} {
		if err := fsys.MkdirAll(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, fsys, at)
	if err := s.Sweep(consumequeue.States{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"/1/0": true, "/1/1": false, "/2": false, "/notes": true, "/007": true, "/1/x": true,
	} {
		if _, err := fsys.Stat(dir + name); (err == nil) != want {
			t.Errorf("%s: %v, want it %t", name, err, want)
		}
	}
	checkUnits(t, s.Queue(1, 0), 7)

	s.RemoveTopic(1) // after the checkpoint, whose recovery needs the files
	if err := s.Sweep(at); err != nil {
		t.Fatal(err)
	}
	if _, err := fsys.Stat(dir + "/1/0"); err != nil {
		t.Errorf("files that the last checkpoint names: %v", err)
	}
}

// Readers look at queues while the writer makes and removes some and a job flushes, under -race.
func TestHammer(t *testing.T) {
	s, err := consumequeue.Open(crashfs.New(crashfs.Options{}), dir,
		consumequeue.Options{PerFile: 100, Handles: segment.NewHandles(4)}, consumequeue.States{})
	if err != nil {
		t.Fatal(err)
	}
	var done atomic.Bool
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			units := make([]consumequeue.Unit, 50)
			for !done.Load() {
				for q := range s.All() {
					first, visible := q.First(), q.Visible()
					n, err := q.Units(max(first, visible-70), units)
					if err != nil && !errors.Is(err, consumequeue.ErrTrimmed) && !errors.Is(err, segment.ErrClosed) {
						t.Error(err)
						return
					}
					for i, u := range units[:n] {
						if u != unitAt(q.Key(), max(first, visible-70)+consumequeue.QueueOffset(i)) {
							t.Errorf("%v: unit %+v", q.Key(), u)
							return
						}
					}
				}
				s.Queue(1, 0)
			}
		})
	}
	for round := range uint32(150) {
		topic := 1 + round%3
		for queue := range uint32(3) {
			q := ensure(t, s, topic, queue)
			appendTo(t, q, q.Len()+40)
			q.Trim(q.Len() - 300)
		}
		m := s.Mark()
		result := make(chan consumequeue.States)
		go func() { // the job
			at, err := s.Flush(m, 1000)
			if err == nil {
				err = s.Delete(at)
			}
			if err != nil {
				t.Error(err)
			}
			result <- at
		}()
		q := ensure(t, s, topic, 0)
		appendTo(t, q, q.Len()+10) // beside the job
		s.Installed(<-result)
		if round%40 == 39 {
			if err := s.RemoveTopic(topic)(); err != nil {
				t.Error(err)
			}
		}
	}
	done.Store(true)
	readers.Wait()
}

func ExampleSet() {
	fsys := crashfs.New(crashfs.Options{})
	set, err := consumequeue.Open(fsys, "consumequeue", consumequeue.Options{}, consumequeue.States{})
	if err != nil {
		fmt.Println(err)
		return
	}
	orders, err := set.Ensure(1, 0) // topic 1, queue 0
	if err != nil {
		fmt.Println(err)
		return
	}
	offset := orders.Append(consumequeue.Unit{Position: 4096, Size: 300, LogMs: 1000})
	fmt.Println("offset", offset, "visible", orders.Visible())
	orders.Release(offset + 1) // the log is durable
	units := make([]consumequeue.Unit, 32)
	n, err := orders.Units(0, units)
	fmt.Println(n, "unit at", units[0].Position, err)

	states, err := set.Flush(set.Mark(), 4096) // less than 4 KiB: it goes into the checkpoint
	fmt.Println(len(states.Arrays[0].Tail), "bytes in the checkpoint", err)
	set.Installed(states) // the checkpoint is durable
	fmt.Println(set.Close())
	// Output:
	// offset 0 visible 0
	// 1 unit at 4096 <nil>
	// 32 bytes in the checkpoint <nil>
	// <nil>
}
