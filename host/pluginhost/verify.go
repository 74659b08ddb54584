package pluginhost

import (
	"context"
	"fmt"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/plugins"
)

// Verification says how far Host.Verify goes.
type Verification struct {
	Limit int64         // of verdicts
	From  engine.Offset // where the log that is read begins; below 1: where it does
	Until engine.Offset // where in the log it ends
	Time  time.Duration // within which it ends, as far as whole verdicts allow, with what there is until then
}

// Verify asks the file of a plugin that decides now again about what the log says it decided (see VerifyLog), in an instance of
// its own: serving neither waits for it nor hears of it. The instance's memory is what memory_total has beyond all that is
// configured. One plugin is verified at a time, others wait within their time. A Reconfigure ends a verification before its time,
// with a Next. The errors are ErrNoPlugin, ErrFailed, a *plugins.LoadError with plugins.ErrBudget, that of the context, or of the
// log.
func (h *Host) Verify(ctx context.Context, name string, log Log, v Verification) (plugins.Digest, Logged, error) {
	m := h.member(name)
	if m == nil {
		return plugins.Digest{}, Logged{}, ErrNoPlugin
	}
	p := m.plugin()
	if p == nil {
		return plugins.Digest{}, Logged{}, ErrFailed
	}
	over := time.NewTimer(v.Time)
	defer over.Stop()
	select {
	case h.verifying <- struct{}{}:
		defer func() { <-h.verifying }()
	case <-over.C:
		return p.Module().Digest(), Logged{Next: max(log.At(), v.From)}, nil
	case <-ctx.Done():
		return plugins.Digest{}, Logged{}, ctx.Err()
	}
	if err := h.spare(p.Module()); err != nil {
		return plugins.Digest{}, Logged{}, err
	}
	twin, err := p.Twin()
	if err != nil {
		return plugins.Digest{}, Logged{}, err
	}
	defer twin.Close()
	gone, late := false, false
	found, err := VerifyLog(ctx, log, twin, func(found *Logged, at engine.Offset) bool {
		select {
		case <-over.C:
			late = true
		default:
		}
		gone = h.ended() || m.plugin() != p // closing it waits for the twin
		return gone || late || h.yielding.Load() > 0 || found.Verdicts >= v.Limit || at >= v.Until
	})
	m.meter.differ.Add(found.Differ)
	if err == nil && gone {
		err = ErrNoPlugin
	}
	switch {
	case found.Next >= v.Until:
		found.Next = -1
	case found.Next >= 0:
		found.Next = max(found.Next, v.From) // the reader may be before it still
	}
	return twin.Module().Digest(), found, err
}

// spare says whether there is memory for one more instance of a module beside all instances that are configured, also those of
// plugins whose file could not be loaded yet: it must not be this one that keeps them out.
func (h *Host) spare(m *plugins.Module) error {
	want, left := m.Spec().Limits.MemoryMax, int64(h.cfg.PluginHost.MemoryTotal)
	for _, other := range *h.members.Load() {
		left -= int64(other.table.Instances) * int64(other.table.Limits.MemoryMax)
	}
	if want <= left {
		return nil
	}
	return &plugins.LoadError{Plugin: m.Spec().Name, Digest: m.Digest(), Err: fmt.Errorf(
		"%w: one more instance wants %d bytes (memory_max), and memory_total has %d beyond what is configured", plugins.ErrBudget, want, max(left, 0))}
}

// stopVerifying ends a verification, and keeps others from beginning until the function that it returns is called.
func (h *Host) stopVerifying() (allow func()) {
	h.yielding.Add(1)
	h.verifying <- struct{}{}
	return func() {
		h.yielding.Add(-1)
		<-h.verifying
	}
}
