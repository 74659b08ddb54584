package httpapi_test

import (
	"testing"

	"github.com/spf13/afero"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/host/pluginhost"
	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// filter is a module with a manifest that says a line for each batch, and keeps all messages.
func filter(line string) []byte {
	m := plugintest.GuestWith(func(m *plugintest.Module) { m.Import(abi.Imports, "log", "i32 i32 i32 -> i32") })
	m.Data(64, line)
	m.Hook("tw_filter", `i32.const 0 i32.const 64 i32.const 18 call $log drop i64.const 1`)
	m.Custom(abi.Manifest, []byte(`{"name":"tenant-filter","version":"1.2.0","description":"keeps what has a tenant","hooks":["filter"],"imports":[{"name":"log","reason":"to say why"}]}`))
	return m.Bytes()
}

// storyPlugins are three plugins: one that runs, one whose file is missing, and one with a second generation.
func storyPlugins(t testing.TB, now *clock) *pluginhost.Host {
	t.Helper()
	fs := afero.NewMemMapFs()
	write := func(name string, data []byte) {
		if err := afero.WriteFile(fs, "/etc/tidewheel/plugins/"+name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("tenant-filter.wasm", filter("no tenant, no mail"))
	write("replaced.wasm", filter("the first of two.."))
	cfg, err := config.Parse(config.Source{File: "/etc/tidewheel/tidewheel.toml"}, []byte(`
[plugins]
cache_dir = "`+t.TempDir()+`"
reload_interval = "0"
[[plugin]]
name = "tenant-filter"
file = "tenant-filter.wasm"
hooks = ["filter"]
match = ["mail-*"]
on_error = "dead_letter"
instances = 1
[plugin.config]
tenants = ["a", "b"]
[[plugin]]
name = "no-file"
file = "no-file.wasm"
hooks = ["publish"]
match = ["forms-*"]
on_error = "drop"
fail = "open"
instances = 1
[[plugin]]
name = "replaced"
file = "replaced.wasm"
hooks = ["filter"]
at = "consume"
match = ["mail-*"]
groups = ["billing"]
on_error = "skip"
instances = 1
`))
	if err != nil {
		t.Fatal(err)
	}
	h, err := pluginhost.Open(t.Context(), pluginhost.Options{Config: cfg, FS: fs, Now: now.ms})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	write("replaced.wasm", filter("the second of two."))
	if err := h.Reload(t.Context(), "replaced"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Due(t.Context(), "mail-x", []engine.Message{{Message: message.Message{First: 1, Body: []byte("x")}}}); err != nil {
		t.Fatal(err)
	}
	return h
}
