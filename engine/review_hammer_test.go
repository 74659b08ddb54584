package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// hammer is an engine with each thread of the package comment on a goroutine of its own.
type hammer struct {
	t       *testing.T
	e       *engine.Engine
	clock   *enginetest.Clock
	ended   atomic.Bool
	handles [256]atomic.Pointer[engine.Answer]
	synced  atomic.Int64
	jobs    chan *engine.Job
	done    chan *engine.Job
}

// TestReviewHammer lets the writer, Sync, two workers and readers of every kind go on at the same time. It is for the race
// detector, and for errors that only a reader meets between two calls of the writer.
func TestReviewHammer(t *testing.T) {
	o := checkOptions(young())
	o.Lanes, o.SecondsEntries, o.HoursEntries, o.LooseEntries, o.LooseRuns = 2, 32, 32, 32, 3
	o.CheckpointEvery, o.TailBytes, o.BitsBytes = 32<<10, 16<<10, 1
	clock := enginetest.NewClock(enginetest.Epoch)
	env := engine.Env{FS: crashfs.New(crashfs.Options{}), Wall: clock.Wall, Mono: clock.Mono}
	e, err := engine.Open(env, ".", o)
	if err != nil {
		t.Fatal(err)
	}
	h := &hammer{t: t, e: e, clock: clock, jobs: make(chan *engine.Job, 16), done: make(chan *engine.Job, 16)}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for j := range h.jobs {
				if err := j.Run(); err != nil {
					t.Errorf("job %s: %v", j.Kind(), err)
				}
				h.done <- j
			}
		})
	}
	wg.Go(h.sync)
	for i := range 3 {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		wg.Go(func() {
			for !h.ended.Load() {
				h.read(r)
			}
		})
	}
	rounds := 60
	if enginetest.ReadVolume(t) != enginetest.Plain {
		rounds = 2000
	}
	random := rand.New(rand.NewPCG(9, 9))
	h.write(random, rounds)
	for more := 0; more < 40 && !h.enough(); more++ { // on a busy machine jobs and readers lag behind
		h.write(random, rounds)
	}
	if !h.enough() {
		t.Errorf("too little happened: %+v", e.Stats())
	}
	h.ended.Store(true)
	wg.Wait()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if _, err := engine.Check(env, ".", o); err != nil {
		t.Error(err)
	}
}

// enough says whether there was a checkpoint, a roll and a deletion of the log's head.
func (h *hammer) enough() bool {
	st := h.e.Stats()
	return st.Checkpoints > 0 && st.RolledMessages > 0 && st.Head > 0
}

func (h *hammer) sync() {
	for !h.ended.Load() {
		pos, err := h.e.Sync()
		if err != nil {
			h.t.Errorf("sync: %v", err)
			return
		}
		h.synced.Store(int64(pos))
	}
}

// write is the writer: some seconds a round. It takes more rounds, up to twenty times as many, until there was enough.
func (h *hammer) write(r *rand.Rand, rounds int) {
	running := 0
	for round := 0; round < rounds || round < 20*rounds && !h.enough(); round++ {
		cmds := h.commands(r, round)
		for len(cmds) > 0 {
			answers, _, err := h.e.Append(cmds)
			if err != nil && !errors.Is(err, engine.ErrBusy) {
				h.t.Fatalf("append: %v", err)
			}
			for i := range answers {
				if a := answers[i]; a.ID != 0 && (a.Outcome == engine.Scheduled || a.Outcome == engine.Moved) {
					h.handles[r.IntN(len(h.handles))].Store(&a)
				}
			}
			cmds = cmds[len(answers):]
			running += h.turn()
		}
		h.clock.Pass(time.Duration(r.IntN(3000)) * time.Millisecond)
		running += h.turn()
	}
	for end := time.Now().Add(time.Minute); running > 0 || h.e.Released() < h.e.Stats().End; {
		if running += h.turn(); time.Now().After(end) {
			h.t.Fatal("the jobs never end")
		}
	}
	close(h.jobs)
}

// turn is one Tick with what belongs to it. It returns how many more jobs are under way.
func (h *hammer) turn() (running int) {
	if err := h.e.Commit(); err != nil {
		h.t.Fatalf("commit: %v", err)
	}
	h.e.Release(engine.Offset(h.synced.Load()))
	st := h.e.Tick()
	if st.Err != nil {
		h.t.Fatalf("tick: %v", st.Err)
	}
	for _, j := range st.Jobs {
		h.jobs <- j
		running++
	}
	for {
		select {
		case j := <-h.done:
			for !h.e.Install(j) {
			}
			running--
		default:
			return running
		}
	}
}

func (h *hammer) commands(r *rand.Rand, round int) (cmds []engine.Command) {
	for range 1 + r.IntN(20) {
		topic := fmt.Sprint("t", r.IntN(4))
		switch r.IntN(12) {
		case 0, 1:
			cmds = append(cmds, &engine.Put{Topic: topic, Queue: 0, Body: make([]byte, r.IntN(2000))})
		case 2:
			cmds = append(cmds, &engine.Put{Topic: topic, Queue: 0, Level: 1 + r.IntN(2)})
		case 3:
			if a := h.handles[r.IntN(len(h.handles))].Load(); a != nil {
				cmds = append(cmds, &engine.Cancel{Handle: a.Handle()})
			}
		case 4:
			if a := h.handles[r.IntN(len(h.handles))].Load(); a != nil {
				if p, err := h.e.ReadPending(a.Handle()); err == nil {
					cmds = append(cmds, &engine.Move{Handle: a.Handle(), DueMs: h.clock.Wall() + r.Int64N(dayMs), Record: p})
				}
			}
		case 5:
			cmds = append(cmds, &engine.CommitOffset{Group: fmt.Sprint("g", r.IntN(3)), Topic: topic, Queue: 0, Seek: true})
		case 6:
			if round%20 == 0 {
				cmds = append(cmds, &engine.DeleteTopic{Topic: topic})
			}
		default:
			cmds = append(cmds, &engine.Put{Topic: topic, Queue: 0, DelayMs: 1 + r.Int64N([]int64{2000, 3600_000, yearMs}[r.IntN(3)])})
		}
	}
	return cmds
}

// read is one read of any kind.
func (h *hammer) read(r *rand.Rand) {
	e, topic := h.e, fmt.Sprint("t", r.IntN(4))
	a := h.handles[r.IntN(len(h.handles))].Load()
	var err error
	switch r.IntN(10) {
	case 0:
		h.pull(topic, r)
	case 1:
		_, err = e.Pending(engine.Filter{}, "", 100)
	case 2:
		_, err = e.Pending(engine.Filter{Topic: topic}, "", 10)
	case 3:
		_, err = e.Horizon("", enginetest.Epoch/3600_000*3600_000, enginetest.Epoch/3600_000*3600_000+yearMs, dayMs)
	case 4:
		_, err = e.Horizon(topic, h.clock.Wall(), h.clock.Wall()+10_000, 1000)
	case 5:
		e.Stats()
		e.Topics()
		e.Groups()
		e.Topic(topic)
		e.Committed("g1", topic, 0)
	case 6:
		_, err = e.SearchTime(topic, 0, h.clock.Wall()-5000)
	case 7, 8:
		if a != nil {
			_, err = e.ReadPending(a.Handle())
			_, _, verr := e.Verdict(a.Handle())
			err = errors.Join(err, verr)
		}
	case 9:
		if a != nil {
			var p engine.Pulled
			_, err = e.View(a.Position, &p)
			_, xerr := e.Explain(a.Handle(), 0)
			err = errors.Join(err, xerr)
		}
	}
	for _, fine := range []error{engine.ErrNoTopic, engine.ErrNoMessage, engine.ErrPending, engine.ErrTrimmed} {
		if errors.Is(err, fine) {
			return
		}
	}
	if err != nil {
		h.t.Errorf("a reader got %v", err)
	}
}

func (h *hammer) pull(topic string, r *rand.Rand) {
	info, ok, _ := h.e.Topic(topic)
	if !ok {
		return
	}
	var p engine.Pulled
	q := info.Queues[0]
	err := h.e.Pull(engine.PullRequest{Topic: topic, Queue: 0, Offset: q.Min + r.Int64N(max(q.Visible-q.Min, 1))}, &p)
	if err != nil && !errors.Is(err, engine.ErrNoTopic) && !errors.Is(err, engine.ErrTrimmed) && !errors.Is(err, engine.ErrOffset) {
		h.t.Errorf("pull: %v", err)
	}
	for i := range p.Messages {
		if err := p.Messages[i].Err; err != nil && !errors.Is(err, engine.ErrTrimmed) {
			h.t.Errorf("pulled offset %d: %v", p.Messages[i].Offset, err)
		}
	}
}
