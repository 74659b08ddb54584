package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// pluginDoc is a table with what must be given, and more.
func pluginDoc(name string, more ...string) string {
	return fmt.Sprintf("[[plugin]]\nname = %q\nfile = \"x.wasm\"\nhooks = [\"filter\"]\nmatch = [\"orders-*\"]\non_error = \"skip\"\n%s\n", name, strings.Join(more, "\n"))
}

// TestPluginProblems: every mistake in a plugin's table is said with its line and what is allowed.
func TestPluginProblems(t *testing.T) {
	for _, c := range []struct{ name, doc, want string }{
		{"nothing given", "[[plugin]]", "plugin[0]: name is missing | plugin[0]: file is missing | plugin[0]: hooks is missing; allowed is publish, filter, transform, deliver | " +
			"plugin[0]: match is missing | plugin[0]: on_error is missing; allowed is dead_letter, skip, drop, block, retry"},
		{"misspelt key", pluginDoc("a", "ordre = 1"), `7: plugin[0].ordre: unknown key; did you mean "order"?`},
		{"misspelt table", pluginDoc("a", "[plugin.limts]"), `7: plugin[0].limts: unknown key; did you mean "limits"?`},
		{"misspelt limit", pluginDoc("a", "[plugin.limits]", "memory_mx = \"1MiB\""), `8: plugin[0].limits.memory_mx: unknown key; did you mean "memory_max"?`},
		{"misspelt in the second", pluginDoc("a") + pluginDoc("b", "[plugin.limits]", "batchmax = 3"), `15: plugin[1].limits.batchmax: unknown key; did you mean "batch_max"?`},
		{"files", pluginDoc("a", "[plugin.capabilities]", "fs = []"), "8: plugin[0].capabilities.fs: unknown key; a plugin has no files"},
		{"state", pluginDoc("a", "capabilities = { state = \"64KiB\" }"), "7: plugin[0].capabilities.state: unknown key; a plugin keeps nothing beyond its memory"},
		{"mode", pluginDoc("a", "mode = \"pristine\""), "7: plugin[0].mode: unknown key; there is one mode"},
		{"canary", pluginDoc("a", "canary = 10"), "7: plugin[0].canary: unknown key; there is no trial beside the old file"},
		{"trusted keys", "[plugins]\ntrusted_keys = []", "2: plugins.trusted_keys: unknown key; signatures of files are not looked at: pin a file with sha256"},
		{"bad name", pluginDoc("a b"), "2: plugin[0].name: \"a b\": a name is 1 to 100 of A-Z a-z 0-9 _ -"},
		{"name twice", pluginDoc("a") + pluginDoc("a"), `9: plugin[1].name: "a" is there twice, first at t.toml:2`},
		{"unknown hook", strings.Replace(pluginDoc("a"), "filter", "fliter", 1), `4: plugin[0].hooks[0]: "fliter": allowed is publish, filter, transform, deliver; did you mean "filter"?`},
		{"no hook", strings.Replace(pluginDoc("a"), `"filter"`, "", 1), "4: plugin[0].hooks: it is empty; allowed is publish, filter, transform, deliver"},
		{"hook twice", strings.Replace(pluginDoc("a"), `"filter"`, `"filter", "filter"`, 1), `4: plugin[0].hooks[1]: "filter" is there twice`},
		{"hook as text", strings.Replace(pluginDoc("a"), `["filter"]`, `"filter"`, 1), `4: plugin[0].hooks: it must be a list of texts, as in ["a", "b"]`},
		{"hook as number", strings.Replace(pluginDoc("a"), `["filter"]`, `[1]`, 1), "4: plugin[0].hooks[0]: it must be text in quotes"},
		{"pattern on its line", strings.Replace(pluginDoc("a"), `["orders-*"]`, "[\n\"a\",\n\"b c\"\n]", 1), `7: plugin[0].match[1]: "b c": a pattern is 1 to 127 of`},
		{"pattern with a comma", strings.Replace(pluginDoc("a"), `["orders-*"]`, `["a,b"]`, 1), "is empty, or has a comma in it | plugin[0].match[0]"},
		{"publish without fail", strings.Replace(pluginDoc("a"), "filter", "publish", 1), `1: plugin[0]: fail is missing: with the hook publish, say whether puts are refused ("closed") or pass ("open")`},
		{"publish with retry", strings.NewReplacer("filter", "publish", "skip", "retry").Replace(pluginDoc("a", `fail = "open"`)), "6: plugin[0].on_error: nothing can be retried before it is stored"},
		{"unknown policy", strings.Replace(pluginDoc("a"), "skip", "deadletter", 1), `6: plugin[0].on_error: "deadletter": allowed is dead_letter, skip, drop, block, retry; did you mean "dead_letter"?`},
		{"deliver and more", strings.Replace(pluginDoc("a", `capabilities = { egress = ["a.example"] }`), `"filter"`, `"filter", "deliver"`, 1), "4: plugin[0].hooks: deliver stands alone"},
		{"deliver routes", strings.Replace(pluginDoc("a", `targets = ["x"]`, `capabilities = { egress = ["a.example"] }`), "filter", "deliver", 1), "7: plugin[0].targets: a plugin that delivers routes nothing"},
		{"at for publish", strings.Replace(pluginDoc("a", `fail = "open"`, `at = "consume"`), "filter", "publish", 1), "8: plugin[0].at: it is for the hooks filter and transform"},
		{"groups when due", pluginDoc("a", `groups = ["billing"]`), `7: plugin[0].groups: it is for the hooks filter and transform with at = "consume"`},
		{"egress for a filter", pluginDoc("a", "[plugin.capabilities]", `egress = ["a.example"]`), `8: plugin[0].capabilities.egress: it is for hooks = ["deliver"]`},
		{"delivery for a filter", pluginDoc("a", "[plugin.delivery]", "concurrency = 2"), `7: plugin[0].delivery: it is for hooks = ["deliver"]`},
		{"short pin", pluginDoc("a", `sha256 = "abc"`), `7: plugin[0].sha256: "abc": it must be 64 hexadecimal digits`},
		{"bad target", pluginDoc("a", `targets = ["a b"]`), "7: plugin[0].targets[0]"},
		{"fuel that does not fit", pluginDoc("a", "[plugin.limits]", "fuel_call_max = 1000"), "7: plugin[0].limits: fuel_call_max 1000 is less than a call with one message takes: fuel_base + fuel_per_record is 1200000"},
		{"memory off the grid", pluginDoc("a", "[plugin.limits]", "memory_max = \"100KiB\""), "8: plugin[0].limits.memory_max: 100KiB is not a multiple of 64KiB"},
		{"large records", pluginDoc("a", "[plugin.limits]", "record_bytes = \"9MiB\""), "8: plugin[0].limits.record_bytes: 9MiB is more than half of memory_max"},
		{"too much memory", pluginDoc("a") + pluginDoc("b", "instances = 3"), "8: plugin[1]: with 3 instances of 16MiB it needs 48MiB, and of [plugins] memory_total = 64MiB there are 32MiB left: raise that, or lower instances or limits.memory_max"},
		{"no pin", "[plugins]\nrequire_pin = true\n" + pluginDoc("a"), "3: plugin[0]: sha256 is missing, and [plugins] require_pin wants it"},
		{"a date in the config", pluginDoc("a", "[plugin.config]", "at = 2026-11-30"), "8: plugin[0].config.at: it is a date, which JSON does not have"},
		{"infinity in the config", pluginDoc("a", "[plugin.config]", "x = [1, inf]"), "8: plugin[0].config.x[1]: it is +Inf, which JSON does not have"},
		{"config as text", pluginDoc("a", "config = \"{}\""), "7: plugin[0].config: it must be a table"},
		{"secret that is not set", pluginDoc("a", "[plugin.config]", `key = { secret = "NONE" }`), "8: plugin[0].config.key: the variable TIDEWHEEL_SECRET_NONE is not set"},
		{"secret with a bad name", pluginDoc("a", "[plugin.config]", `key = { secret = "A B" }`), "8: plugin[0].config.key: A B: the name of a secret is of A-Z a-z 0-9 _"},
		{"secret without its file", pluginDoc("a", "[plugin.config]", `key = { secret_file = "none" }`), "8: plugin[0].config.key: open none: no such file or directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(Source{File: "t.toml"}, []byte(c.doc))
			if err == nil {
				t.Fatal("it was taken")
			}
			for _, want := range strings.Split(c.want, " | ") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got  %v\nwant %s", err, want)
				}
			}
		})
	}
}

// TestPluginDeliveryGroup: two plugins that deliver can't have one group.
func TestPluginDeliveryGroup(t *testing.T) {
	doc := strings.ReplaceAll(pluginDoc("a", `capabilities = { egress = ["a.example"] }`)+pluginDoc("b", `capabilities = { egress = ["a.example"] }`, `delivery = { group = "plugin-a" }`), "filter", "deliver")
	if _, err := Parse(Source{File: "t.toml"}, []byte(doc)); err == nil || !strings.Contains(err.Error(), `15: plugin[1].delivery: its group "plugin-a" is that of plugin "a"`) {
		t.Error(err)
	}
}

// TestPluginVariables: plugins stand in a file; a secret's variable is none of the configuration's.
func TestPluginVariables(t *testing.T) {
	if _, err := Parse(Source{Environ: []string{"TIDEWHEEL_SECRET_X=y"}}, nil); err != nil {
		t.Error(err)
	}
	if _, err := Parse(Source{Environ: []string{"TIDEWHEEL_PLUGIN__NAME=y"}}, nil); err == nil || !strings.Contains(err.Error(), "plugins stand in a file only, as [[plugin]]") {
		t.Error(err)
	}
	c, err := Parse(Source{Environ: []string{"TIDEWHEEL_PLUGINS__MEMORY_TOTAL=1GiB"}}, []byte(pluginDoc("a", "instances = 32")))
	if err != nil || c.PluginHost.MemoryTotal != 1<<30 {
		t.Error(err)
	}
	if plain := Default().Memory(); c.Memory() != plain+512<<20 {
		t.Errorf("the limit of memory is %d, without plugins %d", c.Memory(), plain)
	}
}

// withSecrets is a configuration with secrets from a variable and from files.
func withSecrets(t *testing.T) *Config {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"key":   "hunter2-file\n",
		"hooks": "# the old one\nwhsec_aHVudGVyMi1zaWduaW5nLXNlY3JldC0xMjM0NTY=\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	doc := pluginDoc("a", "[plugin.config]", "n = 1", `key = { secret = "key" }`, `list = [{ secret_file = "key" }, { secret = 1, other = 2 }]`, "[plugin.config.deep]", "f = 1.5", `s = "x"`) +
		strings.Replace(pluginDoc("b", `capabilities = { egress = ["a.example"] }`, `delivery = { signing_secrets_file = "hooks" }`), "filter", "deliver", 1) +
		strings.Replace(pluginDoc("c", "[plugin.capabilities]", `egress = ["a.example"]`, "[plugin.delivery]", `signing_secrets = { secret = "SIGN" }`, "[plugins]", "memory_total = \"1GiB\""), "filter", "deliver", 1)
	c, err := Parse(Source{File: filepath.Join(dir, "t.toml"), Environ: []string{
		"TIDEWHEEL_SECRET_KEY=hunter2-variable", "TIDEWHEEL_SECRET_SIGN=whsec_aHVudGVyMi1zaWduaW5nLXNlY3JldC0xMjM0NTY=",
	}}, []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPluginSecrets: a plugin gets its secrets, and no print, setting or JSON has them.
func TestPluginSecrets(t *testing.T) {
	c := withSecrets(t)
	want := `{"deep":{"f":1.5,"s":"x"},"key":"hunter2-variable","list":["hunter2-file",{"other":2,"secret":1}],"n":1}`
	if got := string(c.Plugins[0].Config.Reveal()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for i := 1; i < 3; i++ {
		if got := c.Plugins[i].Delivery.SigningSecrets.Reveal(); !strings.HasSuffix(got, "whsec_aHVudGVyMi1zaWduaW5nLXNlY3JldC0xMjM0NTY=") {
			t.Errorf("%d: %q", i, got)
		}
	}
	settings, err := json.Marshal(c.Settings())
	if err != nil {
		t.Fatal(err)
	}
	all, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	object := c.Plugins[0].Config
	for _, text := range []string{string(settings), string(all), fmt.Sprintf("%v %+v %#v", c.Plugins, c.Plugins, c.Plugins), fmt.Sprintf("%s %q", object, object), object.LogValue().String()} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "aHVudGVy") {
			t.Errorf("a secret is printed: %s", text)
		}
	}
	shown := `{"deep":{"f":1.5,"s":"x"},"key":{"secret":"key"},"list":[{"secret_file":"key"},{"other":2,"secret":1}],"n":1}`
	if object.String() != shown {
		t.Errorf("got  %s\nwant %s", object, shown)
	}
	if (Object{}).Reveal() != nil {
		t.Error("no table is a table")
	}
}

// TestPluginSecretProblems: what is wrong with a secret is said without it.
func TestPluginSecretProblems(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.toml")
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "bad"), []byte("whsec_hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{`signing_secrets = "whsec_hunter2"`, `signing_secrets_file = "bad"`, `signing_secrets = { secret = "BAD" }`, `signing_secrets = { secret = 1 }`, `signing_secrets = ["hunter2"]`} {
		doc := strings.Replace(pluginDoc("a", "[plugin.capabilities]", `egress = ["a.example"]`, "[plugin.delivery]", key), "filter", "deliver", 1)
		_, err := Parse(Source{File: file, Environ: []string{"TIDEWHEEL_SECRET_BAD=hunter2"}}, []byte(doc))
		if err == nil || !strings.Contains(err.Error(), "t.toml:10: plugin[0].delivery.signing_secrets") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestPluginChanged: a plugin that is new, other or gone is live, once; a secret that changes is a change.
func TestPluginChanged(t *testing.T) {
	parse := func(secret, doc string) *Config {
		c, err := Parse(Source{File: "t.toml", Environ: []string{"TIDEWHEEL_SECRET_K=" + secret}}, []byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	keyed := pluginDoc("k", "instances = 1", "[plugin.config]", `k = { secret = "K" }`)
	before := parse("1", pluginDoc("a")+keyed)
	for _, c := range []struct{ doc, secret, live, restart string }{
		{pluginDoc("a") + keyed, "1", "", ""},
		{pluginDoc("a") + keyed, "2", "plugin.k", ""},
		{pluginDoc("a", "order = 1", "[plugin.limits]", "batch_max = 3") + keyed, "1", "plugin.a", ""},
		{keyed + pluginDoc("b"), "1", "plugin.b plugin.a", ""},
		{"[plugins]\nmemory_total = \"1GiB\"\nreload_interval = \"1m\"\n" + pluginDoc("a"), "1", "plugins.reload_interval plugin.k", "plugins.memory_total"},
		{"", "1", "plugin.a plugin.k", ""},
	} {
		next := parse(c.secret, c.doc)
		live, restart := before.Changed(next)
		if strings.Join(live, " ") != c.live || strings.Join(restart, " ") != c.restart {
			t.Errorf("%s\nlive %v, restart %v", c.doc, live, restart)
		}
		sum := before.With(next)
		if !reflect.DeepEqual(sum.Plugins, next.Plugins) || sum.PluginHost.MemoryTotal != before.PluginHost.MemoryTotal {
			t.Errorf("%s\nthe sum has %+v", c.doc, sum.Plugins)
		}
		if again, _ := sum.Changed(next); len(again) > 0 {
			t.Errorf("%s\nwhat was taken over is still other: %v", c.doc, again)
		}
	}
}

// TestPluginSettings: each key of a plugin is shown with where it comes from.
func TestPluginSettings(t *testing.T) {
	c, err := Parse(Source{File: "t.toml"}, []byte(pluginDoc("a", "[plugin.limits]", "batch_max = 3")))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range c.Settings() {
		if strings.HasPrefix(s.Key, "plugin.") {
			got[s.Key] = s.Value + " " + s.Origin
			if !s.Live {
				t.Errorf("%s is not live", s.Key)
			}
		}
	}
	for key, want := range map[string]string{
		"plugin.a.hooks": "filter t.toml:4", "plugin.a.order": "100 default", "plugin.a.limits.batch_max": "3 t.toml:8", "plugin.a.delivery.group": "auto default",
	} {
		if got[key] != want {
			t.Errorf("%s: %q, want %q", key, got[key], want)
		}
	}
}

// TestPluginDirectories: they lie beside the file and in the data directory, and paths of the file start at it.
func TestPluginDirectories(t *testing.T) {
	for _, c := range []struct{ doc, dir, cache string }{
		{"", "/etc/tw/plugins", "data/plugin-cache"},
		{"data_dir = \"d\"\n[plugins]\ndir = \"x\"", "/etc/tw/x", "/etc/tw/d/plugin-cache"},
		{"[plugins]\ndir = \"/p\"\ncache_dir = \"/c\"", "/p", "/c"},
		{"[plugins]\ndir = \"auto\"", "/etc/tw/plugins", "data/plugin-cache"},
	} {
		cfg, err := Parse(Source{File: "/etc/tw/t.toml"}, []byte(c.doc))
		if err != nil {
			t.Fatal(err)
		}
		if cfg.PluginDir() != filepath.FromSlash(c.dir) || cfg.PluginCacheDir() != filepath.FromSlash(c.cache) {
			t.Errorf("%q: %s, %s", c.doc, cfg.PluginDir(), cfg.PluginCacheDir())
		}
	}
	if len(Default().Plugins) > 0 {
		t.Error("there are plugins without a configuration")
	}
}
