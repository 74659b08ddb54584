package config_test

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/schedule"
	"github.com/tidewheel/tidewheel/host/config"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares a text with a file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not what is made now; if that is right: go test ./host/config -run Golden -update", file)
	}
}

func TestGoldenReference(t *testing.T) { golden(t, "../../docs/configuration.md", config.Reference()) }

func TestGoldenTemplate(t *testing.T) { golden(t, "testdata/golden/tidewheel.toml", config.Template()) }

// The file that init makes is taken as it is, and with every line in force, and both change nothing.
func TestTemplateIsTheDefault(t *testing.T) {
	for name, doc := range map[string]string{
		"as it is": config.Template(),
		"in force": strings.ReplaceAll(config.Template(), "\n#", "\n"),
	} {
		// What is not a key in force is prose; it has a blank behind the mark.
		var rows []string
		for row := range strings.Lines(doc) {
			if !strings.HasPrefix(row, " ") {
				rows = append(rows, row)
			}
		}
		cfg, err := config.Parse(config.Source{}, []byte(strings.Join(rows, "")))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(cfg.Broker(), config.Default().Broker()) || cfg.Listen != config.Default().Listen || cfg.DataDir != "data" {
			t.Errorf("%s it gives %+v", name, cfg)
		}
		if n := len(cfg.Topics); (n == 1) != (name == "in force") {
			t.Errorf("%s it has %d topics", name, n)
		}
	}
}

func TestDefaultLevels(t *testing.T) {
	if got := config.Default().Timer.Levels; got != schedule.DefaultLevels {
		t.Errorf("levels are %q, the engine's %q", got, schedule.DefaultLevels)
	}
}

// Every setting comes back when it is given as a flag, so show, variables and flags speak the same language.
func TestSettingsRoundTrip(t *testing.T) {
	src := config.Source{}
	for _, s := range config.Default().Settings() {
		if s.Origin != config.OriginDefault || s.Value != s.Default || s.Variable == "" {
			t.Errorf("setting %+v", s)
		}
		src.Flags = append(src.Flags, config.Flag{Name: "--x", Key: s.Key, Value: s.Value})
		src.Environ = append(src.Environ, s.Variable+"="+s.Value)
	}
	cfg, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	if live, restart := config.Default().Changed(cfg); live != nil || restart != nil {
		t.Errorf("%v and %v have changed", live, restart)
	}
	for _, s := range cfg.Settings() {
		if s.Origin != "--x" {
			t.Errorf("%s comes from %s", s.Key, s.Origin)
		}
	}
}

func TestSettingsOrigin(t *testing.T) {
	cfg, err := config.Parse(config.Source{
		File:    "t.toml",
		Environ: []string{"TIDEWHEEL_LOG__RETENTION=1w"},
		Flags:   []config.Flag{{Name: "--http", Key: "listen.http", Value: "[::1]:0"}},
	}, []byte("[timer]\nmax_delay = \"24h\"\n[[topic]]\nname = \"a\"\n[[topic]]\nqueues = 7\nname = \"b\"\n[log]\nretention = \"1d\""))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range cfg.Settings() {
		if s.Origin != config.OriginDefault {
			got = append(got, s.Key+" "+s.Value+" "+s.Origin)
		}
	}
	want := []string{
		"timer.max_delay 1d t.toml:2", "log.retention 7d TIDEWHEEL_LOG__RETENTION", "listen.http [::1]:0 --http",
		"topic.a.queues 4 t.toml:4", "topic.b.queues 7 t.toml:6",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestChanged(t *testing.T) {
	parse := func(doc string) *config.Config {
		t.Helper()
		cfg, err := config.Parse(config.Source{File: "t.toml"}, []byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	const topics = "[[topic]]\nname = \"a\"\n[[topic]]\nname = \"b\"\nqueues = 2\n"
	for _, c := range []struct {
		name, before, after string
		live, restart       []string
		topics              []config.TopicTable
	}{
		{"nothing", topics, topics, nil, nil, nil},
		{"the form only", "[log]\nretention = \"1w\"", "log.retention = \"7d\"", nil, nil, nil},
		{"the default, said", "", "[timer]\nlanes = 1", nil, nil, nil},
		{"values", "[timer]\nlanes = 2", "data_dir = \"x\"\n[listen]\nhttp = \"localhost:1\"", nil, []string{"data_dir", "timer.lanes", "listen.http"}, nil},
		{"topics", topics, "[[topic]]\nname = \"b\"\nqueues = 3\n[[topic]]\nname = \"c\"", []string{"topic.b.queues", "topic.c.queues"}, nil,
			[]config.TopicTable{{Name: "b", Queues: 3}, {Name: "c", Queues: 4}}},
		{"a topic's default", topics, "[broker]\nqueues = 8\n" + topics, []string{"topic.a.queues"}, []string{"broker.queues"},
			[]config.TopicTable{{Name: "a", Queues: 8}}},
		{"a topic less", topics, "", nil, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, after := parse(c.before), parse(c.after)
			live, restart := before.Changed(after)
			if !slices.Equal(live, c.live) || !slices.Equal(restart, c.restart) {
				t.Errorf("live %v, restart %v; want %v, %v", live, restart, c.live, c.restart)
			}
			if got := before.ChangedTopics(after); !slices.Equal(got, c.topics) {
				t.Errorf("topics %v, want %v", got, c.topics)
			}
		})
	}
}

// Everything listens on loopback unless it is configured otherwise, and this version can't be.
func TestDefaultIsLoopback(t *testing.T) {
	if got := config.Default().Listen.HTTP; !strings.HasPrefix(got, "127.0.0.1:") {
		t.Errorf("HTTP listens on %s", got)
	}
}

// What zero means differs between the file and the options: there it is the default, here it is nothing.
func TestZeroIsNothing(t *testing.T) {
	cfg, err := config.Parse(config.Source{File: "t.toml"}, []byte("profile = \"edge\"\n[log]\nreserve = 0\nhigh_water = 0\n[timer]\nnear = 0\n[broker]\nidempotency_window = 0"))
	if err != nil {
		t.Fatal(err)
	}
	if o := cfg.Engine(); o.Reserve >= 0 || o.IdempotencyWindow >= 0 || o.HighWater != 0 || o.Near != 0 || o.Profile != engine.ProfileEdge {
		t.Errorf("got %+v", o)
	}
}

// TestMemory: the soft limit is what the docs say, follows the budgets, and can be given.
func TestMemory(t *testing.T) {
	for _, c := range []struct {
		doc         string
		least, most int64 // MiB
	}{
		{"", 215, 235},
		{"profile = \"edge\"", 45, 55},
		{"[timer]\nlanes = 63", 215, 235},
		{"[log]\ntail = \"1GiB\"", 1207, 1227},
		{"[limits]\nqueued = \"1GiB\"\nunsynced = \"1GiB\"", 2215, 2235},
		{"[timer]\nlanes = 2\nseconds_entries = 10_000_000", 1800, 2000},
		{"memory_limit = \"100MiB\"", 100, 100},
	} {
		cfg, err := config.Parse(config.Source{File: "t.toml"}, []byte(c.doc))
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.Memory() >> 20; got < c.least || got > c.most {
			t.Errorf("%q: %d MiB", c.doc, got)
		}
	}
}

// TestWith: what can change while a server runs is the next configuration's, the rest stays, and what waits for a
// restart is told again at the next reload.
func TestWith(t *testing.T) {
	parse := func(doc string) *config.Config {
		t.Helper()
		cfg, err := config.Parse(config.Source{File: "t.toml"}, []byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	running := parse("[timer]\nlanes = 2\n[logging]\nlevel = \"warn\"\n[[topic]]\nname = \"a\"")
	next := parse("\n[timer]\nlanes = 3\n[logging]\nlevel = \"debug\"\nformat = \"json\"\n[[topic]]\nname = \"a\"\n[[topic]]\nname = \"b\"")
	now := running.With(next)
	if live, restart := now.Changed(next); live != nil || !slices.Equal(restart, []string{"timer.lanes", "logging.format"}) {
		t.Errorf("live %v, restart %v", live, restart)
	}
	if live, restart := running.Changed(now); !slices.Equal(live, []string{"logging.level", "topic.b.queues"}) || restart != nil {
		t.Errorf("live %v, restart %v: the running one was changed", live, restart)
	}
	for _, s := range now.Settings() {
		want := map[string]string{
			"timer.lanes": "2 t.toml:2", "logging.level": "debug t.toml:5", "logging.format": "text default", "topic.b.queues": "4 t.toml:10",
		}[s.Key]
		if got := s.Value + " " + s.Origin; want != "" && got != want {
			t.Errorf("%s is %s, want %s", s.Key, got, want)
		}
	}
	if now.Logging.Slog() != slog.LevelDebug || running.Logging.Slog() != slog.LevelWarn {
		t.Error("levels")
	}
}

func Example() {
	doc := `
[timer]
max_delay = "30d"

[[topic]]
name = "orders"
queues = 8
`
	cfg, err := config.Parse(config.Source{File: "tidewheel.toml", Environ: []string{"TIDEWHEEL_LOG__RETENTION=7d12h"}}, []byte(doc))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.Engine().MaxDelay, cfg.Engine().Retention, cfg.Topics[0].Name)
	// Output: 720h0m0s 180h0m0s orders
}

func ExampleReport() {
	_, err := config.Parse(config.Source{File: "tidewheel.toml"}, []byte(`
[timer]
max_dely = "30d"
near = 5
`))
	fmt.Println(err)
	// Output:
	// config: 2 problems
	//   tidewheel.toml:3: timer.max_dely: unknown key; did you mean "max_delay"?
	//   tidewheel.toml:4: timer.near: it is 5 and must be a duration with its unit in quotes, as in "7d"
}

func ExampleParseDuration() {
	d, err := config.ParseDuration("7d12h")
	fmt.Println(d, err)
	_, err = config.ParseDuration("30min")
	fmt.Println(err)
	// Output:
	// 7d12h <nil>
	// config: duration "30min": unknown unit "min"; units are y w d h m s ms
}
