package engine

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/consumequeue"
	"github.com/tidewheel/tidewheel/engine/handle"
	"github.com/tidewheel/tidewheel/engine/internal/guard"
	"github.com/tidewheel/tidewheel/engine/internal/idempotency"
	"github.com/tidewheel/tidewheel/engine/internal/meta"
	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/record"
	"github.com/tidewheel/tidewheel/engine/schedule"
	"github.com/tidewheel/tidewheel/engine/statebits"
	"github.com/tidewheel/tidewheel/engine/timer"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// Limits of the engine.
const (
	maxChunk   = record.MaxItems // messages in a deliver record
	maxQueues  = record.MaxQueues
	batchBytes = 256 << 10 // of puts in one batch, so that a call stays near 1 ms
	levelLane  = 0         // the lane of the delay levels; those of arbitrary times follow
	maxLanes   = 64
)

// Engine is a store that is open. Which methods may be called from where stands in the package comment; Close ends it,
// after the caller's other goroutines have stopped using it.
type Engine struct {
	// set by Open, then read-only
	env    Env
	opts   Options
	dir    string
	fs     *guard.FS
	meta   meta.Meta
	keys   *handle.Ring
	levels schedule.Table
	lock   io.Closer // nil with NoLock

	given    Options // opts before defaults were filled in
	prealloc bool
	mono0    int64 // Env.Mono when logTime was log0
	log0     int64
	logMin   int64 // the least logTime of this start

	log      *commitlog.Log
	queues   *consumequeue.Set
	schedule *schedule.Set
	rings    []ringFiles // of the lanes of arbitrary times, two each
	families []*timerlog.Log
	idem     *idempotency.Index

	// mu is held by the writer while it folds, for about 1 ms at most, and by readers while they look something up.
	// Nobody reads or writes a file that is not cached under it, but a page of state bits. The writer alone changes what
	// it guards, and may read it without.
	mu    sync.RWMutex
	st    *state.State
	bits  *statebits.Bits
	seen  *statebits.Bits
	lanes []*timer.Lane // levels, then arbitrary times

	// owned by the writer
	batch   batch
	answers []Answer
	jobs    jobs
	ck      checkpoints
	fire    fire
	space   space
	scratch scratch
	turns   map[uint32]uint32       // round robin, by topic
	readers map[uint32]*state.Group // broadcast groups, by a topic that they read; nil: to be worked out
	// segmentCost is what a segment takes before anything is in it: header and state record. 0: not known yet.
	segmentCost Offset

	visible  visible
	released atomic.Int64          // Offset
	failed   atomic.Pointer[error] // why nothing more is stored
	closed   atomic.Bool
	stats    counters
}

// scratch is reused by the writer, so that its steady state allocates nothing.
type scratch struct {
	message    message.Message
	deliver    record.Deliver
	verdict    record.Verdict
	properties message.Properties
}

// Close gives up the store. What was not synced may be lost; what was released is not. A second Close returns ErrClosed.
func (e *Engine) Close() error {
	if !e.closed.CompareAndSwap(false, true) {
		return ErrClosed
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closeFiles()
}

func (e *Engine) closeFiles() error {
	var errs []error
	closers := []io.Closer{e.log, e.queues, e.schedule, e.bits, e.seen, e.idem, e.lock}
	for _, l := range e.families {
		closers = append(closers, l)
	}
	for _, c := range closers {
		if c != nil && !isNil(c) {
			errs = append(errs, c.Close())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("engine: close: %w", err)
	}
	return nil
}

// fail makes the first failure final.
func (e *Engine) fail(err error) error {
	wrapped := fmt.Errorf("%w: %w", ErrFailed, err)
	if e.failed.CompareAndSwap(nil, &wrapped) {
		e.env.Log.Error("engine failed", "error", err)
	}
	return *e.failed.Load()
}

// usable says why nothing can be stored.
func (e *Engine) usable() error {
	if e.closed.Load() {
		return ErrClosed
	}
	if p := e.failed.Load(); p != nil {
		return *p
	}
	if err := e.fs.Err(); err != nil {
		return e.fail(err)
	}
	return nil
}

// logNow is the running time of the store, ms. It never falls. It is behind by what a crash took, and ahead by 1 ms at
// most for each start that ended within its first millisecond.
func (e *Engine) logNow() int64 {
	return max(e.st.LogMs, e.logMin, e.log0+(e.env.Mono()-e.mono0)/1e6)
}

// OpenHandle reads a handle's text. One that this store did not sign is an error of kind handle.ErrForged. Safe for
// concurrent use.
func (e *Engine) OpenHandle(text string) (handle.Handle, error) { return e.keys.Open(text) }

// SealHandle signs a handle. Safe for concurrent use; it takes about a microsecond, so it is not done by the writer.
func (e *Engine) SealHandle(h handle.Handle) string { return e.keys.Seal(h) }

// RotateKeys makes a new key that signs from now on; handles signed by older keys stay valid.
func (e *Engine) RotateKeys() error {
	if err := e.keys.Rotate(e.env.Rand); err != nil {
		return fmt.Errorf("engine: rotate keys: %w", err)
	}
	return nil
}

// StoreID names the store: message ids begin with it.
func (e *Engine) StoreID() uint64 { return e.meta.StoreID }

func (env Env) withDefaults() Env {
	if env.Rand == nil {
		env.Rand = rand.Reader
	}
	if env.Log == nil {
		env.Log = slog.New(slog.DiscardHandler)
	}
	if env.Parallel == nil {
		env.Parallel = func(n int, run func(i int)) {
			for i := range n {
				run(i)
			}
		}
	}
	return env
}

func (env Env) validate() error {
	if env.FS == nil || env.Wall == nil || env.Mono == nil {
		return fmt.Errorf("engine: Env needs FS, Wall and Mono")
	}
	return nil
}
