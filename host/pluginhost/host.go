package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/afero"

	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/plugins"
)

// Options say what to host.
type Options struct {
	// Config has the plugins. It is required, and only read.
	Config *config.Config
	// FS is where the files of the plugins are. Nil: the operating system's.
	FS afero.Fs
	// Now is the clock that plugins see, ms since the epoch. Nil: the machine's.
	Now func() int64
	// Log hears of plugins, and what they write. Nil: silence.
	Log *slog.Logger
}

// Host is the plugins of a server:
//
//  1. Open loads what the configuration names. What can't be loaded is failed, and watched.
//  2. The broker asks it; its files are looked at every reload_interval.
//  3. Reconfigure, as often as wanted, adds, changes and removes plugins.
//  4. Close ends it, when the broker is closed.
//
// It is safe for concurrent use.
type Host struct {
	fs  afero.Fs
	now func() int64
	log *slog.Logger

	members  atomic.Pointer[[]*member] // by order; the slice does not change
	interval atomic.Int64              // ns between two looks at the files; 0: none
	wake     chan struct{}             // there are other members, or another interval
	stop     context.CancelFunc
	polling  sync.WaitGroup

	verifying chan struct{} // holds who verifies a plugin
	yielding  atomic.Int32  // how many wait for that to end

	changing sync.Mutex        // one Reconfigure at a time
	runtime  *plugins.Runtime  // guarded by changing; nil before the first plugin
	loader   *plugins.Loader   // guarded by changing; nil before the first plugin
	meters   map[string]*meter // by plugin, guarded by changing
	cfg      *config.Config    // of Open: where the files are, and the memory; read-only
	caches   atomic.Pointer[caches]
	closed   bool        // guarded by changing
	over     atomic.Bool // closed, for those who must not wait
}

// caches is how the metrics see the runtime.
type caches struct{ r *plugins.Runtime }

var _ broker.Hooks = (*Host)(nil)

// Open loads the plugins of the configuration. It takes up to seconds for each that is not in the cache of compiled code. A
// plugin that can't be loaded is no error, but a line in the log, and see Attention. The error is that of the context.
func Open(ctx context.Context, o Options) (*Host, error) {
	h := &Host{
		fs: o.FS, now: o.Now, log: o.Log, wake: make(chan struct{}, 1), verifying: make(chan struct{}, 1), meters: map[string]*meter{}, cfg: o.Config,
	}
	if h.fs == nil {
		h.fs = afero.NewOsFs()
	}
	if h.now == nil {
		h.now = func() int64 { return time.Now().UnixMilli() }
	}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.members.Store(&[]*member{})
	polled, stop := context.WithCancel(context.Background())
	h.stop = stop
	h.polling.Go(func() { h.poll(polled) })
	for _, err := range h.reconfigure(ctx, o.Config) {
		h.log.Error("a plugin could not be loaded", "error", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("pluginhost: %w", err), h.Close())
	}
	return h, nil
}

// Reconfigure makes the plugins those of next: it loads new and changed ones, and closes what is gone when its batches have
// ended. Patterns, groups and order count from the next batch on; what is unchanged is not touched, and keeps its state. The
// error has a *plugins.LoadError for each that could not be loaded: a new one is failed then, a changed one goes on as it was.
// The directories and memory_total stay those of Open.
func (h *Host) Reconfigure(ctx context.Context, next *config.Config) error {
	return errors.Join(h.reconfigure(ctx, next)...)
}

func (h *Host) reconfigure(ctx context.Context, next *config.Config) (errs []error) {
	h.changing.Lock()
	defer h.changing.Unlock()
	if h.closed {
		return []error{plugins.ErrClosed}
	}
	defer h.stopVerifying()()
	if err := h.start(next); err != nil {
		return []error{err}
	}
	failed := map[string]error{}
	members := make([]*member, 0, len(next.Plugins))
	for i := range next.Plugins {
		m, err := h.settle(ctx, next.Plugins[i])
		if err != nil {
			failed[m.table.Name] = err
		}
		members = append(members, m)
	}
	slices.SortFunc(members, byOrder)
	before := *h.members.Swap(&members)
	for _, m := range before {
		if !slices.ContainsFunc(members, func(n *member) bool { return n.table.Name == m.table.Name }) {
			delete(h.meters, m.table.Name)
			errs = append(errs, h.loader.Remove(ctx, m.table.Name))
		}
	}
	if h.loader != nil {
		h.again(ctx, failed)
	}
	for _, m := range members {
		errs = append(errs, failed[m.table.Name])
	}
	h.interval.Store(int64(next.PluginHost.ReloadInterval))
	select {
	case h.wake <- struct{}{}:
	default:
	}
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// again loads what had no room before others went or shrank. The caller holds changing.
func (h *Host) again(ctx context.Context, failed map[string]error) {
	for _, f := range h.loader.Status() {
		if !errors.Is(f.Err, plugins.ErrBudget) {
			continue
		}
		delete(failed, f.Plugin)
		if err := h.loader.Reload(ctx, f.Plugin, wallMs()); err != nil {
			failed[f.Plugin] = err
		}
	}
}

// start makes the runtime when there is something to run. The caller holds changing.
func (h *Host) start(next *config.Config) error {
	if h.runtime != nil || len(next.Plugins) == 0 {
		return nil
	}
	o := plugins.Options{
		MemoryTotal: int64(h.cfg.PluginHost.MemoryTotal), CacheDir: h.cfg.PluginCacheDir(), Log: h.log,
		Mono: func() int64 { return time.Now().UnixNano() },
	}
	r, err := plugins.NewRuntime(o)
	if err != nil {
		// Without a cache a start takes longer, and that is all.
		h.log.Warn("compiled plugins are not kept", "error", err)
		o.CacheDir = ""
		if r, err = plugins.NewRuntime(o); err != nil {
			return fmt.Errorf("pluginhost: %w", err)
		}
	}
	h.runtime, h.loader = r, plugins.NewLoader(r, h.fs)
	h.caches.Store(&caches{r})
	return nil
}

// settle makes one plugin what its table says. The member is there also when the plugin can't be loaded. The caller holds
// changing.
func (h *Host) settle(ctx context.Context, t config.PluginTable) (*member, error) {
	if h.meters[t.Name] == nil {
		h.meters[t.Name] = newMeter()
	}
	file, spec := path(h.cfg.PluginDir(), &t), Spec(&t)
	before := h.member(t.Name)
	switch {
	case before == nil:
		h.log.Info("loading a plugin", "plugin", t.Name, "file", file)
		p, err := h.loader.Watch(ctx, file, spec, wallMs())
		if err == nil {
			s := p.Stats()
			h.log.Info("plugin loaded", "plugin", t.Name, "digest", s.Digest.String(), "took_ms", s.LoadNs/1e6)
		}
		return newMember(t, h.loader, h.meters[t.Name]), err
	case reflect.DeepEqual(before.table, t):
		return before, nil
	}
	m := newMember(t, h.loader, h.meters[t.Name])
	if file == path(h.cfg.PluginDir(), &before.table) && reflect.DeepEqual(spec, Spec(&before.table)) {
		return m, nil
	}
	return m, h.loader.Change(ctx, file, spec, wallMs())
}

// wallMs is the clock that the times of files are compared with, whatever clock plugins see.
func wallMs() int64 { return time.Now().UnixMilli() }

// poll looks at the files until the context ends. Without plugins it sleeps.
func (h *Host) poll(ctx context.Context) {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		var tick <-chan time.Time
		members := *h.members.Load()
		if every := time.Duration(h.interval.Load()); every > 0 && len(members) > 0 {
			t.Reset(every)
			tick = t.C
		}
		select {
		case <-tick:
			members[0].loader.Poll(wallMs())
		case <-h.wake:
		case <-ctx.Done():
			return
		}
	}
}

// Reload loads the file of a plugin now and waits for it. What runs already is no error and changes nothing. The error is
// ErrNoPlugin, a *plugins.LoadError, or that of the context.
func (h *Host) Reload(ctx context.Context, name string) error {
	m := h.member(name)
	if m == nil {
		return ErrNoPlugin
	}
	return m.loader.Reload(ctx, name, wallMs())
}

// Rollback makes the generation before the current one run again, until the file changes or Reload is called. The error is
// ErrNoPlugin, ErrFailed or plugins.ErrNoPrevious.
func (h *Host) Rollback(name string) error {
	m := h.member(name)
	if m == nil {
		return ErrNoPlugin
	}
	p := m.plugin()
	if p == nil {
		return ErrFailed
	}
	err := p.Rollback()
	if err == nil {
		h.log.Warn("plugin rolled back by hand", "plugin", name, "digest", p.Module().Digest().String())
	}
	return err
}

// ended says whether Close was called.
func (h *Host) ended() bool { return h.over.Load() }

// Close closes the plugins. Nobody may be asking any more: close the broker first. Closing twice is plugins.ErrClosed.
func (h *Host) Close() error {
	h.changing.Lock()
	defer h.changing.Unlock()
	if h.closed {
		return plugins.ErrClosed
	}
	h.closed = true
	h.over.Store(true)
	h.stop()
	h.polling.Wait()
	if h.runtime == nil {
		return nil
	}
	return errors.Join(h.loader.Close(), h.runtime.Close())
}
