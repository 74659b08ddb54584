package timer

import (
	"errors"
	"slices"
	"testing"

	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// fill puts n entries a second apart, and flushes when it has to.
func (s *store) fill(n int) {
	s.t.Helper()
	for i := range n {
		if s.lane.Room() == 0 {
			s.flush()
		}
		s.put(s.entry(s.now+int64(i+1)*1000), 0)
	}
}

// A flush writes what waits; what was delivered meanwhile it leaves out, late entries never.
func TestFlushLeavesOutDelivered(t *testing.T) {
	s := newStore(t, shape{seats: 6, runs: 4})
	s.frontier = key(begin+2500, 0)
	s.put(s.entry(begin+2000), 0) // late
	for i := range int64(6) {
		s.put(s.entry(begin+3000+i*1000), 0)
	}
	s.now = begin + 4000
	s.takeAll()
	f := s.lane.NewFlush()
	if err := f.Run(); err != nil {
		t.Fatal(err)
	}
	if len(f.groups) != 1 || f.groups[0].Count != 4 || f.groups[0].Min.Due != begin+2000 {
		t.Errorf("groups %+v: want the late one and three that wait", f.groups)
	}
	for !s.lane.InstallFlush(f) {
	}
	s.check()
}

// A flush of a memtable of which nothing waits any more writes nothing.
func TestFlushOfNothing(t *testing.T) {
	s := newStore(t, tiny)
	s.fill(5)
	s.now += 4000
	s.takeAll()
	s.flush()
	if s.lane.RunCount() != 0 || s.lane.Room() != 2*tiny.seats-1 {
		t.Errorf("%d runs, room for %d", s.lane.RunCount(), s.lane.Room())
	}
	s.check()
}

// Jobs that fail change nothing and may be done again.
func TestJobsFail(t *testing.T) {
	s := newStore(t, shape{rings: true, seats: 4, runs: 1, slots: 1 << 14})
	for s.lane.RunCount() < 2 {
		if s.lane.Room() == 0 {
			s.flush()
		}
		s.put(late(begin-int64(s.nextID), s.nextID), 0)
		s.nextID++
	}
	for s.lane.Room() > 0 {
		s.put(s.entry(s.now+int64(s.nextID)), 0)
	}
	no := errors.New("no")
	fail := func(fails bool) {
		s.disk.SetInject(func(op crashfs.Op) error {
			if fails && (op.Kind == crashfs.Write || op.Kind == crashfs.Create) {
				return no
			}
			return nil
		})
	}
	for name, run := range map[string]func() (run func() error, install func()){
		"flush": func() (func() error, func()) {
			f := s.lane.NewFlush()
			return f.Run, func() { s.lane.InstallFlush(f) }
		},
		"compaction": func() (func() error, func()) {
			c := s.lane.NewCompaction()
			return c.Run, func() { s.lane.InstallCompaction(c) }
		},
		"spill": func() (func() error, func()) {
			sp := s.lane.NewSpill()
			return sp.Run, func() { s.lane.InstallSpill(sp) }
		},
	} {
		do, install := run()
		fail(true)
		if err := do(); !errors.Is(err, no) {
			t.Fatalf("%s on a broken disk: %v", name, err)
		}
		fail(false)
		s.check()
		if err := do(); err != nil {
			t.Fatalf("%s, again: %v", name, err)
		}
		s.check()
		install()
		s.check()
	}
}

// A compaction that cannot read is repeated from its begin: nothing is left out, nothing comes twice.
func TestCompactionReadErrors(t *testing.T) {
	s := newStore(t, shape{seats: 300, runs: 3})
	r := newRand(9)
	for s.lane.RunCount() < 4 {
		if s.lane.Room() == 0 {
			s.flush()
		}
		s.put(s.entry(s.now+r.Int64N(100_000)), 0)
	}
	s.now += 20_000
	for range 10 {
		if _, _, err := s.take(7); err != nil { // the sources stand in the middle
			t.Fatal(err)
		}
	}
	c := s.lane.NewCompaction()
	failed := 0
	for {
		breakReads(s.disk, func() bool { return r.IntN(8) == 0 }, errRead)
		err := c.Run()
		breakReads(s.disk, nil, nil)
		if err == nil {
			break
		}
		if failed++; !errors.Is(err, errRead) || failed > 10_000 {
			t.Fatal(err)
		}
		if _, _, err := s.take(1); err != nil {
			t.Fatal(err)
		}
	}
	if failed == 0 {
		t.Error("nothing failed")
	}
	s.lane.InstallCompaction(c)
	if s.lane.RunCount() != 1 {
		t.Errorf("%d runs", s.lane.RunCount())
	}
	s.check()
	s.now += 100_000
	s.takeAll()
	s.check()
}

// Groups of a compacted run are no longer than a memtable, and stand in order.
func TestCompactionGroups(t *testing.T) {
	s := newStore(t, shape{seats: 10, runs: 3})
	r := newRand(10)
	for s.lane.RunCount() < 5 {
		if s.lane.Room() == 0 {
			s.flush()
		}
		s.put(s.entry(s.now+r.Int64N(100_000)), 0)
	}
	s.compact()
	run := s.lane.tables[0].runs[0].run
	if len(run) != 5 {
		t.Errorf("%d groups", len(run))
	}
	for i, ref := range run {
		if ref.Count > 10 || i > 0 && !run[i-1].Max.Less(ref.Min) {
			t.Errorf("group %d: %+v", i, ref)
		}
	}
	s.check()
	if s.lane.NewCompaction() != nil {
		t.Error("one run is compacted")
	}
}

// Of two copies of a message the compaction keeps the one that a roll wrote.
func TestCompactionKeepsCopy(t *testing.T) {
	s := newStore(t, shape{seats: 3, runs: 1})
	es := []timerlog.Entry{s.entry(s.now + 1000), s.entry(s.now + 2000), s.entry(s.now + 3000)}
	for _, e := range es {
		s.put(e, 0)
	}
	for _, e := range es {
		e.Position += 1_000_000
		s.put(e, 0)
	}
	s.flush() // the old ones
	s.fill(1)
	s.flush() // the copies
	s.compact()
	if n := s.lane.tables[0].runs[0].run[0].Count; n != 3 {
		t.Errorf("%d entries", n)
	}
	s.check()
}

// While a job runs, the lane goes on; what the job read leaves with its install, not before.
func TestLaneGoesOnBesideJobs(t *testing.T) {
	for _, sh := range []shape{{seats: 8, runs: 2}, {rings: true, seats: 8, runs: 2, slots: 1 << 14}} {
		s := newStore(t, sh)
		r := newRand(11)
		var flush *Flush
		var compaction *Compaction
		ran := false
		for range 3000 {
			switch n := r.IntN(10); {
			case n < 4 && s.lane.Room() > 0:
				s.put(s.entry(s.now+r.Int64N(30_000)), 0)
			case n < 5 && len(s.waiting) > 0:
				for k := range s.waiting {
					s.gone(k)
					break
				}
			case n < 7:
				s.now += r.Int64N(1000)
				if _, _, err := s.take(1 + r.IntN(5)); err != nil {
					t.Fatal(err)
				}
			case flush == nil && compaction == nil:
				ran = false
				if flush = s.lane.NewFlush(); flush == nil {
					compaction = s.lane.NewCompaction()
				}
			case !ran:
				var err error
				if flush != nil {
					err = flush.Run()
				} else {
					err = compaction.Run()
				}
				if ran = true; err != nil {
					t.Fatal(err)
				}
			case flush != nil:
				if s.lane.InstallFlush(flush) {
					flush = nil
				}
			default:
				s.lane.InstallCompaction(compaction)
				compaction = nil
			}
		}
		s.check()
		s.now += 1 << 30
		s.takeAll()
		s.check()
	}
}

// A checkpoint saves what no group has; a restart from it finds what waited then, wherever it lay.
func TestSpillAndLoad(t *testing.T) {
	for _, sh := range []shape{
		{seats: 8, runs: 2}, {levels: true, seats: 8, runs: 2}, {rings: true, seats: 8, runs: 2, slots: 1 << 14, perRun: 4096},
	} {
		s := newStore(t, sh)
		r := newRand(12)
		for round := range 30 {
			for i := range r.IntN(30) {
				if s.lane.Room() == 0 {
					s.flush()
				}
				if s.lane.NewCompaction() != nil {
					s.compact()
				}
				if sh.levels && i%2 == 0 {
					s.put(s.entry(s.now+1000), 1000)
				} else {
					s.put(s.entry(s.now+r.Int64N(100_000)), 0)
				}
			}
			for k, e := range s.waiting {
				switch r.IntN(12) {
				case 0:
					s.gone(k)
				case 1:
					if s.lane.Room() > 0 { // a roll
						e.Position, s.end = s.end, s.end+100
						s.put(e, 0)
					}
				}
			}
			s.now += r.Int64N(5000)
			if _, _, err := s.take(r.IntN(40)); err != nil {
				t.Fatal(err)
			}
			from := s.checkpoint()
			s.check()
			if round%3 == 0 {
				s.fill(r.IntN(12)) // nobody saved these
				s.restart(s.disk.Crash(newRand(uint64(round)), crashfs.Policy{}), from)
				s.check()
				s.now += 2000
				s.takeAll()
				s.check()
			}
		}
		s.now += 1 << 30
		s.takeAll()
		s.check()
	}
}

// A spill does not write again what an older one has.
func TestSpillsAddUp(t *testing.T) {
	s := newStore(t, shape{seats: 100, runs: 2})
	for round := range 5 {
		s.fill(10)
		p := s.freeze()
		if err := s.write(p); err != nil {
			t.Fatal(err)
		}
		st := p.spill.State()
		if n := len(st.Tables[0].Spills); n != round+1 {
			t.Errorf("round %d: %d spills", round, n)
		}
		for _, ref := range st.Tables[0].Spills {
			if ref.Count != 10 {
				t.Errorf("round %d: a spill of %d", round, ref.Count)
			}
		}
		s.install(p)
	}
	p := s.freeze()
	if err := s.write(p); err != nil || len(p.spill.State().Tables[0].Spills) != 5 {
		t.Errorf("nothing was put: %v, %+v", err, p.spill.State())
	}
	s.install(p)
	from := p.saved
	s.restart(s.disk.Kill(), from)
	if m := s.lane.tables[0].active; m.n != 50 || m.held != 50 || m.spilled != m.length {
		t.Errorf("loaded: %d entries, %d held, %d of %d spilled", m.n, m.held, m.spilled, m.length)
	}
	s.check()
}

// A spill that was not installed is not lost: what it took is in it, and it is written again.
func TestSpillIsRepeated(t *testing.T) {
	s := newStore(t, shape{seats: 100, runs: 2})
	s.fill(10)
	p := s.freeze()
	s.disk.SetInject(func(op crashfs.Op) error {
		if op.Kind == crashfs.Write {
			return errRead
		}
		return nil
	})
	if err := s.write(p); !errors.Is(err, errRead) {
		t.Fatal(err)
	}
	s.disk.SetInject(nil)
	s.fill(5)
	if err := s.write(p); err != nil {
		t.Fatal(err)
	}
	s.install(p)
	s.restart(s.disk.Kill(), p.saved)
	if n := s.lane.InMemory(); n != 10 {
		t.Errorf("%d entries, want the 10 of the picture", n)
	}
	s.check()
}

// Files go when neither the checkpoint nor the lane needs them.
func TestGarbage(t *testing.T) {
	for _, sh := range []shape{
		{seats: 8, runs: 2, perRun: 600}, {rings: true, seats: 8, runs: 2, slots: 1 << 14, perRun: 600},
	} {
		s := newStore(t, sh)
		var most int
		for range 40 {
			s.fill(20)
			if s.lane.NewCompaction() != nil {
				s.compact()
			}
			s.now += 10_000
			s.takeAll()
			from := s.checkpoint()
			n := 0
			for _, l := range s.logs {
				n += len(l.State().Files)
			}
			most = max(most, n)
			s.restart(s.disk.Kill(), from)
			s.check()
		}
		if most > 40 {
			t.Errorf("%+v: %d files at a time", sh, most)
		}
	}
}

func TestState(t *testing.T) {
	s := newStore(t, shape{rings: true, seats: 4, runs: 3, slots: 1 << 14})
	r := newRand(13)
	for range 40 {
		if s.lane.Room() == 0 {
			s.flush()
		}
		s.put(s.entry(s.now+r.Int64N(9*hourMs)), 0)
		s.put(late(s.now-r.Int64N(1000), s.nextID), 0)
		s.nextID++
	}
	b := s.checkpoint().lane
	st, rest, err := DecodeState(append(slices.Clone(b), 1, 2, 3))
	if err != nil || !slices.Equal(rest, []byte{1, 2, 3}) {
		t.Fatalf("%v, rest %x", err, rest)
	}
	if got := st.Append(nil); !slices.Equal(got, b) {
		t.Errorf("decoded and encoded again:\n%x\n%x", got, b)
	}
	if len(st.Tables) != 3 || len(st.Tables[0].Runs) == 0 || len(st.Tables[1].Ends) == 0 || len(st.Tables[2].Ends) == 0 {
		t.Errorf("state %+v", st)
	}
	for i := range b {
		if _, _, err := DecodeState(b[:i]); err == nil {
			t.Errorf("the first %d bytes of %d are taken for a state", i, len(b))
		}
	}
	other := newStore(t, shape{seats: 4, runs: 3})
	if err := other.lane.Load(st); err == nil {
		t.Error("a lane without rings took the state of one with rings")
	}
}

func FuzzDecodeState(f *testing.F) {
	s := newStore(f, shape{rings: true, seats: 4, runs: 3, slots: 1 << 14})
	s.fill(40)
	f.Add(s.checkpoint().lane)
	f.Add(State{}.Append(nil))
	f.Add([]byte{1, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		st, rest, err := DecodeState(b)
		if err != nil {
			return
		}
		again, left, err := DecodeState(st.Append(nil))
		if err != nil || len(left) > 0 || !slices.Equal(again.Append(nil), st.Append(nil)) {
			t.Errorf("encoded and decoded again: %v, %d bytes are left of %d", err, len(left), len(rest))
		}
	})
}
