package plugins

import "github.com/tidewheel/tidewheel/plugins/abi"

// counters are what a plugin counts over all its generations.
type counters struct {
	batches, records, fuel, deaths  int64
	quarantines, rollbacks, reloads int64
	logDropped                      int64 // of generations that are gone
	verdicts                        [abi.Defer + 1]int64
	failures                        [classes]int64
}

// Stats are a moment of a plugin, for metrics and for people. Counts begin when the plugin is made and run over generations.
type Stats struct {
	Name       string
	State      State
	Generation uint64
	Digest     Digest // of the current generation's file
	Manifest   Manifest
	Hooks      []abi.Hook
	Imports    []string // what the module imports; a part of what was granted

	Batches, Records int64
	Fuel             int64            // units
	Verdicts         map[string]int64 // by action, after the failure policy; "unset" is undecided
	Failures         map[string]int64 // by class
	Deaths           int64            // instances that died
	Quarantines      int64
	Reloads          int64
	Rollbacks        int64
	Instances        int64 // open now, of the current generation
	Busy             int64 // of Instances, those that a batch has
	Started          int64 // ever, of the current generation
	Memory           int64 // bytes of the open instances' memories
	MemoryHigh       int64 // bytes that one instance of the current generation has had at most
	LogDropped       int64 // lines above the rate

	LoadNs   int64   // that checking, compiling and starting the current generation took; 0 without Options.Mono
	UntilMs  int64   // when a quarantine ends, ms since the epoch; 0 without one
	Trial    int     // batches that the current generation has to pass before it is trusted
	Previous *Digest // of the generation that Rollback makes current; nil without one

	LastFailure   *Failure // nil when nothing has failed
	LastFailureMs int64    // ms since the epoch
}

// count adds a batch, as its caller sees it. The caller holds mu.
func (p *Plugin) count(call Call, a *Answer) {
	c := &p.counters
	c.batches++
	c.records += int64(len(a.Decisions))
	c.fuel += a.Fuel
	c.deaths += int64(a.Deaths)
	var verdicts [16]int64
	for i := range a.Decisions {
		x := &a.Decisions[i]
		verdicts[x.Verdict.Action()&15]++
		if x.Failure != nil {
			c.failures[min(x.Failure.Class, classes-1)]++
			if x.Failure.Class != ClassOff { // which says nothing that is not known
				p.last, p.lastMs = x.Failure, call.NowMs
			}
		}
	}
	for i := range c.verdicts {
		c.verdicts[i] += verdicts[i]
	}
}

// Stats returns the moment.
func (p *Plugin) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, m := &p.counters, p.current.m
	s := Stats{
		Name: p.name, State: p.state, Generation: p.current.number, Digest: m.digest, Manifest: m.manifest, Hooks: m.Hooks(), Imports: m.Imports(),
		Batches: c.batches, Records: c.records, Fuel: c.fuel, Deaths: c.deaths, Quarantines: c.quarantines, Reloads: c.reloads, Rollbacks: c.rollbacks,
		Verdicts: map[string]int64{}, Failures: map[string]int64{}, Instances: m.open.Load(), Started: m.made.Load(),
		LastFailure: p.last, LastFailureMs: p.lastMs,
	}
	for a, n := range c.verdicts {
		if n > 0 {
			s.Verdicts[abi.Action(a).String()] = n
		}
	}
	for k, n := range c.failures {
		if n > 0 {
			s.Failures[Class(k).String()] = n
		}
	}
	_, dropped := m.logs.lines()
	s.LogDropped = c.logDropped + dropped
	s.Busy, s.Memory, s.MemoryHigh, s.LoadNs, s.Trial = m.busy(), m.memoryNow.Load(), m.memoryHigh.Load(), m.loadNs, p.trial
	if p.state != Active {
		s.UntilMs = p.until
	}
	if p.previous != nil {
		_, dropped := p.previous.m.logs.lines()
		s.LogDropped += dropped
		s.Previous = &p.previous.m.digest
	}
	return s
}

// Logs are the last lines that the current generation wrote, oldest first; at most 100.
func (p *Plugin) Logs() []LogLine {
	p.mu.Lock()
	m := p.current.m
	p.mu.Unlock()
	lines, _ := m.logs.lines()
	return lines
}

// Module is the current generation. It belongs to the plugin.
func (p *Plugin) Module() *Module {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current.m
}
