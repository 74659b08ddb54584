package segment_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/segment"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

const createFlags = os.O_RDWR | os.O_CREATE

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// Each operation of a flush fails in turn, in each way. The array goes on or says that it is final; whatever was
// recorded survives a power cut; and the flush succeeds in the end, with the same mark, unless a sync failed.
func TestFlushSurvivesEachFault(t *testing.T) {
	scenario := func(fsys vfs.FS) (*segment.Array, segment.State) {
		a := open(t, fsys, params(), segment.State{})
		appendTo(a, 5)
		return a, segment.State{}
	}
	count := faultfs.New(crashfs.New(crashfs.Options{}))
	a, _ := scenario(count)
	flush(t, a, 0)
	appendTo(a, 20)
	flush(t, a, 0)
	changes := count.Changes()
	if changes < 12 {
		t.Fatalf("%d operations change something; the scenario is too small", changes)
	}
	for n := int64(1); n <= changes; n++ {
		for _, rule := range []faultfs.Rule{
			{Nth: n, Err: syscall.EIO},
			{Nth: n, Err: syscall.ENOSPC, Short: 7},
			{Nth: n, Err: syscall.EIO, After: true},
			{Nth: n, Err: syscall.EIO, Sticky: true},
		} {
			rule.Changes = true
			t.Run(rule.String(), func(t *testing.T) {
				disk := crashfs.New(crashfs.Options{})
				fsys := faultfs.New(disk, rule)
				a, recorded := scenario(fsys)
				step := func(n int64) {
					appendTo(a, n)
					m := a.Mark()
					s, err := a.Flush(m, 0)
					if err != nil && !errors.Is(err, segment.ErrSync) {
						checkCells(t, a, 3, firstLife)
						fsys.Clear()
						s, err = a.Flush(m, 0)
					}
					if err == nil {
						if s.Flushed != n || len(s.Tail) != 0 {
							t.Fatalf("state %+v, want all %d in files", s, n)
						}
						a.Installed(s)
						recorded = s
						checkCells(t, a, 3, firstLife)
						return
					}
					if !errors.Is(err, segment.ErrSync) {
						t.Fatalf("second try: %v", err)
					}
					fsys.Clear()
					if _, again := a.Flush(a.Mark(), 0); !errors.Is(again, segment.ErrSync) {
						t.Fatalf("a sync failed, and the next flush said %v", again)
					}
				}
				step(5)
				step(20)
				if fsys.Fired() == 0 {
					t.Error("the rule never fired")
				}
				after := disk.Crash(newRand(uint64(n)), crashfs.Policy{})
				b := open(t, after, params(), recorded)
				if err := b.Verify(); err != nil {
					t.Error(err)
				}
				checkCells(t, b, 3, firstLife)
			})
		}
	}
}

// A file whose directory's sync failed would never be durable under its old entry.
func TestFlushReplacesALeftoverFile(t *testing.T) {
	disk := crashfs.New(crashfs.Options{})
	fsys := faultfs.New(disk)
	a := open(t, fsys, params(), segment.State{})
	appendTo(a, 5)
	s := flush(t, a, 0)
	appendTo(a, 12)
	fsys.Add(faultfs.Rule{Op: faultfs.SyncDir, Path: dir})
	if _, err := a.Flush(a.Mark(), 0); !errors.Is(err, segment.ErrSync) {
		t.Fatalf("got %v", err)
	}
	disk = disk.Kill() // reopened on the same machine: reads see the file, the disk does not
	a = open(t, disk, params(), s)
	appendTo(a, 12)
	s = flush(t, a, 0)
	disk = disk.Crash(newRand(1), crashfs.Policy{})
	b := open(t, disk, params(), s)
	if err := b.Verify(); err != nil {
		t.Error(err)
	}
	checkCells(t, b, 3, firstLife)
}

// life is one run of an array between two crashes, with what a checkpoint and the log would remember.
type life struct {
	t        *testing.T
	r        *rand.Rand
	disk     *crashfs.FS
	handles  *segment.Handles
	a        *segment.Array
	lives    []uint32 // of each cell
	number   uint32
	recorded segment.State
	log      []string
}

func (l *life) note(format string, args ...any) {
	l.log = append(l.log, fmt.Sprintf(format, args...))
}

func (l *life) open() {
	p := params()
	p.Handles = l.handles
	l.a = open(l.t, l.disk, p, l.recorded)
	if err := l.a.Verify(); err != nil {
		l.t.Fatal(err)
	}
	l.lives = l.lives[:l.recorded.Len(cellSize)]
	l.number++
	l.check()
}

func (l *life) check() {
	if l.a.Len() != int64(len(l.lives)) {
		l.t.Fatalf("length is %d, want %d", l.a.Len(), len(l.lives))
	}
	checkCells(l.t, l.a, 1+l.r.IntN(30), func(i int64) uint32 { return l.lives[i] })
}

// step does one thing; false when the power failed.
func (l *life) step() bool {
	switch l.r.IntN(6) {
	case 0, 1, 2:
		n := l.r.IntN(20)
		l.note("append %d", n)
		for range n {
			l.a.Append(cellAt(l.a.Len(), l.number))
			l.lives = append(l.lives, l.number)
		}
	case 3:
		first := l.a.First() + l.r.Int64N(l.a.Len()-l.a.First()+1)*l.r.Int64N(2)/(1+l.r.Int64N(4))
		l.note("trim %d", first)
		l.a.Trim(first)
	case 4:
		return l.checkpoint()
	case 5:
		l.note("crash")
		return false
	}
	l.check()
	return true
}

// checkpoint goes as far as chance lets it.
func (l *life) checkpoint() bool {
	m := l.a.Mark()
	for range l.r.IntN(10) {
		l.a.Append(cellAt(l.a.Len(), l.number))
		l.lives = append(l.lives, l.number)
	}
	least := l.r.IntN(8) * cellSize
	s, err := l.a.Flush(m, least)
	l.note("checkpoint at %d, least %d: first %d flushed %d tail %d, %v",
		m.Len(), least, s.First, s.Flushed, len(s.Tail), err)
	if err != nil {
		return false
	}
	if s.Len(cellSize) != m.Len() {
		l.t.Fatalf("state of length %d for a mark at %d", s.Len(cellSize), m.Len())
	}
	if l.r.IntN(4) == 0 {
		return true // flushed, never recorded
	}
	l.recorded = s
	if l.r.IntN(4) == 0 {
		return true // recorded, but the engine did not learn it
	}
	l.a.Installed(s)
	l.check()
	if err := l.a.Delete(s.First); err != nil {
		l.note("delete: %v", err)
		return false
	}
	return true
}

// Random histories with crashes at any operation: what a checkpoint recorded is always there, whatever was flushed
// after it, and whichever sectors and directory entries the disk kept.
func TestCrashRandom(t *testing.T) {
	rounds, lives := 200, 8
	if testing.Short() {
		rounds = 20
	}
	for seed := range rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := newRand(uint64(seed))
			l := &life{t: t, r: r, disk: crashfs.New(crashfs.Options{}), handles: segment.NewHandles(3)}
			defer func() {
				if t.Failed() {
					t.Log(l.log)
				}
			}()
			for range lives {
				l.open()
				if r.IntN(2) == 0 {
					l.disk.CrashAt(l.disk.Ops() + 1 + r.Int64N(40))
				}
				if r.IntN(4) == 0 {
					l.failASync()
				}
				for l.step() {
				}
				policies := crashfs.Policies()
				p := policies[r.IntN(len(policies))]
				l.note("life %d ends: %v", l.number, p)
				if r.IntN(4) == 0 {
					l.disk = l.disk.Kill()
				} else {
					l.disk = l.disk.Crash(r, p)
				}
			}
		})
	}
}

// failASync lets one of the next syncs of a file or of the array's own directory fail.
func (l *life) failASync() {
	left := 1 + l.r.IntN(6)
	l.disk.SetInject(func(op crashfs.Op) error {
		if op.Kind == crashfs.Sync || op.Kind == crashfs.SyncDir && op.Name == dir {
			if left--; left == 0 {
				return syscall.EIO
			}
		}
		return nil
	})
}

// The operations of a flush and their order are part of the promise: data before the entry, the directory before its
// parents.
func TestFlushOrder(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{Trace: 100})
	a := open(t, fsys, params(), segment.State{})
	appendTo(a, 9)
	flush(t, a, 0)
	appendTo(a, 10)
	flush(t, a, 0)
	var got []string
	for _, op := range fsys.Trace() {
		if op.Changes() {
			got = append(got, string(op.Kind)+" "+op.Name)
		}
	}
	want := []string{
		"mkdir queues", "mkdir queues/7", "mkdir " + dir,
		"create " + file(0), "write " + file(0), "write " + file(0), "sync " + file(0),
		"create " + file(8), "write " + file(8), "write " + file(8), "sync " + file(8),
		"syncdir " + dir, "syncdir queues/7", "syncdir queues", "syncdir .",
		"write " + file(8), "sync " + file(8),
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}
