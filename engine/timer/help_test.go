package timer

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/schedule"
	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/engine/timerwheel"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// begin is the wall clock at which tests begin, ms.
const begin = 1_800_000_000_000

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func key(due int64, id uint64) timerlog.Key { return timerlog.Key{Due: due, ID: id} }

// at is an entry whose position follows from its id.
func at(due int64, id uint64) timerlog.Entry {
	return timerlog.Entry{Key: key(due, id), Position: commitlog.Offset(id * 100), Size: 100, Topic: 1}
}

// late is at with the flag.
func late(due int64, id uint64) timerlog.Entry {
	e := at(due, id)
	e.Flags = timerlog.EntryFlags(true, 0, 0)
	return e
}

func keys(es []timerlog.Entry) (ks []timerlog.Key) {
	for _, e := range es {
		ks = append(ks, e.Key)
	}
	return ks
}

// shape is how a lane under test is built.
type shape struct {
	levels bool // the levels' lane: schedule queues and no rings
	rings  bool // a lane of arbitrary times: seconds and hours
	seats  int  // capacity of each memtable
	runs   int
	slots  int // of the seconds ring
	nearMs int64
	perRun int64 // bytes of a TimerLog file
}

// store is a lane on a disk, with a fold that is as plain as can be: what waits is in a map.
type store struct {
	t     testing.TB
	shape shape
	disk  *crashfs.FS

	lane   *Lane
	queues *schedule.Set
	logs   []*timerlog.Log // by table
	wheels []*timerwheel.Wheel

	// The fold.
	waiting  map[timerlog.Key]timerlog.Entry
	frontier timerlog.Key
	nextID   uint64
	end      commitlog.Offset
	tails    map[int64]int64 // by delay

	now int64
}

// saved is what a checkpoint remembers.
type saved struct {
	waiting  map[timerlog.Key]timerlog.Entry
	frontier timerlog.Key
	lane     []byte
	queues   []byte
	tables   [][]int
	pages    [][]byte
}

func newStore(t testing.TB, sh shape) *store {
	s := &store{
		t: t, shape: sh, disk: crashfs.New(crashfs.Options{}), now: begin, nextID: 1, end: 1000,
		waiting: map[timerlog.Key]timerlog.Entry{}, tails: map[int64]int64{}, frontier: key(begin, 0),
	}
	s.open(saved{})
	t.Cleanup(func() { s.close() })
	return s
}

func (s *store) close() {
	for _, l := range s.logs {
		if err := l.Close(); err != nil {
			s.t.Errorf("close: %v", err)
		}
	}
	if s.queues != nil {
		if err := s.queues.Close(); err != nil {
			s.t.Errorf("close: %v", err)
		}
	}
	s.logs, s.wheels, s.queues = nil, nil, nil
}

// open makes the lane, as a checkpoint knew it; the fold's state is set before.
func (s *store) open(from saved) {
	s.t.Helper()
	var st State
	if from.lane != nil {
		var rest []byte
		var err error
		if st, rest, err = DecodeState(from.lane); err != nil || len(rest) > 0 {
			s.t.Fatalf("decode state: %d bytes are left, %v", len(rest), err)
		}
	}
	table := func(kind uint8, family string) Table {
		var files timerlog.State
		if int(kind) < len(st.Tables) {
			files = st.Tables[kind].Files
		}
		l, err := timerlog.Open(s.disk, "timerlog", family, timerlog.Options{FileSize: s.shape.perRun}, files)
		if err != nil {
			s.t.Fatal(err)
		}
		s.logs = append(s.logs, l)
		return Table{Entries: s.shape.seats, Log: l}
	}
	ring := func(kind uint8, family string, p timerwheel.Params) *Ring {
		w, err := timerwheel.Open(s.disk, "timerwheel/"+family, p)
		if err != nil {
			s.t.Fatal(err)
		}
		if i := int(kind) - 1; from.tables != nil {
			pages, err := timerwheel.DecodePages(from.pages[i])
			if err == nil {
				err = w.Load(from.tables[i], pages)
			}
			if err != nil {
				s.t.Fatal(err)
			}
		}
		s.wheels = append(s.wheels, w)
		return &Ring{Table: table(kind, family), Wheel: w}
	}
	cfg := Config{
		Runs: s.shape.runs, NearMs: s.shape.nearMs, Loose: table(timerlog.RingLoose, "loose"),
		Alive:    func(e *timerlog.Entry) (bool, error) { return s.alive(e), nil },
		Frontier: func() timerlog.Key { return s.frontier },
	}
	if s.shape.levels {
		var states schedule.States
		var err error
		if from.queues != nil {
			if states, err = schedule.DecodeStates(from.queues); err != nil {
				s.t.Fatal(err)
			}
		}
		if s.queues, err = schedule.Open(s.disk, "schedule", schedule.Options{PerFile: 8}, states); err != nil {
			s.t.Fatal(err)
		}
		cfg.Queues = s.queues
	}
	if s.shape.rings {
		cfg.Seconds = ring(timerlog.RingSeconds, "seconds", timerwheel.Params{Slots: s.shape.slots, WidthMs: 1000})
		cfg.Hours = ring(timerlog.RingHours, "hours", timerwheel.Params{Slots: 4096, WidthMs: hourMs})
	}
	s.lane = New(cfg)
	if from.lane != nil {
		if err := s.lane.Verify(st); err != nil {
			s.t.Fatal(err)
		}
		if err := s.lane.Load(st); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *store) alive(e *timerlog.Entry) bool {
	w, ok := s.waiting[e.Key]
	return ok && w.Position == e.Position
}

// entry makes a new message that waits until a time.
func (s *store) entry(due int64) timerlog.Entry {
	e := timerlog.Entry{Key: key(due, s.nextID), Position: s.end, Size: 100, Topic: 1, Flags: timerlog.EntryFlags(false, 0, 0)}
	s.nextID, s.end = s.nextID+1, s.end+100
	if !s.frontier.Less(e.Key) {
		e.Flags = timerlog.EntryFlags(true, 0, 0)
	}
	return e
}

// put folds a message that waits; delay 0 is a time of its own.
func (s *store) put(e timerlog.Entry, delay int64) {
	s.t.Helper()
	if err := s.lane.Put(e, delay, s.now); err != nil {
		s.t.Fatal(err)
	}
	s.waiting[e.Key] = e
	if delay > 0 {
		s.tails[delay] = e.Due
	}
}

// gone folds that a message was cancelled or moved.
func (s *store) gone(k timerlog.Key) {
	delete(s.waiting, k)
	s.lane.Gone(k)
}

// delivered folds that messages became visible.
func (s *store) delivered(es []timerlog.Entry) {
	for _, e := range es {
		if !e.Late() {
			s.frontier = e.Key
		}
	}
	for _, e := range es {
		s.gone(e.Key)
	}
}

// due lists what waits and is due, in order.
func (s *store) due() (es []timerlog.Entry) {
	for _, e := range s.waiting {
		if e.Due <= s.now {
			es = append(es, e)
		}
	}
	slices.SortFunc(es, func(a, b timerlog.Entry) int { return a.Compare(b.Key) })
	return es
}

// take takes what is due, at most most, checks it and folds its delivery.
func (s *store) take(most int) (n int, more bool, err error) {
	s.t.Helper()
	got, more, err := s.lane.Take(s.now, most, nil)
	want := s.due()
	if len(got) > most || len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
		s.t.Fatalf("took %v, due is %v", keys(got), keys(want[:min(len(want), most)]))
	}
	if err == nil && !more && len(got) < len(want) {
		s.t.Fatalf("took %d and said that this is all; %d are due, the next is %v", len(got), len(want), want[len(got)])
	}
	s.delivered(got)
	return len(got), more, err
}

// takeAll takes all that is due.
func (s *store) takeAll() {
	s.t.Helper()
	for {
		if _, more, err := s.take(1000); err != nil {
			s.t.Fatal(err)
		} else if !more {
			return
		}
	}
}

// flush does the whole of a flush.
func (s *store) flush() {
	s.t.Helper()
	f := s.lane.NewFlush()
	if f == nil {
		s.t.Fatal("nothing is frozen")
	}
	if err := f.Run(); err != nil {
		s.t.Fatal(err)
	}
	for !s.lane.InstallFlush(f) {
	}
}

// compact does the whole of a compaction.
func (s *store) compact() {
	s.t.Helper()
	c := s.lane.NewCompaction()
	if c == nil {
		s.t.Fatal("nothing to compact")
	}
	if err := c.Run(); err != nil {
		s.t.Fatal(err)
	}
	s.lane.InstallCompaction(c)
}

// check compares everything that the lane holds with what waits.
func (s *store) check() {
	s.t.Helper()
	var got []timerlog.Entry
	err := s.lane.Each(func(e *timerlog.Entry) error {
		got = append(got, *e)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	now := s.now
	s.now = 1 << 62
	want := s.due()
	s.now = now
	if !slices.Equal(got, want) {
		s.t.Fatalf("the lane has %d entries %v, %d wait %v", len(got), keys(got), len(want), keys(want))
	}
}

// find reads the living entry with a key by a scan, as the engine does.
func (s *store) find(k timerlog.Key) (timerlog.Entry, bool, error) {
	scan := s.lane.NewScan(key(k.Due, k.ID-1), 2) // ids begin at 1
	defer scan.Close()
	for {
		e, ok, err := scan.Next()
		if err != nil || !ok || e.Key != k {
			return timerlog.Entry{}, false, err
		}
		if s.alive(&e) {
			return e, true, nil
		}
	}
}

// pending is a checkpoint that is being made.
type pending struct {
	saved
	spill  *Spill
	queues schedule.Marks
	pages  [][]timerwheel.Page
	states schedule.States
}

// freeze takes a checkpoint's picture.
func (s *store) freeze() *pending {
	p := &pending{spill: s.lane.NewSpill()}
	p.waiting, p.frontier = map[timerlog.Key]timerlog.Entry{}, s.frontier
	for k, e := range s.waiting {
		p.waiting[k] = e
	}
	if s.queues != nil {
		for delay, passed := range s.lane.Passed() {
			s.queues.Queue(delay).Trim(passed)
		}
		p.queues = s.queues.Mark()
	}
	for _, w := range s.wheels {
		p.pages = append(p.pages, w.Freeze())
		p.tables = append(p.tables, w.Table())
		p.saved.pages = append(p.saved.pages, timerwheel.AppendPages(nil, p.pages[len(p.pages)-1]))
	}
	return p
}

// write makes it durable: a restart begins with it from then on.
func (s *store) write(p *pending) (err error) {
	if s.queues != nil {
		if p.states, err = s.queues.Flush(p.queues, 0); err != nil {
			return err
		}
		p.saved.queues = p.states.Append(nil)
	}
	if err := p.spill.Run(); err != nil {
		return err
	}
	p.lane = p.spill.State().Append(nil)
	return nil
}

// place changes what lies in place.
func (s *store) place(p *pending) error {
	for i, w := range s.wheels {
		if err := w.Write(p.pages[i]); err != nil {
			return err
		}
	}
	return nil
}

// install ends it, and deletes what no checkpoint needs any more.
func (s *store) install(p *pending) {
	s.t.Helper()
	s.lane.InstallSpill(p.spill)
	for i, w := range s.wheels {
		w.Thaw(p.pages[i])
	}
	if s.queues != nil {
		s.queues.Installed(p.states)
		if err := s.queues.Delete(p.states); err != nil {
			s.t.Fatal(err)
		}
	}
	st, _, err := DecodeState(p.lane)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.lane.Garbage(st)(); err != nil {
		s.t.Fatal(err)
	}
}

// checkpoint does the whole of one.
func (s *store) checkpoint() saved {
	s.t.Helper()
	p := s.freeze()
	if err := s.write(p); err != nil {
		s.t.Fatal(err)
	}
	if err := s.place(p); err != nil {
		s.t.Fatal(err)
	}
	s.install(p)
	return p.saved
}

// restart opens the store on another disk, as a checkpoint knew it.
func (s *store) restart(disk *crashfs.FS, from saved) {
	s.t.Helper()
	for _, l := range s.logs {
		_ = l.Close() // the process is dead
	}
	s.logs, s.wheels, s.queues, s.disk = nil, nil, nil, disk
	s.waiting, s.frontier = map[timerlog.Key]timerlog.Entry{}, from.frontier
	for k, e := range from.waiting {
		s.waiting[k] = e
	}
	s.open(from)
}

// breakReads lets some reads of the disk fail; nil ends it.
func breakReads(disk *crashfs.FS, fails func() bool, err error) {
	if fails == nil {
		disk.SetInject(nil)
		return
	}
	disk.SetInject(func(op crashfs.Op) error {
		if op.Kind == crashfs.Read && fails() {
			return err
		}
		return nil
	})
}
