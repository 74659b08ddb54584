package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/schedule"
)

// Broker is an open data directory with the goroutines that serve it. It is safe for concurrent use. Close it when
// done; a second Close is ErrClosed.
type Broker struct {
	// set by Open, then read-only
	env      engine.Env
	opts     Options
	log      *slog.Logger
	e        *engine.Engine
	queue    *queue
	gate     *gate
	bells    *bells
	asks     asks
	measures *measures

	failure atomic.Pointer[error]  // the first final error
	trouble atomic.Pointer[string] // what keeps due messages back; empty: nothing
	turn    atomic.Uint32          // which queue the next Pull of several starts with

	groups    *groups
	hookCalls *hookCalls
	stages    *stages

	closing   chan struct{} // closed by Close
	closeOnce sync.Once
	wg        sync.WaitGroup // writer, syncer, workers

	life   sync.RWMutex // held for reading while the engine is read
	closed bool         // guarded by life
}

// Open opens a data directory, recovers it, and starts the goroutines. The dir is a name within env.FS, "." for its
// root. The errors are those of engine.Open: engine.ErrLocked when another process has it, engine.ErrForeign,
// engine.ErrNewer, engine.ErrCorrupt.
func Open(env engine.Env, dir string, opts Options) (*Broker, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	env = withClocks(env)
	if env.Log == nil {
		env.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Engine.Stage = nil; opts.Hooks != nil {
		opts.Engine.Stage = opts.Hooks.Stages
	}
	e, err := engine.Open(env, dir, opts.Engine)
	if err != nil {
		return nil, fmt.Errorf("broker: open: %w", err)
	}
	if err := stageAtOpen(e, opts.Hooks, env.Log); err != nil {
		return nil, errors.Join(fmt.Errorf("broker: open: %w", err), e.Close())
	}
	b := &Broker{
		env: env, opts: opts, log: env.Log, e: e,
		queue: newQueue(opts.QueueBytes), gate: newGate(e.Released()), bells: newBells(),
		measures: newMeasures(dir), closing: make(chan struct{}),
		hookCalls: newHookCalls(),
	}
	if opts.Durability == Interval {
		b.gate.wake, b.bells.wake = b.queue.signal, b.queue.signal
	}
	b.groups = newGroups(b.queue.signal)
	b.stages = newStages(b)
	b.start()
	topics, _ := e.Topics()
	b.stages.beginAll(topics)
	return b, nil
}

// withClocks fills what is nil in an Env and that a process has.
func withClocks(env engine.Env) engine.Env {
	if env.Wall == nil {
		env.Wall = func() int64 { return time.Now().UnixMilli() }
	}
	if env.Mono == nil {
		origin := time.Now()
		env.Mono = func() int64 { return int64(time.Since(origin)) }
	}
	if env.Parallel == nil {
		env.Parallel = parallel
	}
	return env
}

// parallel runs reads side by side, at most a few per processor: they wait for the disk more than they compute.
func parallel(n int, run func(i int)) {
	goroutines := min(n, 4*runtime.GOMAXPROCS(0))
	if goroutines <= 1 {
		for i := range n {
			run(i)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				run(int(i))
			}
		})
	}
	wg.Wait()
}

// start makes the goroutines. The writer ends the others when it ends.
func (b *Broker) start() {
	var (
		jobs   = make(chan *engine.Job)
		ended  = make(chan *engine.Job, b.opts.Workers)
		syncs  = make(chan struct{})
		synced = make(chan syncResult, 1)
	)
	pos := b.e.Released()
	w := &writer{
		b: b, e: b.e, appended: pos, released: pos,
		jobs: jobs, ended: ended, sync: syncs, synced: synced,
	}
	b.wg.Go(func() {
		w.run()
		close(jobs)
		close(syncs)
	})
	b.wg.Go(func() {
		for range syncs {
			began := time.Now()
			end, err := b.e.Sync()
			b.measures.synced(time.Since(began))
			synced <- syncResult{end, err}
		}
	})
	for range b.opts.Workers {
		b.wg.Go(func() {
			for j := range jobs {
				_ = j.Run() // the engine asks the job for its error when it is installed
				ended <- j
			}
		})
	}
}

// Close ends the broker: what the engine has taken becomes durable and is answered, what waits is refused with
// ErrClosed, waiting readers return, and no goroutine of the broker is left. It waits for jobs and for calls of hooks that are
// running. The error is that of closing the files.
func (b *Broker) Close() error {
	first := false
	b.closeOnce.Do(func() {
		first = true
		close(b.closing)
	})
	if !first {
		return ErrClosed
	}
	b.hookCalls.close()
	b.wg.Wait()
	b.gate.fail(ErrClosed)
	b.life.Lock()
	defer b.life.Unlock()
	b.closed = true
	if err := b.e.Close(); err != nil {
		return fmt.Errorf("broker: close: %w", err)
	}
	return nil
}

// enter begins a read of the engine; leave ends it. In between the engine stays open.
func (b *Broker) enter() error {
	b.life.RLock()
	if b.closed {
		b.life.RUnlock()
		return ErrClosed
	}
	return nil
}

func (b *Broker) leave() { b.life.RUnlock() }

// Err is nil while the broker takes requests; else it says why not: ErrFailed or ErrClosed.
func (b *Broker) Err() error {
	if err := b.failure.Load(); err != nil {
		return *err
	}
	if b.isClosing() {
		return ErrClosed
	}
	return nil
}

// isClosing says that Close was called.
func (b *Broker) isClosing() bool {
	select {
	case <-b.closing:
		return true
	default:
		return false
	}
}

// NowMs is the broker's wall clock, ms since 1970: what due times are compared with.
func (b *Broker) NowMs() int64 { return b.env.Wall() }

// Stats are counts of the engine and of the broker itself.
type Stats struct {
	engine.Stats
	QueuedRequests int // that wait for the writer
	QueuedBytes    int
	WaitingReaders int // long polls
	// NotDelivering says what keeps due messages back, as damage in a timer's file; empty: nothing. It is tried again
	// each second.
	NotDelivering string
}

// Stats counts. It never waits; the counts may be ahead of what is durable.
func (b *Broker) Stats() (Stats, error) {
	if err := b.enter(); err != nil {
		return Stats{}, err
	}
	defer b.leave()
	s := Stats{Stats: b.e.Stats(), WaitingReaders: b.bells.readers()}
	s.QueuedRequests, s.QueuedBytes = b.queue.pending()
	if text := b.trouble.Load(); text != nil {
		s.NotDelivering = *text
	}
	return s, nil
}

// Levels is the table of delay levels, as words; the first is level 1.
func (b *Broker) Levels() string {
	if b.opts.Engine.Levels != "" {
		return b.opts.Engine.Levels
	}
	return schedule.DefaultLevels
}

// defaultMaxDelay is the engine's.
const defaultMaxDelay = 7 * 24 * time.Hour

// MaxDelay is how far ahead a due time may lie. What lies farther is refused with engine.ErrDelay.
func (b *Broker) MaxDelay() time.Duration {
	if b.opts.Engine.MaxDelay != 0 {
		return b.opts.Engine.MaxDelay
	}
	return defaultMaxDelay
}
