package author_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/tidewheel/tidewheel/host/author"
	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// TestWithManifest: the section is there once, the last one wins, and the rest of the module stays as it is.
func TestWithManifest(t *testing.T) {
	bare := plugintest.Scripted()
	first, err := author.WithManifest(bare, []byte(`{"name":"a"}`))
	if err != nil || !bytes.HasPrefix(first, bare) {
		t.Fatal(err)
	}
	long := []byte(`{"name":"b","description":"` + strings.Repeat("x", 300) + `"}`)
	second, err := author.WithManifest(first, long)
	if err != nil {
		t.Fatal(err)
	}
	info, err := plugins.Inspect(second, plugins.Grants{})
	if err != nil || info.Manifest.Name != "b" || bytes.Count(second, []byte("tw.manifest")) != 1 || !bytes.HasPrefix(second, bare) {
		t.Errorf("%+v, %v", info.Manifest, err)
	}
	for name, c := range map[string]struct{ module, manifest []byte }{
		"no module":      {[]byte("nonsense"), long},
		"no manifest":    {bare, []byte("{")},
		"unknown member": {bare, []byte(`{"nmae":"a"}`)},
		"cut":            {bare[:len(bare)-1], long},
		"endless length": {append(slices.Clone(bare), 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), long},
	} {
		if _, err := author.WithManifest(c.module, c.manifest); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzWithManifest: no bytes make it panic, and what it makes of a module that Inspect takes is one.
func FuzzWithManifest(f *testing.F) {
	f.Add(plugintest.Scripted())
	f.Add([]byte("\x00asm\x01\x00\x00\x00\x00\x01\x00"))
	f.Fuzz(func(t *testing.T, module []byte) {
		out, err := author.WithManifest(module, []byte(`{"name":"a"}`))
		if err != nil {
			return
		}
		if _, err := plugins.Inspect(module, author.AllGrants); err != nil {
			return
		}
		if info, err := plugins.Inspect(out, author.AllGrants); err != nil || info.Manifest.Name != "a" {
			t.Errorf("%+v, %v", info.Manifest, err)
		}
	})
}

// asking is a plugin that imports two functions and has a manifest.
func asking(manifest string) []byte {
	m := plugintest.GuestWith(func(m *plugintest.Module) {
		m.Import("tw_v1", "json_get", "i32 i32 i32 i32 -> i32")
		m.Import("tw_v1", "log", "i32 i32 i32 -> i32")
	})
	m.Hook("tw_filter", "i64.const 1")
	m.Hook("tw_prepare", "i64.const 2")
	m.Hook("tw_result", "i64.const 1")
	if manifest != "" {
		m.Custom("tw.manifest", []byte(manifest))
	}
	return m.Bytes()
}

func inspect(t *testing.T, module []byte) plugins.Info {
	t.Helper()
	info, err := plugins.Inspect(module, author.AllGrants)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// TestCapabilities: what is imported and what is asked for, with reasons.
func TestCapabilities(t *testing.T) {
	info := inspect(t, asking(`{"name":"p","hooks":["prepare","result"],"imports":[{"name":"tw_v1.json_get","reason":"reads /paid"},
		{"name":"match","reason":"looks"},{"name":"egress:api.example.com:443","reason":"calls"}]}`))
	want := "[{json  reads /paid true} {match  looks false} {egress api.example.com:443 calls true}]"
	if got := fmt.Sprint(author.Capabilities(info)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := fmt.Sprint(author.Warnings(info)); got != "[the manifest asks for match, and it does not import it]" {
		t.Error(got)
	}
	if got := fmt.Sprint(author.ConfiguredHooks(author.Hooks(info))); got != "[deliver]" {
		t.Error(got)
	}
}

// TestWarnings: each oddity has its line.
func TestWarnings(t *testing.T) {
	all := strings.Join(author.Warnings(inspect(t, asking(""))), "\n")
	for _, want := range []string{"no manifest", "does not say where"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in\n%s", want, all)
		}
	}
	all = strings.Join(author.Warnings(inspect(t, asking(`{"name":"p","hooks":["prepare"]}`))), "\n")
	for _, want := range []string{"both hooks", "no reason for json"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in\n%s", want, all)
		}
	}
	program := plugintest.Guest()
	program.Hook("tw_filter", "i64.const 1")
	program.Func("_start", "", "", "")
	info, err := plugins.Inspect(program.Bytes(), plugins.Grants{})
	if all := strings.Join(author.Warnings(info), "\n"); !errors.Is(err, plugins.ErrABI) || !strings.Contains(all, "_start and no _initialize") {
		t.Errorf("%s, %v", all, err)
	}
}

// TestDeploymentTOML: the table can be read back, whatever the texts are, and has the reasons.
func TestDeploymentTOML(t *testing.T) {
	info := inspect(t, asking(`{"name":"p","version":"1","description":"two\nlines \"quoted\"","imports":[{"name":"json_get","reason":"be\ncause"},{"name":"egress:a.example","reason":"r"}]}`))
	d := author.Deployment{Name: "p", File: `odd "name"\.wasm`, Match: []string{"a-*"}, Targets: []string{"x", "y"}, Egress: []string{"b.example"}, OnError: "drop", Fail: "open", Info: info,
		Config: []byte(`{"limit":3,"rate":1.5,"nothing":null,"names":["a","b"],"deep":{"er":{"x":true}},"text":"[config]\n[x]"}`)}
	text, err := d.TOML()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Plugin []struct {
			Name, File, SHA256 string
			Hooks, Match       []string
			Targets            []string
			OnError            string `toml:"on_error"`
			Fail               string
			Capabilities       map[string]any
			Config             map[string]any
		}
	}
	if _, err := toml.Decode(text, &got); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	start, end := `odd "name"\.wasm `+info.Digest.String(), ` map[deep:map[er:map[x:true]] limit:3 names:[a b] rate:1.5 text:[config]
[x]]}`
	want := "[{p " + start + " [filter] [a-*] [x y] drop open map[json:true]" + end +
		" {p-deliver " + start + " [deliver] [a-*] [] drop closed map[egress:[b.example a.example] json:true]" + end + "]"
	if s := fmt.Sprint(got.Plugin); s != want {
		t.Errorf("got  %s\nwant %s\n%s", s, want, text)
	}
	if !strings.Contains(text, "# be cause\n") || !strings.HasPrefix(text, "# p 1: two lines \"quoted\"\n[[plugin]]\n") {
		t.Error(text)
	}
	d.Config = []byte("[]")
	if _, err := d.TOML(); err == nil {
		t.Error("a configuration that is no object was taken")
	}
}
