package bench_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/host/bench"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/httpapi"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// TestMain makes this test binary the child, too: a process that runs it by the name tidewheel is one. An argument says how
// it shall lie about its store.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "tidewheel" {
		flag.Parse()
		// The tests wait for due times and other processes more than they compute.
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
		os.Exit(m.Run())
	}
	out := io.Writer(os.Stdout)
	if len(os.Args) > 1 {
		r, w := io.Pipe()
		go tamper(r, os.Stdout, os.Args[1])
		out = w
	}
	if err := bench.Child(context.Background(), os.Stdin, out, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// tamper passes lines on and changes what they say of the load.
func tamper(in io.Reader, out io.Writer, how string) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l map[string]any
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			panic(err)
		}
		if done, ok := l["done"].(map[string]any); ok {
			seen, ok := done["seen"].([]any)
			last := len(seen) - 1
			switch {
			case how == "lost" && ok:
				s := seen[last].([]any)
				s[1] = s[1].(float64) - 1
			case how == "twice" && ok:
				done["twice"] = 1
			case how == "early" && ok:
				done["early"] = 1
			case how == "forgotten" && done["waiting"] != nil:
				done["waiting"] = done["waiting"].(float64) - 1
			}
		}
		b, err := json.Marshal(l)
		if err != nil {
			panic(err)
		}
		if _, err := out.Write(append(b, '\n')); err != nil {
			return
		}
	}
}

// small is a bench that takes little time.
func small(t *testing.T, name string) bench.Config {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := bench.Config{Bench: name, Exe: exe, Dir: t.TempDir(), Pending: 500}
	switch name {
	case bench.Put:
		c.Count, c.Batch, c.Clients, c.Delay = 3000, 10, 4, bench.Spread
	case bench.Fire:
		c.Count, c.Batch, c.Clients, c.Delay = 500, 50, 4, 1500*time.Millisecond
	case bench.Mixed:
		c.Duration, c.Delay, c.Rate, c.Clients = 700*time.Millisecond, 200*time.Millisecond, 400, 8
	case bench.Restart:
		c.Count = 2
	case bench.Idle:
		c.Duration = 200 * time.Millisecond
	}
	return c
}

func run(t *testing.T, c bench.Config) bench.Result {
	t.Helper()
	r, err := bench.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// filterFile is a module whose filter is some code.
func filterFile(t *testing.T, code string) string {
	t.Helper()
	m := plugintest.Guest()
	m.Hook("tw_filter", code)
	name := filepath.Join(t.TempDir(), "filter.wasm")
	if err := os.WriteFile(name, m.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// With a plugin the load fires twice, and each message of it and of the topic beside it is accounted for.
func TestFireFiltered(t *testing.T) {
	t.Parallel()
	c := small(t, bench.Fire)
	c.Plugin = filterFile(t, "i64.const 1")
	r := run(t, c)
	f := r.Filtered
	if !r.OK() || r.Count != 500 || f == nil || f.File != "filter.wasm" || f.FireAll < f.FireFirst || f.FireFirst <= 0 {
		t.Fatalf("%+v, filtered %+v", r, f)
	}
	if f.Lateness == nil || f.Beside == nil || r.Beside == nil || f.FirePerS <= 0 || f.Ratio != f.FirePerS/r.FirePerS {
		t.Errorf("%+v, filtered %+v", r, f)
	}
	var text bytes.Buffer
	if err := r.WriteTable(&text); err != nil || !strings.Contains(text.String(), "all fired through filter.wasm: ") {
		t.Errorf("%v:\n%s", err, &text)
	}
}

// A file that is no plugin is the run's error.
func TestFireFilteredBadly(t *testing.T) {
	t.Parallel()
	c := small(t, bench.Fire)
	c.Plugin = filepath.Join(c.Dir, "none.wasm")
	if _, err := bench.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "none.wasm") {
		t.Errorf("without a file: %v", err)
	}
	if err := os.WriteFile(c.Plugin, []byte("no module"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := bench.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "module") {
		t.Errorf("with a text for a module: %v", err)
	}
	for _, c := range []bench.Config{{Bench: bench.Put, Plugin: "x"}, {Bench: bench.Fire, Plugin: "x", URL: "http://127.0.0.1:1"}} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "the plugin is x") {
			t.Errorf("%s with a plugin: %v", c.Bench, err)
		}
	}
}

// Each bench finds what it is for, and nothing lost, twice or early.
func TestRun(t *testing.T) {
	for name, has := range map[string]func(r bench.Result) bool{
		bench.Put:  func(r bench.Result) bool { return r.Count == 3000 && r.PutPerS > 0 && r.Put.P50 > 0 },
		bench.Fire: func(r bench.Result) bool { return r.Count == 500 && *r.FireFirst > 0 && *r.FireAll >= *r.FireFirst },
		bench.Mixed: func(r bench.Result) bool {
			return r.Count > 100 && r.Lateness.P99 > 0 && r.RestartMs > 0 && r.PutPerS > 0
		},
		bench.Restart: func(r bench.Result) bool { return r.Count >= 2000 && r.RestartMs > 0 },
		bench.Idle:    func(r bench.Result) bool { return r.IdleCPU != nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, small(t, name))
			if !r.OK() || r.Pending != 500 || r.Fsync == nil || r.Durability != bench.Always || !has(r) {
				t.Errorf("found %+v", r)
			}
			var table bytes.Buffer
			if err := r.WriteTable(&table); err != nil || strings.Contains(table.String(), "NOT") {
				t.Errorf("%v: %s", err, table.String())
			}
		})
	}
}

// A store that has lost, repeated or hastened something is found out.
func TestRunTampered(t *testing.T) {
	for how, c := range map[string]struct {
		bench string
		bad   func(r bench.Result) int
	}{
		"lost":      {bench.Fire, func(r bench.Result) int { return r.Lost }},
		"twice":     {bench.Fire, func(r bench.Result) int { return r.Twice }},
		"early":     {bench.Fire, func(r bench.Result) int { return r.Early }},
		"forgotten": {bench.Put, func(r bench.Result) int { return r.Lost }},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			lying := small(t, c.bench)
			lying.ChildArgs = []string{how}
			r := run(t, lying)
			if r.OK() || c.bad(r) != 1 {
				t.Errorf("found %+v", r)
			}
			var table bytes.Buffer
			if err := r.WriteTable(&table); err != nil || !strings.Contains(table.String(), "NOT every") {
				t.Errorf("%v: %s", err, table.String())
			}
		})
	}
}

// An answer that leaves before fsync is not lost in a kill, either: what was written belongs to the system.
func TestRunInterval(t *testing.T) {
	t.Parallel()
	c := small(t, bench.Mixed)
	c.Durability = bench.Interval
	if r := run(t, c); !r.OK() || r.Count == 0 || r.Durability != bench.Interval {
		t.Errorf("found %+v", r)
	}
}

// A profile is of the load, and a kill does not cut it off.
func TestRunProfile(t *testing.T) {
	t.Parallel()
	for _, name := range []string{bench.Put, bench.Mixed} {
		c := small(t, name)
		c.CPUProfile = filepath.Join(c.Dir, "cpu")
		run(t, c)
		gzip := []byte{0x1f, 0x8b}
		if b, err := os.ReadFile(c.CPUProfile); err != nil || !bytes.HasPrefix(b, gzip) {
			t.Errorf("%s: the profile begins with %x, %v", name, b[:min(len(b), 8)], err)
		}
	}
}

// A directory that is used again goes on with what waits in it.
func TestRunTwiceInOneDirectory(t *testing.T) {
	t.Parallel()
	c := small(t, bench.Put)
	first := run(t, c)
	c.Pending = first.Pending + first.Count + 100
	second := run(t, c)
	if !second.OK() || second.Pending != c.Pending || second.FillPerS == 0 {
		t.Errorf("found %+v, then %+v", first, second)
	}
}

// A bench that fills a store by default can do without.
func TestRunNonePending(t *testing.T) {
	t.Parallel()
	c := small(t, bench.Idle)
	c.Pending = bench.None
	if r := run(t, c); !r.OK() || r.Pending != 0 {
		t.Errorf("found %+v", r)
	}
}

// Messages can be visible at once, and are read then.
func TestRunPutAtOnce(t *testing.T) {
	t.Parallel()
	c := small(t, bench.Put)
	c.Delay, c.Count, c.Duration, c.Rate = 0, 0, 300*time.Millisecond, 1000
	if r := run(t, c); !r.OK() || r.Count < 200 || r.Count > 400 {
		t.Errorf("found %+v", r)
	}
}

// A server is measured over HTTP.
func TestRunURL(t *testing.T) {
	root, err := fsadapter.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b, err := broker.Open(broker.Env{FS: fsadapter.New(root)}, ".", broker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(httpapi.Handler(b, httpapi.Options{}))
	t.Cleanup(func() {
		server.Close()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct {
		bench string
		batch int
	}{{bench.Put, 1}, {bench.Put, 10}, {bench.Fire, 10}, {bench.Mixed, 1}} {
		t.Run(fmt.Sprintf("%s in %d", c.bench, c.batch), func(t *testing.T) {
			t.Parallel()
			cfg := small(t, c.bench)
			cfg.URL, cfg.Exe, cfg.Batch = server.URL, "", c.batch
			r := run(t, cfg)
			if !r.OK() || r.Count == 0 || r.PutPerS == 0 || r.Fsync == nil || r.Durability != "" || r.RSS != 0 {
				t.Errorf("found %+v", r)
			}
		})
	}
}

func TestRunRefuses(t *testing.T) {
	for name, c := range map[string]bench.Config{
		"nothing":           {},
		"unknown":           {Bench: "go"},
		"a short body":      {Bench: bench.Put, Body: 10},
		"a large batch":     {Bench: bench.Put, Batch: 10_001},
		"no clients":        {Bench: bench.Put, Clients: -1},
		"a long delay":      {Bench: bench.Put, Delay: 8 * 24 * time.Hour},
		"restart by URL":    {Bench: bench.Restart, URL: "http://127.0.0.1:1"},
		"idle by URL":       {Bench: bench.Idle, URL: "http://127.0.0.1:1"},
		"durability":        {Bench: bench.Put, Durability: "never"},
		"another's profile": {Bench: bench.Put, URL: "http://127.0.0.1:1", CPUProfile: "x"},
		"another's memory":  {Bench: bench.Put, URL: "http://127.0.0.1:1", Edge: true},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := bench.Run(t.Context(), c); err == nil {
				t.Error("it was not refused")
			}
			if c.Validate() == nil {
				t.Error("Validate finds nothing wrong")
			}
		})
	}
}

// A due time that comes before everything is stored is an error, not a figure.
func TestRunFireTooSoon(t *testing.T) {
	t.Parallel()
	c := small(t, bench.Fire)
	c.Delay = 10 * time.Millisecond
	if r, err := bench.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "--delay") {
		t.Errorf("found %+v, %v", r, err)
	}
}

// When the context ends, so does the store's process.
func TestRunCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c := small(t, bench.Put)
	c.Count, c.Duration = 0, time.Hour
	c.Progress = func(p bench.Progress) {
		if p.Phase == "putting" {
			cancel()
		}
	}
	if _, err := bench.Run(ctx, c); err == nil {
		t.Error("no error")
	}
	if err := os.RemoveAll(c.Dir); err != nil {
		t.Error(err)
	}
}
