package author

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"

	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/guest/golden"
)

// Setting is what a plugin is loaded with. The zero value takes a server's defaults and grants every function of the host.
type Setting struct {
	Config        []byte // the plugin's configuration, a JSON object; nil for none
	MemoryMax     int64  // bytes; 16 MiB if zero
	FuelPerRecord int64  // 200,000 if zero
	CacheDir      string // of compiled code; empty for none
	Interpreter   bool   // the other engine, slower by a factor of fifty
}

// Session is a plugin that was loaded as a server would, with one instance. It is never quarantined. Not safe for concurrent
// use; close it once.
type Session struct {
	runtime *plugins.Runtime
	plugin  *plugins.Plugin
	answer  plugins.Answer
	log     lines
}

// seed is that of the random numbers in a session; a server has one for each batch.
const seed = 1

// Open loads a module. The error is that of plugins.Runtime.Load.
func Open(ctx context.Context, module []byte, set Setting) (*Session, error) {
	limits := plugins.Limits{MemoryMax: set.MemoryMax, FuelPerRecord: set.FuelPerRecord}
	limits.FuelCallMax = max(10_000_000, set.FuelPerRecord+plugins.DefaultFuelBase)
	return OpenSpec(ctx, module, plugins.Spec{
		Name: "plugin", Policy: plugins.Policy{OnError: plugins.OnErrorDeadLetter}, Grants: AllGrants, Limits: limits, Config: set.Config,
	}, plugins.Options{CacheDir: set.CacheDir, Interpreter: set.Interpreter})
}

// OpenSpec is Open with what a configuration says, but with one instance, no quarantine and no limit for what it says. Of the
// options memory and log are the session's.
func OpenSpec(ctx context.Context, module []byte, spec plugins.Spec, o plugins.Options) (*Session, error) {
	if spec.Limits.MemoryMax == 0 {
		spec.Limits.MemoryMax = 16 << 20
	}
	spec.Limits.Instances, spec.Limits.LogPerSecond, spec.Policy.QuarantineAfter = 1, math.MaxInt, math.MaxInt
	s := &Session{}
	o.MemoryTotal, o.Log = spec.Limits.MemoryMax, slog.New(&s.log)
	var err error
	if s.runtime, err = plugins.NewRuntime(o); err != nil {
		return nil, err
	}
	m, err := s.runtime.Load(ctx, module, spec)
	if err == nil {
		s.plugin, err = s.runtime.NewPlugin(m)
	}
	if err != nil {
		var load *plugins.LoadError
		if errors.As(err, &load) {
			err = load.Err // there is one plugin, and its name here says nothing
		}
		return nil, errors.Join(err, s.runtime.Close())
	}
	s.log.take() // what it said while it started
	return s, nil
}

// Close ends the session.
func (s *Session) Close() error { return errors.Join(s.plugin.Close(), s.runtime.Close()) }

// Module is the plugin's module, which belongs to the session.
func (s *Session) Module() *plugins.Module { return s.plugin.Module() }

// Decide decides a batch; it is a golden.Decide.
func (s *Session) Decide(hook abi.Hook, nowMs int64, records []abi.Record) ([]golden.Verdict, error) {
	if err := s.decide(context.Background(), hook, nowMs, records); err != nil {
		return nil, err
	}
	all := make([]golden.Verdict, len(records))
	for i := range records {
		all[i] = line(hook, &s.answer.Decisions[i])
	}
	return all, nil
}

func (s *Session) decide(ctx context.Context, hook abi.Hook, nowMs int64, records []abi.Record) error {
	if err := s.plugin.Decide(ctx, plugins.Call{Hook: hook, NowMs: nowMs, Seed: seed}, records, &s.answer); err != nil {
		return err
	}
	if n := s.answer.Decided; n < len(records) {
		return fmt.Errorf("record %d was not decided: %w", n+1, s.answer.Decisions[n].Failure)
	}
	return nil
}

// line is a decision as files of verdicts have it.
func line(hook abi.Hook, d *plugins.Decision) golden.Verdict {
	if f := d.Failure; f != nil {
		return golden.Failed(f.Class.String(), f.Code, f.Message)
	}
	return golden.Decided(hook, d.Verdict, d.Output)
}

// Outcome is what a plugin did with one record.
type Outcome struct {
	Verdict golden.Verdict
	Failure *plugins.Failure // nil when the plugin decided
	Fuel    int64            // units, of the whole call
	Memory  int64            // bytes of the instance's memory after it; 0 when it was not called
	Log     []LogLine        // what the plugin said
}

// LogLine is a line that a plugin wrote.
type LogLine struct {
	Level slog.Level
	Text  string
}

// Run decides one record in a call of its own.
func (s *Session) Run(ctx context.Context, hook abi.Hook, r golden.Record) (Outcome, error) {
	records := []abi.Record{r.ABI(hook)}
	if err := s.decide(ctx, hook, r.NowMs, records); err != nil {
		return Outcome{}, err
	}
	d := &s.answer.Decisions[0]
	return Outcome{Verdict: line(hook, d), Failure: d.Failure, Fuel: s.answer.Fuel, Memory: s.answer.Memory, Log: s.log.take()}, nil
}

// Budget is the fuel of a call with one record.
func (s *Session) Budget() int64 {
	l := s.Module().Spec().Limits
	return min(l.FuelBase+l.FuelPerRecord, l.FuelCallMax)
}

// lines is a slog.Handler that keeps what plugins say and forgets what the runtime has to say.
type lines struct {
	mu  sync.Mutex
	all []LogLine // guarded by mu
}

// Enabled takes every level.
func (l *lines) Enabled(context.Context, slog.Level) bool { return true }

// Handle keeps a line of the plugin.
func (l *lines) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "line" {
			l.mu.Lock()
			l.all = append(l.all, LogLine{Level: r.Level, Text: a.Value.String()})
			l.mu.Unlock()
		}
		return true
	})
	return nil
}

// WithAttrs and WithGroup are not used by the runtime.
func (l *lines) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup is not used by the runtime.
func (l *lines) WithGroup(string) slog.Handler { return l }

// take returns the lines and forgets them.
func (l *lines) take() []LogLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}
