package timer

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// sim drives a store by chance. What the fold heard since the last checkpoint is kept, for a restart to hear it again.
type sim struct {
	*store
	r       *rand.Rand
	journal []func(s *store)

	// Jobs under way: one of them at most.
	flush      *Flush
	compaction *Compaction
	point      *pending
	pointAt    int // length of the journal at the checkpoint's picture
	ran        bool
	placed     bool // what the checkpoint changes in place

	last saved // the checkpoint that a restart begins with

	failing bool
	failed  int
}

func newSim(t testing.TB, sh shape, seed uint64) *sim {
	s := &sim{store: newStore(t, sh), r: newRand(seed)}
	s.last = s.checkpoint()
	return s
}

// tell does something to the fold, now and again after a restart.
func (s *sim) tell(fn func(s *store)) {
	fn(s.store)
	s.journal = append(s.journal, fn)
}

// pick chooses a waiting message, by its order so that a seed always does the same.
func (s *sim) pick() (timerlog.Entry, bool) {
	if len(s.waiting) == 0 {
		return timerlog.Entry{}, false
	}
	ks := make([]timerlog.Key, 0, len(s.waiting))
	for k := range s.waiting {
		ks = append(ks, k)
	}
	slices.SortFunc(ks, timerlog.Key.Compare)
	return s.waiting[ks[s.r.IntN(len(ks))]], true
}

// when draws a due time: soon, in this hour, far, and beyond every ring.
func (s *sim) when() int64 {
	switch s.r.IntN(8) {
	case 0:
		return s.now - s.r.Int64N(2000)
	case 1, 2:
		return s.now + s.r.Int64N(3000)
	case 3, 4:
		return s.now + s.r.Int64N(2*hourMs)
	case 5:
		return s.now + s.r.Int64N(100*hourMs)
	case 6:
		return s.now/1000*1000 + 60_000 // a hot second
	}
	return s.now + s.r.Int64N(9000*hourMs)
}

func (s *sim) step() {
	switch n := s.r.IntN(100); {
	case n < 40:
		s.putSome()
	case n < 50:
		if e, ok := s.pick(); ok {
			s.tell(func(s *store) { s.gone(e.Key) })
		}
	case n < 54:
		s.rollSome()
	case n < 70:
		s.takeSome()
	case n < 74:
		s.lookUp()
	case n < 97:
		s.job()
	default:
		s.crash()
	}
}

func (s *sim) putSome() {
	for range 1 + s.r.IntN(4) {
		if s.lane.Room() == 0 {
			return
		}
		delay := int64(0)
		var e timerlog.Entry
		if s.shape.levels && s.r.IntN(3) > 0 {
			delay = []int64{1000, 5000, 2 * hourMs}[s.r.IntN(3)]
			e = s.entry(max(s.now+delay, s.tails[delay]))
			if e.Late() {
				delay = 0
			}
		} else {
			e = s.entry(s.when())
		}
		now := s.now
		s.tell(func(s *store) {
			was := s.now
			s.now = now
			s.put(e, delay)
			s.now = was
		})
	}
}

// rollSome copies what lies lowest to the end of the log.
func (s *sim) rollSome() {
	for range s.r.IntN(3) {
		e, ok := s.pick()
		if !ok || s.lane.Room() == 0 {
			return
		}
		e.Position, s.end = s.end, s.end+100
		now := s.now
		s.tell(func(s *store) {
			was := s.now
			s.now = now
			s.put(e, 0)
			s.now = was
		})
	}
}

func (s *sim) takeSome() {
	s.t.Helper()
	s.now += []int64{0, 100, 1000, 60_000, hourMs, 30 * hourMs}[s.r.IntN(6)]
	most := 1 + s.r.IntN(30)
	s.failReads()
	got, more, err := s.lane.Take(s.now, most, nil)
	s.healReads()
	s.judge(got, most, more, err)
	s.tell(func(s *store) { s.delivered(got) })
}

// judge holds what was taken against what is due.
func (s *sim) judge(got []timerlog.Entry, most int, more bool, err error) {
	s.t.Helper()
	want := s.due()
	if len(got) > most || len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
		s.t.Fatalf("took %v, due is %v", keys(got), keys(want[:min(len(want), most)]))
	}
	switch {
	case err != nil && !errors.Is(err, errRead):
		s.t.Fatal(err)
	case err == nil && !more && len(got) < len(want):
		s.t.Fatalf("took %d and said that this is all; %d are due, the next is %v", len(got), len(want), want[len(got)])
	}
}

// lookUp asks for one message, for all, and for when to come again.
func (s *sim) lookUp() {
	s.t.Helper()
	if e, ok := s.pick(); ok {
		got, ok, err := s.find(e.Key)
		if got != e || !ok || err != nil {
			s.t.Fatalf("find %v: %+v, %t, %v; want %+v", e.Key, got, ok, err, e)
		}
		next, ok, err := s.lane.Next()
		if first := firstOf(s.store); !ok || err != nil || next > first {
			s.t.Fatalf("next %d, %t, %v; the first is due at %d", next, ok, err, first)
		}
	}
	s.check()
}

// job begins, does or ends a job.
func (s *sim) job() {
	s.t.Helper()
	switch {
	case s.flush == nil && s.compaction == nil && s.point == nil:
		s.ran, s.placed = false, false
		if s.flush = s.lane.NewFlush(); s.flush != nil && s.r.IntN(4) > 0 {
			return
		}
		if s.flush = nil; s.r.IntN(3) == 0 {
			s.point, s.pointAt = s.freeze(), len(s.journal)
			return
		}
		s.compaction = s.lane.NewCompaction()
	case !s.ran:
		s.failReads()
		err := s.runJob()
		s.healReads()
		if err != nil && !errors.Is(err, errRead) {
			s.t.Fatal(err)
		}
		s.ran = err == nil
	case s.flush != nil:
		if s.lane.InstallFlush(s.flush) {
			s.flush = nil
		}
	case s.compaction != nil:
		s.lane.InstallCompaction(s.compaction)
		s.compaction = nil
	case !s.placed:
		if err := s.place(s.point); err != nil {
			s.t.Fatal(err)
		}
		s.placed = true
	default:
		s.install(s.point)
		s.last, s.journal = s.point.saved, s.journal[s.pointAt:]
		s.point = nil
	}
}

func (s *sim) runJob() error {
	switch {
	case s.flush != nil:
		return s.flush.Run()
	case s.compaction != nil:
		return s.compaction.Run()
	}
	return s.write(s.point)
}

// crash restarts from the last checkpoint, and lets the fold hear the rest again.
func (s *sim) crash() {
	s.t.Helper()
	from, disk := s.last, s.disk
	if s.point != nil && s.ran {
		from, s.journal = s.point.saved, s.journal[s.pointAt:]
		s.last = from
	}
	policies := crashfs.Policies()
	if n := s.r.IntN(len(policies) + 1); n < len(policies) {
		disk = disk.Crash(s.r, policies[n])
	} else {
		disk = disk.Kill()
	}
	want := s.waiting
	s.flush, s.compaction, s.point = nil, nil, nil
	s.restart(disk, from)
	s.lane.Wait = func() error { s.store.flush(); return nil }
	for _, fn := range s.journal {
		fn(s.store)
	}
	s.lane.Wait = nil
	if len(s.waiting) != len(want) {
		s.t.Fatalf("after a restart %d wait, before it were %d", len(s.waiting), len(want))
	}
	s.check()
}

func (s *sim) failReads() {
	if !s.failing {
		return
	}
	breakReads(s.disk, func() bool {
		if s.r.IntN(10) == 0 {
			s.failed++
			return true
		}
		return false
	}, errRead)
}

func (s *sim) healReads() { breakReads(s.disk, nil, nil) }

// end takes all that ever falls due.
func (s *sim) finish() {
	s.t.Helper()
	s.check()
	for len(s.waiting) > 0 {
		s.now += 200 * hourMs
		s.takeAll()
	}
	s.check()
}

// TestSim drives lanes of all shapes by chance: puts, cancels, rolls, clock jumps, jobs that end late, reads that fail,
// checkpoints and crashes. Whatever a Take gives is held against a map.
func TestSim(t *testing.T) {
	const most = 1000
	steps := most
	if testing.Short() {
		steps = 300
	}
	for _, sh := range []shape{
		{levels: true, seats: 6, runs: 3, perRun: 3000},
		{rings: true, seats: 6, runs: 3, slots: 1 << 14, perRun: 3000},
		{rings: true, seats: 40, runs: 2, slots: 1 << 12, nearMs: 50 * hourMs, perRun: 1 << 20},
		{seats: 8, runs: 2, perRun: 3000},
	} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("levels=%t rings=%t seats=%d seed=%d", sh.levels, sh.rings, sh.seats, seed), func(t *testing.T) {
				s := newSim(t, sh, seed)
				s.failing = seed%2 == 1
				for i := 0; i < steps || i < most && s.failing && s.failed == 0; i++ {
					s.step()
				}
				s.finish()
				if s.failing && s.failed == 0 {
					t.Error("no read failed")
				}
			})
		}
	}
}
