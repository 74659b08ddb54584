package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/bench"
	"github.com/tidewheel/tidewheel/host/config"
)

// benchFlags are what the benches take.
type benchFlags struct {
	cfg     bench.Config
	pending string
	count   string
	delay   string
	profile string
	data    string
}

func (a *app) bench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a store, and that it loses nothing meanwhile",
		Long: `Measure how fast a store is on this machine and this disk, and judge it: the exit code is 1 if a message was lost,
came twice or came early. The store runs in a process of its own, on real files with fsync, in a directory that is
removed afterwards, or in that of --data, which is kept. The system's directory for temporary files may be in memory:
then fsync costs nothing, and the figures are worth as much. With --url it is a server that is measured.

Each run also measures what an fsync of the disk itself takes: compare figures of one run with each other.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		a.benchOf(bench.Put, "How many messages are stored in a second", `
Messages are due in one to six days unless --delay says something else; 0s is at once.`,
			"  tidewheel bench put --batch 100\n  tidewheel bench put --url http://127.0.0.1:7070 --clients 512"),
		a.benchOf(bench.Fire, "How fast messages come that are due at one millisecond", `
--delay is the time until they are due, in which they have to be stored; by default it is chosen. With --plugin they fire
a second time, into a topic where a filter decides about each of them, and both times beside another topic, whose messages
fall due meanwhile. The filter has to keep what it is asked about: what it drops counts as lost.`,
			"  tidewheel bench fire --count 1000000\n  tidewheel bench fire --plugin filter-c.wasm"),
		a.benchOf(bench.Mixed, "How late messages come beside many that wait; then kill -9 and an account", `
Messages are put at --rate, are due after --delay (2s), and are read as they come, beside --pending others. Then the
store is killed with SIGKILL in the middle of it, opened again, and has to account for every message.`,
			"  tidewheel bench mixed --pending 10M --rate 2000 --duration 30s"),
		a.benchOf(bench.Restart, "How long a store is away after kill -9", `
The store is killed with SIGKILL under load, --count times; the longest time until it answered a put counts.`,
			"  tidewheel bench restart --pending 10M"),
		a.benchOf(bench.Idle, "What a store costs that does nothing", "",
			"  tidewheel bench idle --pending 10M --duration 60s"),
		a.benchChild(),
	)
	return cmd
}

// benchChild is the process of a store under measurement.
func (a *app) benchChild() *cobra.Command {
	return &cobra.Command{
		Use:    "child",
		Short:  "The process of a store that bench measures",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.Child(cmd.Context(), a.stdin, a.stdout, a.stderr)
		},
	}
}

func (a *app) benchOf(name, short, long, example string) *cobra.Command {
	f := benchFlags{cfg: bench.Config{Bench: name}}
	cmd := &cobra.Command{
		Use:     name,
		Short:   short,
		Long:    short + ".\n" + long,
		Example: example,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runBench(cmd.Context(), &f) },
	}
	f.define(cmd)
	return cmd
}

// define makes the flags that a bench has.
func (f *benchFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	name := f.cfg.Bench
	own, remote := f.cfg.WithDefaults(), bench.Config{Bench: name, URL: "x"}.WithDefaults()
	hasURL := name == bench.Put || name == bench.Fire || name == bench.Mixed
	usage := func(text string, own, remote int) string {
		if hasURL && own != remote {
			return fmt.Sprintf("%s (default %d, with --url %d)", text, own, remote)
		}
		return fmt.Sprintf("%s (default %d)", text, own)
	}
	flags.StringVar(&f.pending, "pending", "", usage("messages that wait beside the load, as 10M", own.Pending, remote.Pending))
	flags.StringVar(&f.data, "data", "", "keep the files here, and go on with those that are there")
	flags.IntVar(&f.cfg.Body, "body", 0, usage("bytes of a message's body", own.Body, remote.Body))
	switch name {
	case bench.Restart:
		flags.StringVar(&f.count, "count", "", usage("kills", own.Count, remote.Count))
	case bench.Put, bench.Fire:
		flags.StringVar(&f.count, "count", "", usage("messages, as 100k", own.Count, remote.Count))
	}
	if name != bench.Idle {
		flags.IntVar(&f.cfg.Batch, "batch", 0, usage("messages that are sent together", own.Batch, remote.Batch))
		flags.IntVar(&f.cfg.Clients, "clients", 0, usage("that send side by side", own.Clients, remote.Clients))
	}
	switch name {
	case bench.Put:
		flags.IntVar(&f.cfg.Rate, "rate", 0, "messages a second (default: as fast as it goes)")
		flags.DurationVar(&f.cfg.Duration, "duration", 0, "how long, instead of --count")
	case bench.Mixed:
		flags.IntVar(&f.cfg.Rate, "rate", 0, usage("messages a second", own.Rate, remote.Rate))
		flags.DurationVar(&f.cfg.Duration, "duration", 0, fmt.Sprintf("how long (default %v)", own.Duration))
	case bench.Idle:
		flags.DurationVar(&f.cfg.Duration, "duration", 0, fmt.Sprintf("how long (default %v)", own.Duration))
	}
	if name == bench.Fire {
		flags.StringVar(&f.cfg.Plugin, "plugin", "", "fire them again through the filter of this WebAssembly module, and compare")
	}
	if hasURL {
		flags.StringVar(&f.delay, "delay", "", delayUsage[name])
		flags.StringVar(&f.cfg.URL, "url", "", "measure this server; its token is in TIDEWHEEL_TOKEN, and --data is a directory on its disk")
	}
	flags.StringVar(&f.cfg.Durability, "durability", "", "always: an answer leaves after fsync; interval: before (default always)")
	flags.StringVar(&f.profile, "profile", "", "edge: the memory of a box with 64 MB")
	flags.StringVar(&f.cfg.CPUProfile, "cpuprofile", "", "write a profile of the store under load to this file, for go tool pprof")
}

var delayUsage = map[string]string{
	bench.Put:   "how far ahead messages are due, as 2h; 0s: visible at once (default: one to six days)",
	bench.Fire:  "how far ahead messages are due, as 20s (default: as they need to be stored)",
	bench.Mixed: "how far ahead messages are due (default 2s)",
}

// config makes a configuration of the flags.
func (f *benchFlags) config() (bench.Config, error) {
	c := f.cfg
	var err error
	if c.Pending, err = number("--pending", f.pending); err != nil {
		return c, err
	}
	if c.Pending == 0 && f.pending != "" {
		c.Pending = bench.None
	}
	if c.Count, err = number("--count", f.count); err != nil {
		return c, err
	}
	switch {
	case f.delay != "":
		d, err := config.ParseDuration(f.delay)
		if err != nil {
			return c, fmt.Errorf("%w: --delay: %w", errUsage, err)
		}
		c.Delay = time.Duration(d)
	case c.Bench == bench.Put:
		c.Delay = bench.Spread
	}
	switch f.profile {
	case "":
	case "edge":
		c.Edge = true
	default:
		return c, fmt.Errorf("%w: --profile is %q, allowed is edge", errUsage, f.profile)
	}
	c.Token = strings.TrimSpace(os.Getenv("TIDEWHEEL_TOKEN"))
	c.Dir = f.data
	if c.Plugin != "" {
		if c.Plugin, err = filepath.Abs(c.Plugin); err != nil {
			return c, err
		}
	}
	if err := c.Validate(); err != nil {
		return c, fmt.Errorf("%w: %w", errUsage, err)
	}
	return c, nil
}

// number reads a count as a person writes it: 2000, 100k, 10M. Empty is 0.
func number(flag, text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	unit, digits := 1, text
	for suffix, n := range map[string]int{"k": 1000, "M": 1_000_000} {
		if s, ok := strings.CutSuffix(text, suffix); ok {
			unit, digits = n, s
		}
	}
	const most = 1 << 30
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || n > most/unit || digits[0] < '0' {
		return 0, fmt.Errorf("%w: %s is %q, allowed is a whole number like 2000, 100k or 10M", errUsage, flag, text)
	}
	return n * unit, nil
}

func (a *app) runBench(ctx context.Context, f *benchFlags) error {
	if a.format == formatCSV || a.format == formatName {
		return fmt.Errorf("%w: bench prints -o table, json and ndjson", errUsage)
	}
	cfg, err := f.config()
	if err != nil {
		return err
	}
	if cfg.URL == "" {
		if cfg.Exe, err = os.Executable(); err != nil {
			return err
		}
		cfg.ChildArgs = []string{"bench", "child"}
	}
	switch {
	case cfg.Dir != "":
		if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
			return err
		}
	case cfg.URL == "":
		if cfg.Dir, err = os.MkdirTemp("", "tidewheel-bench-"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(cfg.Dir) }()
	}
	progress, done := a.benchProgress()
	cfg.Progress = progress
	result, err := bench.Run(ctx, cfg)
	done()
	if ctx.Err() != nil {
		return errors.New("interrupted: nothing was measured")
	}
	if err != nil {
		return err
	}
	return a.benchVerdict(&result)
}

// benchVerdict prints a result; errReported says that it is a bad one.
func (a *app) benchVerdict(r *bench.Result) error {
	var err error
	if a.format == formatTable {
		err = r.WriteTable(a.stdout)
	} else {
		err = encode(a.stdout, r, "") // one line, also with -o json: whoever reads it takes the last one
	}
	if err == nil && !r.OK() {
		return errReported // the result says what is wrong
	}
	return err
}

// benchProgress shows one line that changes, on a terminal; elsewhere nothing.
func (a *app) benchProgress() (show func(bench.Progress), done func()) {
	f, ok := a.stderr.(*os.File)
	if !ok {
		return nil, func() {}
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil, func() {}
	}
	const width, bar = 78, 30
	show = func(p bench.Progress) {
		share := 0.0
		if p.Total > 0 {
			share = min(float64(p.Done)/float64(p.Total), 1)
		}
		full := int(share * bar)
		fmt.Fprintf(f, "\r%-*s", width, fmt.Sprintf("%-28s [%s%s] %3.0f %%", p.Phase,
			strings.Repeat("#", full), strings.Repeat(".", bar-full), 100*share))
	}
	return show, func() { fmt.Fprintf(f, "\r%s\r", strings.Repeat(" ", width)) }
}
