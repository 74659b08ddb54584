package plugins

import (
	"log/slog"
	"math"
)

// Twin is another plugin with the module of the current generation, and nothing else in common with it: one instance, pristine,
// started with its first batch; counts and logs of its own, of which nobody hears; never quarantined, never open. It is for asking
// again what was decided, beside the batches of the plugin, also after a rollback. Its memory is reserved as any plugin's. Close
// it soon: closing the plugin, or the generation when others have taken over, waits for that. The error is ErrClosed, or a
// *LoadError with ErrBudget when there is no memory for one more instance.
func (p *Plugin) Twin() (*Plugin, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	g := p.current
	p.busy++
	g.users++
	p.mu.Unlock()
	m := g.m.twin(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.busy--
		if g.users--; g.users == 0 {
			p.left.Broadcast()
		}
	})
	if err := p.host.count(1); err != nil {
		m.end()
		return nil, err
	}
	return p.host.NewPlugin(m)
}

// twin is a module that runs the same compiled code, which it calls back to give up.
func (m *Module) twin(giveUp func()) *Module {
	t := &Module{
		host: m.host, spec: m.spec, digest: m.digest, manifest: m.manifest, hooks: m.hooks, imports: m.imports,
		runtime: m.runtime, compiled: m.compiled, giveUp: giveUp,
		refill: m.refill, memoryCap: m.memoryCap, firstMemory: m.firstMemory,
		slots: make(chan *instance, 1),
	}
	t.spec.Limits.Instances, t.spec.Policy.QuarantineAfter, t.spec.Policy.FailOpen = 1, math.MaxInt, false
	// The guest may ask for the level, and is to be told what it was told.
	t.logs = &logs{log: slog.New(slog.DiscardHandler), name: m.logs.name, level: m.logs.level, rate: m.logs.rate}
	t.slots <- nil
	return t
}
