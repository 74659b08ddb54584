package plugins

import (
	"context"
	"fmt"
	"sync"

	"github.com/tidewheel/tidewheel/plugins/abi"
)

// State says whether a plugin is asked.
type State uint8

// The states. A plugin's state is changed in this file only.
const (
	Active      State = iota
	Quarantined       // not asked until a time
	Probing           // one record is being tried
)

// String is the name of the state: active, quarantined, probing.
func (s State) String() string {
	return [...]string{"active", "quarantined", "probing"}[min(s, Probing)]
}

// Plugin is a named plugin with its current generation, the one before it, and its state:
//
//  1. NewPlugin makes it active with generation 1 and reserves memory.
//  2. Decide takes batches through it. Each batch is decided by one generation from its first record to its last.
//  3. Deaths without an answer in between (Policy.QuarantineAfter of them) quarantine it. After a pause, which doubles from
//     one to the next, one record is tried. An answer makes it active again.
//  4. Swap puts a new generation in its place; batches in hand end with the old one, which is kept for Rollback. While the new
//     one is on trial (TrialCalls batches), a quarantine rolls back by itself.
//  5. Close waits for the batches in hand and closes both generations.
//
// Safe for concurrent use.
type Plugin struct {
	host *Runtime
	name string

	mu       sync.Mutex
	current  *generation // guarded by mu
	previous *generation // guarded by mu; nil without one
	number   uint64      // of generations made, guarded by mu
	trial    int         // batches the current generation still has to pass, guarded by mu
	state    State       // guarded by mu
	streak   int         // deaths without an answer, guarded by mu
	until    int64       // ms: the end of a quarantine, guarded by mu
	pause    int64       // ms: of the last quarantine, guarded by mu
	last     *Failure    // guarded by mu
	lastMs   int64       // guarded by mu
	closed   bool        // guarded by mu
	counters counters    // guarded by mu
	busy     int         // batches in hand, guarded by mu

	left     sync.Cond      // on mu: a batch was the last of its generation
	retiring sync.WaitGroup // generations that close in the background
}

// TrialCalls is how many batches without a quarantine make a new generation trusted.
const TrialCalls = 64

// generation is a module in its time as part of a plugin.
type generation struct {
	m      *Module
	number uint64
	users  int // batches in hand, guarded by the plugin's mu; grows only while it is current
}

// NewPlugin makes a plugin of a module, which belongs to it from then on. It returns ErrBudget, and closes the module, when the
// memory of all its instances does not fit beside the other plugins'.
func (r *Runtime) NewPlugin(m *Module) (*Plugin, error) {
	p := &Plugin{host: r, name: m.spec.Name, current: &generation{m: m, number: 1}, number: 1}
	p.left.L = &p.mu
	if err := r.reserve(p, m.memory()); err != nil {
		m.Close()
		return nil, &LoadError{Plugin: p.name, Digest: m.digest, Err: err}
	}
	return p, nil
}

// memory is what all instances may take.
func (m *Module) memory() int64 { return int64(m.spec.Limits.Instances) * m.spec.Limits.MemoryMax }

// Decide asks the plugin about records and fills a. What a died instance had answered stands, the record it died on is decided
// by the failure policy, and the rest goes to a fresh instance. Records from a.Decided on are undecided, because the policy
// blocks or the plugin is quarantined; the caller asks again later.
//
// The error is ErrClosed, the error of ctx while waiting for an instance, or ErrHook; a.Decided then says what was decided
// before. Records are only read.
func (p *Plugin) Decide(ctx context.Context, call Call, records []abi.Record, a *Answer) error {
	a.reset(len(records))
	g, state, err := p.enter(call.NowMs, len(records))
	if err != nil {
		a.Decided = 0
		return err
	}
	a.Digest, a.Generation, a.Targets = g.m.digest, g.number, g.m.spec.Targets
	d := decider{ctx: ctx, m: g.m, call: call, records: records, a: a, limit: g.m.spec.Policy.QuarantineAfter}
	switch {
	case call.Hook == 0 || call.Hook >= abi.Hooks || !g.m.hooks[call.Hook]:
		d.err = fmt.Errorf("plugins: %s: %w: %v", p.name, ErrHook, call.Hook)
		d.undecided(0, nil)
	case state == Quarantined:
		d.undecided(0, nil)
	case state == Probing:
		d.probe()
	default:
		d.run(0, len(records))
	}
	if d.in != nil {
		g.m.giveBack(d.in)
	}
	p.leave(g, state, call, a, &d)
	return d.err
}

// probe asks about one record, and about the others when the plugin lives. It is a real record: when the plugin dies on it
// again, the policy takes it out of the way.
func (d *decider) probe() {
	limit := d.limit
	d.limit = 1
	d.run(0, 1)
	if d.limit = limit; d.a.Deaths > 0 || d.stop {
		d.undecided(min(1, d.a.Decided), nil)
		return
	}
	d.run(1, len(d.records))
}

// open lets undecided records pass when the policy says so. A record on which the policy blocks stays undecided.
func open(g *generation, call Call, a *Answer) {
	if !g.m.spec.Policy.FailOpen || a.Decided == len(a.Decisions) {
		return
	}
	if f := a.Decisions[a.Decided].Failure; f != nil && f.Class != ClassStart && g.m.spec.Policy.OnError == OnErrorBlock {
		return
	}
	f := &Failure{Class: ClassOff, Message: "the plugin is quarantined", Digest: g.m.digest}
	for i := a.Decided; i < len(a.Decisions); i++ {
		a.Decisions[i] = Decision{Verdict: pass(call.Hook), Failure: f}
	}
	a.Decided = len(a.Decisions)
}

// enter picks the generation of a batch of n records and says in which state the plugin takes it.
func (p *Plugin) enter(nowMs int64, n int) (*generation, State, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, 0, ErrClosed
	}
	p.busy++
	p.current.users++
	state := p.state
	switch {
	// A clock that was set back must not make a second of quarantine an hour.
	case p.state == Quarantined && n > 0 && (nowMs >= p.until || p.until-nowMs > 2*p.pause):
		p.state, state = Probing, Probing
	case p.state == Probing: // somebody else tries
		state = Quarantined
	}
	return p.current, state, nil
}

// leave ends a batch: its part in the state of the plugin, what an open policy lets pass, the counts, and its place in the
// generation, all under one lock.
func (p *Plugin) leave(g *generation, state State, call Call, a *Answer, d *decider) {
	p.mu.Lock()
	var idle *Module
	if g == p.current && state != Quarantined { // what an earlier generation does says nothing about this one
		idle = p.judge(g, state, call, a, d)
	}
	if d.err == nil {
		open(g, call, a)
	}
	p.count(call, a)
	p.busy--
	if g.users--; g.users == 0 {
		p.left.Broadcast()
	}
	p.mu.Unlock()
	if idle != nil {
		idle.shed()
	}
}

// judge changes the state by how a batch of the current generation went. The caller holds mu, and sheds the module that comes
// back when it no longer does.
func (p *Plugin) judge(g *generation, state State, call Call, a *Answer, d *decider) *Module {
	policy := &g.m.spec.Policy
	switch {
	case state != p.state:
		return nil // others have judged while it was decided: two batches that die at once are one quarantine
	case d.err != nil:
		if state == Probing {
			p.state = Quarantined // nothing was learned
		}
		return nil
	case d.answers:
		p.streak = d.streak
	default:
		p.streak += d.streak
	}
	switch {
	case state == Probing && a.Deaths > 0 && a.Decided <= 1, p.streak >= policy.QuarantineAfter:
		return p.quarantine(policy, call.NowMs)
	case state == Probing:
		p.state, p.pause = Active, 0
		p.host.log.Info("plugin active again", "plugin", p.name)
	case p.trial > 0 && a.Deaths == 0:
		p.trial--
	}
	return nil
}

// quarantine is judge's.
func (p *Plugin) quarantine(policy *Policy, nowMs int64) *Module {
	if p.trial > 0 && p.previous != nil {
		p.host.log.Warn("plugin rolled back", "plugin", p.name, "generation", p.current.number, "digest", p.current.m.digest.String())
		return p.back()
	}
	p.pause = min(max(policy.QuarantineMs, 2*p.pause), policy.QuarantineMaxMs)
	p.state, p.streak, p.until = Quarantined, 0, nowMs+p.pause
	p.counters.quarantines++
	p.host.log.Warn("plugin quarantined", "plugin", p.name, "pause_ms", p.pause)
	return nil
}

// Swap makes m the current generation; it belongs to the plugin from then on. Batches in hand end with the old one. The
// generation before that is closed in the background. On error m is closed: ErrBudget, ErrClosed.
func (p *Plugin) Swap(m *Module) error {
	p.mu.Lock()
	err := ErrClosed
	if !p.closed {
		err = p.host.reserve(p, m.memory())
	}
	if err != nil {
		p.mu.Unlock()
		m.Close()
		return &LoadError{Plugin: p.name, Digest: m.digest, Err: err}
	}
	gone := p.previous
	p.number++
	p.previous, p.current = p.current, &generation{m: m, number: p.number}
	p.trial, p.state, p.streak, p.pause = TrialCalls, Active, 0, 0
	p.counters.reloads++
	p.retire(gone)
	old, number := p.previous.m, p.number
	old.standby.Store(true)
	p.mu.Unlock()
	old.shed()
	p.host.log.Info("plugin reloaded", "plugin", p.name, "generation", number, "digest", m.digest.String())
	return nil
}

// retire closes a generation in the background, when the last batch has left it: a batch that has lost its instance to a death
// still needs another one.
func (p *Plugin) retire(g *generation) {
	if g != nil {
		_, dropped := g.m.logs.lines()
		p.counters.logDropped += dropped
		p.retiring.Go(func() {
			p.mu.Lock()
			for g.users > 0 {
				p.left.Wait()
			}
			p.mu.Unlock()
			g.m.Close()
		})
	}
}

// Rollback makes the previous generation current again, and the current one the previous. It returns ErrNoPrevious when there
// is none.
func (p *Plugin) Rollback() error {
	p.mu.Lock()
	switch {
	case p.closed:
		p.mu.Unlock()
		return ErrClosed
	case p.previous == nil:
		p.mu.Unlock()
		return ErrNoPrevious
	}
	idle := p.back()
	p.mu.Unlock()
	idle.shed()
	return nil
}

// back exchanges the two generations and returns the module that is not current any more, whose idle instances the caller
// closes with shed when it has let go of mu. It does not fail: the memory was there before, and a plugin that works on a budget
// that is stretched for a while is better than one that does not.
func (p *Plugin) back() *Module {
	if err := p.host.force(p, p.previous.m.memory()); err != nil {
		p.host.log.Warn("plugin rolled back over the memory budget", "plugin", p.name, "err", err)
	}
	p.current, p.previous, p.trial = p.previous, p.current, 0
	p.state, p.streak, p.pause = Active, 0, 0
	p.current.m.standby.Store(false)
	p.previous.m.standby.Store(true)
	p.counters.rollbacks++
	return p.previous.m
}

// Close waits for the batches in hand and closes the plugin's generations. The second call returns ErrClosed.
func (p *Plugin) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return ErrClosed
	}
	p.closed = true
	for p.busy > 0 {
		p.left.Wait()
	}
	current, previous := p.current, p.previous
	p.mu.Unlock()
	err := current.m.Close()
	if previous != nil {
		previous.m.Close()
	}
	p.retiring.Wait()
	p.host.release(p)
	return err
}
