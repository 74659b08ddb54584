package fuel_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/tidewheel/tidewheel/plugins/internal/fuel"
	"github.com/tidewheel/tidewheel/plugins/internal/wasm"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

var ctx = context.Background()

var engines = map[string]wazero.RuntimeConfig{
	"compiler":    wazero.NewRuntimeConfigCompiler(),
	"interpreter": wazero.NewRuntimeConfigInterpreter(),
}

func rewrite(t testing.TB, file []byte) []byte { return sliced(t, file, 0) }

// sliced is rewrite with slices of another size.
func sliced(t testing.TB, file []byte, slice int64) []byte {
	t.Helper()
	m, err := wasm.Parse(file, wasm.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := fuel.Rewrite(m, fuel.Options{Initial: 1 << 40, MemoryPages: 16, Slice: slice})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func instantiate(t testing.TB, config wazero.RuntimeConfig, file []byte) api.Module {
	t.Helper()
	r := wazero.NewRuntimeWithConfig(ctx, config.WithMemoryLimitPages(16))
	t.Cleanup(func() { r.Close(ctx) })
	mod, err := r.Instantiate(ctx, file)
	if err != nil {
		t.Fatal(err)
	}
	return mod
}

// meter is a rewritten module with its fuel in the host's hands.
type meter struct {
	mod  api.Module
	tank fuel.Tank
}

func metered(t testing.TB, config wazero.RuntimeConfig, file []byte) meter {
	mod := instantiate(t, config, rewrite(t, file))
	return meter{mod, tank(mod)}
}

// run calls f with a budget and returns its results and what it used.
func (m meter) run(budget int64, f string, args ...uint64) (results []uint64, used int64, err error) {
	m.tank.Fill(budget)
	results, err = m.mod.ExportedFunction(f).Call(ctx, args...)
	return results, budget - m.tank.Left(), err
}

func tank(mod api.Module) fuel.Tank {
	return fuel.NewTank(mod.ExportedGlobal(fuel.ExportSlice).(api.MutableGlobal), mod.ExportedGlobal(fuel.ExportRest).(api.MutableGlobal))
}

func one(name, sig, locals, body string) []byte {
	m := plugintest.New()
	m.Memory(1, -1)
	m.Table(1, -1)
	m.Func(name, sig, locals, body)
	return m.Bytes()
}

// TestRewriteStops: each of these runs for ever, or as good as, and ends when its fuel does.
func TestRewriteStops(t *testing.T) {
	calls := func() []byte {
		m := plugintest.New()
		m.Memory(1, 1)
		m.Func("$f0", "", "", "nop")
		for i := range 40 {
			m.Func(fmt.Sprintf("$f%d", i+1), "", "", fmt.Sprintf("call $f%d call $f%d", i, i))
		}
		m.Func("f", "", "", "call $f40")
		return m.Bytes()
	}
	for name, file := range map[string][]byte{
		"empty loop":       one("f", "", "", "loop br 0 end"),
		"nested loops":     one("f", "", "", "loop loop br 1 end end"),
		"loop by br_table": one("f", "", "", "loop i32.const 0 br_table 1 0 1 end"),
		"recursion":        one("f", "", "", "call 0"),
		"tree of 2^40":     calls(),
		"memory.fill":      one("f", "", "", "loop i32.const 0 i32.const 1 i32.const 65536 memory.fill br 0 end"),
		"memory.copy":      one("f", "", "", "loop i32.const 0 i32.const 8 i32.const 65528 memory.copy br 0 end"),
		"memory.grow":      one("f", "", "", "loop i32.const 1 memory.grow drop br 0 end"),
		"table.grow":       one("f", "", "", "loop ref.null i32.const 1 table.grow drop br 0 end"),
		"long turns":       one("f", "", "", "loop "+strings.Repeat("i32.const 1 drop ", 5000)+" br 0 end"),
	} {
		for engine, config := range engines {
			t.Run(name+"/"+engine, func(t *testing.T) {
				m := metered(t, config, file)
				_, used, err := m.run(200_000, "f")
				if err == nil {
					t.Fatal("it returned")
				}
				// The interpreter gives up on deep recursion by itself.
				if overflow := strings.Contains(err.Error(), "stack overflow"); !overflow && used <= 200_000 {
					t.Errorf("stopped with fuel left, %d used: %v", used, err)
				}
				if size := m.mod.Memory().Size(); size > 16<<16 {
					t.Errorf("memory has %d bytes", size)
				}
			})
		}
	}
}

// TestRewriteCharges pins what is charged, since users set limits by it.
func TestRewriteCharges(t *testing.T) {
	nops := func(n int) string { return strings.Repeat("nop ", n) }
	for _, c := range []struct {
		name string
		file []byte
		args []uint64
		want int64
	}{
		{"entry", one("f", "", "", ""), nil, 16},
		{"entry with 3 locals and 2 operands", one("f", "i32 -> i32", "i64 i64", "i32.const 1 i32.const 2 i32.add"), []uint64{0}, 16 + 3 + 2},
		{"127 instructions", one("f", "", "", nops(127)), nil, 16},
		{"128 instructions", one("f", "", "", nops(128)), nil, 16 + 16},
		{"300 instructions", one("f", "", "", nops(300)), nil, 16 + 2*16},
		{"loop of 10 short turns", one("f", "$n:i32", "", `loop local.get $n i32.const 1 i32.sub local.tee $n br_if 0 end`),
			[]uint64{10}, 16 + 1 + 2 + 10},
		{"loop of 10 turns of 40", one("f", "$n:i32", "", `loop `+nops(35)+` local.get $n i32.const 1 i32.sub local.tee $n br_if 0 end`),
			[]uint64{10}, 16 + 1 + 2 + 10*(1+40/8)},
		{"fill of 800 bytes", one("f", "", "", "i32.const 0 i32.const 0 i32.const 800 memory.fill"), nil, 16 + 3 + 100},
		{"grow", one("f", "", "", "i32.const 1 memory.grow drop"), nil, 16 + 1 + 1024},
		{"more than a slice", one("f", "$n:i32", "", `loop local.get $n i32.const 1 i32.sub local.tee $n br_if 0 end`),
			[]uint64{100_000}, 16 + 1 + 2 + 100_000},
		{"a bulk operation of more than a slice", one("f", "", "", "i32.const 15 memory.grow drop i32.const 0 i32.const 0 i32.const 1000000 memory.fill"), nil, 16 + 3 + 1024 + 125_000},
		{"the longer of two branches", one("f", "i32", "", "local.get 0 if "+nops(100)+" else nop end "+nops(30)), []uint64{0}, 16 + 2 + 16},
		{"a branch over the checks", one("f", "i32", "", "block "+nops(100)+" local.get 0 br_if 0 "+nops(500)+" end "+nops(30)), []uint64{1}, 16 + 2 + 16},
	} {
		for engine, config := range engines {
			_, used, err := metered(t, config, c.file).run(1_000_000, "f", c.args...)
			if err != nil || used != c.want {
				t.Errorf("%s, %s: used %d, %v, want %d", c.name, engine, used, err, c.want)
			}
		}
	}
}

// TestRewriteEdge: a budget that is used up to the last unit is enough, one less is not, whatever the slices are.
func TestRewriteEdge(t *testing.T) {
	file := one("f", "$n:i32", "", `loop local.get $n i32.const 1 i32.sub local.tee $n br_if 0 end`)
	for engine, config := range engines {
		m := metered(t, config, file)
		for _, turns := range []uint64{1, 100, fuel.Slice - 19, fuel.Slice - 18, fuel.Slice, 2*fuel.Slice - 19, 2*fuel.Slice - 18, 3*fuel.Slice + 7} {
			cost := int64(16 + 1 + 2 + turns)
			if _, used, err := m.run(cost, "f", turns); err != nil || used != cost || m.tank.Left() != 0 {
				t.Errorf("%s, %d turns with enough: %v, %d used of %d", engine, turns, err, used, cost)
			}
			if _, used, err := m.run(cost-1, "f", turns); err == nil || used != cost || m.tank.Left() != -1 {
				t.Errorf("%s, %d turns with one too few: %v, %d used of %d", engine, turns, err, used, cost-1)
			}
		}
	}
}

// TestTank: what the host takes counts like what the guest uses.
func TestTank(t *testing.T) {
	m := metered(t, engines["compiler"], one("f", "", "", ""))
	for _, c := range []struct {
		fill, take int64
		enough     bool
	}{{10, 10, true}, {10, 11, false}, {3 * fuel.Slice, 2*fuel.Slice + 5, true}, {3 * fuel.Slice, 3 * fuel.Slice, true}, {3 * fuel.Slice, 3*fuel.Slice + 1, false}} {
		m.tank.Fill(c.fill)
		if ok := m.tank.Take(c.take); ok != c.enough || m.tank.Left() != c.fill-c.take {
			t.Errorf("%+v: %v, %d left", c, ok, m.tank.Left())
		}
		if _, err := m.mod.ExportedFunction("f").Call(ctx); (err == nil) != (c.fill-c.take >= 16) {
			t.Errorf("%+v: the guest then: %v", c, err)
		}
	}
	if (fuel.Tank{}).There() || !m.tank.There() {
		t.Error("There")
	}
}

// TestRewriteIsDeterministic: a thousand runs use the same fuel, and the module is the same bytes each time.
func TestRewriteIsDeterministic(t *testing.T) {
	file := program([]byte("a program that is long enough to have loops, calls and branches of all kinds in it"))
	if !bytes.Equal(rewrite(t, file), rewrite(t, file)) {
		t.Fatal("two rewrites differ")
	}
	var first int64
	for engine, config := range engines {
		m := metered(t, config, file)
		for i := range 500 {
			m.mod.Memory().Write(0, make([]byte, 65536))
			_, used, err := m.run(1<<40, "f", 7, 9)
			if err != nil {
				t.Fatal(err)
			}
			if first == 0 {
				first = used
			}
			if used != first {
				t.Fatalf("run %d in the %s used %d, the first one %d", i, engine, used, first)
			}
		}
	}
}

func TestRewriteRefuses(t *testing.T) {
	taken := plugintest.New()
	taken.Memory(1, 1)
	taken.Func(fuel.ExportSlice, "", "", "")
	large := plugintest.New()
	large.Memory(17, -1)
	other := plugintest.New()
	other.Memory(1, 1)
	other.Func(fuel.ExportRest, "", "", "")
	for name, c := range map[string]struct {
		m    *plugintest.Module
		kind error
	}{"export taken": {taken, wasm.ErrUnsupported}, "the other export taken": {other, wasm.ErrUnsupported}, "memory above the cap": {large, wasm.ErrLimit}} {
		m, err := wasm.Parse(c.m.Bytes(), wasm.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		if out, _, err := fuel.Rewrite(m, fuel.Options{MemoryPages: 16}); !errors.Is(err, c.kind) || out != nil {
			t.Errorf("%s: %v, want %v", name, err, c.kind)
		}
	}
}

// TestRewriteBounds: every memory and table of the new module has a maximum, names survive, other custom sections do not.
func TestRewriteBounds(t *testing.T) {
	b := plugintest.New()
	b.Memory(2, -1)
	b.Table(3, -1)
	b.Table(1, 9)
	b.Func("f", "", "", "")
	b.Custom("name", []byte("\x01\x04\x01\x00\x01f"))
	b.Custom("producers", []byte("x"))
	m, err := wasm.Parse(rewrite(t, b.Bytes()), wasm.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	if want := (wasm.Bounds{Min: 2, Max: 16, HasMax: true}); m.Memory != want {
		t.Errorf("memory %+v, want %+v", m.Memory, want)
	}
	if m.Tables[0].Max != 3 || !m.Tables[0].HasMax || m.Tables[1].Max != 9 {
		t.Errorf("tables %+v", m.Tables)
	}
	if len(m.Customs) != 1 || !m.NamesOK {
		t.Errorf("custom sections %+v", m.Customs)
	}
}

// program makes a module that always ends out of any bytes: expressions, branches, bounded loops, memory and calls.
func program(seed []byte) []byte {
	m := plugintest.New()
	m.Memory(1, 2)
	g := &generator{seed: seed}
	for i := range 3 {
		g.depth, g.callee = 0, i
		body := g.statements(4)
		name := fmt.Sprintf("$g%d", i)
		if i == 2 {
			name = "f"
		}
		m.Func(name, "$a:i32 $b:i32 -> i32", "$c:i32 $n0:i32 $n1:i32 $n2:i32 $n3:i32", body+" local.get $a local.get $b i32.xor local.get $c i32.add")
	}
	return m.Bytes()
}

type generator struct {
	seed   []byte
	at     int
	depth  int
	loops  int
	callee int // functions below this one may be called
}

func (g *generator) pick(n int) int {
	if len(g.seed) == 0 {
		return 0
	}
	c := int(g.seed[g.at%len(g.seed)]) + g.at/len(g.seed)*7
	g.at++
	return c % n
}

func (g *generator) local() string { return []string{"$a", "$b", "$c"}[g.pick(3)] }

func (g *generator) statements(n int) string {
	var b strings.Builder
	g.depth++
	for range 1 + g.pick(n) {
		b.WriteString(g.statement() + "\n")
	}
	g.depth--
	return b.String()
}

func (g *generator) statement() string {
	kind := g.pick(9)
	if g.depth > 4 || g.at > 400 {
		kind %= 3
	}
	switch kind {
	case 0, 1:
		return g.expr() + " local.set " + g.local()
	case 2:
		return g.expr() + " i32.const 0xfff8 i32.and " + g.expr() + " i32.store offset=4"
	case 3:
		return g.expr() + " if " + g.statements(3) + " else " + g.statements(3) + " end"
	case 4:
		return "block " + g.statements(2) + g.expr() + " br_if 0 " + g.statements(4) + " end"
	case 5:
		if g.loops == 4 {
			return "nop"
		}
		n := fmt.Sprintf("$n%d", g.loops)
		g.loops++
		body := g.statements(3)
		g.loops--
		return fmt.Sprintf("i32.const %d local.set %s loop %s local.get %s i32.const 1 i32.sub local.tee %s br_if 0 end", 1+g.pick(4), n, body, n, n)
	case 6:
		return fmt.Sprintf("%s i32.const 0xfff i32.and %s i32.const %d %s", g.expr(), g.expr(), g.pick(200),
			[]string{"memory.fill", "drop drop drop"}[g.pick(2)])
	case 7:
		return "block block " + g.statements(2) + g.expr() + " br_table 2 0 1 0 end " + g.statements(2) + " end"
	}
	return "i32.const 1 memory.grow local.set " + g.local()
}

func (g *generator) expr() string {
	switch kind := g.pick(6); {
	case kind == 0:
		return fmt.Sprintf("i32.const %d", g.pick(256)-128)
	case kind == 1 && g.callee > 0 && g.depth < 3:
		return fmt.Sprintf("local.get %s local.get %s call $g%d", g.local(), g.local(), g.pick(g.callee))
	case kind == 2 && g.at < 400:
		return g.expr() + " " + g.expr() + " " + []string{"i32.add", "i32.mul", "i32.xor", "i32.lt_s", "i32.shr_u"}[g.pick(5)]
	case kind == 3:
		return "local.get " + g.local() + " i32.const 0xfff i32.and i32.load offset=16"
	}
	return "local.get " + g.local()
}

// sameResult runs a module without fuel, with fuel, and with fuel in slices so small that nearly every check passes through the
// runtime, and compares results, memory, traps and what was used.
func sameResult(t *testing.T, config wazero.RuntimeConfig, file []byte, args ...uint64) {
	t.Helper()
	plain, m := instantiate(t, config, file), metered(t, config, file)
	small := instantiate(t, config, sliced(t, file, 3))
	s := meter{small, tank(small)}
	for range 2 {
		want, wantErr := plain.ExportedFunction("f").Call(ctx, args...)
		got, used, err := m.run(1<<40, "f", args...)
		s.mod.ExportedGlobal(fuel.ExportSlice).(api.MutableGlobal).Set(0) // so that the first check passes already
		s.mod.ExportedGlobal(fuel.ExportRest).(api.MutableGlobal).Set(1 << 40)
		again, againErr := s.mod.ExportedFunction("f").Call(ctx, args...)
		if (err == nil) != (wantErr == nil) || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("with fuel %v, %v; without %v, %v", got, err, want, wantErr)
		}
		if (err == nil) != (againErr == nil) || fmt.Sprint(got) != fmt.Sprint(again) || used != 1<<40-s.tank.Left() {
			t.Fatalf("with fuel %v, %v, %d used; in slices %v, %v, %d", got, err, used, again, againErr, 1<<40-s.tank.Left())
		}
		a, _ := plain.Memory().Read(0, plain.Memory().Size())
		for _, other := range []api.Module{m.mod, s.mod} {
			if b, _ := other.Memory().Read(0, other.Memory().Size()); !bytes.Equal(a, b) {
				t.Fatal("the memories differ")
			}
		}
		if err != nil {
			return
		}
	}
}

func TestRewriteSameResult(t *testing.T) {
	n := 60
	if testing.Short() {
		n = 15
	}
	for i := range n {
		seed := binary.LittleEndian.AppendUint64(nil, uint64(i)*0x9e3779b97f4a7c15)
		file := program(append(seed, seed[3:7]...))
		for _, config := range engines {
			sameResult(t, config, file, uint64(i), uint64(i*i))
		}
	}
}

// FuzzRewriteSameResult: any program gives the same with and without fuel.
func FuzzRewriteSameResult(f *testing.F) {
	f.Add([]byte("loops and branches"), uint32(1), uint32(2))
	f.Add([]byte{5, 3, 4, 7, 6, 8, 2, 1, 0, 200, 100}, uint32(0), uint32(1<<31))
	f.Fuzz(func(t *testing.T, seed []byte, a, b uint32) {
		sameResult(t, wazero.NewRuntimeConfigInterpreter(), program(seed), uint64(a), uint64(b))
	})
}

// FuzzRewrite: what the checks accept can be rewritten, what comes out is accepted again, and it is as valid as before.
func FuzzRewrite(f *testing.F) {
	f.Add(program([]byte("seed")))
	f.Add(one("f", "", "", "loop br 0 end"))
	f.Fuzz(func(t *testing.T, file []byte) {
		m, err := wasm.Parse(file, wasm.DefaultLimits())
		if err != nil {
			return
		}
		out, _, err := fuel.Rewrite(m, fuel.Options{MemoryPages: 16})
		if err != nil {
			if !errors.Is(err, wasm.ErrLimit) && !errors.Is(err, wasm.ErrUnsupported) {
				t.Fatal(err)
			}
			return
		}
		limits := wasm.DefaultLimits()
		limits.Binary, limits.Body = limits.Binary*4, limits.Body*8
		limits.Types, limits.Functions, limits.Globals, limits.Exports = limits.Types+1, limits.Functions+1, limits.Globals+2, limits.Exports+2
		limits.Locals, limits.LocalsTotal, limits.Height = limits.Locals+2, limits.LocalsTotal*2, limits.Height+4
		if _, err := wasm.Parse(out, limits); err != nil {
			t.Fatalf("what came out: %v", err)
		}
		if len(file) > 1<<16 {
			return
		}
		r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithMemoryLimitPages(65536))
		defer r.Close(ctx)
		if _, err := r.CompileModule(ctx, file); err != nil {
			return // the runtime knows more rules: types above all
		}
		if _, err := r.CompileModule(ctx, out); err != nil {
			t.Fatalf("valid before, not after: %v", err)
		}
	})
}
