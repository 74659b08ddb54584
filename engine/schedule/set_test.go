package schedule_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/segment"
	"github.com/tidewheel/tidewheel/engine/schedule"
	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

func TestSetIsSorted(t *testing.T) {
	s := open(t, crashfs.New(crashfs.Options{}), schedule.States{})
	for _, delayMs := range []int64{7_200_000, 1000, 5000, 1, 1000, schedule.MaxDelayMs} {
		if q := ensure(t, s, delayMs); q.DelayMs() != delayMs || s.Queue(delayMs) != q {
			t.Errorf("%d: got %d", delayMs, q.DelayMs())
		}
	}
	var got []int64
	for q := range s.All() {
		got = append(got, q.DelayMs())
	}
	if want := []int64{1, 1000, 5000, 7_200_000, schedule.MaxDelayMs}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for range s.All() {
		break // an iteration may end early
	}
	if s.Queue(2) != nil {
		t.Error("a queue that nobody made")
	}
	for _, delayMs := range []int64{0, -1, schedule.MaxDelayMs + 1} {
		if _, err := s.Ensure(delayMs); !errors.Is(err, schedule.ErrDelay) {
			t.Errorf("delay %d: %v", delayMs, err)
		}
	}
}

func TestSetStart(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	s := open(t, fsys, schedule.States{})
	q, err := s.Start(1000, 5000)
	if err != nil {
		t.Fatal(err)
	}
	if q.First() != 5000 || q.Len() != 5000 {
		t.Errorf("bounds [%d, %d)", q.First(), q.Len())
	}
	if _, err := s.Start(1000, 0); !errors.Is(err, schedule.ErrExists) {
		t.Errorf("again: %v", err)
	}
	if _, err := s.Start(2000, -1); err == nil {
		t.Error("a negative start was taken")
	}
	appendTo(t, q, 5020)
	at := checkpoint(t, s, 0)
	checkEntries(t, open(t, fsys, at).Queue(1000), firstLife)
}

// Files wholly behind the frontier go; the queue of an old table drains and stays.
func TestSetComesBackFromItsStates(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	s := open(t, fsys, schedule.States{})
	lengths := map[int64]int64{1000: 0, 5000: 3, 10_000: 8, 30_000: 30}
	for delayMs, n := range lengths {
		appendTo(t, ensure(t, s, delayMs), n)
	}
	s.Queue(30_000).Trim(25)
	s.Queue(10_000).Trim(8)
	encoded := checkpoint(t, s, 4*cellSize).Append(nil)
	at, err := schedule.DecodeStates(encoded)
	if err != nil {
		t.Fatal(err)
	}
	// Another number of entries per file is for new queues of an empty set only: these files have their number.
	s, err = schedule.Open(fsys, dir, schedule.Options{PerFile: 100, LogID: 77}, at)
	if err != nil {
		t.Fatal(err)
	}
	clear(encoded) // the set must not need it
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	for delayMs, n := range lengths {
		q := s.Queue(delayMs)
		if q == nil || q.Len() != n {
			t.Fatalf("delay %d: %+v", delayMs, q)
		}
		checkEntries(t, q, firstLife)
		appendTo(t, q, n+20)
		checkEntries(t, q, firstLife)
	}
	if at := checkpoint(t, s, 0); at.PerFile != 8 {
		t.Errorf("%d entries per file, want 8", at.PerFile)
	}
	for q := range s.All() {
		if n := q.Unflushed(); n != 0 {
			t.Errorf("delay %d: %d bytes are unflushed after a checkpoint", q.DelayMs(), n)
		}
	}
	infos, err := fsys.ReadDir(dir + "/30000")
	if err != nil || len(infos) != 4 {
		t.Errorf("%d files, %v; want those of 24, 32, 40 and 48", len(infos), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); !errors.Is(err, segment.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
}

func TestSetSeesFilesOfOthers(t *testing.T) {
	fsys := crashfs.New(crashfs.Options{})
	s := open(t, fsys, schedule.States{})
	appendTo(t, ensure(t, s, 1000), 3)
	appendTo(t, ensure(t, s, 2000), 3)
	at := checkpoint(t, s, 0)
	other, err := schedule.Open(fsys, dir, schedule.Options{LogID: 78}, at)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Queue(1000).Entry(0); !errors.Is(err, corrupt.ErrCorrupt) {
		t.Errorf("of another log: %v", err)
	}
	name := func(delayMs int) string { return fmt.Sprintf("%s/%d/%020d", dir, delayMs, 0) }
	if err := fsys.Rename(name(1000), name(2000)); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, fsys, at).Queue(2000).Entry(0); !errors.Is(err, corrupt.ErrCorrupt) {
		t.Errorf("of another delay: %v", err)
	}
	if err := open(t, fsys, at).Verify(); !errors.Is(err, corrupt.ErrCorrupt) {
		t.Errorf("a file is missing, Verify says %v", err)
	}
}

func TestSetFlushGoesOnAfterAFullDisk(t *testing.T) {
	disk := crashfs.New(crashfs.Options{})
	s := open(t, disk, schedule.States{})
	for i := range int64(10) {
		appendTo(t, ensure(t, s, 1000*(i+1)), 20)
	}
	disk.SetQuota(60_000)
	m := s.Mark()
	if _, err := s.Flush(m, 0); !vfs.IsNoSpace(err) || errors.Is(err, segment.ErrSync) {
		t.Fatalf("on a full disk: %v", err)
	}
	disk.SetQuota(0)
	at, err := s.Flush(m, 0)
	if err != nil {
		t.Fatal(err)
	}
	s = open(t, disk.Crash(newRand(1), crashfs.Policy{}), at)
	for q := range s.All() {
		checkEntries(t, q, firstLife)
	}
}

func TestSetRefusesBadStates(t *testing.T) {
	for name, at := range map[string]schedule.States{
		"no entries per file": {Queues: []schedule.QueueState{{DelayMs: 1}}},
		"no delay":            {PerFile: 8, Queues: []schedule.QueueState{{}}},
		"twice":               {PerFile: 8, Queues: []schedule.QueueState{{DelayMs: 1}, {DelayMs: 1}}},
	} {
		if _, err := schedule.Open(crashfs.New(crashfs.Options{}), dir, schedule.Options{}, at); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}

// Random histories of two queues with crashes at any operation: what a checkpoint recorded is always there.
func TestCrashRandom(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	for seed := range rounds {
		r := newRand(uint64(seed))
		disk := crashfs.New(crashfs.Options{})
		var recorded schedule.States
		lives := map[int64][]uint32{}
		for life := range uint32(6) {
			s := open(t, disk, recorded)
			if err := s.Verify(); err != nil {
				t.Fatalf("seed %d, life %d: %v", seed, life, err)
			}
			was := lives
			lives = map[int64][]uint32{}
			for q := range s.All() {
				lives[q.DelayMs()] = was[q.DelayMs()][:q.Len()]
			}
			disk.CrashAt(disk.Ops() + 1 + r.Int64N(100))
			for {
				delayMs := 1000 * (1 + r.Int64N(2))
				q := ensure(t, s, delayMs)
				for range r.IntN(30) {
					if err := q.Append(entryAt(delayMs, q.Len(), life)); err != nil {
						t.Fatalf("seed %d, life %d: %v", seed, life, err)
					}
					lives[delayMs] = append(lives[delayMs], life)
				}
				if r.IntN(4) == 0 {
					q.Trim(q.First() + r.Int64N(q.Len()-q.First()+1))
				}
				if r.IntN(2) == 0 {
					at, err := s.Flush(s.Mark(), r.IntN(5)*cellSize)
					if err != nil {
						break
					}
					if recorded, err = schedule.DecodeStates(at.Append(nil)); err != nil {
						t.Fatal(err)
					}
					s.Installed(at)
					if err := s.Delete(at); err != nil {
						break
					}
				}
				for q := range s.All() {
					checkEntries(t, q, func(i int64) uint32 { return lives[q.DelayMs()][i] })
				}
			}
			policies := crashfs.Policies()
			disk = disk.Crash(r, policies[r.IntN(len(policies))])
		}
	}
}

func ExampleSet() {
	set, err := schedule.Open(crashfs.New(crashfs.Options{}), "schedule", schedule.Options{}, schedule.States{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fiveSeconds, err := set.Ensure(5000)
	if err != nil {
		fmt.Println(err)
		return
	}
	for id := range uint64(3) {
		due := 10_000 + int64(id)*100
		if err := fiveSeconds.Append(timerlog.Entry{Key: timerlog.Key{Due: due, ID: id}}); err != nil {
			fmt.Println(err)
		}
	}
	// The frontier is (10000, 0): what is above it waits.
	from, err := fiveSeconds.Search(timerlog.Key{Due: 10_000})
	if err != nil {
		fmt.Println(err)
	}
	head := fiveSeconds.Cursor(from)
	for e, ok, err := head.Next(); ok; e, ok, err = head.Next() {
		fmt.Println(e.Due, e.ID, err)
	}
	fiveSeconds.Trim(from)
	fmt.Println(set.Close())
	// Output:
	// 10100 1 <nil>
	// 10200 2 <nil>
	// <nil>
}
