package author_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/host/author"
	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/plugins"
)

func deployment(t *testing.T, module []byte) author.Deployment {
	t.Helper()
	return author.Deployment{Name: "p", File: "p.wasm", Match: []string{"orders"}, OnError: "dead_letter", Fail: "closed", Info: inspect(t, module)}
}

// TestInstall: a new configuration is made; a second deployment changes the pin and the module, and no line beside it; what the
// table does not grant is told.
func TestInstall(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tidewheel.toml")
	first := asking(`{"name":"p","hooks":["filter"],"imports":[{"name":"json_get","reason":"r"}]}`)
	d := deployment(t, first)
	done, err := author.Install(file, d, first)
	if err != nil || !done.Made || done.Updated || len(done.Asks) != 0 || done.File != filepath.Join(dir, "plugins", "p.wasm") {
		t.Fatalf("%+v, %v", done, err)
	}
	if all := check(t, file); all[0].Err != nil || all[0].Name != "p" || all[0].Info.Digest != d.Info.Digest {
		t.Errorf("%+v", all)
	}

	old, _ := os.ReadFile(file)
	old = bytes.ReplaceAll(old, []byte("json = true"), []byte("json = false"))
	head, table, _ := strings.Cut(string(old), "\n\n")
	old = []byte(head + "\n\n# mine\n[[plugin]] # another\nname = 'q'\nfile = \"q.wasm\"\nsha256 = \"" + strings.Repeat("0", 64) +
		"\" # q's\nhooks = [\"filter\"]\nmatch = [\"x\"]\non_error = \"drop\"\n\n" + table)
	if err := os.WriteFile(file, old, 0o666); err != nil {
		t.Fatal(err)
	}
	second := asking(`{"name":"p","version":"2","hooks":["filter"],"imports":[{"name":"json_get","reason":"r"}]}`)
	d.Info = inspect(t, second)
	done, err = author.Install(file, d, second)
	if err != nil || done.Made || !done.Updated || fmt.Sprint(done.Asks) != "[json]" {
		t.Fatalf("%+v, %v", done, err)
	}
	if b, _ := os.ReadFile(done.File); !bytes.Equal(b, second) {
		t.Error("the module is not the second one")
	}
	next, _ := os.ReadFile(file)
	changed := 0
	was, is := strings.Split(string(old), "\n"), strings.Split(string(next), "\n")
	for i := range was {
		if len(was) != len(is) || was[i] != is[i] {
			changed++
		}
	}
	if changed != 1 {
		t.Errorf("%d lines changed\n%s", changed, next)
	}
	all := check(t, file)
	if !errors.Is(all[0].Err, os.ErrNotExist) || !errors.Is(all[1].Err, plugins.ErrImport) {
		t.Errorf("%v; %v", all[0].Err, all[1].Err)
	}
}

func check(t *testing.T, file string) []author.Checked {
	t.Helper()
	cfg, err := config.Load(config.Source{File: file})
	if err != nil {
		t.Fatal(err)
	}
	all, err := author.CheckConfig(ctx, cfg, "")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestInstallWithoutPin: a table that had no pin gets one, below its name.
func TestInstallWithoutPin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tidewheel.toml")
	text := "[[plugin]]\nfile = \"else.wasm\"\nname = \"p\"\nhooks = [\"filter\"]\nmatch = [\"orders\"]\non_error = \"drop\"\n"
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	module := asking(`{"name":"p","hooks":["filter"]}`)
	done, err := author.Install(file, deployment(t, module), module)
	if err != nil || !done.Updated || filepath.Base(done.File) != "else.wasm" {
		t.Fatalf("%+v, %v", done, err)
	}
	if next, _ := os.ReadFile(file); !strings.Contains(string(next), "name = \"p\"\nsha256 = \"") {
		t.Errorf("%s", next)
	}
}

// TestInstallRefuses: a configuration with mistakes, or one that would have them, is not written, and neither is the module.
func TestInstallRefuses(t *testing.T) {
	module := asking(`{"name":"p","hooks":["filter"]}`)
	for name, c := range map[string]struct {
		text   string
		change func(*author.Deployment)
	}{
		"mistakes before": {"nonsense = 1\n", func(*author.Deployment) {}},
		"mistakes after":  {"", func(d *author.Deployment) { d.OnError = "pray" }},
		"no TOML":         {"[[", func(*author.Deployment) {}},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "tidewheel.toml")
		if err := os.WriteFile(file, []byte(c.text), 0o666); err != nil {
			t.Fatal(err)
		}
		d := deployment(t, module)
		c.change(&d)
		_, err := author.Install(file, d, module)
		var report *config.Report
		if !errors.As(err, &report) {
			t.Errorf("%s: %v", name, err)
		}
		b, _ := os.ReadFile(file)
		entries, _ := os.ReadDir(dir)
		if string(b) != c.text || len(entries) != 1 {
			t.Errorf("%s: something was written", name)
		}
	}
}

// TestInstallEgress: a granted pattern covers the hosts below it, and nothing else.
func TestInstallEgress(t *testing.T) {
	module := asking(`{"name":"p","hooks":["prepare","result"],"imports":[{"name":"json_get"},{"name":"egress:api.example.com"},{"name":"egress:http://plain.example:8080"},
		{"name":"egress:api.example.org"},{"name":"egress:api.example.com:8443"}]}`)
	file := filepath.Join(t.TempDir(), "tidewheel.toml")
	text := "[[plugin]]\nname = \"p\"\nfile = \"p.wasm\"\nhooks = [\"deliver\"]\nmatch = [\"orders\"]\non_error = \"drop\"\n" +
		"[plugin.capabilities]\negress = [\"*.example.com:443\", \"http://plain.example:8080\"]\njson = true\n"
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	done, err := author.Install(file, deployment(t, module), module)
	if err != nil || fmt.Sprint(done.Asks) != "[egress to api.example.org egress to api.example.com:8443]" {
		t.Errorf("%v, %v", done.Asks, err)
	}
}

// TestInstallTwo: a plugin that filters and delivers is two for a server, with one file and one pin; limits go where they belong.
func TestInstallTwo(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tidewheel.toml")
	for version := range 2 {
		module := asking(fmt.Sprintf(`{"name":"p","version":"%d","imports":[{"name":"json_get","reason":"r"}]}`, version))
		d := deployment(t, module)
		d.Egress, d.MemoryMax, d.FuelPerRecord = []string{"api.example.com"}, 8<<20, 20_000_000
		done, err := author.Install(file, d, module)
		if err != nil || done.Updated != (version == 1) || len(done.Asks) != 0 {
			t.Fatalf("%+v, %v", done, err)
		}
		all := check(t, file)
		if len(all) != 2 || all[0].Name != "p" || all[1].Name != "p-deliver" || all[0].Err != nil || all[1].Err != nil || all[1].Info.Digest != d.Info.Digest {
			t.Errorf("%+v", all)
		}
	}
	cfg, err := config.Load(config.Source{File: file})
	if err != nil {
		t.Fatal(err)
	}
	if l := cfg.Plugins[1].Limits; l.MemoryMax != 8<<20 || l.FuelPerRecord != 20_000_000 || l.FuelCallMax != 21_000_000 {
		t.Errorf("%+v", l)
	}
}

// TestCheck: a file that runs, one that does not, and one that is not there.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, b []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, b, 0o666); err != nil {
			t.Fatal(err)
		}
		return file
	}
	good := author.Check(ctx, put("good.wasm", asking(`{"name":"p","hooks":["filter"]}`)), author.Setting{})
	if good.Err != nil || good.Name != "p" || len(good.Warnings) != 1 {
		t.Errorf("%+v", good)
	}
	if c := author.Check(ctx, put("bad.wasm", []byte("x")), author.Setting{}); c.Err == nil {
		t.Errorf("%+v", c)
	}
	if c := author.Check(ctx, filepath.Join(dir, "none.wasm"), author.Setting{}); !errors.Is(c.Err, os.ErrNotExist) {
		t.Errorf("%+v", c)
	}
}
