package plugins_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/internal/wasm"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// TestKit runs the conformance kit: each rule of ABI.md, in both engines.
func TestKit(t *testing.T) {
	engines(t, func(t *testing.T, r *plugins.Runtime) {
		for _, c := range plugintest.Kit() {
			t.Run(c.Name, func(t *testing.T) {
				s := spec()
				s.Policy.QuarantineAfter, s.Limits.FuelInit = 100, 1_000_000
				s.Config = json.RawMessage(`{}`)
				m, err := r.Load(ctx, c.Wasm, s)
				if c.Load != "" {
					var le *plugins.LoadError
					if !errors.As(err, &le) || !strings.Contains(err.Error(), c.Load) {
						t.Fatalf("section %d: load: %v, want %q", c.Section, err, c.Load)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				p, err := r.NewPlugin(m)
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				call := filter
				if m.Hooks()[len(m.Hooks())-1] == abi.Transform {
					call.Hook = abi.Transform
				}
				var got []string
				for _, d := range decide(t, p, call, bodies("a", "b", "c")).Decisions {
					class := "-"
					if d.Failure != nil {
						class = d.Failure.Class.String()
					}
					got = append(got, class)
				}
				if g := strings.Join(got, " "); g != c.Want {
					t.Errorf("section %d: %s, want %s", c.Section, g, c.Want)
				}
			})
		}
	})
}

// TestLoadRefuses: what is wrong with a file is told apart.
func TestLoadRefuses(t *testing.T) {
	r := open(t, plugins.Options{})
	meant := plugintest.Guest()
	meant.Hook("tw_filter", "i64.const 1")
	meant.Hook("tw_publish", "i64.const 1") // as a Go guest, which exports all hooks
	meant.Custom("tw.manifest", []byte(`{"hooks":["filter"]}`))
	for _, c := range []struct {
		name string
		wasm []byte
		edit func(s *plugins.Spec)
		want error
	}{
		{"garbage", []byte("hello"), nil, wasm.ErrMalformed},
		{"pin", plugintest.Scripted(), func(s *plugins.Spec) { s.Pin = new(plugins.Digest) }, plugins.ErrPin},
		{"hook", plugintest.Scripted(), func(s *plugins.Spec) { s.Hooks = []abi.Hook{abi.Result} }, plugins.ErrHook},
		{"hook that the manifest does not name", meant.Bytes(), func(s *plugins.Spec) { s.Hooks = []abi.Hook{abi.Publish} }, plugins.ErrHook},
		{"binary too large", plugintest.Scripted(), func(s *plugins.Spec) { s.Limits.BinaryMax = 100 }, wasm.ErrLimit},
		{"no policy", plugintest.Scripted(), func(s *plugins.Spec) { s.Policy.OnError = 0 }, plugins.ErrSpec},
		{"no name", plugintest.Scripted(), func(s *plugins.Spec) { s.Name = "" }, plugins.ErrSpec},
		{"odd memory", plugintest.Scripted(), func(s *plugins.Spec) { s.Limits.MemoryMax = 100_000 }, plugins.ErrSpec},
		{"config", plugintest.Scripted(), func(s *plugins.Spec) { s.Config = []byte("[1]") }, plugins.ErrSpec},
		{"types do not fit", invalid(), nil, plugins.ErrCompile},
	} {
		s := spec()
		if c.edit != nil {
			c.edit(&s)
		}
		if m, err := r.Load(ctx, c.wasm, s); !errors.Is(err, c.want) || m != nil {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// invalid passes the checks of structure; only the runtime knows that it adds an i32 to nothing.
func invalid() []byte {
	m := plugintest.Guest()
	m.Hook("tw_filter", "i64.const 1")
	m.Func("$f", "", "", "i32.add drop")
	return m.Bytes()
}

// TestKernels: json_get, hdr_get and match serve the whole batch in one call, cost fuel, and refuse what they are not given.
func TestKernels(t *testing.T) {
	build := func(body string) []byte {
		m := plugintest.GuestWith(func(m *plugintest.Module) {
			m.Import("tw_v1", "json_get", "i32 i32 i32 i32 -> i32")
			m.Import("tw_v1", "hdr_get", "i32 i32 i32 i32 -> i32")
			m.Import("tw_v1", "match", "i32 i32 i32 i32 i32 -> i32")
			m.Import("tw_v1", "log_level", "-> i32")
		})
		m.Data(16, "/a/b")
		m.Data(32, "tenant")
		m.Data(48, "ord*")
		m.Func("tw_filter", "$b:i32 -> i32", "$v:i32", `
			local.get $b local.get $b i32.load offset=20 i32.add local.set $v
			local.get $b i32.load offset=8 i32.eqz if i32.const 0 return end
			`+body)
		return m.Bytes()
	}
	records := bodies(`{"a":{"b":7}}`, `{"a":1}`)
	records[0].Headers = abi.Headers(nil).Append([]byte("tenant"), []byte("acme"))
	records[1].Topic = []byte("other")
	s := spec()
	s.Grants = plugins.Grants{JSON: true, Headers: true, Match: true}
	// Each stores a verdict drop with what it found as code: for record 0 what is at the offset, for record 1 the count.
	store := ` i64.extend_i32_u i64.const 16 i64.shl i64.const 2 i64.or i64.store offset=`
	for _, c := range []struct {
		name, body, want string
	}{
		{"json_get", `local.get $v local.get $b i32.const 16 i32.const 4 i32.const 1024 call $json_get` + store + `8
			local.get $v local.get $b i32.const 1024 i32.load i32.add i32.load8_u` + store + `0 i32.const 0`, "drop:55 drop:1"},
		{"json_get finds nothing", `local.get $v local.get $b i32.const 16 i32.const 4 i32.const 1024 call $json_get` + store + `8
			local.get $v i32.const 1036 i32.load` + store + `0 i32.const 0`, "drop drop:1"},
		{"hdr_get", `local.get $v local.get $b i32.const 32 i32.const 6 i32.const 1024 call $hdr_get` + store + `8
			local.get $v local.get $b i32.const 1024 i32.load i32.add i32.load8_u` + store + `0 i32.const 0`, "drop:97 drop:1"},
		{"match", `local.get $v local.get $b i32.const 0 i32.const 48 i32.const 4 i32.const 1024 call $match` + store + `8
			local.get $v i32.const 1024 i32.load16_u` + store + `0 i32.const 0`, "drop:1 drop:1"},
		{"wrong batch", `local.get $b i32.const 8 i32.add i32.const 16 i32.const 4 i32.const 1024 call $json_get`, "dead_letter:1(status) dead_letter:1(status)"},
		{"path outside", `local.get $b i32.const -2 i32.const 4 i32.const 1024 call $json_get`, "dead_letter:1(status) dead_letter:1(status)"},
		{"path too long", `local.get $b i32.const 16 i32.const 1000 i32.const 1024 call $json_get`, "dead_letter:3(status) dead_letter:3(status)"},
		{"output outside", `local.get $b i32.const 16 i32.const 4 i32.const -2 call $hdr_get`, "dead_letter:1(status) dead_letter:1(status)"},
		{"field", `local.get $b i32.const 3 i32.const 48 i32.const 4 i32.const 1024 call $match`, "dead_letter:1(status) dead_letter:1(status)"},
		{"damaged batch", `local.get $b i32.const -1 i32.store offset=16 local.get $b i32.const 16 i32.const 4 i32.const 1024 call $json_get`, "dead_letter:1(status) dead_letter:1(status)"},
		{"costs fuel", `loop local.get $b i32.const 16 i32.const 4 i32.const 1024 call $json_get drop br 0 end unreachable`, "dead_letter(fuel) dead_letter(fuel)"},
	} {
		engines(t, func(t *testing.T, r *plugins.Runtime) {
			p := load(t, r, build(c.body), s)
			a := decide(t, p, filter, records)
			if got := actions(a); got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		})
	}
}

// TestKernelsBetweenCalls: a guest that asks outside of a hook gets an answer it can live with.
func TestKernelsBetweenCalls(t *testing.T) {
	m := plugintest.GuestWith(func(m *plugintest.Module) { m.Import("tw_v1", "json_get", "i32 i32 i32 i32 -> i32") })
	m.Func("_initialize", "", "", "i32.const 0 i32.const 0 i32.const 0 i32.const 0 call $json_get i32.const -2 i32.ne if unreachable end")
	m.Func("$start", "", "", "i32.const 0 i32.const 0 i32.const 0 i32.const 0 call $json_get drop")
	m.Start("$start")
	m.Hook("tw_filter", "i64.const 1")
	s := spec()
	s.Grants.JSON = true
	engines(t, func(t *testing.T, r *plugins.Runtime) { load(t, r, m.Bytes(), s) })
}

// TestSandbox: the stand-ins for WASI give the same to every instance and nothing of the world.
func TestSandbox(t *testing.T) {
	const wasi = "wasi_snapshot_preview1"
	m := plugintest.GuestWith(func(m *plugintest.Module) {
		m.Import(wasi, "clock_time_get", "i32 i64 i32 -> i32")
		m.Import(wasi, "random_get", "i32 i32 -> i32")
		m.Import(wasi, "environ_sizes_get", "i32 i32 -> i32")
		m.Import(wasi, "args_sizes_get", "i32 i32 -> i32")
		m.Import(wasi, "fd_prestat_get", "i32 i32 -> i32")
		m.Import(wasi, "poll_oneoff", "i32 i32 i32 i32 -> i32")
		m.Import(wasi, "fd_write", "i32 i32 i32 i32 -> i32")
		m.Import(wasi, "proc_exit", "i32")
	})
	m.Data(2048, "\x10\x08\x00\x00\x05\x00\x00\x00") // an iovec: 5 bytes at 2064
	m.Data(2064, "oops\n")
	m.Hook("tw_filter", `
		local.get $len if result=i32 local.get $body i32.load8_u else i32.const 0 end local.set $x
		block $b
		local.get $x i32.const 99 i32.eq if  ;; c: the clock is the batch's
			i32.const 0 i64.const 0 i32.const 1024 call $clock_time_get br_if $b
			i32.const 1024 i64.load i64.const 1000000000 i64.div_u i64.const 0xffff i64.and i64.const 16 i64.shl i64.const 2 i64.or local.set $verdict br $b end
		local.get $x i32.const 114 i32.eq if  ;; r: random numbers come from the seed
			i32.const 1024 i32.const 8 call $random_get br_if $b
			i32.const 1024 i64.load16_u i64.const 16 i64.shl i64.const 2 i64.or local.set $verdict br $b end
		local.get $x i32.const 101 i32.eq if  ;; e: no environment, no arguments, no directory
			i32.const 1024 i32.const 1028 call $environ_sizes_get br_if $b
			i32.const 1032 i32.const 1036 call $args_sizes_get br_if $b
			i32.const 3 i32.const 1040 call $fd_prestat_get i32.const 8 i32.ne br_if $b
			i32.const 1024 i64.load i32.const 1032 i64.load i64.or i64.const 2 i64.or local.set $verdict br $b end
		local.get $x i32.const 115 i32.eq if  ;; s: sleeping for an hour moves the clock and takes no time
			i32.const 1048 i64.const 0 i64.store i32.const 1040 i32.const 1 i32.store offset=16
			i32.const 1040 i64.const 3600000000000 i64.store offset=24
			i32.const 1040 i32.const 1100 i32.const 1 i32.const 1200 call $poll_oneoff br_if $b
			i32.const 1 i64.const 0 i32.const 1024 call $clock_time_get br_if $b
			i32.const 1024 i64.load i64.const 1000000000 i64.div_u i64.const 16 i64.shl i64.const 2 i64.or local.set $verdict br $b end
		local.get $x i32.const 112 i32.eq if  ;; p: what is printed explains the trap
			i32.const 2 i32.const 2048 i32.const 1 i32.const 1024 call $fd_write drop unreachable end
		local.get $x i32.const 120 i32.eq if i32.const 3 call $proc_exit end
		end
		local.get $verdict`)
	engines(t, func(t *testing.T, r *plugins.Runtime) {
		p := load(t, r, m.Bytes(), spec())
		a := decide(t, p, filter, bodies("c", "e", "s", "p", "x"))
		if got := actions(a); got != "drop:61696 drop drop:3600 dead_letter(trap) dead_letter:3(exit)" {
			t.Fatal(got) // 1,700,000,000 s & 0xffff = 61696
		}
		if f := a.Decisions[3].Failure; f.Message != "unreachable: oops" {
			t.Errorf("message %q", f.Message)
		}
		if l := p.Logs(); len(l) != 1 || l[0].Text != "oops" {
			t.Errorf("log %+v", l)
		}
		first := decide(t, p, filter, bodies("r", "r"))
		again := decide(t, p, filter, bodies("r", "r"))
		other := filter
		other.Seed = 2
		if actions(first) != actions(again) || first.Decisions[0].Verdict == first.Decisions[1].Verdict || actions(decide(t, p, other, bodies("r", "r"))) == actions(first) {
			t.Errorf("random numbers %s, again %s", actions(first), actions(again))
		}
	})
}
