package config_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/host/config"
)

// problems parses a document called t.toml and returns what is wrong, a line each.
func problems(t *testing.T, doc string, environ ...string) []string {
	t.Helper()
	cfg, err := config.Parse(config.Source{File: "t.toml", Environ: environ}, []byte(doc))
	if err == nil {
		return nil
	}
	var report *config.Report
	if !errors.As(err, &report) || cfg != nil || len(report.Problems) == 0 {
		t.Fatalf("got %v, %v; want a report and no configuration", cfg, err)
	}
	var list []string
	for _, p := range report.Problems {
		list = append(list, p.String())
	}
	return list
}

// expect compares problems, of which the wanted ones may be the beginnings.
func expect(t *testing.T, got, want []string) {
	t.Helper()
	ok := len(got) == len(want)
	for i := range min(len(got), len(want)) {
		ok = ok && strings.HasPrefix(got[i], want[i])
	}
	if !ok {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestParseProblems(t *testing.T) {
	for _, c := range []struct {
		name, doc string
		want      []string
	}{
		{"nothing", "", nil},
		{"comments", "# nothing\n[timer]\n\n[log] # nothing either\n", nil},
		{"every problem, by line", `
data_dri = "x"
profile = "egde"
[timer]
max_delay = "7x"
max_dely = "7d"
lanes = 64
[log]
retention = "3d"
tail = "1KiB"
[[topic]]
queus = 4
`, []string{
			`t.toml:2: data_dri: unknown key; did you mean "data_dir"?`,
			`t.toml:3: profile: "egde": allowed is default, edge; did you mean "edge"?`,
			`t.toml:5: timer.max_delay: "7x": unknown unit "x"; units are y w d h m s ms`,
			`t.toml:6: timer.max_dely: unknown key; did you mean "max_delay"?`,
			`t.toml:7: timer.lanes: "64": allowed is 1 to 63 lanes`,
			`t.toml:10: log.tail: "1KiB": allowed is 4KiB to 64GiB, or auto`,
			`t.toml:11: topic[0]: name is missing`,
			`t.toml:12: topic[0].queus: unknown key; did you mean "queues"?`,
		}},

		{"unknown table", "[timre]\nlanes = 1\nx = 2", []string{`t.toml:1: timre: unknown key; did you mean "timer"?`}},
		{"table of a later version", "[listen]\nhttp = \"[::1]:80\"\nremoting = \"127.0.0.1:10911\"\n[console]\nenabled = true\n[[account]]\nname = \"x\"",
			[]string{
				"t.toml:3: listen.remoting: unknown key; here may stand http, tls_cert, tls_key",
				"t.toml:4: console: unknown key; here may stand data_dir, durability, sync_interval, profile, memory_limit, no_lock, and the tables timer, log, listen, auth, limits, broker, group, logging, topic, plugins, plugin",
				"t.toml:6: account: unknown key; here may stand",
			}},
		{"key without its table", "retention = \"3d\"", []string{`t.toml:1: retention: unknown key; there is "retention" in [log]`}},
		{"key in another table", "[log]\ndata_dir = \"x\"", []string{`t.toml:2: log.data_dir: unknown key; there is "data_dir" above all tables`}},
		{"other case", "[Timer]", []string{`t.toml:1: Timer: unknown key; did you mean "timer"?`}},
		{"quoted key with a dot", `"timer.lanes" = 1`, []string{`t.toml:1: "timer.lanes": unknown key`}},
		{"very long key", strings.Repeat("lanes", 1000) + " = 1", []string{"t.toml:1: laneslanes"}},

		{"number for a duration", "[timer]\nmax_delay = 7", []string{`t.toml:2: timer.max_delay: it is 7 and must be a duration with its unit in quotes, as in "7d"`}},
		{"number for a size", "[log]\ntail = 4096", []string{`t.toml:2: log.tail: it is 4096 and must be a size with its unit in quotes, as in "64MiB"`}},
		{"0 needs no unit", "[timer]\nnear = 0\n[log]\nhigh_water = 0", nil},
		{"0 is in no range", "[log]\nretention = 0", []string{`t.toml:2: log.retention: "0": allowed is 1ms to 100y`}},
		{"text for a number", "[timer]\nlanes = \"1\"", []string{`t.toml:2: timer.lanes: "1": it must be a whole number, without quotes`}},
		{"text for a truth", "no_lock = \"true\"", []string{`t.toml:1: no_lock: "true": it must be true or false, without quotes`}},
		{"number for a truth", "no_lock = 1", []string{"t.toml:1: no_lock: it is 1 and must be true or false"}},
		{"truth for text", "data_dir = true", []string{"t.toml:1: data_dir: it is true and must be text in quotes"}},
		{"fraction", "[timer]\nlanes = 1.5", []string{"t.toml:2: timer.lanes: it is 1.5 and must be a whole number"}},
		{"list", "[timer]\nlevels = [\"1s\", \"5s\"]", []string{"t.toml:2: timer.levels: it is a list and must be text in quotes"}},
		{"date", "data_dir = 2026-11-30", []string{"t.toml:1: data_dir: it is a date and must be text in quotes"}},
		{"key as a table", "[timer.lanes]\nx = 1", []string{"t.toml:1: timer.lanes: it is a table and must be a whole number"}},
		{"key as tables", "[[data_dir]]", []string{"t.toml:1: data_dir: it is a table and must be text in quotes"}},
		{"table as a key", "timer = 1", []string{"t.toml:1: timer: it is a table: write [timer], and the keys below it"}},
		{"one too many", "[[plugins]]\nname = \"a\"", []string{"t.toml:1: plugins: it is one table, [plugins]; write [[plugin]] for each plugin"}},
		{"table as tables", "[[timer]]", []string{"t.toml:1: timer: it is a table: write [timer]"}},

		{"auto where it is allowed", "[timer]\nseconds_slots = \"auto\"\n[log]\ntail = \"auto\"", nil},
		{"auto where it is not", "[timer]\nlanes = \"auto\"\nmax_delay = \"auto\"", []string{
			`t.toml:2: timer.lanes: "auto": it must be a whole number, without quotes`,
			`t.toml:3: timer.max_delay: "auto": a whole number must stand where "auto" is`,
		}},
		{"number of more than 64 bits", "[timer]\nlanes = 99999999999999999999", []string{"t.toml:2: 99999999999999999999 is out of range for int64"}},
		{"beyond the longest", "[timer]\nmax_delay = \"101y\"", []string{`t.toml:2: timer.max_delay: "101y": allowed is 1ms to 100y`}},
		{"empty path", "data_dir = \"\"", []string{`t.toml:1: data_dir: "": it is empty`}},
		{"what durability can't be", "durability = \"never\"", []string{`t.toml:1: durability: "never": allowed is always, interval`}},
		{"levels", "[timer]\nlevels = \"1s 5x\"", []string{`t.toml:2: timer.levels: "1s 5x": table of delay levels: level 2, "5x": unit "x" is not ms, s, m, h or d`}},

		{"beyond loopback", "[listen]\nhttp = \"0.0.0.0:7070\"", []string{`t.toml:2: listen.http: other machines can reach "0.0.0.0:7070": set [auth] tokens_file, [listen] tls_cert and tls_key, or listen on 127.0.0.1`}},
		{"every address", "[listen]\nhttp = \":7070\"", []string{`t.toml:2: listen.http: other machines can reach ":7070": set [auth]`}},
		{"beyond loopback without TLS", "[listen]\nhttp = \"example.org:80\"\n[auth]\ntokens_file = \"t\"", []string{
			`t.toml:2: listen.http: other machines can reach "example.org:80": set [listen] tls_cert and tls_key, or listen on 127.0.0.1`}},
		{"beyond loopback with all", "[listen]\nhttp = \":80\"\ntls_cert = \"c\"\ntls_key = \"k\"\n[auth]\ntokens_file = \"t\"", nil},
		{"half of TLS", "[listen]\ntls_cert = \"c\"", []string{`t.toml:2: listen.tls_cert: tls_key is missing, the file of its key`}},
		{"the other half", "\n\n[listen]\ntls_key = \"k\"\n[timer]\nlanes = 0", []string{
			`t.toml:4: listen.tls_key: tls_cert is missing, the file of its certificate`, "t.toml:6: timer.lanes"}},
		{"no port", "[listen]\nhttp = \"127.0.0.1\"", []string{`t.toml:2: listen.http: "127.0.0.1": it must be a host and a port`}},
		{"bad port", "[listen]\nhttp = \"localhost:70700\"", []string{`t.toml:2: listen.http: "localhost:70700": port "70700", allowed is 0 to 65535`}},

		{"topics", "[[topic]]\nname = \"a\"\n[[topic]]\nname = \"a.b\"\n[[topic]]\nqueues = 0\nname = \"c\"\n[[topic]]\nname = \"a\"", []string{
			`t.toml:4: topic[1].name: "a.b": topic name "a.b" is not allowed: byte 1`,
			`t.toml:6: topic[2].queues: "0": allowed is 1 to 65536 queues, or auto`,
			`t.toml:9: topic[3].name: "a" is there twice, first at t.toml:2`,
		}},
		{"topics in a line", "topic = [\n {name = \"a\"},\n {name = 1}, 5,\n]", []string{
			"t.toml:3: topic[1].name: it is 1 and must be text in quotes",
			"t.toml:3: topic[2]: it must be a table",
		}},
		{"one topic", "[topic]\nname = \"a\"", []string{"t.toml:1: topic: there may be several of it: write [[topic]]"}},
		{"topics that are a number", "topic = 1", []string{"t.toml:1: topic: there may be several of it: write [[topic]]"}},

		{"inline and dotted", "timer = {lanes = 0, near = \"8d\"}\nlog.tail = \"1B\"", []string{
			`t.toml:1: timer.lanes: "0": allowed`, `t.toml:1: timer.near: "8d": allowed`, `t.toml:2: log.tail: "1B": allowed`,
		}},
		{"line ends of Windows", "[timer]\r\nlanes = 0\r\n\r\nnear = \"8d\"\r\n", []string{"t.toml:2: timer.lanes", "t.toml:4: timer.near"}},
		{"byte order mark", "\ufeff[timer]\nlanes = 0", []string{"t.toml:2: timer.lanes"}},
		{"long strings", "data_dir = \"\"\"\na\n\\\"\"\"\nb\"\"\"\n[timer]\nlevels = '''\n1s\n2x'''\nlanes = 0", []string{
			`t.toml:6: timer.levels: "1s\n2x"`, "t.toml:9: timer.lanes",
		}},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, problems(t, c.doc), c.want) })
	}
}

// What the decoder can't parse is reported together with what is wrong in the rest.
func TestParseSyntax(t *testing.T) {
	for _, c := range []struct {
		name, doc string
		want      []string
	}{
		{"values without quotes", "[timer]\nmax_delay = 7d # a week\nlevels = none\nlanes = 0\n[[topic]]\nname = orders", []string{
			`t.toml:2: expected a top-level item to end with a newline, comment, or EOF, but got 'd' instead; text and values with a unit stand in quotes: "7d"`,
			`t.toml:3: expected value but found "none" instead; text and values with a unit stand in quotes: "none"`,
			`t.toml:4: timer.lanes: "0"`,
			`t.toml:6: expected value but found "orders" instead`,
		}},
		{"no value", "[timer]\nlanes =\nnear = \"8d\"", []string{"t.toml:2: expected value", `t.toml:3: timer.near`}},
		{"no value at the end", "[timer]\nnear = \"8d\"\nlanes = ", []string{`t.toml:2: timer.near`, "t.toml:3: unexpected EOF; expected value"}},
		{"twice", "[timer]\nlanes = 1\nlanes = 2\nnear = \"8d\"", []string{"t.toml:3: Key 'timer.lanes' has already been defined.", "t.toml:4: timer.near"}},
		{"a path of Windows", "data_dir = \"C:\\tide\\wheel\"\n[timer]\nlanes = 0", []string{`t.toml:1: invalid escape in string '\w'`, "t.toml:3: timer.lanes"}},
		{"bad table", "profile = \"x\"\n[timer\nlanes = 0\n[log]\ntail = \"1B\"", []string{
			`t.toml:1: profile: "x"`,
			`t.toml:2: expected '.' or ']' to end table name, but got '\n' instead; what belongs to this table is not checked`,
			`t.toml:5: log.tail: "1B"`,
		}},
		{"table twice", "[timer]\nlanes = 0\n[timer]\nnear = \"8d\"", []string{"t.toml:2: timer.lanes", "t.toml:3: Key 'timer' has already been defined."}},
		{"string without end", "[timer]\nlanes = 0\nlevels = \"\"\"1s\n5s\n", []string{"t.toml:4: unexpected EOF; expected '\"\"\"'; the rest of the file is not checked"}},
		{"a word", "hello\nprofile = \"x\"", []string{"t.toml:1: expected '.' or '=', but got '\\n' instead; the rest of the file is not checked"}},
		{"UTF-16", "\xff\xfea\x00", []string{"t.toml:1: files cannot contain NULL bytes; probably using UTF-16"}},
		{"a mark of UTF-16 and no UTF-16", "\xfe\xffprofile = \"x\"", []string{"t.toml:1: profile"}},
		{"not UTF-8", "data_dir = \"\xff\"\nprofile = \"x\"", []string{"t.toml:1: invalid UTF-8 byte: 0xff", "t.toml:2: profile"}},
		{"too many", strings.Repeat("a = b\n", 30), slicesRepeat("t.toml:", 20)},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, problems(t, c.doc), c.want) })
	}
}

func slicesRepeat(s string, n int) []string {
	return strings.Split(strings.TrimSuffix(strings.Repeat(s+"\n", n), "\n"), "\n")
}

func TestEnvironment(t *testing.T) {
	cfg, err := config.Parse(config.Source{
		File: "/etc/tidewheel/t.toml",
		Environ: []string{
			"PATH=/bin", "TIDEWHEELS=x", "TIDEWHEEL_URL=http://x", "TIDEWHEEL_CTX=x", "TIDEWHEEL_TOKEN=x",
			"TIDEWHEEL_VOLUME=ci", "TIDEWHEEL_SEED=1", "TIDEWHEEL_DATA_DIR=here", "TIDEWHEEL_TIMER__MAX_DELAY=30d",
			"TIDEWHEEL_TIMER__MAX_DELAY=40d", "TIDEWHEEL_TIMER__SECONDS_SLOTS=auto", "TIDEWHEEL_BROKER__KNOWN_TOPICS_ONLY=true",
			"TIDEWHEEL_BROKER__QUEUES=9", "TIDEWHEEL_SERVICE_HOST=10.0.0.1", "TIDEWHEEL_PORT=tcp://10.0.0.1:7070",
			"TIDEWHEEL_SERVICE_PORT_HTTP=7070", "TIDEWHEEL_PORT_7070_TCP_ADDR=10.0.0.1", "TIDEWHEEL_ADMIN_SERVICE_PORT=1",
		},
	}, []byte("data_dir = \"there\"\n[timer]\nmax_delay = \"1d\"\nlanes = 2\nseconds_slots = 100\n[[topic]]\nname = \"a\""))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.DataDir != "here" || time.Duration(cfg.Timer.MaxDelay) != 30*day || cfg.Timer.Lanes != 2 ||
		cfg.Timer.SecondsSlots != 0 || !cfg.BrokerTable.KnownTopicsOnly || cfg.Topics[0].Queues != 9 {
		t.Errorf("got %+v", cfg)
	}
}

func TestEnvironmentProblems(t *testing.T) {
	for _, c := range []struct{ variable, want string }{
		{"TIDEWHEEL_TIMER__MAX_DELAI=1d", `unknown variable; did you mean "TIDEWHEEL_TIMER__MAX_DELAY"?`},
		{"TIDEWHEEL_MAX_DELAY=1d", `unknown variable`},
		{"TIDEWHEEL_TIMER_MAX_DELAY=1d", `unknown variable; did you mean "TIDEWHEEL_TIMER__MAX_DELAY"?`},
		{"TIDEWHEEL_timer__max_delay=1d", `unknown variable; did you mean "TIDEWHEEL_TIMER__MAX_DELAY"?`},
		{"TIDEWHEEL_ULR=x", `unknown variable; did you mean "TIDEWHEEL_URL"?`},
		{"TIDEWHEEL_TIMER=x", "unknown variable"},
		{"TIDEWHEEL_=x", "unknown variable"},
		{"TIDEWHEEL_TOPIC__NAME=x", "topics stand in a file only, as [[topic]]"},
		{"TIDEWHEEL_LISTEN__PORT=7070", "unknown variable"},
		{"TIDEWHEEL_TIMER__MAX_DELAY=7", `timer.max_delay: "7": 7 has no unit`},
		{"TIDEWHEEL_TIMER__LANES=two", `timer.lanes: "two": it must be a whole number`},
		{"TIDEWHEEL_TIMER__LANES=99999999999999999999", `timer.lanes: "99999999999999999999": allowed is 1 to 63 lanes`},
		{"TIDEWHEEL_NO_LOCK=yes", `no_lock: "yes": allowed is true, false`},
		{"TIDEWHEEL_DATA_DIR=", `data_dir: "": it is empty`},
		{"TIDEWHEEL_DATA_DIR", `data_dir: "": it is empty`},
	} {
		name, _, _ := strings.Cut(c.variable, "=")
		expect(t, problems(t, "", c.variable), []string{name + ": " + c.want})
	}
	// What is wrong together is said where it comes from.
	expect(t, problems(t, "\n[listen]\ntls_cert = \"c\"\ntls_key = \"k\"", "TIDEWHEEL_LISTEN__HTTP=[::]:1"),
		[]string{`TIDEWHEEL_LISTEN__HTTP: listen.http: other machines can reach "[::]:1": set [auth] tokens_file, or`})
	// The file's come first, and all are there.
	expect(t, problems(t, "x = 1\n[timer]\nlanes = 0", "TIDEWHEEL_B=1", "TIDEWHEEL_A=1"),
		[]string{"t.toml:1: x", "t.toml:3: timer.lanes", "TIDEWHEEL_A", "TIDEWHEEL_B"})
}

func TestFlags(t *testing.T) {
	src := config.Source{
		Environ: []string{"TIDEWHEEL_DATA_DIR=env", "TIDEWHEEL_LISTEN__HTTP=127.0.0.1:1"},
		Flags:   []config.Flag{{Name: "--data", Key: "data_dir", Value: "flag"}, {Name: "--levels", Key: "timer.levels", Value: "1s"}},
	}
	cfg, err := config.Load(src)
	if err != nil || cfg.DataDir != "flag" || cfg.Timer.Levels != "1s" || cfg.Listen.HTTP != "127.0.0.1:1" {
		t.Errorf("got %+v, %v", cfg, err)
	}
	src.Flags = []config.Flag{{"--levels", "timer.levels", "x"}, {"--x", "timer.x", "1"}, {"--topic", "topic.name", "a"}}
	_, err = config.Load(src)
	want := "config: 3 problems\n  --levels: timer.levels: \"x\": "
	if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "\n  --x: timer.x: unknown key\n  --topic: topic.name: unknown key") {
		t.Errorf("got %v", err)
	}
}

func TestLoadPaths(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "t.toml")
	write := func(doc string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ doc, want string }{
		{"", "data"},
		{`data_dir = "x"`, filepath.Join(dir, "x")},
		{`data_dir = "../x"`, filepath.Join(filepath.Dir(dir), "x")},
		{fmt.Sprintf("data_dir = %q", filepath.Join(dir, "y")), filepath.Join(dir, "y")},
	} {
		write(c.doc)
		cfg, err := config.Load(config.Source{File: file})
		if err != nil || cfg.DataDir != c.want {
			t.Errorf("%s: %+v, %v; want %s", c.doc, cfg, err, c.want)
		}
	}
	write("[timer]\nlanes = 0")
	if _, err := config.Load(config.Source{File: file}); err == nil || err.Error() != "config: "+file+":2: timer.lanes: \"0\": allowed is 1 to 63 lanes" {
		t.Errorf("got %v", err)
	}
	write(strings.Repeat("#", 256<<10+1))
	if _, err := config.Load(config.Source{File: file}); err == nil || !strings.Contains(err.Error(), "is longer than 256KiB") {
		t.Errorf("a long file: %v", err)
	}
	if _, err := config.Load(config.Source{File: filepath.Join(dir, "none")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := config.Load(config.Source{File: dir}); err == nil {
		t.Error("a directory was read")
	}
}

// Deep nesting is refused like any other value that does not fit; the scanner for lines gets to see it, too.
func TestParseDeep(t *testing.T) {
	for _, doc := range []string{
		"a = " + strings.Repeat("[", 4000),
		"a = " + strings.Repeat("[", 4000) + strings.Repeat("]", 4000),
		"a = " + strings.Repeat("{a=", 500) + "1" + strings.Repeat("}", 500),
	} {
		if got := problems(t, doc); len(got) != 1 || !strings.HasPrefix(got[0], "t.toml:1: ") {
			t.Errorf("got %q", got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, doc := range []string{
		"data_dir = 'x'\n[listen]\nhttp = \"localhost:0\"\n[log]\ntail = \"1MiB\"", "[timer]\nlanes = 0x1F\nmax_delay = 7d",
		"topic = [{name = 'a', queues = 1}]\n\"timer\".'lanes' = 1", "a = \"\"\"\nx\\\n  y\"\"\"\"\n[[a.b]]\n[a.b.c]\nd = 1979-05-27 07:32:00",
		"x = nan\ny = inf\nz = [1, [2, {a = 1}], # c\n]\n", "\ufeffa=1\r\nb", "data_dir = 'é\\'\n[listen]\nhttp = '[::1]:0'",
	} {
		f.Add(doc, "TIDEWHEEL_TIMER__LANES=3")
	}
	f.Fuzz(func(t *testing.T, doc, variable string) {
		// The decoder is quadratic in how deep a value nests, and worse in dots.
		if len(doc) > 8<<10 || strings.Count(doc, ".") > 500 {
			return
		}
		cfg, err := config.Parse(config.Source{File: "t.toml", Environ: []string{variable}}, []byte(doc))
		var report *config.Report
		switch {
		case err == nil:
			if live, restart := cfg.Changed(cfg); live != nil || restart != nil {
				t.Errorf("it differs from itself in %v and %v", live, restart)
			}
			cfg.Broker()
		case !errors.As(err, &report) || len(report.Problems) == 0:
			t.Errorf("%v is no report", err)
		default:
			for _, p := range report.Problems {
				if p.Text == "" || p.Line > 1+strings.Count(doc, "\n") {
					t.Errorf("problem %+v", p)
				}
			}
		}
	})
}
