package consumequeue_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/consumequeue"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

const dir = "consumequeue"

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func open(t testing.TB, fsys vfs.FS, at consumequeue.States) *consumequeue.Set {
	t.Helper()
	s, err := consumequeue.Open(fsys, dir, consumequeue.Options{PerFile: 8, LogID: 77}, at)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ensure(t testing.TB, s *consumequeue.Set, topic, queue uint32) *consumequeue.Queue {
	t.Helper()
	q, err := s.Ensure(topic, queue)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// unitAt is the content of the unit at offset o of a queue.
func unitAt(k consumequeue.Key, o consumequeue.QueueOffset) consumequeue.Unit {
	return consumequeue.Unit{
		Position: commitlog.Offset(uint64(k.Topic)<<40 | uint64(k.Queue)<<32 | uint64(o)<<8),
		Size:     int32(o) + 100, Tags: int32(k.Queue), LogMs: int64(o) / 3 * 10,
	}
}

// appendTo appends units until the queue has the length n, and releases them.
func appendTo(t testing.TB, q *consumequeue.Queue, n consumequeue.QueueOffset) {
	t.Helper()
	for o := q.Len(); o < n; o++ {
		if got := q.Append(unitAt(q.Key(), o)); got != o {
			t.Fatalf("unit got offset %d, want %d", got, o)
		}
	}
	q.Release(n)
}

// checkUnits reads [First, Visible) in pieces of the given number of units.
func checkUnits(t testing.TB, q *consumequeue.Queue, piece int) {
	t.Helper()
	units := make([]consumequeue.Unit, piece)
	for o := q.First(); o < q.Visible(); {
		n, err := q.Units(o, units)
		if err != nil || n != int(min(int64(piece), int64(q.Visible()-o))) {
			t.Fatalf("%v: read %d units from %d of [%d, %d): %v", q.Key(), n, o, q.First(), q.Visible(), err)
		}
		for _, u := range units[:n] {
			if want := unitAt(q.Key(), o); u != want {
				t.Fatalf("%v: unit %d is %+v, want %+v", q.Key(), o, u, want)
			}
			o++
		}
	}
}

// checkpoint flushes all queues and tells them.
func checkpoint(t testing.TB, s *consumequeue.Set, least int) consumequeue.States {
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

func TestQueueShowsWhatIsReleased(t *testing.T) {
	q := ensure(t, open(t, crashfs.New(crashfs.Options{}), consumequeue.States{}), 1, 2)
	for o := range consumequeue.QueueOffset(10) {
		q.Append(unitAt(q.Key(), o))
	}
	if q.Visible() != 0 || q.Len() != 10 {
		t.Fatalf("visible %d of %d", q.Visible(), q.Len())
	}
	units := make([]consumequeue.Unit, 20)
	if n, err := q.Units(0, units); n != 0 || err != nil {
		t.Errorf("before Release: %d units, %v", n, err)
	}
	if _, err := q.Unit(0); !errors.Is(err, consumequeue.ErrNotVisible) {
		t.Errorf("before Release: %v", err)
	}
	q.Release(6)
	q.Release(2) // never back
	if n, err := q.Units(0, units); n != 6 || err != nil {
		t.Errorf("after Release(6): %d units, %v", n, err)
	}
	if n, err := q.Units(4, units); n != 2 || err != nil || units[1] != unitAt(q.Key(), 5) {
		t.Errorf("from 4: %d units, %v, %+v", n, err, units[1])
	}
	if n, err := q.Units(5, units[:0]); n != 0 || err != nil {
		t.Errorf("into nothing: %d units, %v", n, err)
	}
	for _, o := range []consumequeue.QueueOffset{6, 10, 1 << 60} {
		if n, err := q.Units(o, units); n != 0 || err != nil {
			t.Errorf("from %d: %d units, %v", o, n, err)
		}
		if _, err := q.Unit(o); !errors.Is(err, consumequeue.ErrNotVisible) {
			t.Errorf("unit %d: %v", o, err)
		}
	}
	q.Release(100) // bounded by Len
	if q.Visible() != 10 {
		t.Errorf("visible %d", q.Visible())
	}
	if u, err := q.Unit(9); err != nil || u != unitAt(q.Key(), 9) {
		t.Errorf("unit 9: %+v, %v", u, err)
	}
}

func TestQueueTrim(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	s := open(t, fsys, consumequeue.States{})
	q := ensure(t, s, 1, 0)
	appendTo(t, q, 40)
	checkpoint(t, s, 0)
	q.Trim(19)
	if q.First() != 19 {
		t.Fatalf("first is %d", q.First())
	}
	for _, o := range []consumequeue.QueueOffset{-1, 0, 18} {
		if _, err := q.Unit(o); !errors.Is(err, consumequeue.ErrTrimmed) {
			t.Errorf("unit %d: %v", o, err)
		}
	}
	at := checkpoint(t, s, 0)
	infos, err := fsys.ReadDir(dir + "/1/0")
	if err != nil || len(infos) != 3 {
		t.Errorf("%d files, %v; want those of 16, 24 and 32", len(infos), err)
	}
	checkUnits(t, q, 3)
	checkUnits(t, open(t, fsys, at).Queue(1, 0), 300)
}

func TestQueueReadsInPieces(t *testing.T) {
	s, err := consumequeue.Open(crashfs.New(crashfs.Options{}), dir, consumequeue.Options{PerFile: 700},
		consumequeue.States{})
	if err != nil {
		t.Fatal(err)
	}
	q := ensure(t, s, 1, 0)
	appendTo(t, q, 1500)
	checkpoint(t, s, 0)
	appendTo(t, q, 2000)
	for _, piece := range []int{1, 255, 256, 257, 513, 3000} {
		checkUnits(t, q, piece)
	}
}

func TestSearchLogTime(t *testing.T) {
	s := open(t, crashfs.New(crashfs.Options{}), consumequeue.States{})
	q := ensure(t, s, 1, 0)
	if o, err := q.SearchLogTime(5); o != 0 || err != nil {
		t.Errorf("in an empty queue: %d, %v", o, err)
	}
	r := newRand(1)
	logMs := []int64{}
	for i := range 100 {
		if i == 50 {
			checkpoint(t, s, 0)
		}
		last := int64(0)
		if i > 0 {
			last = logMs[i-1]
		}
		logMs = append(logMs, last+r.Int64N(3))
		q.Append(consumequeue.Unit{LogMs: logMs[i]})
	}
	for _, c := range []struct{ first, visible consumequeue.QueueOffset }{{0, 90}, {0, 100}, {13, 100}} {
		q.Release(c.visible)
		q.Trim(c.first)
		for ms := int64(-1); ms <= logMs[99]+1; ms++ {
			want := c.first
			for want < c.visible && logMs[want] < ms {
				want++
			}
			if got, err := q.SearchLogTime(ms); got != want || err != nil {
				t.Errorf("[%d, %d): log time %d is at %d, %v; want %d", c.first, c.visible, ms, got, err, want)
			}
		}
	}
}

// Damage is told with file and byte, and the units before it are given.
func TestQueueDamage(t *testing.T) {
	const unit = consumequeue.UnitSize
	for _, c := range []struct {
		name   string
		damage func(fsys *crashfs.FS, name string) error
		good   int
		offset int64
		reason string
	}{
		{"flipped bit", func(f *crashfs.FS, name string) error { return f.Rot(name, 8*(64+3*unit+5)) },
			3, 64 + 3*unit, "unit 3"},
		{"cut", func(f *crashfs.FS, name string) error { return f.Cut(name, 64+4*unit+1) }, 4, 64 + 4*unit + 1, "ends"},
		{"missing", func(f *crashfs.FS, name string) error { return f.Vanish(name) }, 0, 0, "missing"},
		{"header", func(f *crashfs.FS, name string) error { return f.Rot(name, 8*20) }, 0, 60, "CRC"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := crashfs.New(crashfs.Options{})
			s := open(t, fsys, consumequeue.States{})
			appendTo(t, ensure(t, s, 9, 1), 20)
			at := checkpoint(t, s, 0)
			name := fmt.Sprintf("%s/9/1/%020d", dir, 0)
			if err := c.damage(fsys, name); err != nil {
				t.Fatal(err)
			}
			q := open(t, fsys, at).Queue(9, 1)
			units := make([]consumequeue.Unit, 20)
			n, err := q.Units(0, units)
			var bad *corrupt.Error
			if !errors.As(err, &bad) || bad.File != name || bad.Offset != c.offset || !strings.Contains(bad.Reason, c.reason) {
				t.Errorf("got %v; want %s at byte %d: %s", err, name, c.offset, c.reason)
			}
			if n != c.good {
				t.Errorf("%d good units, want %d", n, c.good)
			}
			for o, u := range units[:n] {
				if want := unitAt(q.Key(), consumequeue.QueueOffset(o)); u != want {
					t.Errorf("unit %d is %+v", o, u)
				}
			}
		})
	}
}

func TestUnitsInTheWrongPlaceAreSeen(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	s, err := consumequeue.Open(fsys, dir, consumequeue.Options{}, consumequeue.States{})
	if err != nil {
		t.Fatal(err)
	}
	appendTo(t, ensure(t, s, 1, 0), 100)
	checkpoint(t, s, 0)
	name := fmt.Sprintf("%s/1/0/%020d", dir, 0)
	if err := fsys.SwapSectors(name, 2, 3); err != nil {
		t.Fatal(err)
	}
	n, err := s.Queue(1, 0).Units(0, make([]consumequeue.Unit, 100))
	if !errors.Is(err, corrupt.ErrCorrupt) || n != (1024-64)/consumequeue.UnitSize {
		t.Errorf("%d good units, %v", n, err)
	}
}

// The queue is trimmed past the offset that a search looks at, and the file is gone.
func TestSearchMeetsTrim(t *testing.T) {
	disk := crashfs.New(crashfs.Options{})
	s := open(t, disk, consumequeue.States{})
	q := ensure(t, s, 1, 0)
	appendTo(t, q, 60)
	checkpoint(t, s, 0)
	disk.SetInject(func(op crashfs.Op) error {
		if op.Kind == crashfs.Open && q.First() == 0 {
			q.Trim(45)
			return fs.ErrNotExist
		}
		return nil
	})
	if o, err := q.SearchLogTime(0); err != nil || o != 45 {
		t.Errorf("got %d, %v, want the new minimum 45", o, err)
	}
}
