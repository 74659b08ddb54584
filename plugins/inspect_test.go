package plugins_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/internal/wasm"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// TestInspect: what a file wants is told also when it is refused for it.
func TestInspect(t *testing.T) {
	m := plugintest.GuestWith(func(m *plugintest.Module) {
		m.Import("tw_v1", "json_get", "i32 i32 i32 i32 -> i32")
		m.Import("wasi_snapshot_preview1", "random_get", "i32 i32 -> i32")
	})
	m.Hook("tw_filter", "i64.const 1")
	m.Hook("tw_result", "i64.const 1")
	m.Custom("tw.manifest", []byte(`{"name":"n","version":"2","hooks":["filter"]}`))
	info, err := plugins.Inspect(m.Bytes(), plugins.Grants{})
	if !errors.Is(err, plugins.ErrImport) {
		t.Errorf("without the grant: %v", err)
	}
	if s := fmt.Sprint(info.Imports); s != "[{tw_v1.json_get true false} {wasi_snapshot_preview1.random_get true true}]" {
		t.Error(s)
	}
	info, err = plugins.Inspect(m.Bytes(), plugins.Grants{JSON: true})
	if err != nil || fmt.Sprint(info.Hooks) != "[filter result]" || fmt.Sprint(info.Exports) != "[tw_abi_1 tw_alloc tw_filter tw_result]" || info.Manifest.Version != "2" || info.Memory != 2<<16 || info.Functions != 4 ||
		info.Checks == 0 || info.Metered <= info.Bytes-100 {
		t.Errorf("%+v, %v", info, err)
	}
	if info, err := plugins.Inspect([]byte("x"), plugins.Grants{}); !errors.Is(err, wasm.ErrMalformed) || info.Bytes != 1 {
		t.Errorf("%+v, %v", info, err)
	}
}
