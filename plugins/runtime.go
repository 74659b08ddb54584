package plugins

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/tetratelabs/wazero"
)

// Options of a Runtime. The zero value is right for most: a compiler, 64 MiB for all plugins, no cache on disk.
type Options struct {
	// MemoryTotal bounds the sum of instances × MemoryMax over all plugins, in bytes; 64 MiB if zero.
	MemoryTotal int64

	// CacheDir is a directory of the operating system for compiled code; empty for none. Plugins in it are compiled once and
	// start in a fraction of a second afterwards. Its content is verified, and made anew when it is damaged.
	CacheDir string

	// Interpreter runs plugins without compiling them: slower by a factor of fifty, with the same results.
	Interpreter bool

	// Mono is a clock in ns for how long loading takes; nil: nothing is measured.
	Mono func() int64

	// Log takes what plugins write and what the runtime has to say; nil discards.
	Log *slog.Logger
}

// Runtime is what all plugins of a process share: the budget of memory and the cache of compiled code. Safe for concurrent
// use. Close it after its modules and plugins.
type Runtime struct {
	o     Options
	log   *slog.Logger
	cache *cache

	compiling sync.Mutex // one at a time: a compilation takes seconds and all cores

	mu       sync.Mutex
	reserved map[*Plugin]int64 // guarded by mu
	modules  int               // open ones, guarded by mu
	closed   bool              // guarded by mu
}

// NewRuntime returns a runtime. It makes CacheDir if need be and removes what other versions left there.
func NewRuntime(o Options) (*Runtime, error) {
	if o.MemoryTotal == 0 {
		o.MemoryTotal = 64 << 20
	}
	if o.MemoryTotal < 0 {
		return nil, fmt.Errorf("%w: memory_total %d", ErrSpec, o.MemoryTotal)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &Runtime{o: o, log: o.Log, reserved: map[*Plugin]int64{}}
	if o.CacheDir != "" && !o.Interpreter {
		c, err := openCache(o.CacheDir, o.Log)
		if err != nil {
			return nil, err
		}
		r.cache = c
	}
	return r, nil
}

// Close ends the runtime. It returns an error when modules are still open, and ErrClosed the second time.
func (r *Runtime) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	if r.modules > 0 {
		return fmt.Errorf("plugins: close: %d modules are still open", r.modules)
	}
	r.closed = true
	return nil
}

// mono is the clock.
func (r *Runtime) mono() int64 {
	if r.o.Mono == nil {
		return 0
	}
	return r.o.Mono()
}

// CacheStats say how often compiled code was found, made, and made anew because it was damaged.
func (r *Runtime) CacheStats() CacheStats {
	if r.cache == nil {
		return CacheStats{}
	}
	return r.cache.stats()
}

// Reserved is the memory that is set aside for plugins, in bytes, and what there is in all.
func (r *Runtime) Reserved() (used, total int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.reserved {
		used += n
	}
	return used, r.o.MemoryTotal
}

// reserve sets memory aside for a plugin, instead of what it had before. While one generation takes over from another both may
// hold instances for the length of a batch; the sum counts the plugin once.
func (r *Runtime) reserve(p *Plugin, n int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	err := r.fits(p, n)
	if err == nil {
		r.reserved[p] = n
	}
	return err
}

// force is reserve for memory that is taken whether there is enough or not. The error is the same.
func (r *Runtime) force(p *Plugin, n int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.fits(p, n)
	r.reserved[p] = n
	return err
}

// fits says why a plugin cannot have n bytes. The caller holds mu.
func (r *Runtime) fits(p *Plugin, n int64) error {
	sum := n
	for other, m := range r.reserved {
		if other != p {
			sum += m
		}
	}
	if sum > r.o.MemoryTotal {
		return fmt.Errorf("%w: %q wants %d bytes (instances × memory_max), %d of %d are left", ErrBudget, p.name, n,
			r.o.MemoryTotal-(sum-n), r.o.MemoryTotal)
	}
	return nil
}

func (r *Runtime) release(p *Plugin) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.reserved, p)
}

func (r *Runtime) count(n int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed && n > 0 {
		return ErrClosed
	}
	r.modules += n
	return nil
}

// config is how every module is run. CloseOnContextDone stays off: it would make each turn of each loop leave the compiled code.
func (r *Runtime) config(pages uint32) wazero.RuntimeConfig {
	c := wazero.NewRuntimeConfigCompiler()
	if r.o.Interpreter {
		c = wazero.NewRuntimeConfigInterpreter()
	}
	return c.WithCoreFeatures(features).
		WithMemoryLimitPages(pages).
		WithMemoryCapacityFromMax(true). // growing moves nothing, and the base address stays
		WithDebugInfoEnabled(false)
}

var background = context.Background()
