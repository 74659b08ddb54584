package main

import (
	"crypto/sha256"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/host/httpapi"
	"github.com/tidewheel/tidewheel/host/pluginhost"
	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// saying is a filter that says a line, traps when a body begins with !, and keeps everything else.
func saying(line string) []byte {
	m := plugintest.GuestWith(func(m *plugintest.Module) { m.Import(abi.Imports, "log", "i32 i32 i32 -> i32") })
	m.Data(64, line)
	m.Hook("tw_filter", fmt.Sprintf(`i32.const 0 i32.const 64 i32.const %d call $log drop
		local.get $body i32.load8_u i32.const 33 i32.eq if unreachable end i64.const 1`, len(line)))
	m.Custom(abi.Manifest, []byte(`{"version":"1.2.0","description":"keeps all","hooks":["filter"],"imports":[{"name":"log","reason":"to say hello"}]}`))
	return m.Bytes()
}

// hostPlugins runs a server in this process that asks plugins, whose files are in dir.
func hostPlugins(t *testing.T, dir, doc string) {
	t.Helper()
	head := fmt.Sprintf("data_dir = %q\n[plugins]\ndir = %q\nreload_interval = \"0\"\n", filepath.Join(dir, "data"), dir)
	cfg, err := config.Parse(config.Source{File: "t.toml", Environ: []string{"TIDEWHEEL_SECRET_KEY=hunter2"}}, []byte(head+doc))
	if err != nil {
		t.Fatal(err)
	}
	h, err := pluginhost.Open(t.Context(), pluginhost.Options{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	b, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{})}, ".", broker.Options{Hooks: h})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(httpapi.Handler(b, httpapi.Options{Plugins: h}))
	t.Cleanup(func() {
		s.Close()
		for _, err := range []error{b.Close(), h.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	t.Setenv("TIDEWHEEL_URL", s.URL)
}

// TestPluginVerbs: plugins are listed, shown, reloaded and rolled back, and what is wrong with one is said in a sentence.
func TestPluginVerbs(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "hello.wasm")
	write := func(data []byte) string {
		t.Helper()
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%x", sha256.Sum256(data))
	}
	first := write(saying("hello"))
	hostPlugins(t, dir, `
[[plugin]]
name = "hello"
file = "hello.wasm"
hooks = ["filter"]
match = ["orders", "mail-*"]
on_error = "dead_letter"
[plugin.config]
key = { secret = "KEY" }
n = 1
[[plugin]]
name = "gone"
file = "gone.wasm"
hooks = ["transform"]
at = "consume"
match = ["x"]
groups = ["billing", "b*"]
on_error = "skip"
fail = "open"
order = 7
`)
	wantCLI(t, "put orders abc", "scheduled")
	wantCLI(t, "put orders !", "scheduled")
	wantCLI(t, "consume orders --group g --ack --max 1 --wait 20s", "abc")
	wantCLI(t, "plugin ls",
		"NAME   STATE   ASKED                              MATCH          MESSAGES  FAILURES  GENERATION  SHA256",
		"gone   failed  transform before billing b* reads  x              -         -         -           -             is not loaded (",
		"hello  active  filter when due                    orders mail-*")
	if got := wantCLI(t, "plugin ls -o csv --columns name,order,on_error,fail,file"); !strings.HasSuffix(got, "\nhello,100,dead_letter,closed,"+file+"\n") {
		t.Errorf("%q", got)
	}
	if got := wantCLI(t, "plugin ls -o name"); got != "gone\nhello\n" {
		t.Errorf("%q", got)
	}
	// The second message is decided about by another queue's turn: wait for it in a way that tells.
	for !strings.Contains(wantCLI(t, "plugin show hello"), "failures      trap 1") {
	}
	shown := wantCLI(t, "plugin show hello",
		"hello         active\n", "asked         filter when due, about orders mail-*, order 100\n", "on error      dead_letter\n", "fail          closed\n",
		`config        {"key":{"secret":"KEY"},"n":1}`+"\n", "module        1.2.0 keeps all\n", "generation    1, sha256 "+first+", loaded in ",
		"imports       tw_v1.log\n", "asks for      log: to say hello\n", "limits        2 instances of 16.0 MiB; fuel of a call 1,000,000 and 200,000 a message, at most 10,000,000 for 256\n",
		"messages      2 in ", "dead_letter 1", "keep 1", "last failure  ", ", trap, code 0: unreachable\n", "  in          ")
	if strings.Contains(shown, "hunter2") {
		t.Errorf("a secret is shown: %s", shown)
	}
	wantCLI(t, "plugin show gone", "gone       failed\n", "attention  is not loaded (", "): messages pass without it\n", "fail       open\n")
	wantCLI(t, "plugin logs hello", "TIME", "info   hello\n")
	if got := wantCLI(t, "plugin logs gone -o json"); got != "[]\n" {
		t.Errorf("%q", got)
	}
	wantCLI(t, "stats", "attention   plugin gone is not loaded (")

	_, stderr, code := cli(t, "plugin", "rollback", "hello")
	if code != exitError || stderr != "tidewheel: There is nothing to roll back to\n" {
		t.Errorf("exit %d: %s", code, stderr)
	}
	second := write(saying("hello again"))
	wantCLI(t, "plugin reload hello", "hello runs generation 2, sha256 "+second+"\n")
	wantCLI(t, "plugin show hello", "on trial      for 64 batches", "rollback to   "+first)
	wantCLI(t, "plugin rollback hello", "hello runs generation 1, sha256 "+first+"\nit was rolled back to "+first[:12]+" from "+second[:12]+", which is in the file\n")
	write([]byte("broken"))
	if _, stderr, code := cli(t, "plugin", "reload", "hello"); code != exitError || !strings.Contains(stderr, "could not be loaded: wasm: ") || !strings.Contains(stderr, "what ran goes on") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	for _, verb := range []string{"show", "logs", "reload", "rollback"} {
		if _, stderr, code := cli(t, "plugin", verb, "nosuch"); code != exitNotFound || !strings.Contains(stderr, `There is no such plugin: plugin is "nosuch"`) {
			t.Errorf("%s: exit %d: %s", verb, code, stderr)
		}
	}
	if got, _, _ := cli(t, "__complete", "plugin", "show", "he"); !strings.Contains(got, "hello\n") {
		t.Errorf("completed to %q", got)
	}
}

// TestPluginVerifyRunning: a server compares its log with a plugin that it runs.
func TestPluginVerifyRunning(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "hello.wasm"), saying("hello"), 0o644); err != nil {
		t.Fatal(err)
	}
	hostPlugins(t, dir, "[[plugin]]\nname = \"hello\"\nfile = \"hello.wasm\"\nhooks = [\"filter\"]\nmatch = [\"orders\"]\non_error = \"dead_letter\"\n")
	wantCLI(t, "put orders abc", "scheduled")
	wantCLI(t, "put orders !", "scheduled")
	for !strings.Contains(wantCLI(t, "plugin verify --running hello"), " 2 of this file in the log\n") {
	}
	wantCLI(t, "plugin verify --running hello", "plugin       hello\n", "asked again  2: all agree\n")
	got := wantCLI(t, "plugin verify --running hello -o json", `"name": "hello"`, `"compared": 2,`, `"differ": 0,`, `"differences": []`)
	if strings.Contains(got, `"file"`) {
		t.Error(got)
	}
	if _, stderr, code := cli(t, "plugin", "verify", "--running", "nosuch"); code != exitNotFound || !strings.Contains(stderr, "There is no such plugin") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if _, stderr, code := cli(t, "plugin", "verify", "x.wasm", "--running", "hello"); code != exitUsage || !strings.Contains(stderr, "--running takes the file") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
