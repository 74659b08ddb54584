package schedule_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/schedule"
	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

const dir = "schedule"

func open(t testing.TB, fsys vfs.FS, at schedule.States) *schedule.Set {
	t.Helper()
	s, err := schedule.Open(fsys, dir, schedule.Options{PerFile: 8, LogID: 77}, at)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ensure(t testing.TB, s *schedule.Set, delayMs int64) *schedule.Queue {
	t.Helper()
	q, err := s.Ensure(delayMs)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// entryAt is the entry at index i of a queue: three fall due in each millisecond.
func entryAt(delayMs, i int64) timerlog.Entry {
	return timerlog.Entry{
		Key:      timerlog.Key{Due: delayMs + i/3, ID: uint64(i)*10 + 5},
		Position: commitlog.Offset(i * 512), Size: 300, Topic: uint32(delayMs),
	}
}

// appendTo appends entries until the queue has the length n.
func appendTo(t testing.TB, q *schedule.Queue, n int64) {
	t.Helper()
	for i := q.Len(); i < n; i++ {
		if err := q.Append(entryAt(q.DelayMs(), i)); err != nil {
			t.Fatal(err)
		}
	}
}

// checkEntries reads [First, Len) with a cursor.
func checkEntries(t testing.TB, q *schedule.Queue) {
	t.Helper()
	c := q.Cursor(q.First())
	for i := q.First(); ; i++ {
		e, ok, err := c.Next()
		if err != nil {
			t.Fatalf("delay %d: entry %d of [%d, %d): %v", q.DelayMs(), i, q.First(), q.Len(), err)
		}
		if ok != (i < q.Len()) {
			t.Fatalf("delay %d: at entry %d of [%d, %d) ok is %t", q.DelayMs(), i, q.First(), q.Len(), ok)
		}
		if !ok {
			return
		}
		if want := entryAt(q.DelayMs(), i); e != want {
			t.Fatalf("delay %d: entry %d is %+v, want %+v", q.DelayMs(), i, e, want)
		}
	}
}

// checkpoint flushes all queues and tells them.
func checkpoint(t testing.TB, s *schedule.Set, least int) schedule.States {
	t.Helper()
	at, err := s.Flush(s.Mark(), least)
	if err != nil {
		t.Fatal(err)
	}
	s.Installed(at)
	if err := s.Delete(at); err != nil {
		t.Fatal(err)
	}
	return at
}

func TestQueueKeepsOrder(t *testing.T) {
	for _, where := range []string{"memory", "file", "state"} {
		t.Run(where, func(t *testing.T) {
			fsys := crashfs.New(crashfs.Options{})
			s := open(t, fsys, schedule.States{})
			q := ensure(t, s, 1000)
			if _, ok, err := q.Last(); ok || err != nil {
				t.Errorf("last of an empty queue: %t, %v", ok, err)
			}
			last := timerlog.Key{Due: 5000, ID: 7}
			if err := q.Append(timerlog.Entry{Key: last}); err != nil {
				t.Fatal(err)
			}
			least := map[string]int{"file": 0, "state": 1 << 20}
			if n, ok := least[where]; ok { // opened again: the last entry has to be read
				q = open(t, fsys, checkpoint(t, s, n)).Queue(1000)
			}
			for _, k := range []timerlog.Key{{Due: 5000, ID: 7}, {Due: 5000, ID: 6}, {Due: 4999, ID: 8}, {}} {
				err := q.Append(timerlog.Entry{Key: k})
				if !errors.Is(err, schedule.ErrOrder) || !strings.Contains(err.Error(), "due 5000, id 7") {
					t.Errorf("%v after %v: %v", k, last, err)
				}
			}
			if got, ok, err := q.Last(); got != last || !ok || err != nil || q.Len() != 1 {
				t.Errorf("last is %v, %t, %v, length %d", got, ok, err, q.Len())
			}
			for _, k := range []timerlog.Key{{Due: 5000, ID: 8}, {Due: 5001, ID: 1}} {
				if err := q.Append(timerlog.Entry{Key: k}); err != nil {
					t.Errorf("%v: %v", k, err)
				}
			}
		})
	}
}

func TestQueueAppendReportsADamagedTail(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	s := open(t, fsys, schedule.States{})
	appendTo(t, ensure(t, s, 1000), 10)
	at := checkpoint(t, s, 0)
	name := fmt.Sprintf("%s/1000/%020d", dir, 8)
	if err := fsys.Rot(name, 8*(64+cellSize)); err != nil {
		t.Fatal(err)
	}
	q := open(t, fsys, at).Queue(1000)
	err := q.Append(entryAt(1000, 10))
	var bad *corrupt.Error
	if !errors.As(err, &bad) || bad.File != name || bad.Offset != 64+cellSize {
		t.Errorf("got %v", err)
	}
	if q.Len() != 10 {
		t.Errorf("length is %d", q.Len())
	}
}

func TestQueueEntry(t *testing.T) {
	s := open(t, crashfs.New(crashfs.Options{}), schedule.States{})
	q := ensure(t, s, 1000)
	appendTo(t, q, 10)
	checkpoint(t, s, 0)
	appendTo(t, q, 13)
	q.Trim(4)
	for i := int64(4); i < 13; i++ {
		if e, err := q.Entry(i); err != nil || e != entryAt(1000, i) {
			t.Errorf("entry %d: %+v, %v", i, e, err)
		}
	}
	if _, err := q.Entry(3); !errors.Is(err, schedule.ErrTrimmed) {
		t.Errorf("entry 3: %v", err)
	}
	if _, err := q.Entry(13); err == nil || errors.Is(err, schedule.ErrTrimmed) {
		t.Errorf("entry 13: %v", err)
	}
}

func TestCursorGoesOnAtTheEnd(t *testing.T) {
	s, err := schedule.Open(crashfs.New(crashfs.Options{}), dir, schedule.Options{PerFile: 700}, schedule.States{})
	if err != nil {
		t.Fatal(err)
	}
	q := ensure(t, s, 1000)
	c := q.Cursor(0)
	next := int64(0)
	for round := range int64(20) {
		if round%3 == 2 {
			checkpoint(t, s, 0)
		}
		appendTo(t, q, q.Len()+round*13)
		for {
			if c.Index() != next {
				t.Fatalf("index is %d, want %d", c.Index(), next)
			}
			e, ok, err := c.Next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if e != entryAt(1000, next) {
				t.Fatalf("entry %d is %+v", next, e)
			}
			next++
		}
		if next != q.Len() {
			t.Fatalf("cursor ended at %d of %d", next, q.Len())
		}
	}
	for _, i := range []int64{0, 255, 256, 701, q.Len() - 1} {
		c.MoveTo(i)
		if e, ok, err := c.Next(); !ok || err != nil || e != entryAt(1000, i) {
			t.Errorf("moved to %d: %+v, %t, %v", i, e, ok, err)
		}
	}
	q.Trim(500)
	c.MoveTo(499)
	if _, ok, err := c.Next(); ok || !errors.Is(err, schedule.ErrTrimmed) {
		t.Errorf("below First: %t, %v", ok, err)
	}
}

// A cursor yields what is good before a damaged place, and then tells where that is as often as it is asked.
func TestCursorDamage(t *testing.T) {
	name := fmt.Sprintf("%s/1000/%020d", dir, 8)
	for _, c := range []struct {
		what   string
		damage func(f *crashfs.FS) error
		good   int64
		offset int64
	}{
		{"flipped bit", func(f *crashfs.FS) error { return f.Rot(name, 8*(64+3*cellSize+20)) }, 11, 64 + 3*cellSize},
		{"cut", func(f *crashfs.FS) error { return f.Cut(name, 64+5*cellSize+1) }, 13, 64 + 5*cellSize + 1},
		{"missing", func(f *crashfs.FS) error { return f.Vanish(name) }, 8, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			fsys := crashfs.New(crashfs.Options{})
			s := open(t, fsys, schedule.States{})
			appendTo(t, ensure(t, s, 1000), 30)
			at := checkpoint(t, s, 0)
			if err := c.damage(fsys); err != nil {
				t.Fatal(err)
			}
			cursor := open(t, fsys, at).Queue(1000).Cursor(0)
			for i := range c.good {
				if e, ok, err := cursor.Next(); !ok || err != nil || e != entryAt(1000, i) {
					t.Fatalf("entry %d: %+v, %t, %v", i, e, ok, err)
				}
			}
			for range 2 {
				_, ok, err := cursor.Next()
				var bad *corrupt.Error
				if ok || !errors.As(err, &bad) || bad.File != name || bad.Offset != c.offset || cursor.Index() != c.good {
					t.Errorf("at %d: %t, %v; want %s at byte %d", cursor.Index(), ok, err, name, c.offset)
				}
			}
		})
	}
}

func TestSearch(t *testing.T) {
	s := open(t, crashfs.New(crashfs.Options{}), schedule.States{})
	q := ensure(t, s, 1000)
	if i, err := q.Search(timerlog.Key{}); i != 0 || err != nil {
		t.Errorf("in an empty queue: %d, %v", i, err)
	}
	appendTo(t, q, 60)
	checkpoint(t, s, 0)
	appendTo(t, q, 100)
	for _, first := range []int64{0, 17} {
		q.Trim(first)
		for due := int64(998); due < 1036; due++ {
			for id := uint64(0); id < 1010; id += 5 {
				k := timerlog.Key{Due: due, ID: id}
				want := first
				for want < 100 && !k.Less(entryAt(1000, want).Key) {
					want++
				}
				if got, err := q.Search(k); got != want || err != nil {
					t.Fatalf("first %d: %v is before %d, %v; want %d", first, k, got, err, want)
				}
			}
		}
	}
}

func TestSearchMeetsTrim(t *testing.T) {
	disk := crashfs.New(crashfs.Options{})
	s := open(t, disk, schedule.States{})
	q := ensure(t, s, 1000)
	appendTo(t, q, 60)
	checkpoint(t, s, 0)
	disk.SetInject(func(op crashfs.Op) error {
		if op.Kind == crashfs.Open && q.First() == 0 {
			q.Trim(45)
			return fs.ErrNotExist
		}
		return nil
	})
	if i, err := q.Search(timerlog.Key{}); i != 45 || err != nil {
		t.Errorf("got %d, %v, want the new first 45", i, err)
	}
}
