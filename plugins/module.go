package plugins

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/internal/fuel"
	"github.com/tidewheel/tidewheel/plugins/internal/wasm"
)

// features are WebAssembly 2.0 without SIMD, as package wasm checks.
const features = api.CoreFeaturesV2 &^ api.CoreFeatureSIMD

// Module is a plugin's file, checked, metered and compiled: one generation of a Plugin. It holds at most Limits.Instances
// instances, made when they are needed and closed for certain: by Close, by the borrower after a death, or because they grew.
// Safe for concurrent use. Close it once; a closed module has no instance, no compiled code and no reservation.
type Module struct {
	host     *Runtime
	spec     Spec
	digest   Digest
	manifest Manifest
	hooks    [abi.Hooks]bool
	imports  []string
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	code     wazero.CompilationCache // nil without a cache on disk; it holds the compiled code and is closed last
	giveUp   func()                  // of a twin: the compiled code is another's; else nil
	logs     *logs

	refill      string // the line of a stack that is the fuel's own function
	memoryCap   int64  // bytes that one instance can grow to
	firstMemory int64  // bytes after the start, to tell growth from size

	// slots has one entry for each instance that may exist: nil for one that does not.
	slots chan *instance
	open  atomic.Int64 // instances
	chunk atomic.Int64 // records of a call, below Limits.BatchMax after budgets ran out

	closing sync.Once
	closed  atomic.Bool
	standby atomic.Bool  // another generation has taken over: instances are not kept
	made    atomic.Int64 // instances that were ever started

	memoryNow, memoryHigh atomic.Int64 // bytes: of all open instances, and the most that one has had
	loadNs                int64        // that Load took
}

// Load checks, rewrites and compiles a file and starts one instance of it; nothing of the plugin runs before all checks passed.
// It takes up to seconds for a Go guest that is not in the cache, so it belongs in the background. The file is not kept. The
// error is a *LoadError. Load does not reserve memory: NewPlugin does.
func (r *Runtime) Load(ctx context.Context, file []byte, spec Spec) (*Module, error) {
	began := r.mono()
	m, err := r.load(ctx, file, spec.withDefaults())
	if err != nil {
		return nil, &LoadError{Plugin: spec.Name, Digest: sha256.Sum256(file), Err: err}
	}
	m.loadNs = r.mono() - began
	return m, nil
}

func (r *Runtime) load(ctx context.Context, file []byte, spec Spec) (*Module, error) {
	if err := spec.validate(); err != nil {
		return nil, err
	}
	m := &Module{host: r, spec: spec, digest: sha256.Sum256(file), logs: newLogs(r.log, spec.Name, spec.Limits.LogPerSecond)}
	if spec.Pin != nil && *spec.Pin != m.digest {
		return nil, fmt.Errorf("%w: it has %v", ErrPin, m.digest)
	}
	metered, err := m.check(file)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := r.count(1); err != nil {
		return nil, err
	}
	if err := m.compile(metered); err != nil {
		return nil, errors.Join(err, m.abandon())
	}
	m.slots = make(chan *instance, spec.Limits.Instances)
	first, err := m.begin()
	if err != nil {
		return nil, errors.Join(err, m.abandon())
	}
	m.firstMemory = int64(first.mem.Size())
	m.slots <- first
	for range spec.Limits.Instances - 1 {
		m.slots <- nil
	}
	return m, nil
}

// abandon undoes what a failed load left open.
func (m *Module) abandon() error {
	m.closed.Store(true)
	m.host.count(-1)
	return m.end()
}

// end closes the runtime and then the code that it ran.
func (m *Module) end() error {
	if m.giveUp != nil {
		m.giveUp()
		return nil
	}
	var errs []error
	if m.runtime != nil {
		errs = append(errs, m.runtime.Close(background))
	}
	if m.code != nil {
		errs = append(errs, m.code.Close(background))
	}
	m.runtime, m.code = nil, nil
	return errors.Join(errs...)
}

// check is everything that is done with the file before the compiler sees it. It returns the metered module.
func (m *Module) check(file []byte) ([]byte, error) {
	l := wasm.DefaultLimits()
	l.Binary = m.spec.Limits.BinaryMax
	for p, v := range map[*int]int{&l.Body: m.spec.Limits.Compile.Body, &l.Nesting: m.spec.Limits.Compile.Nesting, &l.Locals: m.spec.Limits.Compile.Locals} {
		if v != 0 {
			*p = v
		}
	}
	parsed, err := wasm.Parse(file, l)
	if err != nil {
		return nil, err
	}
	if m.hooks, err = checkABI(parsed, &m.spec); err != nil {
		return nil, err
	}
	for _, im := range parsed.Imports {
		m.imports = append(m.imports, im.Module+"."+im.Name)
	}
	if data, ok := parsed.Custom(abi.Manifest); ok {
		if m.manifest, err = ParseManifest(data); err != nil {
			return nil, err
		}
		for _, name := range m.manifest.Hooks {
			if h, _ := abi.ParseHook(name); !m.hooks[h] {
				return nil, fmt.Errorf("%w: it names the hook %s, which the module does not export", ErrManifest, name)
			}
		}
		if err := m.manifest.meant(m.spec.Hooks); err != nil {
			return nil, err
		}
	}
	pages := uint32(m.spec.Limits.MemoryMax >> 16)
	m.memoryCap = m.spec.Limits.MemoryMax
	if parsed.Memory.HasMax {
		m.memoryCap = min(m.memoryCap, int64(parsed.Memory.Max)<<16)
	}
	metered, stats, err := fuel.Rewrite(parsed, fuel.Options{Initial: m.spec.Limits.FuelInit, MemoryPages: pages})
	m.refill = fmt.Sprintf(".$%d()\n", stats.Refill)
	return metered, err
}

// compile makes the module's own runtime, so that closing it later takes everything of this generation with it and nothing else.
func (m *Module) compile(metered []byte) error {
	m.host.compiling.Lock()
	defer m.host.compiling.Unlock()
	pages := uint32(m.spec.Limits.MemoryMax >> 16)
	try := func(c wazero.CompilationCache) error {
		config := m.host.config(pages)
		if c != nil {
			config = config.WithCompilationCache(c)
			m.code = c
		}
		m.runtime = wazero.NewRuntimeWithConfig(background, config)
		if err := addHost(background, m.runtime); err != nil {
			return err
		}
		var err error
		m.compiled, err = m.runtime.CompileModule(experimental.WithCompilationWorkers(background, 2), metered)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrCompile, firstLine(err))
		}
		return nil
	}
	if m.host.cache == nil {
		return try(nil)
	}
	return m.host.cache.use(sha256.Sum256(metered), func(c wazero.CompilationCache) error {
		err := try(c)
		if err != nil {
			err = errors.Join(err, m.end())
		}
		return err
	})
}

// begin starts an instance and counts it.
func (m *Module) begin() (*instance, error) {
	in, err := m.start()
	if err != nil {
		return nil, err
	}
	m.open.Add(1)
	m.made.Add(1)
	m.measure(in)
	return in, nil
}

// measure notes how large an instance has become.
func (m *Module) measure(in *instance) {
	size := int64(in.mem.Size())
	m.memoryNow.Add(size - in.noted)
	in.noted = size
	for high := m.memoryHigh.Load(); size > high && !m.memoryHigh.CompareAndSwap(high, size); high = m.memoryHigh.Load() {
	}
}

// busy is how many instances batches have.
func (m *Module) busy() int64 { return int64(cap(m.slots) - len(m.slots)) }

// borrow waits for an instance that is free, or for the right to start one. The caller gives it back with giveBack.
func (m *Module) borrow(ctx context.Context) (*instance, error) {
	var in *instance
	ok := true
	select { // one that is free costs half as much as waiting for two things
	case in, ok = <-m.slots:
	default:
		select {
		case in, ok = <-m.slots:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	switch {
	case !ok:
		return nil, ErrClosed
	case in != nil:
		return in, nil
	}
	in, err := m.begin()
	if err != nil {
		m.slots <- nil
		return nil, err
	}
	return in, nil
}

// giveBack takes an instance back. A dead or worn one is closed.
func (m *Module) giveBack(in *instance) {
	m.measure(in)
	if in.worn() || m.standby.Load() {
		m.discard(in)
		m.slots <- nil
		return
	}
	m.slots <- in
}

func (m *Module) discard(in *instance) {
	in.close()
	m.open.Add(-1)
	m.memoryNow.Add(-in.noted)
}

// shed closes the instances that are idle. The module stays usable. One that is closed has none.
func (m *Module) shed() {
	for range cap(m.slots) {
		select {
		case in, ok := <-m.slots:
			if !ok {
				return
			}
			if in != nil {
				m.discard(in)
			}
			m.slots <- nil
		default:
			return
		}
	}
}

// Close waits until no batch is being decided, then closes all instances and the compiled code. The second call returns
// ErrClosed.
func (m *Module) Close() error {
	err := ErrClosed
	m.closing.Do(func() {
		m.closed.Store(true)
		for range cap(m.slots) {
			if in := <-m.slots; in != nil {
				m.discard(in)
			}
		}
		close(m.slots)
		err = m.end()
		m.host.count(-1)
	})
	return err
}

// Digest is the SHA-256 of the file.
func (m *Module) Digest() Digest { return m.digest }

// Manifest is what the module says about itself; zero without a section.
func (m *Module) Manifest() Manifest { return m.manifest }

// Imports are the functions that the module imports, as module.name.
func (m *Module) Imports() []string { return append([]string(nil), m.imports...) }

// Hooks are the hooks that the module implements.
func (m *Module) Hooks() []abi.Hook {
	var all []abi.Hook
	for h, ok := range m.hooks {
		if ok {
			all = append(all, abi.Hook(h))
		}
	}
	return all
}

// isOf says whether the module was made of a file with a digest, with a specification.
func (m *Module) isOf(digest Digest, spec Spec) bool {
	return m.digest == digest && reflect.DeepEqual(m.spec, spec.withDefaults())
}

// Spec is what the module was loaded with, defaults filled in.
func (m *Module) Spec() Spec { return m.spec }
