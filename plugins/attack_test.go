package plugins_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/internal/wasm"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// attack is a filter that does body and keeps.
func attack(body string, more func(m *plugintest.Module)) []byte {
	m := plugintest.Guest()
	m.Table(1, 8)
	if more != nil {
		more(m)
	}
	m.Hook("tw_filter", "local.get $i drop "+body+" i64.const 1")
	return m.Bytes()
}

// TestAttacks: what was seen to freeze, fill or crash a process ends in a typed error before compilation, or in a bounded stop.
func TestAttacks(t *testing.T) {
	raw := func(body string, n int) func(m *plugintest.Module) {
		return func(m *plugintest.Module) {
			for range n {
				m.FuncRaw("$x", "", []byte(body))
			}
		}
	}
	for _, c := range []struct {
		name string
		wasm []byte
		load error // nil: it loads
		want plugins.Class
	}{
		{"infinite loop", attack("loop br 0 end", nil), nil, plugins.ClassFuel},
		{"infinite recursion", attack("call $r", func(m *plugintest.Module) { m.Func("$r", "", "", "call $r") }), nil, 0},
		{"recursion with fat frames", attack("i32.const 1 call $r drop", func(m *plugintest.Module) {
			m.Func("$r", "$n:i32 -> i32", strings.Repeat("i64 ", 900), strings.Repeat("local.get $n ", 300)+"local.get $n call $r "+strings.Repeat("i32.add ", 300))
		}), nil, 0},
		{"2^40 calls without a loop", attack("call $f40", func(m *plugintest.Module) {
			m.Func("$f0", "", "", "")
			for i := range 40 {
				m.Func(fmt.Sprintf("$f%d", i+1), "", "", fmt.Sprintf("call $f%d call $f%d", i, i))
			}
		}), nil, plugins.ClassFuel},
		{"memory.fill in a loop", attack("loop i32.const 0 i32.const 0 i32.const 65536 memory.fill br 0 end", nil), nil, plugins.ClassFuel},
		{"memory.grow in a loop", attack("loop i32.const 1 memory.grow drop br 0 end", nil), nil, plugins.ClassFuel},
		{"table.grow by 2^30", attack("loop ref.null i32.const 0x40000000 table.grow drop br 0 end", nil), nil, plugins.ClassFuel},
		{"long turns", attack("loop "+strings.Repeat("i64.const 3 i64.const 7 i64.div_u drop ", 8000)+" br 0 end", nil), nil, plugins.ClassFuel},
		{"indirect calls", attack("loop i32.const 0 call_indirect 0 br 0 end", func(m *plugintest.Module) { m.Func("$n", "", "", ""); m.Elem(0, "$n") }), nil, plugins.ClassFuel},
		{"stores all over", attack("loop local.get $x i32.const 4096 i32.add i32.const 0xfffff i32.and local.tee $x i32.const 1 i32.store br 0 end", nil), nil, 0},
		{"memory above the limit", attack("", func(m *plugintest.Module) { m.Raw(5, []byte("\x01\x00\x80\x20")) }), wasm.ErrLimit, 0},
		{"table of 2^26", attack("", func(m *plugintest.Module) { m.Raw(4, []byte("\x01\x70\x00\x80\x80\x80\x20")) }), wasm.ErrLimit, 0},
		{"300,000 straight adds", attack("", raw("\x00"+strings.Repeat("\x41\x01\x1a", 300_000)+"\x0b", 1)), wasm.ErrLimit, 0},
		{"20,000 memory.fill", attack("", raw("\x00"+strings.Repeat("\x41\x00\x41\x00\x41\x00\xfc\x0b\x00", 14_000)+"\x0b", 2)), wasm.ErrLimit, 0},
		{"200 functions of 50,000 locals", attack("", raw("\x01\xd0\x86\x03\x7f\x0b", 200)), wasm.ErrLimit, 0},
		{"nested blocks", attack("", raw("\x00"+strings.Repeat("\x02\x40", 40_000)+strings.Repeat("\x0b", 40_001), 1)), wasm.ErrLimit, 0},
		{"40,000 loops", attack("", raw("\x00"+strings.Repeat("\x03\x40\x0b", 40_000)+"\x0b", 1)), wasm.ErrLimit, 0},
		{"4 G names", attack("", func(m *plugintest.Module) { m.Custom("name", []byte("\x01\x05\xff\xff\xff\xff\x0f")) }), nil, plugins.Class(255)},
	} {
		t.Run(c.name, func(t *testing.T) {
			engines(t, func(t *testing.T, r *plugins.Runtime) {
				s := spec()
				s.Limits.FuelPerRecord, s.Limits.MemoryMax = 500_000, 2<<20
				begin := time.Now()
				m, err := r.Load(ctx, c.wasm, s)
				if c.load != nil {
					var le *plugins.LoadError
					if !errors.Is(err, c.load) || !errors.As(err, &le) {
						t.Errorf("load: %v, want %v", err, c.load)
					}
				} else if err != nil {
					t.Fatal(err)
				} else {
					p, err := r.NewPlugin(m)
					if err != nil {
						t.Fatal(err)
					}
					defer p.Close()
					f := decide(t, p, filter, bodies("a")).Decisions[0].Failure
					switch {
					case c.want == 255: // no attack once it is loaded
						if f != nil {
							t.Error(f)
						}
					case f == nil || c.want != 0 && f.Class != c.want:
						t.Errorf("failure %v, want %v", f, c.want)
					}
				}
				if took := time.Since(begin); took > 10*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// FuzzAnswers: a guest may write any bytes over its batch and its output; the host never fails by it, and each record is decided.
func FuzzAnswers(f *testing.F) {
	m := plugintest.Guest()
	// The body of record 0 is copied over the batch from the start of the header on; with 0xfe in front the guest dies then, and
	// with 0xff in front the body is an output.
	m.Hook("tw_transform", `
		local.get $i i32.eqz local.get $len i32.const 1 i32.gt_u i32.and if
			local.get $body i32.load8_u local.tee $x i32.const 254 i32.eq if
				local.get $body i32.const 1 i32.add local.set $body local.get $len i32.const 1 i32.sub local.set $len
			end
			local.get $x i32.const 255 i32.eq if
				i32.const 1024 local.get $body i32.const 1 i32.add local.get $len i32.const 1 i32.sub memory.copy
				local.get $b i32.const 1024 i32.store offset=32 local.get $b local.get $len i32.const 1 i32.sub i32.store offset=36
			else
				local.get $b local.get $body local.get $len memory.copy
				local.get $x i32.const 254 i32.eq if unreachable end
			end
		end
		i64.const 6 local.get $i i64.extend_i32_u i64.const 32 i64.shl i64.or`)
	r, err := plugins.NewRuntime(plugins.Options{})
	if err != nil {
		f.Fatal(err)
	}
	s := spec()
	s.Policy.QuarantineAfter = 1 << 30
	mod, err := r.Load(ctx, m.Bytes(), s)
	if err != nil {
		f.Fatal(err)
	}
	p, err := r.NewPlugin(mod)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { p.Close(); r.Close() })
	f.Add(append([]byte{255}, output("x")...))
	f.Add(output("x"))
	f.Add(append([]byte{254}, output("x")...))
	whole := make([]byte, abi.Size(bodies("", "b")))
	if err := abi.Encode(whole, abi.Head{Hook: abi.Transform}, bodies("", "b")); err != nil {
		f.Fatal(err)
	}
	f.Add(append([]byte{254}, whole...)) // no verdicts, no cursor
	whole[abi.OffCursor], whole[abi.OffCursor+3] = 1, 0
	f.Add(append([]byte{254}, whole...))
	f.Add([]byte("TWB1\x02\x00\x40\x00\xff\xff\xff\x7f"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 30_000 {
			return
		}
		call := filter
		call.Hook = abi.Transform
		records := bodies("", "b")
		records[0].Body = data
		var a plugins.Answer
		if err := p.Decide(ctx, call, records, &a); err != nil {
			t.Fatal(err)
		}
		for i, d := range a.Decisions {
			if d.Failure == nil && !abi.Transform.Allowed(d.Verdict.Action()) || d.Failure != nil && d.Verdict.Action() != abi.DeadLetter {
				t.Errorf("record %d: %v, %v", i, d.Verdict.Action(), d.Failure)
			}
			if d.Verdict.Action() == abi.Replace {
				d.Output.Headers.Get("x")
				_ = string(d.Output.Body)
			}
		}
	})
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(`{"name":"a","hooks":["filter"],"imports":[{"name":"log","reason":"r"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := plugins.ParseManifest(data); err != nil && !errors.Is(err, plugins.ErrManifest) {
			t.Fatal(err)
		}
	})
}
