package timer

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// tiny is a lane whose memtables hold four entries; rings and levels are both left out.
var tiny = shape{seats: 4, runs: 4}

func TestTakeInOrder(t *testing.T) {
	s := newStore(t, shape{levels: true, seats: 8, runs: 4})
	for i, delay := range []int64{5000, 1000, 1000, 0, 5000, 0, 1000} {
		due := s.now + delay
		if delay == 0 {
			due = s.now + 1000 + int64(i)%3*1000
		}
		s.put(s.entry(due), delay)
	}
	if next, ok, err := s.lane.Next(); next != s.now+1000 || !ok || err != nil {
		t.Errorf("next %d, %t, %v", next, ok, err)
	}
	if n, more, err := s.take(10); n != 0 || more || err != nil {
		t.Errorf("before the time: %d, %t, %v", n, more, err)
	}
	s.now += 1000
	if n, more, err := s.take(2); n != 2 || !more || err != nil {
		t.Errorf("the first two: %d, %t, %v", n, more, err)
	}
	s.now += 10_000
	if n, more, err := s.take(10); n != 5 || more || err != nil {
		t.Errorf("the rest: %d, %t, %v", n, more, err)
	}
	if next, ok, err := s.lane.Next(); ok || err != nil {
		t.Errorf("next of an empty lane: %d, %t, %v", next, ok, err)
	}
	// A schedule queue that was read to its end goes on with what is appended.
	s.put(s.entry(s.now+1000), 1000)
	s.now += 1000
	if n, _, err := s.take(10); n != 1 || err != nil {
		t.Errorf("after the end: %d, %v", n, err)
	}
}

// A late entry comes in its turn by due time, which lies behind the frontier, and does not move that.
func TestTakeLate(t *testing.T) {
	s := newStore(t, shape{rings: true, seats: 8, runs: 4, slots: 1 << 14})
	s.put(s.entry(s.now+2000), 0)
	s.now += 2000
	s.takeAll()
	frontier := s.frontier
	e := s.entry(s.now - 500)
	if !e.Late() {
		t.Fatal("not late")
	}
	s.put(e, 0)
	s.put(s.entry(s.now+1), 0)
	s.now++
	if n, _, err := s.take(1); n != 1 || err != nil || s.frontier != frontier {
		t.Errorf("%d taken, %v, frontier %v", n, err, s.frontier)
	}
	s.takeAll()
	s.check()
}

// Dead entries are passed over, but not more of them in one call than stop nobody else.
func TestTakePassesDead(t *testing.T) {
	s := newStore(t, shape{levels: true, seats: 8, runs: 4})
	const dead = 2*deadPerTake + 10
	for range dead {
		e := s.entry(s.now + 1000)
		s.put(e, 1000)
		delete(s.waiting, e.Key) // cancelled: the queue keeps it
	}
	s.put(s.entry(s.now+1000), 1000)
	s.now += 1000
	for i := range 2 {
		if n, more, err := s.take(10); n != 0 || !more || err != nil {
			t.Fatalf("call %d: %d, %t, %v", i, n, more, err)
		}
	}
	if n, more, err := s.take(10); n != 1 || more || err != nil {
		t.Errorf("last call: %d, %t, %v", n, more, err)
	}
	// Exactly so many dead ones, then nothing: it need not be called again.
	for range deadPerTake - 1 {
		e := s.entry(s.now + 1000)
		s.put(e, 1000)
		delete(s.waiting, e.Key)
	}
	s.now += 1000
	if n, more, err := s.take(10); n != 0 || more || err != nil {
		t.Errorf("all dead: %d, %t, %v", n, more, err)
	}
}

// What the fold cannot say stops a Take; what was taken before stands, and the next one goes on.
func TestTakeWhenTheFoldFails(t *testing.T) {
	s := newStore(t, tiny)
	for i := range int64(3) {
		s.put(s.entry(s.now+i), 0)
	}
	s.now += 10
	alive := s.lane.cfg.Alive
	asked := 0
	s.lane.cfg.Alive = func(e *timerlog.Entry) (bool, error) {
		if asked++; asked == 2 {
			return false, errRead
		}
		return alive(e)
	}
	if n, more, err := s.take(10); n != 1 || more || !errors.Is(err, errRead) {
		t.Errorf("%d, %t, %v", n, more, err)
	}
	if n, more, err := s.take(10); n != 2 || more || err != nil {
		t.Errorf("then: %d, %t, %v", n, more, err)
	}
}

// Two sources hold the same entry while the groups of a flush are linked, or after a roll: it comes once.
func TestEqualKeys(t *testing.T) {
	s := newStore(t, tiny)
	var es []timerlog.Entry
	for i := range int64(4) {
		es = append(es, s.entry(s.now+i))
		s.put(es[i], 0)
	}
	s.put(s.entry(s.now+100), 0) // freezes the four
	f := s.lane.NewFlush()
	if err := f.Run(); err != nil {
		t.Fatal(err)
	}
	// The run is there and the frozen memtable too.
	l := s.lane.tables[0]
	l.runs = append(l.runs, &runSource{log: l.log, run: slices.Clone(f.groups)})
	s.lane.stale = true
	s.now += 3
	for _, most := range []int{1, 2, 10} {
		if _, _, err := s.take(most); err != nil {
			t.Fatal(err)
		}
	}
	if s.frontier != es[3].Key {
		t.Errorf("frontier %v", s.frontier)
	}
	s.check()

	// A roll's copy has the key of the older one, which is stale: the memtable has one, a run the other.
	s = newStore(t, tiny)
	old := s.entry(s.now + 1000)
	s.put(old, 0)
	for range 4 {
		s.put(s.entry(s.now+2000), 0)
	}
	s.flush()
	copied := old
	copied.Position, s.end = s.end, s.end+100
	s.put(copied, 0)
	s.check()
	if e, ok, err := s.find(old.Key); !ok || err != nil || e != copied {
		t.Errorf("found %+v, %t, %v", e, ok, err)
	}
	s.now += 1000
	if n, _, err := s.take(10); n != 1 || err != nil {
		t.Errorf("took %d, %v", n, err)
	}
	s.check()
}

// Room says how much can be put before a flush has to end; one batch may go beyond.
func TestRoom(t *testing.T) {
	s := newStore(t, tiny)
	room := func(want int) {
		t.Helper()
		if got := s.lane.Room(); got != want {
			t.Errorf("room for %d, want %d", got, want)
		}
	}
	room(8)
	for range 4 {
		s.put(s.entry(s.now+1000), 0)
	}
	room(4)
	s.put(s.entry(s.now+1000), 0)
	room(3)
	for range 3 {
		s.put(s.entry(s.now+1000), 0)
	}
	room(0)
	s.put(s.entry(s.now+1000), 0) // beyond
	room(0)
	s.check()
	s.flush()
	room(4)
	if s.lane.NewFlush() != nil {
		t.Error("there is nothing to flush")
	}
	s.put(s.entry(s.now+1000), 0)
	room(3)
	s.check()

	// In a replay nobody can be asked to come again: the lane calls Wait.
	s = newStore(t, tiny)
	waits := 0
	s.lane.Wait = func() error {
		waits++
		s.flush()
		return nil
	}
	for range 20 {
		s.put(s.entry(s.now+1000), 0)
	}
	if waits != 3 {
		t.Errorf("waited %d times", waits)
	}
	s.check()
	s.lane.Wait = func() error { return errRead }
	if err := s.lane.Put(s.entry(s.now+1000), 0, s.now); !errors.Is(err, errRead) {
		t.Errorf("a flush that fails: %v", err)
	}
}

// Entries that come and go fill no memtable, but what the next checkpoint has to save: it is bounded.
func TestUnspilledIsBounded(t *testing.T) {
	s := newStore(t, tiny)
	most := 0
	for range 1000 {
		e := s.entry(s.now + 1000)
		s.put(e, 0)
		s.gone(e.Key)
		most = max(most, s.lane.tables[0].active.length)
		if s.lane.frozenTable() != nil {
			s.flush()
		}
	}
	if limit := 2*tiny.seats + slack + 1; most > limit {
		t.Errorf("%d entries are to be saved, at most %d should", most, limit)
	}
	s.check()
}

// So are the spills of a memtable that never fills: then it is flushed as it is.
func TestSpillsAreBounded(t *testing.T) {
	s := newStore(t, tiny)
	most := 0
	for range 200 {
		for range 3 {
			e := s.entry(s.now + 1000)
			s.put(e, 0)
			s.gone(e.Key)
		}
		if s.lane.frozenTable() != nil {
			s.flush()
		}
		st, _, err := DecodeState(s.checkpoint().lane)
		if err != nil {
			t.Fatal(err)
		}
		held := 0
		for _, ref := range st.Tables[0].Spills {
			held += ref.Count
		}
		most = max(most, held)
	}
	if limit := 2*tiny.seats + slack + 3; most > limit {
		t.Errorf("a checkpoint refers to %d entries in spills, at most %d should be", most, limit)
	}
	s.check()
}

// Entries of a ring's lane go where they fit: near ones to seconds, far ones to hours, late ones and those a lap ahead to
// the loose memtable.
func TestRingOf(t *testing.T) {
	const day = 24 * hourMs
	for _, c := range []struct {
		name string
		near int64
		ahead,
		slots int64
		want uint8
	}{
		{"now", 0, 0, 1 << 14, timerlog.RingSeconds},
		{"within the hour after this one", 0, hourMs, 1 << 14, timerlog.RingSeconds},
		{"beyond it", 0, 2 * hourMs, 1 << 14, timerlog.RingHours},
		{"within near", 7 * day, 7*day - 1, 2 * 604800, timerlog.RingSeconds},
		{"beyond near", 7 * day, 7 * day, 2 * 604800, timerlog.RingHours},
		{"beyond the ring of seconds", 7 * day, 5 * hourMs, 1 << 14, timerlog.RingHours},
		{"the last second of the ring", 7 * day, 16383_000, 1 << 14, timerlog.RingSeconds},
		{"a lap of seconds ahead", 7 * day, 16384_000, 1 << 14, timerlog.RingHours},
		{"the last hour of the ring", 0, 4095 * hourMs, 1 << 14, timerlog.RingHours},
		{"a lap of hours ahead", 0, 4096 * hourMs, 1 << 14, timerlog.RingLoose},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStore(t, shape{rings: true, seats: 4, runs: 4, slots: int(c.slots), nearMs: c.near})
			s.now = begin / hourMs * hourMs
			s.frontier = key(s.now, 0)
			e := s.entry(s.now + c.ahead)
			if got := s.lane.tableFor(&e, s.now); got.kind != c.want {
				t.Errorf("goes to ring %d, want %d", got.kind, c.want)
			}
			l := late(s.now+c.ahead, 99)
			if got := s.lane.tableFor(&l, s.now); got.kind != timerlog.RingLoose {
				t.Errorf("a late one goes to ring %d", got.kind)
			}
		})
	}
}

// A ring gives its entries second by second, whether they are in memory or in groups, of one flush or several.
func TestRingsFire(t *testing.T) {
	s := newStore(t, shape{rings: true, seats: 4, runs: 4, slots: 1 << 14})
	r := newRand(5)
	for range 100 {
		if s.lane.Room() == 0 {
			s.flush()
		}
		s.put(s.entry(s.now+r.Int64N(20_000)), 0)
	}
	for range 60 {
		if s.lane.Room() == 0 {
			s.flush()
		}
		s.put(s.entry(s.now+3*hourMs+r.Int64N(2*hourMs)), 0)
	}
	s.check()
	for len(s.waiting) > 0 {
		next, ok, err := s.lane.Next()
		first := firstOf(s)
		if err != nil || !ok || next > first {
			t.Fatalf("next %d, %t, %v; the first is due at %d", next, ok, err, first)
		}
		s.now = max(next, s.now) // as a caller that sleeps until then
		if _, _, err := s.take(7); err != nil {
			t.Fatal(err)
		}
	}
	s.check()
	if n := s.lane.InMemory(); n != 0 {
		t.Errorf("%d entries are in memory", n)
	}
}

// firstOf is when the first waiting message is due.
func firstOf(s *store) int64 {
	first := int64(1 << 62)
	for k := range s.waiting {
		first = min(first, k.Due)
	}
	return first
}

// After a long stop a ring is opened slot by slot: what is due comes in order, and not all groups are open at once.
func TestRingsAfterLongStop(t *testing.T) {
	s := newStore(t, shape{rings: true, seats: 16, runs: 4, slots: 1 << 14})
	r := newRand(6)
	for range 400 {
		if s.lane.Room() == 0 {
			s.flush()
		}
		s.put(s.entry(s.now+r.Int64N(10*hourMs)), 0)
	}
	s.now += 11 * hourMs
	open := 0
	for len(s.waiting) > 0 {
		if _, _, err := s.take(5); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, tb := range s.lane.tables[1:] {
			tb.prune()
			n += len(tb.ring.open)
		}
		open = max(open, n)
	}
	if open > 60 {
		t.Errorf("%d groups were open at once", open)
	}
	s.check()
}

// A scan finds a message wherever it lies, and the copy of it that is alive.
func TestFind(t *testing.T) {
	for _, sh := range []shape{
		{levels: true, seats: 4, runs: 4}, {rings: true, seats: 4, runs: 4, slots: 1 << 14}, {seats: 4, runs: 2},
	} {
		t.Run(fmt.Sprintf("levels=%t rings=%t", sh.levels, sh.rings), func(t *testing.T) {
			s := newStore(t, sh)
			r := newRand(7)
			for i := range 60 {
				if s.lane.Room() == 0 {
					s.flush()
				}
				delay := int64(0)
				due := s.now + r.Int64N(5*hourMs)
				if sh.levels && i%2 == 0 {
					delay, due = 1000, s.now+1000
				}
				s.put(s.entry(due), delay)
				if i%7 == 0 {
					s.now++
				}
				if c := s.lane.NewCompaction(); c != nil && i > 40 {
					s.compact()
				}
			}
			findAll := func() {
				t.Helper()
				for k, want := range s.waiting {
					if e, ok, err := s.find(k); e != want || !ok || err != nil {
						t.Errorf("find %v: %+v, %t, %v", k, e, ok, err)
					}
				}
			}
			findAll()
			// A roll writes copies at the end of the log, all of them loose or in rings.
			for k, e := range s.waiting {
				if k.ID%3 == 0 {
					if s.lane.Room() == 0 {
						s.flush()
					}
					e.Position, s.end = s.end, s.end+100
					s.put(e, 0)
				}
			}
			findAll()
			s.check()
			var some timerlog.Key
			for some = range s.waiting {
				break
			}
			s.gone(some)
			for _, k := range []timerlog.Key{some, key(some.Due, some.ID+1000), key(some.Due+1, some.ID), key(1, 1)} {
				if e, ok, err := s.find(k); ok || err != nil {
					t.Errorf("find %v, which does not wait: %+v, %v", k, e, err)
				}
			}
			s.now += hourMs
			s.takeAll()
			findAll()
		})
	}
}

// A scan reads a picture from a key on, while the lane goes on.
func TestScan(t *testing.T) {
	s := newStore(t, shape{rings: true, seats: 16, runs: 4, slots: 1 << 14})
	r := newRand(8)
	for range 100 {
		if s.lane.Room() == 0 {
			s.flush()
		}
		s.put(s.entry(s.now+r.Int64N(6*hourMs)), 0)
	}
	if s.lane.Room() < 10 {
		s.flush()
	}
	for i := range int64(5) { // in both rings' memtables
		s.put(s.entry(s.now+i), 0)
		s.put(s.entry(s.now+5*hourMs+i), 0)
	}
	s.now += 1 << 40
	want := keys(s.due())
	s.now -= 1 << 40
	for _, most := range []int{1, 3, 1000} {
		var got []timerlog.Key
		after, rounds := key(0, 0), 0
		for {
			scan := s.lane.NewScan(after, most)
			for {
				e, ok, err := scan.Next()
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				got = append(got, e.Key)
			}
			scan.Close()
			rounds++
			limit, ok := scan.Limited()
			if !ok {
				break
			}
			after = limit
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d at a time: %d entries, want %d", most, len(got), len(want))
		}
		if limited := rounds > 1; limited != (most == 1) && most != 3 {
			t.Errorf("%d at a time: %d rounds", most, rounds)
		}
	}
	// The picture stays as it was.
	scan := s.lane.NewScan(want[9], 1000)
	for _, k := range want[20:] {
		s.gone(k)
	}
	s.put(s.entry(s.now+5), 0)
	for i := range want[10:] {
		if e, ok, err := scan.Next(); !ok || err != nil || e.Key != want[10+i] {
			t.Fatalf("entry %d: %v, %t, %v", i, e.Key, ok, err)
		}
	}
	if _, ok, err := scan.Next(); ok || err != nil {
		t.Errorf("at the end: %t, %v", ok, err)
	}
	scan.Close()
	s.check()
}

// A run that is read half may have lost the files of its first groups: who scans it does not need them.
func TestScanOfHalfReadRun(t *testing.T) {
	s := newStore(t, shape{seats: 4, runs: 1, perRun: 400}) // a file a group
	s.fill(24)
	s.flush()
	s.compact()
	if n := len(s.lane.tables[0].runs[0].run); n != 5 {
		t.Fatalf("%d groups", n)
	}
	s.now += 9000
	s.takeAll()
	s.checkpoint()
	if run := s.lane.tables[0].runs[0]; s.logs[0].Verify(run.run) == nil || s.logs[0].Verify(run.left()) != nil {
		t.Fatal("no file of a group that was read is gone")
	}
	s.check()
	for k, want := range s.waiting {
		if e, ok, err := s.find(k); e != want || !ok || err != nil {
			t.Errorf("find %v: %+v, %t, %v", k, e, ok, err)
		}
	}
}

func TestPassed(t *testing.T) {
	s := newStore(t, shape{levels: true, seats: 4, runs: 4})
	for range 10 {
		s.put(s.entry(s.now+1000), 1000)
		s.put(s.entry(s.now+5000), 5000)
	}
	s.now += 1000
	if n, _, err := s.take(7); n != 7 || err != nil {
		t.Fatal(n, err)
	}
	if got := s.lane.Passed(); got[1000] != 7 || got[5000] != 0 || len(got) != 2 {
		t.Errorf("passed %v", got)
	}
	if n := s.lane.RunCount(); n != 0 {
		t.Errorf("%d runs", n)
	}
}
