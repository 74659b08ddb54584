package demo

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

// Phase is what a run is doing.
type Phase int32

// The phases, in order; after Recovering it is Storing again, or Waiting.
const (
	Storing    Phase = iota + 1 // events are put, and read as they fall due
	Killed                      // there is no server
	Recovering                  // a new one starts on the files of the one before
	Waiting                     // everything is put, not everything is due
	Checking                    // every queue is read again, and every file
	Done
)

var phaseNames = [...]string{Storing: "storing", Killed: "killed", Recovering: "recovering", Waiting: "waiting", Checking: "checking", Done: "done"}

// String is the phase in a word.
func (p Phase) String() string {
	if p < Storing || p > Done {
		return fmt.Sprintf("phase %d", int32(p))
	}
	return phaseNames[p]
}

// Progress is how a run goes.
type Progress struct {
	Counts
	Phase   Phase
	Events  int // to be put
	Pending int // stored, and neither cancelled nor read yet
	Elapsed time.Duration
	Late    Lateness // so far, of what came due while the server ran
	Ahead   Ahead
}

// Ahead is how many messages fall due in the seconds ahead, as the server said when it was last asked.
type Ahead struct {
	Step    time.Duration
	Counts  []int64 // the first step is the one that now is in; nil: the server has not said anything
	Overdue int64   // since then; they wait if there is no server
}

// Kill is a kill of the server.
type Kill struct {
	At      time.Duration // after the start of the run
	Pending int           // stored, and neither cancelled nor read then
	Down    time.Duration // from the kill until a server is ready; 0: there is none yet
	Recover time.Duration // of that, from the start of the process
}

// String tells of the kill, or once it is over of its end.
func (k Kill) String() string {
	if k.Down == 0 {
		return fmt.Sprintf("kill -9 at %.1f s, with %s pending", k.At.Seconds(), thousands(k.Pending))
	}
	return fmt.Sprintf("ready again at %.1f s, %v after the kill, of that start and recovery %v",
		(k.At + k.Down).Seconds(), Duration(k.Down), Duration(k.Recover))
}

// Of the horizon: what is shown is shown in steps, and more is asked for, so that it still fills the view when the server
// has been away for a while.
const (
	aheadStep  = 250 * time.Millisecond
	aheadShown = 48
	aheadAsked = aheadShown + 16
)

// showEvery is how often Config.Progress is called. It is told apart from how often the server is asked, which costs the
// server something.
const showEvery = 100 * time.Millisecond

// outlook is the newest horizon. It is safe for concurrent use.
type outlook struct {
	newest atomic.Pointer[httpapi.Horizon]
}

// keep asks for the horizon until the context ends. No answer is no fault: the server is killed now and then.
func (o *outlook) keep(ctx context.Context, up *upstream) {
	tick := time.NewTicker(aheadStep)
	defer tick.Stop()
	for {
		c, _, err := up.client(ctx)
		if err != nil {
			return
		}
		if h, err := c.Horizon(ctx, horizonAhead(time.Now())); err == nil {
			o.newest.Store(&h)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// horizonAhead is the question for what is ahead of now.
func horizonAhead(now time.Time) client.Horizon {
	at := func(t time.Time) string { return fmt.Sprintf("@%d", t.UnixMilli()) }
	return client.Horizon{From: at(now), To: at(now.Add(aheadAsked * aheadStep)), Step: config.Duration(aheadStep).String()}
}

// at is what the newest horizon means now.
func (o *outlook) at(now time.Time) Ahead {
	h := o.newest.Load()
	if h == nil || h.StepMs != aheadStep.Milliseconds() {
		return Ahead{Step: aheadStep}
	}
	a := Ahead{Step: aheadStep, Counts: make([]int64, aheadShown)}
	first := (now.UnixMilli() - h.FromMs) / h.StepMs // the step that now is in
	for i, n := range h.Counts {
		switch at := int64(i) - first; {
		case at < 0:
			a.Overdue += n
		case at < aheadShown:
			a.Counts[at] = n
		}
	}
	return a
}

// progress is how it goes now.
func (r *run) progress() Progress {
	now := time.Now()
	p := Progress{
		Counts: r.ledger.now(), Phase: Phase(r.phase.Load()), Events: len(r.cfg.Events), Elapsed: now.Sub(r.began),
		Late: r.ledger.lateUp(), Ahead: r.ahead.at(now),
	}
	p.Pending = p.pending()
	if p.Phase == Storing && p.Put == p.Events {
		p.Phase = Waiting
	}
	return p
}

// startReport has Config.Progress called, if there is one, until what it returns is.
func (r *run) startReport(ctx context.Context) (stop func()) {
	if r.cfg.Progress == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { r.ahead.keep(ctx, &r.up) })
	running.Go(func() { r.report(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// report tells how it goes until the context ends.
func (r *run) report(ctx context.Context) {
	tick := time.NewTicker(showEvery)
	defer tick.Stop()
	for {
		r.cfg.Progress(r.progress())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// killed tells of a kill.
func (r *run) killed(k Kill) {
	if r.cfg.Killed != nil {
		r.cfg.Killed(k)
	}
}
