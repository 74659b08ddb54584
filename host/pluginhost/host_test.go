package pluginhost_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/pluginhost"
	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

func keep() []byte            { return byFirst(verdict(abi.Keep, 0, 0), nil) }
func drop(code uint16) []byte { return byFirst(verdict(abi.Drop, code, 0), nil) }

// TestFailedAtStart: what can't be loaded is no error of the start. Messages wait or pass, Attention says which and why, and a
// file that is mended runs.
func TestFailedAtStart(t *testing.T) {
	for _, c := range []struct {
		name, fail, data, due, says string
	}{
		{"missing", "closed", "", "", "plugin a is not loaded (/etc/plugins/a.wasm: file does not exist): messages wait"},
		{"not a module", "closed", "hello", "", "plugin a is not loaded (wasm: file at offset 0: does not begin with the magic of WebAssembly: malformed module): messages wait"},
		{"not a module, open", "open", "hello there", "keep keep", "plugin a is not loaded (wasm: file at offset 0: does not begin with the magic of WebAssembly: malformed module): messages pass without it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t)
			if c.data != "" {
				d.write("a.wasm", []byte(c.data))
			}
			d.open(table("a", `fail = "`+c.fail+`"`))
			d.expect(d.due("orders", "x", "y"), c.due)
			if all := d.Attention(); len(all) != 1 || all[0] != c.says {
				t.Errorf("attention: %q", all)
			}
			if v, err := d.Plugin("a"); err != nil || v.State != pluginhost.StateFailed || v.File.Failed != 1 {
				t.Errorf("%+v, %v", v, err)
			}
			if err := d.Rollback("a"); !errors.Is(err, pluginhost.ErrFailed) {
				t.Errorf("roll back: %v", err)
			}
			if !strings.Contains(d.log.String(), "a plugin could not be loaded") {
				t.Errorf("log: %s", d.log.String())
			}
			d.write("a.wasm", drop(3))
			if err := d.Reload(ctx, "a"); err != nil {
				t.Fatal(err)
			}
			d.expect(d.due("orders", "x", "y"), "drop:3 drop:3")
			if all := d.Attention(); all != nil {
				t.Errorf("attention: %q", all)
			}
		})
	}
}

// TestPin: only the pinned file runs, at the start and later; the error has the digest that is there.
func TestPin(t *testing.T) {
	d := newDesk(t)
	good, bad := drop(1), drop(2)
	pin := fmt.Sprintf(`sha256 = "%x"`, sha256.Sum256(good))
	d.write("a.wasm", bad)
	d.open(table("a", pin))
	want := fmt.Sprintf("file differs from its pinned SHA-256: it has %x", sha256.Sum256(bad))
	if all := d.Attention(); len(all) != 1 || !strings.Contains(all[0], want) {
		t.Errorf("attention: %q", all)
	}
	d.write("a.wasm", good)
	if err := d.Reload(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	d.write("a.wasm", bad)
	if err := d.Reload(ctx, "a"); !errors.Is(err, plugins.ErrPin) {
		t.Errorf("reload: %v", err)
	}
	d.expect(d.due("orders", "x"), "drop:1")
	if all := d.Attention(); len(all) != 1 || !strings.HasPrefix(all[0], fmt.Sprintf("plugin a goes on with %.6x, since what is configured cannot be loaded (file differs", sha256.Sum256(good))) {
		t.Errorf("attention: %q", all)
	}
}

// TestReloadRollback: a new file takes over, the old one comes back by hand and stays until Reload or a change of the file.
func TestReloadRollback(t *testing.T) {
	d := newDesk(t)
	d.write("a.wasm", drop(1))
	d.open(table("a"))
	if err := d.Rollback("a"); !errors.Is(err, plugins.ErrNoPrevious) {
		t.Errorf("roll back without a previous one: %v", err)
	}
	d.write("a.wasm", drop(2))
	reload := func(want string) {
		t.Helper()
		if err := d.Reload(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		d.expect(d.due("orders", "x"), want)
	}
	reload("drop:2")
	reload("drop:2") // it runs already
	if v, _ := d.Plugin("a"); v.Stats.Generation != 2 || v.Stats.Previous == nil {
		t.Errorf("%+v", v.Stats)
	}
	if err := d.Rollback("a"); err != nil {
		t.Fatal(err)
	}
	d.expect(d.due("orders", "x"), "drop:1")
	if all := d.Attention(); len(all) != 1 || !strings.Contains(all[0], "was rolled back to") {
		t.Errorf("attention: %q", all)
	}
	reload("drop:2")
	d.write("a.wasm", []byte("broken"))
	var load *plugins.LoadError
	if err := d.Reload(ctx, "a"); !errors.As(err, &load) || load.Plugin != "a" {
		t.Errorf("a broken file: %v", err)
	}
	d.expect(d.due("orders", "x"), "drop:2")
	for _, err := range []error{d.Reload(ctx, "b"), d.Rollback("b"), second(d.Plugin("b")), second(d.Logs("b"))} {
		if !errors.Is(err, pluginhost.ErrNoPlugin) {
			t.Errorf("a plugin that is not there: %v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestReconfigure: plugins come, change and go while the host runs; what is unchanged keeps its state.
func TestReconfigure(t *testing.T) {
	d := newDesk(t)
	d.write("a.wasm", drop(1))
	d.write("b.wasm", byFirst(verdict(abi.Route, 0, 1), nil))
	d.open("")
	d.expect(d.due("orders", "x"), "keep")
	set := func(doc string) error { return d.Reconfigure(ctx, d.config(doc)) }
	must := func(doc, want string) {
		t.Helper()
		if err := set(doc); err != nil {
			t.Fatal(err)
		}
		d.expect(d.due("orders", "x"), want)
	}
	must(table("a"), "drop:1")
	d.due("orders", "y", "z")
	before, _ := d.Plugin("a")
	must(table("a")+table("b", "order = 200"), "drop:1")
	if after, _ := d.Plugin("a"); after.Stats.Generation != 1 || after.Stats.Records != before.Stats.Records+1 {
		t.Errorf("an unchanged plugin was made anew: %+v", after.Stats)
	}
	must(table("a", "order = 300")+table("b", `targets = ["p", "q"]`), "route>q")
	must(table("a")+table("b", `order = 1`, `targets = ["p", "r"]`), "route>r")
	if a, _ := d.Plugin("a"); a.Stats.Generation != 1 {
		t.Errorf("another order made another generation: %d", a.Stats.Generation)
	}
	if b, _ := d.Plugin("b"); b.Stats.Generation != 3 {
		t.Errorf("other targets made no other generation: %d", b.Stats.Generation)
	}
	must(strings.ReplaceAll(table("b", `order = 1`, `targets = ["p", "r"]`), "orders*", "other*")+table("a"), "drop:1")
	must(table("a"), "drop:1")
	if v, err := d.Plugin("b"); !errors.Is(err, pluginhost.ErrNoPlugin) {
		t.Errorf("b is still there: %+v", v)
	}
	if used, total := d.Memory(); used != 2*16<<20 || total != 64<<20 {
		t.Errorf("%d of %d bytes are set aside", used, total)
	}
	// A change that cannot be made leaves what ran.
	if err := set(strings.Replace(table("a"), "a.wasm", "none.wasm", 1)); err == nil {
		t.Error("no error for a missing file")
	}
	d.expect(d.due("orders", "x"), "drop:1")
	must(strings.Replace(table("a"), "a.wasm", "b.wasm", 1), "dead_letter") // no targets
	must("", "keep")
}

// TestReconfigureMemory: a plugin under another name gets the memory of the one that went, and nothing passes unasked meanwhile.
func TestReconfigureMemory(t *testing.T) {
	d := newDesk(t)
	d.write("a.wasm", drop(1))
	d.open(table("a", "instances = 4"))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var asked atomic.Int64
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			ds, err := d.Due(ctx, "orders", messages("x"))
			if err != nil || len(ds) > 0 && (ds[0].Action != broker.ActionDrop || ds[0].Code != 1) {
				t.Errorf("%s, %v", told(ds), err)
			}
			asked.Add(int64(len(ds)))
		}
	})
	for i := range 6 {
		name := fmt.Sprintf("n%d", i)
		doc := strings.Replace(table(name, "instances = 4"), name+".wasm", "a.wasm", 1)
		before := asked.Load()
		if err := d.Reconfigure(ctx, d.config(doc)); err != nil {
			t.Fatal(err)
		}
		until(t, "the new one is asked", func() bool { return asked.Load() > before })
	}
	close(stop)
	wg.Wait()
}

// TestReconfigureExchange: memory that one plugin gives up in a change is there for another one that takes it in the same.
func TestReconfigureExchange(t *testing.T) {
	d := newDesk(t)
	d.write("x.wasm", drop(1))
	doc := func(a, b int) string {
		return strings.Replace(table("a", fmt.Sprintf("instances = %d", a)), "a.wasm", "x.wasm", 1) +
			strings.Replace(table("b", fmt.Sprintf("instances = %d", b)), "b.wasm", "x.wasm", 1)
	}
	d.open(doc(1, 3))
	if err := d.Reconfigure(ctx, d.config(doc(3, 1))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"a": 3, "b": 1} {
		if v, err := d.Plugin(name); err != nil || v.Spec.Limits.Instances != want || v.File.Err != nil {
			t.Errorf("%s: %+v, %v", name, v.Spec.Limits, err)
		}
	}
}

// TestReloadGivenUp: a reload whose caller goes away says nothing about the file, which runs in the end.
func TestReloadGivenUp(t *testing.T) {
	d := newDesk(t)
	d.write("a.wasm", drop(1))
	d.open(table("a"))
	d.write("a.wasm", drop(2))
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := d.Reload(gone, "a"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	d.expect(d.due("orders", "x"), "drop:1")
	cfg := d.config(table("a"))
	cfg.PluginHost.ReloadInterval = 1e6
	if err := d.Reconfigure(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	until(t, "the file runs", func() bool { return d.due("orders", "x") == "drop:2" })
}

// TestHammerReload: files change, roll back and are reconfigured while messages flow; each batch is whole and by one
// generation, and none is lost.
func TestHammerReload(t *testing.T) {
	d := newDesk(t)
	d.write("a.wasm", drop(1))
	d.open(table("a", "limits = { memory_max = \"1MiB\", batch_max = 3 }"))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var batches, codes atomic.Int64
	for range 3 {
		wg.Go(func() {
			list := messages("a", "b", "c", "d", "e", "f", "g", "h")
			for {
				select {
				case <-stop:
					return
				default:
				}
				ds, err := d.Due(ctx, "orders", list)
				if err != nil || len(ds) != len(list) {
					t.Errorf("%d decisions, %v", len(ds), err)
					return
				}
				for _, x := range ds {
					if x.Code != ds[0].Code || x.Digest != ds[0].Digest || x.Digest != sha256.Sum256(drop(x.Code)) {
						t.Errorf("codes %d and %d in one batch", x.Code, ds[0].Code)
					}
				}
				batches.Add(1)
				codes.Or(1 << ds[0].Code)
			}
		})
	}
	for code := uint16(2); code < 10; code++ {
		d.write("a.wasm", drop(code))
		if err := d.Reload(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		if code%3 == 0 {
			if err := d.Rollback("a"); err != nil {
				t.Fatal(err)
			}
		}
		more := batches.Load() + 20
		until(t, "batches go on", func() bool { return batches.Load() >= more })
	}
	close(stop)
	wg.Wait()
	if n := codes.Load(); n&(1<<9-1) < 1<<2 {
		t.Errorf("generations that decided: %b", n)
	}
}

// TestPollReload: a file that is replaced takes over by itself, and a broken one changes nothing but what is said.
func TestPollReload(t *testing.T) {
	d := newDesk(t)
	d.write("a.wasm", drop(1))
	d.open("")
	cfg := d.config(table("a"))
	cfg.PluginHost.ReloadInterval = 1e6 // a millisecond
	if err := d.Reconfigure(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	d.write("a.wasm", drop(2))
	until(t, "the new file decides", func() bool { return d.due("orders", "x") == "drop:2" })
	d.write("a.wasm", []byte("broken"))
	until(t, "the broken file is seen", func() bool { v, _ := d.Plugin("a"); return v.File.Failed == 1 })
	d.expect(d.due("orders", "x"), "drop:2")
	d.write("a.wasm", drop(3))
	until(t, "the mended file decides", func() bool { return d.due("orders", "x") == "drop:3" })
}

// TestCacheDir: compiled code is kept where the configuration says; where that can't be, plugins run all the same.
func TestCacheDir(t *testing.T) {
	d := newDesk(t)
	d.write("a.wasm", drop(1))
	d.open(table("a"))
	if list, err := os.ReadDir(d.dir + "/plugin-cache"); err != nil || len(list) == 0 {
		t.Errorf("%v, %v", list, err)
	}
	d = newDesk(t)
	d.write("a.wasm", drop(1))
	if err := os.WriteFile(d.dir+"/plugin-cache", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.open(table("a"))
	d.expect(d.due("orders", "x"), "drop:1")
	if !strings.Contains(d.log.String(), "compiled plugins are not kept") {
		t.Errorf("log: %s", d.log.String())
	}
}

// TestDeliveries: plugins that deliver are lent with their tables, by name; one that failed says so until it is mended.
func TestDeliveries(t *testing.T) {
	d := newDesk(t)
	d.write("b.wasm", byFirst(verdict(abi.Drop, 5, 0), nil, abi.Prepare, abi.Result))
	deliver := func(name string) string {
		return strings.ReplaceAll(table(name, `capabilities = { egress = ["example.com"] }`, "[plugin.delivery]", "concurrency = 3"), "filter", "deliver")
	}
	d.open(deliver("b") + deliver("a"))
	all := d.Deliveries()
	if len(all) != 2 || all[0].Name != "a" || all[1].Name != "b" || all[1].Table.Delivery.Concurrency != 3 || all[1].Table.Group() != "plugin-b" ||
		!all[1].Wants("orders-1") || all[1].Wants("%RETRY%orders") || d.Stages("orders") || d.Publishes("orders") || d.Consumes("g", "orders") {
		t.Fatalf("%+v", all)
	}
	var a plugins.Answer
	records := []abi.Record{{ID: 1}}
	call := plugins.Call{Hook: abi.Prepare, NowMs: d.now}
	if err := all[0].Decide(ctx, call, records, &a); !errors.Is(err, pluginhost.ErrFailed) {
		t.Errorf("a plugin without its file: %v", err)
	}
	if err := all[1].Decide(ctx, call, records, &a); err != nil || a.Decisions[0].Verdict.Code() != 5 {
		t.Errorf("%+v, %v", a, err)
	}
	if err := d.Reconfigure(ctx, d.config("")); err == nil {
		if err := all[1].Decide(ctx, call, records, &a); err == nil {
			t.Error("a plugin that was removed decides")
		}
	}
}

// TestOpenCancelled: a start that is given up leaves nothing behind.
func TestOpenCancelled(t *testing.T) {
	d := newDesk(t)
	d.write("a.wasm", drop(1))
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if h, err := pluginhost.Open(gone, pluginhost.Options{Config: d.config(table("a")), FS: d.fs}); !errors.Is(err, context.Canceled) || h != nil {
		t.Errorf("%v, %v", h, err)
	}
}

// TestLogs: what a plugin says is there to be read, and in the log with its name.
func TestLogs(t *testing.T) {
	m := plugintest.GuestWith(func(m *plugintest.Module) { m.Import(abi.Imports, "log", "i32 i32 i32 -> i32") })
	m.Data(64, "hello from inside")
	m.Hook("tw_filter", "i32.const 4 i32.const 64 i32.const 17 call $log drop i64.const 1")
	d := newDesk(t)
	d.write("a.wasm", m.Bytes())
	d.open(table("a"))
	d.expect(d.due("orders", "x"), "keep")
	lines, err := d.Logs("a")
	if err != nil || len(lines) != 1 || lines[0].Text != "hello from inside" || lines[0].TimeMs != d.now {
		t.Errorf("%+v, %v", lines, err)
	}
	if !strings.Contains(d.log.String(), `level=WARN msg="plugin says" plugin=a line="hello from inside"`) {
		t.Errorf("log: %s", d.log.String())
	}
}

// TestCloseTwice: the second Close says so, and a closed host decides nothing.
func TestCloseTwice(t *testing.T) {
	d := newDesk(t)
	d.write("a.wasm", keep())
	h, err := pluginhost.Open(ctx, pluginhost.Options{Config: d.config(table("a")), FS: d.fs})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := h.Close(); !errors.Is(err, plugins.ErrClosed) {
		t.Errorf("close twice: %v", err)
	}
	if ds, err := h.Due(ctx, "orders", []engine.Message{messages("x")[0]}); !errors.Is(err, plugins.ErrClosed) {
		t.Errorf("%v, %v", ds, err)
	}
	if err := h.Reconfigure(ctx, d.config("")); !errors.Is(err, plugins.ErrClosed) {
		t.Errorf("reconfigure: %v", err)
	}
}

// TestDefaultsArePlugins: a table without limits has those of package plugins, but for the number of instances.
func TestDefaultsArePlugins(t *testing.T) {
	r, err := plugins.NewRuntime(plugins.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m, err := r.Load(ctx, keep(), plugins.Spec{Name: "plain", Policy: plugins.Policy{OnError: plugins.OnErrorSkip}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	d := newDesk(t)
	d.write("a.wasm", keep())
	d.open(strings.Replace(table("a"), "dead_letter", "skip", 1))
	v, err := d.Plugin("a")
	if err != nil {
		t.Fatal(err)
	}
	got, want := v.Spec, m.Spec()
	got.Limits.Instances = want.Limits.Instances
	if got.Limits != want.Limits || got.Policy != want.Policy || got.Grants != want.Grants {
		t.Errorf("got  %+v %+v\nwant %+v %+v", got.Limits, got.Policy, want.Limits, want.Policy)
	}
}
