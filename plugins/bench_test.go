package plugins_test

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/internal/fuel"
	"github.com/tidewheel/tidewheel/plugins/internal/wasm"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// batchOf is a batch of n records with bodies of size bytes that begin with c.
func batchOf(n, size int, c string) []abi.Record {
	records := make([]abi.Record, n)
	for i := range records {
		records[i] = abi.Record{ID: uint64(i), Topic: []byte("orders"), Key: fmt.Appendf(nil, "key-%d", i), Body: []byte(c + strings.Repeat("x", size-len(c)))}
	}
	return records
}

// BenchmarkDecide is a filter of one plugin over batches, encoding and checks included.
func BenchmarkDecide(b *testing.B) {
	for _, guest := range []struct {
		name  string
		build func(testing.TB) []byte
	}{
		{"assembled", func(testing.TB) []byte { return plugintest.Scripted() }}, {"c", buildC}, {"as", buildAS}, {"go", buildGo},
	} {
		for _, size := range []int{64, 1024} {
			for _, n := range []int{1, 64, 256} {
				b.Run(fmt.Sprintf("%s/%dB/%d", guest.name, size, n), func(b *testing.B) {
					s := goSpec()
					s.Grants = plugins.Grants{JSON: true, Headers: true, Match: true}
					p := load(b, open(b, plugins.Options{}), guest.build(b), s)
					records := batchOf(n, size, "a")
					var a plugins.Answer
					if err := p.Decide(ctx, filter, records, &a); err != nil || a.Decisions[0].Failure != nil {
						b.Fatal(err, a.Decisions[0].Failure)
					}
					b.ReportAllocs()
					for b.Loop() {
						if err := p.Decide(ctx, filter, records, &a); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
					b.ReportMetric(float64(a.Fuel)/float64(n), "fuel/record")
				})
			}
		}
	}
}

// bareModule starts a guest in the runtime alone, without the host of this package.
func bareModule(tb testing.TB, config wazero.RuntimeConfig, module []byte) api.Module {
	tb.Helper()
	r := wazero.NewRuntimeWithConfig(ctx, config.WithMemoryLimitPages(256))
	tb.Cleanup(func() { r.Close(ctx) })
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	host := r.NewHostModuleBuilder("tw_v1")
	for name, params := range map[string]int{"log": 3, "json_get": 4, "hdr_get": 4, "match": 5} {
		host.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, _ api.Module, stack []uint64) { stack[0] = 0 }),
			slices.Repeat([]api.ValueType{api.ValueTypeI32}, params), []api.ValueType{api.ValueTypeI32}).Export(name)
	}
	if _, err := host.Instantiate(ctx); err != nil {
		tb.Fatal(err)
	}
	mod, err := r.InstantiateWithConfig(ctx, module, wazero.NewModuleConfig().WithStartFunctions("_initialize"))
	if err != nil {
		tb.Fatal(err)
	}
	return mod
}

// bare runs the filter of a guest over the same batch again and again.
func bare(b *testing.B, config wazero.RuntimeConfig, module []byte, records []abi.Record) {
	mod := bareModule(b, config, module)
	size := abi.Size(records)
	res, err := mod.ExportedFunction("tw_alloc").Call(ctx, uint64(size))
	if err != nil {
		b.Fatal(err)
	}
	hook := mod.ExportedFunction("tw_filter")
	stack := make([]uint64, 1)
	for b.Loop() {
		view, _ := mod.Memory().Read(uint32(res[0]), uint32(size))
		if err := abi.Encode(view, abi.Head{Hook: abi.Filter}, records); err != nil {
			b.Fatal(err)
		}
		if g := mod.ExportedGlobal(fuel.ExportSlice); g != nil {
			fuel.NewTank(g.(api.MutableGlobal), mod.ExportedGlobal(fuel.ExportRest).(api.MutableGlobal)).Fill(1 << 40)
		}
		stack[0] = res[0]
		if err := hook.CallWithStack(ctx, stack); err != nil || stack[0] != 0 {
			b.Fatal(err, stack[0])
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(records)), "ns/record")
}

// BenchmarkFuel is a filter in Go over records of 1 KiB in batches of 64: the plain module, with fuel, and with the runtime's
// own way to stop a guest. "json" reads with encoding/json; "scan" looks for one value byte by byte, the worst case for fuel
// in a Go guest, whose every jump passes a loop header.
func BenchmarkFuel(b *testing.B) {
	b.Run("json", func(b *testing.B) { fuelRatio(b, jsonGuest) })
	b.Run("scan", func(b *testing.B) { fuelRatio(b, goGuest) })
}

func fuelRatio(b *testing.B, build func() ([]byte, error)) {
	module, err := build()
	if err != nil {
		b.Fatal(err)
	}
	m, err := wasm.Parse(module, wasm.DefaultLimits())
	if err != nil {
		b.Fatal(err)
	}
	metered, _, err := fuel.Rewrite(m, fuel.Options{Initial: 1 << 40, MemoryPages: 256})
	if err != nil {
		b.Fatal(err)
	}
	records := batchOf(64, 1024, "")
	for i := range records {
		records[i].Body = []byte(`{"pad":"` + strings.Repeat("x", 990) + `","paid":true}`)
	}
	plain := wazero.NewRuntimeConfigCompiler()
	b.Run("plain", func(b *testing.B) { bare(b, plain, module, records) })
	b.Run("fuel", func(b *testing.B) { bare(b, plain, metered, records) })
	b.Run("close on context done", func(b *testing.B) { bare(b, plain.WithCloseOnContextDone(true), module, records) })
}

// BenchmarkStart is from the file to the first answer, with the compiled code in the cache.
func BenchmarkStart(b *testing.B) {
	for name, build := range map[string]func(testing.TB) []byte{"c": buildC, "as": buildAS, "go": buildGo} {
		b.Run(name, func(b *testing.B) {
			module, dir := build(b), b.TempDir()
			s := goSpec()
			s.Grants = plugins.Grants{JSON: true, Headers: true, Match: true}
			for i := range b.N + 1 {
				if i == 1 {
					b.ResetTimer() // the first fills the cache
				}
				r := open(b, plugins.Options{CacheDir: dir})
				p := load(b, r, module, s)
				decide(b, p, filter, bodies("a"))
				p.Close()
			}
		})
	}
}

// TestReloadUnderLoad: while generations change, no record is lost and batches wait no longer than usual.
func TestReloadUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for a second")
	}
	r := open(t, plugins.Options{CacheDir: t.TempDir()})
	s := spec()
	s.Limits.Instances = 2
	p := load(t, r, verdicts(0x10002), s)
	records := batchOf(64, 256, "a")
	var a plugins.Answer
	measure := func(d time.Duration, swap func()) []time.Duration {
		done := make(chan struct{})
		go func() { swap(); close(done) }()
		var all []time.Duration
		for begin := time.Now(); time.Since(begin) < d; {
			t0 := time.Now()
			if err := p.Decide(ctx, filter, records, &a); err != nil {
				t.Fatal(err)
			}
			all = append(all, time.Since(t0))
			for _, d := range a.Decisions {
				if d.Failure != nil || uint64(d.Verdict.Code()) != a.Generation {
					t.Fatalf("%v by generation %d: %v", d.Verdict.Code(), a.Generation, d.Failure)
				}
			}
		}
		<-done
		sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
		return all
	}
	calm := measure(time.Second/2, func() {})
	busy := measure(time.Second/2, func() {
		for i := range 10 {
			m, err := r.Load(ctx, verdicts(int64(i+2)<<16|2), s)
			if err == nil {
				err = p.Swap(m)
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	p99 := func(d []time.Duration) time.Duration { return d[len(d)*99/100] }
	t.Logf("batches of 64: p99 %v in %d batches; %v in %d batches with ten reloads", p99(calm), len(calm), p99(busy), len(busy))
}
