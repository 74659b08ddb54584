package enginetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

// Sim drives one engine call by call in one goroutine, as a history says: calls come in an order that the contract
// allows and no sane host would choose. A Model hears everything. Not safe for concurrent use.
type Sim struct {
	FS    *crashfs.FS
	Clock *Clock
	Model *Model
	// Before is called before each change of the file system, from within the calls of the engine; nil for nothing.
	// It may fork the Sim (Fork) and must not call the engine.
	Before func()
	// Failing says that faults are injected: an error of the engine is no violation then, and ends the life of the engine.
	Failing bool
	// Log hears of every step and what came of it; nil for nothing.
	Log func(format string, args ...any)

	seed  uint64
	dir   string
	opts  engine.Options
	table int // of levelTables
	plain bool
	wrap  func(disk *crashfs.FS) vfs.FS
	sick  *faultfs.FS // around FS; nil unless SimConfig.Faulty

	e         *engine.Engine
	jobs      []*job
	list      *listing        // a walk through the waiting messages, nil for none
	synced    []engine.Offset // confirmed by Sync and not released, ascending
	next      int64           // when Tick wants to be called again
	opened    int64           // mono at Open, ns
	ran       int64           // running time before that, ms
	rng       *rand.Rand
	engineErr error
	cover     Coverage
}

// job is one that Tick handed out.
type job struct {
	*engine.Job
	ran bool
}

// SimConfig says what NewSim opens.
type SimConfig struct {
	Seed    uint64 // of everything that is drawn
	Options engine.Options
	Table   int  // number of a table of delay levels, which goes into Options
	Plain   bool // a file system that cannot preallocate
	// Wrap is put between the disk and the engine, nil for nothing. It is called for each life of the engine.
	Wrap func(disk *crashfs.FS) vfs.FS
	// Faulty lets the steps "fault" and "full" do something.
	Faulty bool
}

// NewSim opens a new store. It returns the Sim also with an error, since the disk may have been made to fail.
func NewSim(c SimConfig) (*Sim, error) {
	c.Options.Levels = formatLevels(levelTables[c.Table])
	s := &Sim{
		FS: crashfs.New(crashfs.Options{Trace: 64}), Clock: NewClock(Epoch), seed: c.Seed, dir: ".",
		opts: c.Options, table: c.Table, plain: c.Plain, wrap: c.Wrap, rng: newRand(c.Seed, 3), cover: Coverage{},
	}
	if c.Faulty {
		s.wrap = s.wrapFaulty
	}
	s.Model = NewModel(c.Options, levelTables[c.Table], s.running)
	if err := s.open(); err != nil {
		return s, fmt.Errorf("open a new store: %w", err)
	}
	return s, nil
}

// Engine is the engine that runs now; nil when Open failed.
func (s *Sim) Engine() *engine.Engine { return s.e }

// Cover is what was met so far.
func (s *Sim) Cover() Coverage { return s.cover }

// running is how long the store has been open in all, in ms.
func (s *Sim) running() int64 {
	return s.ran + (s.Clock.Mono()-s.opened)/int64(time.Millisecond)
}

func (s *Sim) env() engine.Env {
	return engine.Env{FS: s.fs(), Wall: s.Clock.Wall, Mono: s.Clock.Mono, Rand: newRandom(s.seed)}
}

// fs is what the engine sees of FS.
func (s *Sim) fs() vfs.FS {
	disk := vfs.FS(s.FS)
	if s.wrap != nil {
		disk = s.wrap(s.FS)
	}
	return &tap{disk, func() {
		if s.Before != nil {
			s.Before()
		}
	}, s.plain}
}

// open opens the store as it is on FS.
func (s *Sim) open() error {
	s.opened = s.Clock.Mono()
	s.jobs, s.synced, s.next = nil, nil, s.Clock.Wall()
	e, err := engine.Open(s.env(), s.dir, s.opts)
	s.e = e
	return err
}

// Err is the first thing that went wrong: a violation that the model saw, or an error that the engine had no reason for.
func (s *Sim) Err() error {
	if err := s.Model.Err(); err != nil {
		return err
	}
	if s.Failing {
		return nil
	}
	return s.engineErr
}

// failed notes an error of the engine.
func (s *Sim) failed(what string, err error) {
	if err != nil && s.engineErr == nil {
		s.engineErr = fmt.Errorf("%s: %w", what, err)
	}
}

// stuck says that nothing more can be done with this engine.
func (s *Sim) stuck() bool {
	return s.e == nil || s.Model.Err() != nil || s.engineErr != nil || s.Model.blind
}

func (s *Sim) logf(format string, args ...any) {
	if s.Log != nil {
		s.Log(format, args...)
	}
}

// Run does the steps of a history, then Finish. The error is the first thing that went wrong.
func (s *Sim) Run(list []Op) error {
	for i, op := range list {
		s.Do(op)
		if err := s.Err(); err != nil {
			return fmt.Errorf("step %d, %v: %w", i+1, op, err)
		}
	}
	return s.Finish()
}

// Do does one step.
func (s *Sim) Do(op Op) {
	o, ok := ops[op.Kind]
	if !ok {
		panic("enginetest: no step " + op.Kind)
	}
	if s.stuck() && op.Kind != "heal" || s.Model.Err() != nil {
		return
	}
	if s.e == nil {
		o.do(s, op.A, op.B)
		return
	}
	s.logf("-- %s %d %d (wall %d, run %d, end %d)", op.Kind, op.A, op.B, s.Clock.Wall(), s.running(), s.e.Stats().End)
	o.do(s, op.A, op.B)
}

// call gives calls to Append, in as many pieces as it takes them.
func (s *Sim) call(calls ...Call) {
	for tries := 0; len(calls) > 0 && !s.stuck(); {
		cmds := make([]engine.Command, len(calls))
		for i := range calls {
			cmds[i] = calls[i].Command
		}
		answers, pos, err := s.e.Append(cmds)
		if errors.Is(err, engine.ErrBusy) {
			if tries++; tries > 200 {
				s.failed("append", fmt.Errorf("busy though everything was done 200 times: %w", err))
			}
			s.cover["busy"]++
			s.makeRoom()
			if s.Failing {
				s.Clock.Pass(time.Second) // a job that failed is tried again later
			}
			continue
		}
		if err != nil {
			s.failed("append", err)
			return
		}
		if len(answers) == 0 || len(answers) > len(calls) {
			s.failed("append", fmt.Errorf("%d answers to %d commands", len(answers), len(calls)))
			return
		}
		for i := range answers {
			s.logf("   %T -> %+v at %d", calls[i].Command, answers[i], pos)
			s.cover.answer(&answers[i])
		}
		s.Model.Appended(s.Clock.Wall(), s.running(), calls[:len(answers)], answers, pos)
		calls, tries = calls[len(answers):], 0
	}
}

// makeRoom does all that could end ErrBusy. A segment that begins is left to the caller: a Tick would put its own
// records into it first, and a batch as large as a segment would not find room again.
func (s *Sim) makeRoom() {
	s.tick()
	s.doJobs()
	s.commit()
	s.sync()
	s.release(0)
}

func (s *Sim) commit() {
	if !s.stuck() {
		s.failed("commit", s.e.Commit())
	}
}

func (s *Sim) sync() {
	if s.stuck() {
		return
	}
	pos, err := s.e.Sync()
	if err != nil {
		s.failed("sync", err)
		return
	}
	if n := len(s.synced); n > 0 && s.synced[n-1] == pos {
		return
	}
	s.logf("   synced to %d", pos)
	s.synced = append(s.synced, pos)
}

// release releases up to what Sync confirmed, or up to what it confirmed some calls earlier.
func (s *Sim) release(back int) {
	if s.stuck() || len(s.synced) == 0 {
		return
	}
	i := max(len(s.synced)-1-back, 0)
	pos := s.synced[i]
	s.synced = s.synced[i+1:]
	woken := s.e.Release(pos)
	s.logf("   released %d, woken %v", pos, woken)
	s.Model.Released(s.e, pos, append([]engine.QueueRef(nil), woken...))
}

// tick calls Tick and takes its jobs.
func (s *Sim) tick() engine.Status {
	if s.stuck() {
		return engine.Status{}
	}
	before := s.e.Stats()
	st := s.e.Tick()
	s.next = st.Next
	if st.Err != nil && (!s.Failing || errors.Is(st.Err, engine.ErrFailed)) {
		s.failed("tick", st.Err)
	}
	for _, j := range st.Jobs {
		s.cover["job "+j.Kind()]++
		s.jobs = append(s.jobs, &job{Job: j})
	}
	s.cover["fired"] += st.Fired
	s.logf("   tick at %d: fired %d, next %d, position %d, %d new jobs", s.Clock.Wall(), st.Fired, st.Next, st.Position, len(st.Jobs))
	s.Model.Ticked(s.Clock.Wall(), s.running(), before.End, st.Position)
	return st
}

// runJob runs one job that was not run.
func (s *Sim) runJob(i int) {
	j := s.jobs[i]
	err := j.Run()
	s.logf("   run %s: %v", j.Kind(), err)
	if err != nil && !s.Failing {
		s.failed("run "+j.Kind(), err)
	}
	j.ran = true
}

// installJob links a slice of the result of a job that was run.
func (s *Sim) installJob(i int) {
	j := s.jobs[i]
	before := s.e.Stats().LooseRuns
	done := s.e.Install(j.Job)
	switch after := s.e.Stats().LooseRuns; {
	case after > before:
		s.cover["flush"]++
	case after < before:
		s.cover["compaction"]++
	}
	s.logf("   install %s: %v", j.Kind(), done)
	if done {
		s.jobs = append(s.jobs[:i:i], s.jobs[i+1:]...)
	}
}

// doJobs runs and installs every job.
func (s *Sim) doJobs() {
	for len(s.jobs) > 0 && !s.stuck() {
		if !s.jobs[0].ran {
			s.runJob(0)
		}
		for n := len(s.jobs); len(s.jobs) == n && !s.stuck(); {
			s.installJob(0)
		}
	}
}

// Settle does everything that can be done at this time of day. Then nothing that is due may wait. While faults are
// injected it gives up after a while.
func (s *Sim) Settle() {
	for i := range 20000 {
		if s.stuck() || s.Failing && i == 100 {
			return
		}
		st := s.tick()
		idle := len(s.jobs) == 0 && st.Next > s.Clock.Wall()
		s.doJobs()
		s.commit()
		s.sync()
		s.release(0)
		if !idle {
			continue
		}
		if !st.Blocked && len(s.Model.journal) == 0 {
			if !s.Failing { // else a lane that cannot be read is tried again a second later
				s.Model.Quiet(s.Clock.Wall())
			}
			return
		}
		if !s.Failing {
			s.failed("settle", fmt.Errorf("nothing is left to do, and %d answers are not released, blocked: %v", len(s.Model.journal), st.Blocked))
		}
		s.Clock.Pass(time.Second) // a job that failed is tried again later
	}
	s.failed("settle", errors.New("there is always more to do, though no time passes"))
}

// Verify settles, and reads and compares everything.
func (s *Sim) Verify() {
	s.Settle()
	if !s.stuck() && (len(s.Model.journal) == 0 || !s.Failing) {
		s.Model.Verify(s.e)
	}
}

// Drain lets time pass until nothing waits.
func (s *Sim) Drain() {
	for range 5000 {
		s.Settle()
		due, any := s.Model.NextDue()
		if s.stuck() || !any {
			break
		}
		if s.next > due && s.next > s.Clock.Wall()+1000 {
			s.failed("drain", fmt.Errorf("tick wants to be called at %d, something is due at %d, it is %d", s.next, due, s.Clock.Wall()))
		}
		s.Clock.Pass(time.Duration(max(due-s.Clock.Wall(), 1)) * time.Millisecond)
	}
	if !s.stuck() {
		s.Model.Drained(s.e)
	}
}

// Finish drains, checks the files, compares with a rebuild, and closes.
func (s *Sim) Finish() error {
	s.Drain()
	if err := s.Err(); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	if err := s.Compare(0); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	s.stats()
	if err := s.e.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

// Compare checks the files as they are now and holds the state against a rebuild from the log alone, and against one
// with other sizes of everything that is local when other is not 0. All must be released.
func (s *Sim) Compare(other int) error {
	env := s.env()
	env.FS = nil
	if err := checkFiles(s.FS, env, s.dir, s.opts); err != nil {
		return err
	}
	digest, end := s.e.Digest(), s.e.Released()
	opts := s.opts
	if other != 0 {
		opts = tune(opts, other)
	}
	e, err := rebuilt(s.FS, env, s.dir, opts)
	if err != nil {
		return err
	}
	if got := e.Digest(); got != digest || e.Released() != end {
		return fmt.Errorf("a rebuild gives state %x at %d, the store has %x at %d", got, e.Released(), digest, end)
	}
	return e.Close()
}
