package plugins_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/internal/fuel"
	"github.com/tidewheel/tidewheel/plugins/internal/wasm"
)

func goSpec() plugins.Spec {
	s := spec()
	s.Limits.MemoryMax, s.Limits.RecordBytes, s.Limits.FuelPerRecord = 16<<20, 1<<20, 8_000_000
	s.Limits.LogPerSecond = 1000
	s.Config = json.RawMessage(`{"limit":3}`)
	return s
}

// TestGoGuest: the standard toolchain's guests load, and every way for them to fail is told apart.
func TestGoGuest(t *testing.T) {
	p := load(t, open(t, plugins.Options{}), buildGo(t), goSpec())
	a := decide(t, p, filter, bodies("a", "d", "!", "s", "m", "w", "z", `{"paid":true}`, `{"paid":1}`, "c", "l", "d"))
	want := "keep drop:7 dead_letter:65535(error) dead_letter(fuel) dead_letter(memory) dead_letter(trap) keep drop:1 keep dead_letter:3(error) keep drop:7"
	if got := actions(a); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for i, text := range map[int]string{2: "panic: poison", 4: "out of memory", 5: "deadlock", 9: `{"limit":3}`} {
		if f := a.Decisions[i].Failure; f == nil || !strings.Contains(f.Message, text) {
			t.Errorf("record %d: %v, want %q", i, f, text)
		}
	}
	if l := p.Logs(); len(l) == 0 || l[len(l)-1].Text != "seen k10" {
		t.Errorf("log %+v", l)
	}
	for range 2 {
		// The clock is the batch's again, although an earlier record slept for an hour.
		if got := actions(decide(t, p, filter, bodies("t", "z", "t"))); got != "drop:61696 keep drop:65296" {
			t.Errorf("clock: %s", got)
		}
	}
	call := filter
	call.Hook = abi.Transform
	if d := decide(t, p, call, bodies("x", "y")).Decisions; string(d[0].Output.Body) != "<x>" || string(d[1].Output.Body) != "<y>" || string(d[1].Output.Topic) != "orders" {
		t.Errorf("transform: %+v", d)
	}
	call.Hook = abi.Prepare
	d := decide(t, p, call, bodies("x"))
	if o := d.Decisions[0].Output; string(o.Topic) != "https://example.com/hook" || string(o.Body) != "x" {
		t.Errorf("prepare: %+v", o)
	} else if v, _, ok := o.Headers.Get("x-key"); !ok || string(v) != "k0" {
		t.Errorf("header %q, %v", v, ok)
	}
	call.Hook = abi.Result
	responses := bodies("", "")
	responses[0].Flags, responses[1].Flags = 204<<16, 503<<16
	if got := actions(decide(t, p, call, responses)); got != "keep retry:503" {
		t.Errorf("result: %s", got)
	}
}

// TestGoGuestExits: a program that ends itself has ended for one record.
func TestGoGuestExits(t *testing.T) {
	p := load(t, open(t, plugins.Options{}), buildGo(t), goSpec())
	a := decide(t, p, filter, bodies("a", "x", "d"))
	if got := actions(a); got != "keep dead_letter:3(exit) drop:7" || a.Deaths != 1 || p.Stats().Instances != 1 {
		t.Errorf("%s with %d deaths, %d instances", got, a.Deaths, p.Stats().Instances)
	}
}

// TestGoGuestLeavesGoroutines: a goroutine that a record leaves behind runs when a later one waits. When it then spends that one's
// budget, the instance ends with it, and the record is decided by a fresh one.
func TestGoGuestLeavesGoroutines(t *testing.T) {
	p := load(t, open(t, plugins.Options{}), buildGo(t), goSpec())
	if got := actions(decide(t, p, filter, bodies("g", "d", "a"))); got != "keep drop:7 keep" {
		t.Fatal(got)
	}
	a := decide(t, p, filter, bodies("d", "z", "d"))
	if got := actions(a); got != "drop:7 keep drop:7" || a.Deaths != 1 || p.Stats().Started != 2 {
		t.Errorf("%s with %d deaths, %d instances were started", got, a.Deaths, p.Stats().Started)
	}
	if a := decide(t, p, filter, bodies("z")); actions(a) != "keep" || a.Deaths != 0 {
		t.Errorf("then %s with %d deaths", actions(a), a.Deaths)
	}
}

// TestGoGuestMemory: too little memory for a Go guest is an error of loading that says so.
func TestGoGuestMemory(t *testing.T) {
	s := goSpec()
	s.Limits.MemoryMax, s.Limits.RecordBytes = 1<<20, 1<<18
	_, err := open(t, plugins.Options{}).Load(ctx, buildGo(t), s)
	if err == nil || !strings.Contains(err.Error(), "pages of memory") {
		t.Error(err)
	}
}

// TestGoGuestGrows: an instance whose memory grew is replaced, since memory never shrinks; one that does not grow is kept.
func TestGoGuestGrows(t *testing.T) {
	s := goSpec()
	s.Limits.RecyclePercent = 45
	p := load(t, open(t, plugins.Options{}), buildGo(t), s)
	for range 3000 {
		decide(t, p, filter, bodies("a", "l"))
	}
	if n := p.Stats().Started; n != 1 {
		t.Errorf("%d instances were started for small batches, want 1", n)
	}
	big := bodies("a")
	big[0].Body = make([]byte, 900<<10)
	call := filter
	call.Hook = abi.Transform
	for range 4 {
		decide(t, p, call, big)
	}
	if n := p.Stats().Started; n < 2 {
		t.Errorf("%d instances were started, want a new one after the memory grew", n)
	}
}

// TestGoGuestCache: a Go guest starts from the cache in a fraction of the time.
func TestGoGuestCache(t *testing.T) {
	wasm, dir := buildGo(t), t.TempDir()
	for i, want := range []plugins.CacheStats{{Misses: 1}, {Hits: 1}} {
		r := open(t, plugins.Options{CacheDir: dir})
		p := load(t, r, wasm, goSpec())
		if got := actions(decide(t, p, filter, bodies("d"))); got != "drop:7" || r.CacheStats() != want {
			t.Errorf("start %d: %s, %+v", i, got, r.CacheStats())
		}
		p.Close()
	}
}

// TestGuestsSameWithFuel: what compilers make of real programs gives the same with and without fuel. The slices are small, so
// that the guests pass through the runtime hundreds of times, at each place that a check stands.
func TestGuestsSameWithFuel(t *testing.T) {
	for name, build := range map[string]func(testing.TB) []byte{"go": buildGo, "c": buildC, "as": buildAS} {
		t.Run(name, func(t *testing.T) {
			plain := build(t)
			m, err := wasm.Parse(plain, wasm.DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			metered, _, err := fuel.Rewrite(m, fuel.Options{Initial: 1 << 40, MemoryPages: 256, Slice: 100})
			if err != nil {
				t.Fatal(err)
			}
			records := bodies("a", "d", "", `{"paid":true}`, `{"paid": [{"a":"}\""}]}`, `{"x":1,"paid":"y"}`, "c", "l", strings.Repeat("y", 100),
				`{"x":[`+strings.Repeat(`{"paid":false,"s":"\u00e4"},`, 800)+`0],"paid":true}`)
			a, b := bareModule(t, wazero.NewRuntimeConfigCompiler(), plain), bareModule(t, wazero.NewRuntimeConfigCompiler(), metered)
			for _, hook := range []string{"tw_filter", "tw_transform", "tw_prepare", "tw_result", "tw_filter"} {
				want, got := bareBatch(t, a, hook, records), bareBatch(t, b, hook, records)
				if !bytes.Equal(want, got) {
					t.Errorf("%s: the batches differ", hook)
				}
			}
		})
	}
}

// bareBatch is a batch and its output after a hook of a module that runs without this package; nil when it has no such hook.
func bareBatch(t *testing.T, mod api.Module, hook string, records []abi.Record) []byte {
	t.Helper()
	f := mod.ExportedFunction(hook)
	if f == nil {
		return nil
	}
	size := abi.Size(records)
	res, err := mod.ExportedFunction("tw_alloc").Call(ctx, uint64(size))
	if err != nil {
		t.Fatal(err)
	}
	view, _ := mod.Memory().Read(uint32(res[0]), uint32(size))
	if err := abi.Encode(view, abi.Head{Hook: abi.Filter}, records); err != nil {
		t.Fatal(err)
	}
	if status, err := f.Call(ctx, res[0]); err != nil || status[0] != 0 {
		t.Fatalf("%s: %v, %v", hook, status, err)
	}
	view, _ = mod.Memory().Read(uint32(res[0]), uint32(size))
	b, err := abi.Open(view)
	if err != nil {
		t.Fatal(err)
	}
	ptr, n, _ := b.Output()
	out, ok := mod.Memory().Read(ptr, n)
	if !ok {
		t.Fatal("output outside the memory")
	}
	return append(append([]byte(nil), view...), out...)
}

// TestGoGuestFirstRecord: with the default budget a Go plugin may read its records with encoding/json, which sets up more on the
// first record of an instance than a record may spend.
func TestGoGuestFirstRecord(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and compiles a Go guest")
	}
	s := plugins.Spec{Name: "p", Policy: plugins.Policy{OnError: plugins.OnErrorDeadLetter}}
	p := load(t, open(t, plugins.Options{}), built(t, jsonGuest), s)
	body := `{"tenant":"acme","amount":3,"paid":false,"text":"` + strings.Repeat("x", 900) + `"}`
	for range 2 {
		if got := actions(decide(t, p, filter, bodies(body))); got != "keep" {
			t.Fatal(got)
		}
	}
	s.Limits.FuelBase = 20_000
	p = load(t, open(t, plugins.Options{}), built(t, jsonGuest), s)
	if got := actions(decide(t, p, filter, bodies(body))); got != "dead_letter(fuel)" {
		t.Errorf("with a smaller base: %s; then the default need not be what it is", got)
	}
}
