package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// The steps of a run.
const (
	stepOpen   = "open"   // the store, in a child
	stepFill   = "fill"   // until so many messages wait
	stepPut    = "put"    // a load as fast as it goes, or at a rate
	stepFire   = "fire"   // a load that is due at one millisecond, and read
	stepSteady = "steady" // a load that is read while it comes due
	stepAudit  = "audit"  // read a load from the begin, or count it where it waits
	stepIdle   = "idle"   // do nothing
)

// request asks for a step.
type request struct {
	Step string `json:"step"`
	Load load   `json:"load"`

	Open    *openSpec `json:"open,omitempty"`
	Pending int       `json:"pending,omitempty"`   // of stepFill
	Sent    int       `json:"sent,omitempty"`      // of stepAudit: numbers below this were sent
	DueByMs int64     `json:"due_by_ms,omitempty"` // of stepAudit: by then all of the load is due
	Beside  bool      `json:"beside,omitempty"`    // stepFire has another topic beside the load, and tells how late its messages come
	// Report makes stepPut and stepSteady tell of each answer, since this process may be killed before the step ends.
	// stepSteady then goes on with the load after it has told what it measured.
	Report bool `json:"report,omitempty"`
}

// openSpec says how a store is opened.
type openSpec struct {
	Dir        string `json:"dir"`
	Durability string `json:"durability"`
	Edge       bool   `json:"edge"`
	CPUProfile string `json:"cpu_profile,omitempty"`
	Plugin     string `json:"plugin,omitempty"` // decides about the topics of filteredTopic
}

// outcome is what a step found.
type outcome struct {
	Acked    []span        `json:"acked,omitempty"`
	Seen     []span        `json:"seen,omitempty"`
	Twice    int           `json:"twice,omitempty"`
	Early    int           `json:"early,omitempty"`
	Waiting  int           `json:"waiting,omitempty"` // of the load
	Pending  int           `json:"pending,omitempty"` // of all
	Stored   int           `json:"stored,omitempty"`
	Took     time.Duration `json:"took,omitempty"`
	Put      *Times        `json:"put,omitempty"`
	Lateness *Times        `json:"lateness,omitempty"`
	FirstMs  float64       `json:"first_ms,omitempty"`
	AllMs    float64       `json:"all_ms,omitempty"`
	RSS      int64         `json:"rss,omitempty"`

	Beside     *Times  `json:"beside,omitempty"`      // lateness of what fired beside the load
	BesideLost int     `json:"beside_lost,omitempty"` // of it
	CPU        float64 `json:"cpu,omitempty"`         // percent of one core
}

// event is what a step says before it ends.
type event struct {
	Progress *Progress `json:"progress,omitempty"`
	Acked    *span     `json:"acked,omitempty"`
	Measured *outcome  `json:"measured,omitempty"`
}

// worker does steps at a target. One at a time.
type worker struct {
	t    target
	say  func(event) // safe for concurrent use
	peak *peak       // of the store's memory; nil when that is in another process
	cpu  *profiler   // nil: no profile is wanted
}

// do does a step, and notes how much memory the process had meanwhile.
func (w *worker) do(ctx context.Context, r request) (outcome, error) {
	stop := func() {}
	if r.Step != stepIdle { // watching is not idle
		stop = w.peak.watch()
	}
	o, err := w.step(ctx, r)
	stop()
	o.RSS = w.peak.bytes()
	return o, errors.Join(err, w.cpu.stop())
}

func (w *worker) step(ctx context.Context, r request) (outcome, error) {
	switch r.Step {
	case stepFill:
		return w.fill(ctx, r)
	case stepPut:
		return w.put(ctx, r)
	case stepFire:
		return w.fire(ctx, r)
	case stepSteady:
		return w.steady(ctx, r)
	case stepAudit:
		return w.audit(ctx, r)
	case stepIdle:
		return w.idle(ctx, r)
	}
	return outcome{}, fmt.Errorf("bench: unknown step %q", r.Step)
}

// progress tells how far something is until the returned function is called.
func (w *worker) progress(phase string, total int, done func() int) (stop func()) {
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(250 * time.Millisecond)
		defer ticker.Stop()
		for {
			w.say(event{Progress: &Progress{phase, done(), total}})
			select {
			case <-ticker.C:
			case <-end:
				return
			}
		}
	})
	return func() {
		close(end)
		wg.Wait()
	}
}

// driver makes a driver for a request.
func (w *worker) driver(r request, l *ledger) *driver {
	w.cpu.start(r.Step)
	d := &driver{load: r.Load, t: w.t, ledger: l, times: new(histogram)}
	if r.Report {
		d.acked = func(s span) { w.say(event{Acked: &s}) }
	}
	return d
}

// fill stores messages for a later day until so many wait.
func (w *worker) fill(ctx context.Context, r request) (outcome, error) {
	before, err := w.t.pending(ctx)
	if err != nil {
		return outcome{}, err
	}
	o := outcome{Pending: before, Waiting: before}
	r.Load.Topic, r.Load.Delay, r.Load.Rate, r.Load.Duration = pendingTopic, Spread, 0, 0
	if r.Load.Count = r.Pending - before; r.Load.Count <= 0 {
		return o, nil
	}
	if err := w.t.define(ctx, pendingTopic); err != nil {
		return o, err
	}
	d := w.driver(r, new(ledger))
	stop := w.progress("storing what waits", r.Load.Count, func() int { return int(d.letters.Load()) })
	err = d.run(ctx)
	stop()
	o.Stored, o.Took = int(d.letters.Load()), d.took
	if err == nil {
		o.Pending, err = w.t.pending(ctx)
	}
	return o, err
}

// put sends a load and says how fast it was.
func (w *worker) put(ctx context.Context, r request) (outcome, error) {
	if err := w.t.define(ctx, r.Load.Topic); err != nil {
		return outcome{}, err
	}
	l := new(ledger)
	d := w.driver(r, l)
	phase, total, done := "putting", r.Load.Count, func() int { return int(d.letters.Load()) }
	if total == 0 {
		began := time.Now()
		total, done = int(r.Load.Duration.Milliseconds()), func() int { return int(time.Since(began).Milliseconds()) }
	}
	stop := w.progress(phase, total, done)
	err := d.run(ctx)
	stop()
	return outcome{Acked: l.acked.spans(), Stored: int(d.letters.Load()), Took: d.took, Put: d.times.times()}, err
}

// audit reads a load from the begin of its topic, until nothing of it is to come any more; or counts it.
func (w *worker) audit(ctx context.Context, r request) (outcome, error) {
	if !r.Load.audited() {
		n, err := w.t.waiting(ctx, r.Load.Topic)
		if err != nil {
			return outcome{}, err
		}
		pending, err := w.t.pending(ctx)
		return outcome{Waiting: n, Pending: pending}, err
	}
	c := &collector{nonce: r.Load.Nonce, sent: func() int { return r.Sent }, ledger: new(ledger), lateness: new(histogram)}
	stop := w.progress("reading everything again", r.Sent, func() int { return int(c.count.Load()) })
	defer stop()
	in := w.t.reader(r.Load.Topic, -1)
	var o outcome
	for {
		n, err := c.read(ctx, in, 200*time.Millisecond)
		if err != nil {
			return o, err
		}
		if n > 0 || time.Now().UnixMilli() <= r.DueByMs {
			continue
		}
		if o.Waiting, err = w.t.waiting(ctx, r.Load.Topic); err != nil {
			return o, err
		}
		if o.Waiting == 0 || time.Now().UnixMilli() > r.DueByMs+auditPatience.Milliseconds() {
			break
		}
	}
	// What was counted as not waiting was delivered before that: one more look finds it.
	for {
		if n, err := c.read(ctx, in, 0); err != nil || n == 0 {
			o.Seen, o.Twice, o.Early = c.ledger.seen.spans(), int(c.ledger.twice.Load()+c.ledger.alien.Load()), int(c.ledger.early.Load())
			if err == nil {
				o.Pending, err = w.t.pending(ctx)
			}
			return o, err
		}
	}
}

// auditPatience is how long after its time a message may still be on its way; then it is lost.
const auditPatience = 15 * time.Second

// steady sends a load and reads it while it comes due.
func (w *worker) steady(ctx context.Context, r request) (outcome, error) {
	if err := w.t.define(ctx, r.Load.Topic); err != nil {
		return outcome{}, err
	}
	l := new(ledger)
	d := w.driver(r, l)
	goOn := make(chan struct{})
	if r.Report {
		d.goOn = goOn
	}
	c := &collector{nonce: r.Load.Nonce, sent: func() int { return math.MaxInt }, ledger: l, lateness: new(histogram)}
	ctx, cancel := context.WithCancel(ctx)
	var both sync.WaitGroup
	defer both.Wait()
	defer cancel()
	sent, read := make(chan error, 1), make(chan error, 1)
	both.Go(func() { sent <- d.run(ctx) })
	both.Go(func() {
		in := w.t.reader(r.Load.Topic, -1)
		for {
			if _, err := c.read(ctx, in, time.Second); err != nil {
				read <- err
				return
			}
		}
	})
	began := time.Now()
	stop := w.progress("putting and firing", int(r.Load.Duration.Milliseconds()),
		func() int { return int(time.Since(began).Milliseconds()) })
	timer := time.NewTimer(r.Load.Duration)
	defer timer.Stop()
	var err error
	select {
	case <-timer.C:
	case err = <-read:
	case <-ctx.Done():
	}
	stop()
	o := outcome{
		Stored: int(d.letters.Load()), Took: time.Since(began), Put: d.times.times(), Lateness: c.lateness.times(),
		Twice: int(l.twice.Load()), Early: int(l.early.Load()), RSS: w.peak.bytes(),
	}
	if r.Report && err == nil && ctx.Err() == nil {
		err = w.cpu.stop()
		w.say(event{Measured: &o})
		select { // killed any moment
		case <-ctx.Done():
		case <-time.After(lingering):
		}
		close(goOn)
	}
	if err == nil {
		err = <-sent
	}
	if o.Lateness == nil && err == nil {
		err = errors.New("bench: nothing came due while it was measured; the duration must be longer than the delay")
	}
	o.Acked = l.acked.spans()
	return o, err
}

// lingering is how long a load goes on for whoever wants to kill the process in the middle of it.
const lingering = 10 * time.Second
