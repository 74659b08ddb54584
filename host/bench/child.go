package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/host/internal/tail"
	"github.com/tidewheel/tidewheel/host/pluginhost"
)

// line is what a child says: an event, or the end of a step.
type line struct {
	event
	Done  *outcome `json:"done,omitempty"`
	Error string   `json:"error,omitempty"`
}

// Child is the process of a store: it reads requests from in and writes what it has to say to out, until in ends. The
// store's log goes to errs. Run starts it.
func Child(ctx context.Context, in io.Reader, out, errs io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	requests := make(chan request)
	go func() { // it ends with in
		defer cancel() // the parent is gone: stop in the middle of a step, too
		dec := json.NewDecoder(bufio.NewReader(in))
		for {
			var r request
			if dec.Decode(&r) != nil {
				return
			}
			select {
			case requests <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	c := &speaker{enc: json.NewEncoder(out)}
	var store *local
	var cpu *profiler
	defer func() {
		if store != nil {
			_ = store.close() // whatever it says, nobody listens any more
		}
	}()
	for {
		var r request
		select {
		case r = <-requests:
		case <-ctx.Done():
			return nil
		}
		var o outcome
		var err error
		switch {
		case r.Step == stepOpen && r.Open != nil && store == nil:
			store, err = openStore(ctx, r.Open, errs)
			if r.Open.CPUProfile != "" {
				cpu = &profiler{name: r.Open.CPUProfile}
			}
		case store == nil:
			err = errors.New("bench: no store is open")
		default:
			o, err = (&worker{store, c.say, new(peak), cpu}).do(ctx, r)
		}
		l := line{Done: &o}
		if err != nil {
			l.Error = err.Error()
		}
		c.speak(l)
	}
}

// openStore opens a store as a server without a configuration file does.
func openStore(ctx context.Context, spec *openSpec, errs io.Writer) (*local, error) {
	cfg, err := storeConfig(spec)
	if err != nil {
		return nil, err
	}
	cfg.Durability = spec.Durability
	if spec.Edge {
		cfg.Profile = "edge"
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(cfg.Memory())
	}
	log := slog.New(slog.NewTextHandler(errs, &slog.HandlerOptions{Level: slog.LevelWarn}))
	opts := cfg.Broker()
	if spec.Plugin == "" {
		return openLocal(spec.Dir, opts, log)
	}
	host, err := pluginhost.Open(ctx, pluginhost.Options{Config: cfg, Log: log})
	if err != nil {
		return nil, err
	}
	store, err := (*local)(nil), loadError(host)
	if opts.Hooks = host; err == nil {
		store, err = openLocal(spec.Dir, opts, log)
	}
	if err != nil {
		return nil, errors.Join(err, host.Close())
	}
	store.plugins = host
	return store, nil
}

// pluginName is what the plugin of a bench is called.
const pluginName = "bench"

// storeConfig is the configuration of a store: the defaults, and a plugin if there is one. It is granted what it may ask for, and
// what it cannot decide about is not there: the account says so.
func storeConfig(spec *openSpec) (*config.Config, error) {
	if spec.Plugin == "" {
		return config.Default(), nil
	}
	file, err := json.Marshal(spec.Plugin) // a string of TOML, too
	if err != nil {
		return nil, err
	}
	cfg, err := config.Parse(config.Source{}, fmt.Appendf(nil, `[plugins]
reload_interval = "0"
[[plugin]]
name = %q
file = %s
hooks = ["filter"]
match = [%q]
on_error = "dead_letter"
[plugin.capabilities]
json = true
headers = true
match = true
`, pluginName, file, filteredTopic+"*"))
	if err == nil {
		cfg.DataDir = spec.Dir // the cache of compiled code is there
	}
	return cfg, err
}

// loadError says why the plugin could not be loaded.
func loadError(h *pluginhost.Host) error {
	v, err := h.Plugin(pluginName)
	if err == nil && v.State == pluginhost.StateFailed {
		err = fmt.Errorf("bench: %w", v.File.Err)
	}
	return err
}

// speaker writes lines. It is safe for concurrent use.
type speaker struct {
	mu  sync.Mutex
	enc *json.Encoder
}

func (s *speaker) say(e event) { s.speak(line{event: e}) }

func (s *speaker) speak(l line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.enc.Encode(l) // a parent that is gone closes in, too
}

// process is a child, as its parent sees it.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *json.Decoder
	stderr *tail.Buffer
	began  time.Time
	killed atomic.Bool
}

// launch starts a child. It ends when this process does.
func launch(exe string, args []string) (*process, error) {
	p := &process{cmd: exec.Command(exe, args...), stderr: new(tail.Buffer), began: time.Now()}
	p.cmd.Args[0] = "tidewheel" // a test binary is the program by that name only
	p.cmd.Stderr = p.stderr
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	p.stdout = json.NewDecoder(bufio.NewReaderSize(out, 1<<20))
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("bench: start %s: %w", exe, err)
	}
	return p, nil
}

// errKilled is returned by a step in the middle of which hear killed the process.
var errKilled = errors.New("bench: killed")

// do has the child do a step, and hears of its events until it is done.
func (p *process) do(ctx context.Context, r request, hear func(event)) (outcome, error) {
	stop := context.AfterFunc(ctx, p.kill)
	defer stop()
	if err := json.NewEncoder(p.stdin).Encode(r); err != nil {
		return outcome{}, p.gone(ctx, err)
	}
	for {
		var l line
		if err := p.stdout.Decode(&l); err != nil {
			return outcome{}, p.gone(ctx, err)
		}
		switch {
		case l.Error != "":
			return outcome{}, fmt.Errorf("bench: %s: %s", r.Step, strings.TrimPrefix(l.Error, "bench: "))
		case l.Done != nil:
			return *l.Done, nil
		}
		hear(l.event)
	}
}

// gone says why a child does not speak any more.
func (p *process) gone(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case p.killed.Load():
		return errKilled
	}
	return fmt.Errorf("bench: the store's process ended: %w: %s", err, p.stderr)
}

// kill ends the process as SIGKILL does.
func (p *process) kill() {
	p.killed.Store(true)
	_ = p.cmd.Process.Kill() // it may be gone already
}

// end waits until a killed process is gone, or asks one that lives to end, and waits.
func (p *process) end() error {
	_ = p.stdin.Close() // it may be gone already
	err := p.cmd.Wait()
	if err != nil && !p.killed.Load() {
		return fmt.Errorf("bench: the store's process: %w: %s", err, p.stderr)
	}
	return nil
}
