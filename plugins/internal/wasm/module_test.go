package wasm_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/plugins/internal/wasm"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// sample is a module with one of everything.
func sample() *plugintest.Module {
	m := plugintest.New()
	m.Import("tw_v1", "log_level", "-> i32")
	m.Memory(1, 4)
	m.Table(2, 8)
	m.Global("$g", "i64", -7)
	m.Data(16, "hello")
	m.Passive("later")
	m.Func("$start", "", "", "nop")
	m.Func("$helper", "$x:i32 -> i32", "$y:i64", `local.get $x i32.const -5 i32.add`)
	m.Func("run", "$n:i32 -> i32", "$i:i32", `
		block $out
			loop $top
				local.get $i i32.const 1 i32.add local.tee $i
				local.get $n i32.ge_s br_if $out
				br $top
			end
		end
		i32.const 64 i32.const 0 i32.const 5 memory.init 1
		i32.const 0 i32.const 64 i32.const 5 memory.copy
		local.get $i i32.eqz if result=i32 i32.const 1 else local.get $i call $helper end`)
	m.Elem(0, "$helper", "run")
	m.Start("$start")
	m.Custom("tw.manifest", []byte("{}"))
	return m
}

func TestParse(t *testing.T) {
	m, err := wasm.Parse(sample().Bytes(), wasm.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Imports) != 1 || m.Imports[0].Module != "tw_v1" || m.Imports[0].Name != "log_level" {
		t.Errorf("imports %+v", m.Imports)
	}
	if e, ok := m.Export("run"); !ok || e.Kind != wasm.KindFunc || e.Index != 3 {
		t.Errorf("export run: %+v, %v", e, ok)
	}
	if f, ok := m.FuncType(3); !ok || f.String() != "(i32) -> (i32)" {
		t.Errorf("type of run: %v, %v", f, ok)
	}
	if _, ok := m.FuncType(4); ok {
		t.Error("there is a function 4")
	}
	if d, ok := m.Custom("tw.manifest"); !ok || string(d) != "{}" {
		t.Errorf("custom section %q, %v", d, ok)
	}
	if m.Start != 1 || m.Memory != (wasm.Bounds{Min: 1, Max: 4, HasMax: true}) {
		t.Errorf("start %d, memory %+v", m.Start, m.Memory)
	}
	run := m.Codes[2]
	if run.Locals != 2 || run.Loops != 1 || run.Bulks != 2 || run.Height != 3 {
		t.Errorf("run: %+v, want 2 locals, a loop, 2 bulk operations, 3 values on the stack", run)
	}
	var ops int
	if err := m.Each(2, func(*wasm.Instr) { ops++ }); err != nil || ops != 29 {
		t.Errorf("Each: %d instructions, %v", ops, err)
	}
}

// TestParseCut: no prefix of a module is a module, and none is read beyond its end.
func TestParseCut(t *testing.T) {
	file := sample().Bytes()
	manifest := len(wasm.AppendCustom(nil, "tw.manifest", []byte("{}")))
	for n := range len(file) - manifest {
		_, err := wasm.Parse(file[:n:n], wasm.DefaultLimits())
		var bad *wasm.Error
		if !errors.As(err, &bad) {
			t.Fatalf("the first %d bytes of %d: %v, want *wasm.Error", n, len(file), err)
		}
		if bad.Offset < 0 || bad.Offset > n {
			t.Fatalf("the first %d bytes: offset %d", n, bad.Offset)
		}
	}
}

func build(f func(m *plugintest.Module)) []byte {
	m := plugintest.New()
	f(m)
	return m.Bytes()
}

// withBody is a module with a memory, a table and one function ()->() of the raw body.
func withBody(body string) []byte {
	return build(func(m *plugintest.Module) {
		m.Memory(1, 1)
		m.Table(1, 1)
		m.FuncRaw("f", "", []byte(body))
	})
}

func TestParseRefuses(t *testing.T) {
	limits := wasm.DefaultLimits()
	mem := func(m *plugintest.Module) { m.Memory(1, 1) }
	raw := func(id byte, body string) []byte {
		return build(func(m *plugintest.Module) { m.Memory(1, 1); m.Func("f", "", "", "nop"); m.Raw(id, []byte(body)) })
	}
	for _, c := range []struct {
		name string
		file []byte
		kind error
		text string
	}{
		{"empty", nil, wasm.ErrMalformed, "magic"},
		{"text", []byte("(module)"), wasm.ErrMalformed, "magic"},
		{"javascript", []byte("export default 1"), wasm.ErrMalformed, "magic"},
		{"component", []byte("\x00asm\x0d\x00\x01\x00"), wasm.ErrUnsupported, "component"},
		{"version 2", []byte("\x00asm\x02\x00\x00\x00"), wasm.ErrUnsupported, "version"},
		{"too large", make([]byte, limits.Binary+1), wasm.ErrLimit, "bytes"},
		{"no memory", build(func(m *plugintest.Module) { m.Func("f", "", "", "nop") }), wasm.ErrUnsupported, "0 memories"},
		{"two memories", build(func(m *plugintest.Module) { m.Memory(1, 1); m.Raw(5, []byte("\x02\x00\x01\x00\x01")) }), wasm.ErrUnsupported, "2 memories"},
		{"shared memory", raw(5, "\x01\x03\x01\x02"), wasm.ErrUnsupported, "shared"},
		{"64-bit memory", raw(5, "\x01\x04\x01"), wasm.ErrUnsupported, "64-bit"},
		{"memory above 4 GiB", raw(5, "\x01\x00\x81\x80\x04"), wasm.ErrLimit, "pages"},
		{"imported memory", build(func(m *plugintest.Module) { m.ImportRaw("env", "memory", []byte("\x02\x00\x01")) }), wasm.ErrUnsupported, "memory"},
		{"imported table", build(func(m *plugintest.Module) { m.ImportRaw("env", "t", []byte("\x01\x70\x00\x01")) }), wasm.ErrUnsupported, "not a function"},
		{"huge table", raw(4, "\x01\x70\x00\x80\x80\x80\x20"), wasm.ErrLimit, "table of"},
		{"table with a huge maximum", raw(4, "\x01\x70\x01\x01\xff\xff\xff\xff\x0f"), wasm.ErrLimit, "table of"},
		{"table of something", raw(4, "\x01\x7f\x00\x01"), wasm.ErrUnsupported, "table of i32"},
		{"4 G types", raw(1, "\xff\xff\xff\xff\x0f"), wasm.ErrLimit, "types"},
		{"4 G functions", raw(3, "\xff\xff\xff\xff\x0f"), wasm.ErrLimit, "functions"},
		{"4 G imports", raw(2, "\xff\xff\xff\xff\x0f"), wasm.ErrLimit, "imports"},
		{"4 G exports", raw(7, "\xff\xff\xff\xff\x0f"), wasm.ErrLimit, "exports"},
		{"4 G globals", raw(6, "\xff\xff\xff\xff\x0f"), wasm.ErrLimit, "globals"},
		{"4 G element segments", raw(9, "\xff\xff\xff\xff\x0f"), wasm.ErrLimit, "element segments"},
		{"4 G elements", raw(9, "\x01\x01\x00\xff\xff\xff\xff\x0f"), wasm.ErrLimit, "elements"},
		{"4 G data segments", raw(11, "\xff\xff\xff\xff\x0f"), wasm.ErrLimit, "data segments"},
		{"data of 4 GiB", raw(11, "\x01\x01\xff\xff\xff\xff\x0f"), wasm.ErrMalformed, "announced"},
		{"4 G bodies", raw(10, "\xff\xff\xff\xff\x0f"), wasm.ErrLimit, "bodies"},
		{"4 G parameters", raw(1, "\x01\x60\xff\xff\xff\xff\x0f"), wasm.ErrLimit, "parameters"},
		{"number of 33 bits", raw(3, "\xff\xff\xff\xff\x1f"), wasm.ErrMalformed, "32 bits"},
		{"unknown section", append(build(mem), 13, 0), wasm.ErrUnsupported, "id 13"},
		{"sections twice", append(build(mem), 5, 3, 1, 0, 1), wasm.ErrMalformed, "out of order"},
		{"section longer than the file", append(build(mem), 11, 100), wasm.ErrMalformed, "announced"},
		{"bytes after a section", raw(8, "\x00\x00"), wasm.ErrMalformed, "too many"},
		{"export of nothing", raw(7, "\x01\x01x\x00\x09"), wasm.ErrMalformed, "index 9"},
		{"export twice", raw(7, "\x02\x01x\x00\x00\x01x\x00\x00"), wasm.ErrMalformed, "twice"},
		{"name that is not UTF-8", raw(7, "\x01\x01\xff\x00\x00"), wasm.ErrMalformed, "UTF-8"},
		{"start with parameters", build(func(m *plugintest.Module) { m.Memory(1, 1); m.Func("f", "i32", "", "nop"); m.Start("f") }), wasm.ErrMalformed, "start"},
		{"bodies without functions", build(func(m *plugintest.Module) { m.Memory(1, 1); m.Raw(10, []byte("\x01\x02\x00\x0b")) }), wasm.ErrMalformed, "0 functions"},
		{"functions without bodies", build(func(m *plugintest.Module) { m.Memory(1, 1); m.Type(""); m.Raw(3, []byte("\x01\x00")) }), wasm.ErrMalformed, "0 bodies"},
		{"data count", raw(12, "\x05"), wasm.ErrMalformed, "announced"},
		{"50,000 locals", withBody("\x01\xd0\x86\x03\x7f\x0b"), wasm.ErrLimit, "locals"},
		{"4 G locals", withBody("\x01\xff\xff\xff\xff\x0f\x7f\x0b"), wasm.ErrLimit, "locals"},
		{"locals of SIMD", withBody("\x01\x01\x7b\x0b"), wasm.ErrUnsupported, "SIMD"},
		{"long function", withBody("\x00" + strings.Repeat("\x01", limits.Body) + "\x0b"), wasm.ErrLimit, "at most"},
		{"deep blocks", withBody("\x00" + strings.Repeat("\x02\x40", 5000) + strings.Repeat("\x0b", 5001)), wasm.ErrLimit, "nested"},
		{"high stack", withBody("\x00" + strings.Repeat("\x41\x00", 600) + strings.Repeat("\x1a", 600) + "\x0b"), wasm.ErrLimit, "operand stack"},
		{"many blocks", withBody("\x00" + strings.Repeat("\x41\x00\x04\x40\x0b", 5000) + "\x0b"), wasm.ErrLimit, "blocks and branches"},
		{"many branches", withBody("\x00\x02\x40" + strings.Repeat("\x41\x00\x0d\x00", 5000) + "\x0b\x0b"), wasm.ErrLimit, "blocks and branches"},
		{"many loops", withBody("\x00" + strings.Repeat("\x03\x40\x0b", 300) + "\x0b"), wasm.ErrLimit, "loops"},
		{"many branch targets", withBody("\x00\x41\x00\x0e\xa0\x9c\x01" + strings.Repeat("\x00", 20001) + "\x0b"), wasm.ErrLimit, "targets"},
		{"many functions of many blocks", build(func(m *plugintest.Module) {
			m.Memory(1, 1)
			for range 60 {
				m.FuncRaw("$f", "", []byte("\x00"+strings.Repeat("\x41\x00\x04\x40\x0b", 2000)+"\x0b"))
			}
		}), wasm.ErrLimit, "too long"},
		{"many memory.fill", withBody("\x00" + strings.Repeat("\x41\x00\x41\x00\x41\x00\xfc\x0b\x00", 2000) + "\x0b"), wasm.ErrLimit, "bulk"},
		{"function without end", withBody("\x00\x01"), wasm.ErrMalformed, "ends"},
		{"code after the end", withBody("\x00\x0b\x01"), wasm.ErrMalformed, "too many"},
		{"else without if", withBody("\x00\x05\x0b"), wasm.ErrMalformed, "else"},
		{"global out of range", withBody("\x00\x23\x00\x1a\x0b"), wasm.ErrMalformed, "global 0 of 0"},
		{"local out of range", withBody("\x00\x20\x00\x1a\x0b"), wasm.ErrMalformed, "local 0 of 0"},
		{"label out of range", withBody("\x00\x0c\x01\x0b"), wasm.ErrMalformed, "label 1"},
		{"function out of range", withBody("\x00\x10\x07\x0b"), wasm.ErrMalformed, "function 7"},
		{"table out of range", withBody("\x00\x41\x00\x11\x00\x05\x0b"), wasm.ErrMalformed, "table 5"},
		{"block of an unknown type", withBody("\x00\x02\x30\x0b\x0b"), wasm.ErrMalformed, "type 48"},
		{"4 G labels", withBody("\x00\x41\x00\x0e\xff\xff\xff\xff\x0f\x0b"), wasm.ErrLimit, "labels"},
		{"SIMD", withBody("\x00\xfd\x0c\x0b"), wasm.ErrUnsupported, "SIMD"},
		{"atomics", withBody("\x00\xfe\x03\x00\x0b"), wasm.ErrUnsupported, "atomic"},
		{"tail call", withBody("\x00\x12\x00\x0b"), wasm.ErrUnsupported, "0x12"},
		{"exceptions", withBody("\x00\x06\x40\x0b\x0b"), wasm.ErrUnsupported, "0x06"},
		{"unknown opcode", withBody("\x00\xc5\x0b"), wasm.ErrUnsupported, "0xc5"},
		{"unknown bulk operation", withBody("\x00\xfc\x12\x0b"), wasm.ErrUnsupported, "18"},
		{"second memory", withBody("\x00\x3f\x01\x1a\x0b"), wasm.ErrUnsupported, "memory 1"},
		{"constant that computes", raw(6, "\x01\x7f\x00\x41\x00\x41\x00\x6a\x0b"), wasm.ErrUnsupported, "constant"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := wasm.Parse(c.file, limits)
			if !errors.Is(err, c.kind) || m != nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("Parse: %v, want %v with %q", err, c.kind, c.text)
			}
		})
	}
}

// TestParseLocalsOfAllFunctions: each function is within the limit and together they are not.
func TestParseLocalsOfAllFunctions(t *testing.T) {
	file := build(func(m *plugintest.Module) {
		m.Memory(1, 1)
		for range 300 {
			m.FuncRaw("$f", "", []byte("\x01\xe8\x07\x7f\x0b"))
		}
	})
	if _, err := wasm.Parse(file, wasm.DefaultLimits()); !errors.Is(err, wasm.ErrLimit) {
		t.Errorf("300 functions of 1,000 locals: %v", err)
	}
}

// TestParseDamagedNames: names serve stack traces only; damage in them is no reason to refuse, but it is known.
func TestParseDamagedNames(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		ok   bool
	}{
		"functions":    {"\x01\x04\x01\x00\x01f", true},
		"later kind":   {"\x09\x01\x00", true},
		"4 G names":    {"\x01\x05\xff\xff\xff\xff\x0f", false},
		"out of order": {"\x01\x07\x02\x01\x01f\x00\x01g", false},
		"cut":          {"\x01\x04\x01\x00", false},
	} {
		m, err := wasm.Parse(build(func(m *plugintest.Module) { m.Memory(1, 1); m.Custom("name", []byte(c.data)) }), wasm.DefaultLimits())
		if err != nil || m.NamesOK != c.ok {
			t.Errorf("%s: %v, well formed %v, want %v", name, err, m != nil && m.NamesOK, c.ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sample().Bytes())
	f.Add(withBody("\x00\x02\x40\x41\x00\x0e\x01\x00\x01\x0b\x0b"))
	f.Add([]byte("\x00asm\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, file []byte) {
		m, err := wasm.Parse(file, wasm.DefaultLimits())
		if err != nil {
			var bad *wasm.Error
			if !errors.As(err, &bad) || m != nil || bad.Offset < 0 || bad.Offset > len(file) {
				t.Fatalf("Parse: %v, %+v", m, err)
			}
			return
		}
		for i := range m.Codes {
			if err := m.Each(i, func(*wasm.Instr) {}); err != nil {
				t.Fatalf("Parse accepted function %d, Each does not: %v", i, err)
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	file := build(func(m *plugintest.Module) {
		m.Memory(1, 1)
		for range 2000 {
			m.Func("$f", "$n:i32 -> i32", "", strings.Repeat("local.get $n i32.const 3 i32.mul local.set $n ", 100)+"local.get $n")
		}
	})
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wasm.Parse(file, wasm.DefaultLimits()); err != nil {
			b.Fatal(err)
		}
	}
}
