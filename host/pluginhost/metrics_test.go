package pluginhost_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/tidewheel/tidewheel/host/pluginhost"
	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// gather reads all metrics: the values of each name, labels and all, and their sums.
func (d *desk) gather() (values map[string]float64, sums map[string]float64) {
	d.t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(pluginhost.Collector(d.Host))
	families, err := r.Gather()
	if err != nil {
		d.t.Fatal(err)
	}
	values, sums = map[string]float64{}, map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			v := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			values[f.GetName()+labels(m.Label)] += v
			sums[f.GetName()] += v
		}
	}
	return values, sums
}

func labels(pairs []*dto.LabelPair) (text string) {
	for _, p := range pairs {
		text += " " + p.GetValue()
	}
	return text
}

// talker is a plugin that logs a line for each batch, drops what begins with d, and traps for '!'.
func talker(mark string) []byte {
	m := plugintest.GuestWith(func(m *plugintest.Module) { m.Import(abi.Imports, "log", "i32 i32 i32 -> i32") })
	m.Data(64, "hello"+mark)
	m.Hook("tw_filter", `i32.const 0 i32.const 64 i32.const 5 call $log drop
		local.get $body i32.load8_u i32.const 33 i32.eq if unreachable end
		local.get $body i32.load8_u i32.const 109 i32.eq if i32.const 16 memory.grow drop end
		i64.const 1`)
	return m.Bytes()
}

// TestMetrics: every metric of the table is there, and what happens moves it.
func TestMetrics(t *testing.T) {
	d := newDesk(t)
	d.write("a.wasm", talker("1"))
	doc := table("a", "quarantine_after = 2", "limits = { log_per_second = 1 }")
	d.open(doc)
	d.due("orders", "x")
	_, before := d.gather()
	d.due("orders", "m", "y")           // memory grows, a line is dropped
	d.due("orders", "!", "!", "x")      // it dies, and is quarantined
	d.now += 2000                       //
	d.due("orders", "y")                // and comes back
	d.write("a.wasm", []byte("broken")) // a failed load
	if err := d.Reload(ctx, "a"); err == nil {
		t.Error("a broken file was loaded")
	}
	d.write("a.wasm", talker("2"))
	if err := d.Reload(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if err := d.Rollback("a"); err != nil {
		t.Fatal(err)
	}
	d.due("orders", "m")
	if err := d.Reconfigure(ctx, d.config(doc+table("b"))); err == nil {
		t.Error("b has a file")
	}
	d.write("c.wasm", talker("1")) // it is in the cache
	_ = d.Reconfigure(ctx, d.config(doc+table("c", "instances = 1")))
	values, after := d.gather()
	// What does not grow, or not for sure; the cache is healed in a test of its own below, and TestVerify finds what differs.
	still := []string{"cache_heal_total", "nondeterminism_total", "compile_seconds", "instances"}
	for _, m := range pluginhost.Metrics() {
		v, ok := after[m.Name]
		word := strings.TrimPrefix(m.Name, "tidewheel_plugin_")
		switch {
		case !ok:
			t.Errorf("%s is not there", m.Name)
		case !slices.Contains(still, word) && v <= before[m.Name]:
			t.Errorf("%s was %v and is %v", m.Name, before[m.Name], v)
		}
	}
	for name, want := range map[string]float64{
		"quarantines_total a": 1, "reloads_total a": 1, "rollbacks_total a": 1, "reload_failures_total a": 1, "state a active": 1, "state a failed": 0,
		"restarts_total a": 2, "traps_total trap a": 2, "memory_reserved_bytes": 48 << 20, "cache_miss_total": 2, "calls_total filter a undecided": 1, "calls_total filter a ok": 4,
		"messages_total a dead_letter": 2, "messages_total a unset": 1,
	} {
		name = "tidewheel_plugin_" + name
		if got := values[name]; got != want {
			t.Errorf("%s is %v, want %v: %v", name, got, want, values)
		}
	}
	if values["tidewheel_plugin_memory_high_water_bytes a"] < 18<<16 || after["tidewheel_plugin_compile_seconds"] <= 0 || after["tidewheel_plugin_cache_hit_total"] != 1 {
		t.Errorf("%v", values)
	}
}

// TestMetricsHeal: damage in the cache of compiled code is counted, and changes nothing else.
func TestMetricsHeal(t *testing.T) {
	d := newDesk(t)
	d.write("a.wasm", drop(1))
	d.open(table("a"))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	damaged := 0
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := os.ReadDir(d.dir + "/plugin-cache/" + dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			name := dir + "/" + e.Name()
			if e.IsDir() {
				walk(name)
			} else if !strings.HasSuffix(name, ".sum") {
				if err := os.WriteFile(d.dir+"/plugin-cache/"+name, []byte("damage"), 0o600); err != nil {
					t.Fatal(err)
				}
				damaged++
			}
		}
	}
	walk(".")
	if damaged == 0 {
		t.Fatal("nothing is in the cache")
	}
	again := newDesk(t)
	again.fs, again.dir = d.fs, d.dir
	again.open(table("a"))
	again.expect(again.due("orders", "x"), "drop:1")
	if values, _ := again.gather(); values["tidewheel_plugin_cache_heal_total"] != 1 {
		t.Errorf("%v", values)
	}
}
