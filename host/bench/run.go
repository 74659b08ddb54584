package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// run is a run on its way.
type run struct {
	cfg    Config
	result Result
	disk   *probe // nil: no directory is known that is on the disk
	ledger ledger // of the load that is being judged
	store  *process
	remote *worker
	mu     sync.Mutex // held while Progress is called
}

// Run measures what the configuration says and gives an account. Result.OK says whether nothing was lost, twice or early.
// An error means that there is no account: the store did not start, or refused something, or the context ended.
func Run(ctx context.Context, cfg Config) (Result, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.validate(); err != nil {
		return Result{}, err
	}
	r := &run{cfg: cfg}
	r.result = Result{Bench: cfg.Bench, URL: cfg.URL, Body: cfg.Body, Batch: cfg.Batch, Clients: cfg.Clients}
	if cfg.Dir != "" {
		r.disk = &probe{dir: cfg.Dir}
	}
	err := r.begin(ctx)
	if err == nil {
		switch cfg.Bench {
		case Put:
			err = r.put(ctx)
		case Fire:
			err = r.fire(ctx)
		case Mixed:
			err = r.mixed(ctx)
		case Restart:
			err = r.restart(ctx)
		case Idle:
			err = r.idle(ctx)
		}
	}
	if r.store != nil {
		if ctx.Err() != nil || err != nil {
			r.store.kill()
		}
		err = errors.Join(err, r.store.end())
	}
	if r.disk != nil {
		r.result.Fsync = r.disk.times()
	}
	return r.result, err
}

// begin opens the store, or finds the server.
func (r *run) begin(ctx context.Context) error {
	if r.cfg.URL == "" {
		r.result.Durability = r.cfg.Durability
		if err := os.MkdirAll(r.storeDir(), 0o700); err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		return r.open(ctx)
	}
	t, err := newRemote(r.cfg.URL, r.cfg.Token)
	if err != nil {
		return err
	}
	r.remote = &worker{t: t, say: r.progress}
	_, err = t.pending(ctx)
	return err
}

// storeDir is the data directory of the bench's own store; beside it the disk is measured.
func (r *run) storeDir() string { return filepath.Join(r.cfg.Dir, "store") }

// open starts the store's process.
func (r *run) open(ctx context.Context) error {
	p, err := launch(r.cfg.Exe, r.cfg.ChildArgs)
	if err != nil {
		return err
	}
	r.store = p
	spec := openSpec{
		Dir: r.storeDir(), Durability: r.cfg.Durability, Edge: r.cfg.Edge, CPUProfile: r.cfg.CPUProfile, Plugin: r.cfg.Plugin,
	}
	if r.result.RestartMs > 0 || r.ledger.acked.count() > 0 {
		spec.CPUProfile = "" // it is of the load before the kill
	}
	_, err = r.ask(ctx, request{Step: stepOpen, Open: &spec}, nothing)
	return err
}

// do has a step done, where the store is, and puts into the ledger what comes of it.
func (r *run) do(ctx context.Context, q request, also func(event)) (outcome, error) {
	o, err := r.ask(ctx, q, func(e event) {
		if e.Acked != nil {
			r.ledger.acked.addSpan(*e.Acked)
		}
		if also != nil {
			also(e)
		}
	})
	for _, s := range o.Acked {
		r.ledger.acked.addSpan(s)
	}
	for _, s := range o.Seen {
		r.ledger.seen.addSpan(s)
	}
	r.ledger.twice.Add(int64(o.Twice))
	r.ledger.early.Add(int64(o.Early))
	return o, err
}

// ask has a step done that is none of the load's.
func (r *run) ask(ctx context.Context, q request, hear func(event)) (outcome, error) {
	if r.store == nil {
		return r.remote.do(ctx, q) // it reports only at its end, but for progress
	}
	return r.store.do(ctx, q, func(e event) {
		r.progress(e)
		hear(e)
	})
}

// nothing hears nothing.
func nothing(event) {}

// progress passes on how it goes.
func (r *run) progress(e event) {
	if e.Progress != nil && r.cfg.Progress != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.cfg.Progress(*e.Progress)
	}
}

// load is the load of the configuration, in a topic of its own.
func (r *run) load() load {
	var raw [nonceSize / 2]byte
	_, _ = rand.Read(raw[:]) // it never fails
	nonce := hex.EncodeToString(raw[:])
	return load{
		Topic: loadTopic + nonce, Nonce: nonce, Count: r.cfg.Count, Rate: r.cfg.Rate, Body: r.cfg.Body,
		Batch: r.cfg.Batch, Clients: r.cfg.Clients, Duration: r.cfg.Duration, Delay: r.cfg.Delay,
	}
}

// prepare has as many messages wait as was asked for, and measures the disk.
func (r *run) prepare(ctx context.Context) (pending int, err error) {
	l := r.load()
	if r.cfg.URL == "" {
		l.Batch, l.Clients = 100, 16 // however the load will be: this only has to be quick
	} else {
		l.Batch, l.Clients = 500, 4
	}
	l.Batch = min(l.Batch, max(7<<20/l.Body, 1))
	o, err := r.ask(ctx, request{Step: stepFill, Load: l, Pending: r.cfg.Pending}, nothing)
	if err != nil {
		return 0, err
	}
	r.miscount(o.Waiting+o.Stored, o.Pending)
	if r.result.Pending = o.Pending; o.Took > 0 {
		r.result.FillPerS = float64(o.Stored) / o.Took.Seconds()
	}
	return o.Pending, r.measureDisk()
}

func (r *run) measureDisk() error {
	if r.disk == nil {
		return nil
	}
	return r.disk.measure()
}

// miscount notes a difference between how many messages there must be and how many there are. Others may use a server.
func (r *run) miscount(want, got int) {
	if r.cfg.URL != "" {
		return
	}
	r.result.Lost += max(want-got, 0)
	r.result.Twice += max(got-want, 0)
}

// judge adds what the ledger says, and begins another one.
func (r *run) judge() {
	lost, twice, early := r.ledger.judge()
	r.result.Count += r.ledger.acked.count()
	r.result.Lost += lost
	r.result.Twice += twice
	r.result.Early += early
	r.ledger = ledger{}
}

// tally judges a load that is counted where it waits. Of what was sent at most so much may be there.
func (r *run) tally(waiting, sent int) {
	acked := r.ledger.acked.count()
	r.result.Count += acked
	r.result.Lost += max(acked-waiting, 0)
	r.result.Twice += max(waiting-sent, 0)
	r.ledger = ledger{}
}

// sent is a bound of the numbers that were sent when everything was acknowledged.
func (r *run) sent() int {
	if spans := r.ledger.acked.spans(); len(spans) > 0 {
		return spans[len(spans)-1][1]
	}
	return 0
}

// put measures how many messages are stored in a second.
func (r *run) put(ctx context.Context) error {
	if _, err := r.prepare(ctx); err != nil {
		return err
	}
	l := r.load()
	o, err := r.do(ctx, request{Step: stepPut, Load: l}, nil)
	if err != nil {
		return err
	}
	dueBy := time.Now().Add(max(l.Delay, 0))
	r.putTimes(o)
	if err := r.measureDisk(); err != nil {
		return err
	}
	sent := r.sent()
	a, err := r.do(ctx, request{Step: stepAudit, Load: l, Sent: sent, DueByMs: dueBy.UnixMilli()}, nil)
	if err != nil {
		return err
	}
	if l.audited() {
		r.judge()
	} else {
		r.tally(a.Waiting, sent)
	}
	return nil
}

// putTimes takes what is known of the puts of a load.
func (r *run) putTimes(o outcome) {
	r.result.Put, r.result.Seconds, r.result.RSS = o.Put, o.Took.Seconds(), o.RSS
	r.result.PutPerS = float64(o.Stored) / o.Took.Seconds()
}

// fire measures how fast messages come that are due at once.
func (r *run) fire(ctx context.Context) error {
	pending, err := r.prepare(ctx)
	if err != nil {
		return err
	}
	filtered := r.cfg.Plugin != ""
	o, err := r.do(ctx, request{Step: stepFire, Load: r.load(), Beside: filtered}, nil)
	if err != nil {
		return err
	}
	r.putTimes(o)
	r.result.FireFirst, r.result.FireAll, r.result.Lateness = &o.FirstMs, &o.AllMs, o.Lateness
	r.result.FirePerS, r.result.Beside = firePerS(&o), o.Beside
	r.judge()
	r.miscount(pending, o.Pending)
	r.result.Lost += o.BesideLost
	if filtered {
		if err := r.fireFiltered(ctx, pending); err != nil {
			return err
		}
	}
	return r.measureDisk()
}

// firePerS is how many messages came in a second, from their due time on.
func firePerS(o *outcome) float64 { return float64(o.Stored) / (o.AllMs / 1000) }

// fireFiltered fires the load again, into a topic that the plugin decides about.
func (r *run) fireFiltered(ctx context.Context, pending int) error {
	l := r.load()
	l.Topic = filteredTopic + l.Nonce
	o, err := r.do(ctx, request{Step: stepFire, Load: l, Beside: true}, nil)
	if err != nil {
		return err
	}
	f := &Filtered{
		File: filepath.Base(r.cfg.Plugin), FirePerS: firePerS(&o), FireFirst: o.FirstMs, FireAll: o.AllMs, Lateness: o.Lateness,
		Beside: o.Beside,
	}
	f.Ratio = f.FirePerS / r.result.FirePerS
	count := r.result.Count
	r.judge()
	r.result.Count, r.result.Filtered = count, f // it is the load that counts
	r.result.RSS = max(r.result.RSS, o.RSS)
	r.miscount(pending, o.Pending)
	r.result.Lost += o.BesideLost
	return nil
}

// mixed measures how late messages come beside many that wait, kills the store in the middle of it, and has it account
// for everything.
func (r *run) mixed(ctx context.Context) error {
	pending, err := r.prepare(ctx)
	if err != nil {
		return err
	}
	l := r.load()
	l.Count = 0
	var found outcome
	var diskErr error
	o, err := r.do(ctx, request{Step: stepSteady, Load: l, Report: r.store != nil}, func(e event) {
		if e.Measured != nil {
			found = *e.Measured
			diskErr = r.weighDisk(pending)
			r.store.kill()
		}
	})
	switch {
	case r.store == nil && err == nil:
		found = o
	case r.store != nil && errors.Is(err, errKilled):
		r.ledger.early.Add(int64(found.Early))
	default:
		return errors.Join(err, diskErr)
	}
	dueBy := time.Now().Add(l.Delay)
	r.putTimes(found)
	r.result.Lateness = found.Lateness
	if r.store != nil {
		if err := errors.Join(diskErr, r.reopen(ctx)); err != nil {
			return err
		}
	}
	// A batch that was cut off by the kill may be there, too: all numbers up to some after the last answer were sent.
	sent := r.sent() + l.Clients*l.Batch
	a, err := r.do(ctx, request{Step: stepAudit, Load: l, Sent: sent, DueByMs: dueBy.UnixMilli()}, nil)
	if err != nil {
		return err
	}
	r.judge()
	r.miscount(pending, a.Pending)
	return r.measureDisk()
}

// weighDisk says what waiting costs on disk.
func (r *run) weighDisk(pending int) error {
	size, err := besideLog(r.storeDir())
	if err == nil && pending > 0 {
		r.result.DiskPerPending = float64(size) / float64(pending)
	}
	return err
}

// reopen starts the store again that was killed, and measures until it has answered a put.
func (r *run) reopen(ctx context.Context) error {
	if err := r.store.end(); err != nil {
		return err
	}
	if err := r.open(ctx); err != nil {
		return err
	}
	l := r.load()
	l.Count, l.Batch, l.Clients, l.Rate, l.Duration, l.Delay = 1, 1, 1, 0, 0, 0
	_, err := r.ask(ctx, request{Step: stepPut, Load: l}, nothing)
	r.result.RestartMs = max(r.result.RestartMs, ms(time.Since(r.store.began).Microseconds()))
	return err
}

// Of the load of a restart: it is killed in the middle.
const (
	leastRestartLoad = 2000
	mostRestartLoad  = 200_000
)

// restart kills the store under load, as often as was asked for, and measures how long it is away.
func (r *run) restart(ctx context.Context) error {
	pending, err := r.prepare(ctx)
	if err != nil {
		return err
	}
	for range r.cfg.Count {
		l := r.load()
		l.Delay, l.Duration, l.Rate = Spread, 0, 0
		l.Count = min(max(r.cfg.Pending, leastRestartLoad), mostRestartLoad)
		acked := 0
		began := time.Now()
		_, err := r.do(ctx, request{Step: stepPut, Load: l, Report: true}, func(e event) {
			if e.Acked == nil {
				return
			}
			if acked += e.Acked[1] - e.Acked[0]; acked >= l.Count/2 {
				r.store.kill()
			}
		})
		if !errors.Is(err, errKilled) {
			if err == nil {
				err = errors.New("bench: the load was over before the kill")
			}
			return err
		}
		r.result.Seconds += time.Since(began).Seconds()
		if err := r.reopen(ctx); err != nil {
			return err
		}
		a, err := r.do(ctx, request{Step: stepAudit, Load: l}, nil)
		if err != nil {
			return err
		}
		r.tally(a.Waiting, l.Count)
		pending += a.Waiting
		r.miscount(pending, a.Pending)
	}
	return r.measureDisk()
}

// idle measures what a store costs that does nothing.
func (r *run) idle(ctx context.Context) error {
	pending, err := r.prepare(ctx)
	if err != nil {
		return err
	}
	o, err := r.do(ctx, request{Step: stepIdle, Load: r.load()}, nil)
	if err != nil {
		return err
	}
	r.result.IdleCPU, r.result.RSS, r.result.Seconds = &o.CPU, o.RSS, o.Took.Seconds()
	r.miscount(pending, o.Pending)
	return r.weighDisk(pending)
}
