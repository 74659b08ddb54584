package plugintest

import (
	"fmt"
	"strings"
)

// Value types of the binary format.
const (
	i32 = 0x7f
	i64 = 0x7e
	f32 = 0x7d
	f64 = 0x7c
)

var valueTypes = map[string]byte{"i32": i32, "i64": i64, "f32": f32, "f64": f64, "funcref": 0x70, "externref": 0x6f}

// Module is a module under construction. The zero value is not ready; use New.
type Module struct {
	types   []string // encoded
	imports []string
	funcs   []fn
	tables  []string
	memory  []string
	globals []string
	exports []string
	start   int
	elems   []string
	datas   []string
	customs []string
	extra   map[byte]string // raw sections
	names   map[string]int
	gnames  map[string]int
}

type fn struct {
	typ    int
	locals string // encoded groups
	names  map[string]int
	text   string
	raw    []byte // instead of text
}

// New returns an empty module.
func New() *Module {
	return &Module{start: -1, names: map[string]int{}, gnames: map[string]int{}, extra: map[byte]string{}}
}

// Type returns the index of a function type such as "i32 i32 -> i32", adding it when it is new.
func (m *Module) Type(sig string) int {
	params, results, _ := strings.Cut(sig, "->")
	_, p := list(params)
	_, r := list(results)
	enc := "\x60" + vec(p) + vec(r)
	for i, t := range m.types {
		if t == enc {
			return i
		}
	}
	m.types = append(m.types, enc)
	return len(m.types) - 1
}

// list splits "$a:i32 i64" into names by position and types.
func list(s string) (names map[string]int, types string) {
	names = map[string]int{}
	for i, word := range strings.Fields(s) {
		if name, typ, ok := strings.Cut(word, ":"); ok {
			names[name] = i
			word = typ
		}
		t, ok := valueTypes[word]
		if !ok {
			panic(fmt.Sprintf("plugintest: %q is not a value type", word))
		}
		types += string([]byte{t})
	}
	return names, types
}

// Import adds an imported function, which is then called by "$name". Imports come before functions.
func (m *Module) Import(module, name, sig string) {
	if len(m.funcs) > 0 {
		panic("plugintest: Import after Func")
	}
	m.names["$"+name] = len(m.imports)
	m.imports = append(m.imports, str(module)+str(name)+"\x00"+num(m.Type(sig)))
}

// ImportRaw adds an import of any kind; desc is what follows the names in the binary format.
func (m *Module) ImportRaw(module, name string, desc []byte) {
	m.imports = append(m.imports, str(module)+str(name)+string(desc))
}

// Memory defines a memory of min pages and exports it as "memory"; max below 0 leaves the maximum out.
func (m *Module) Memory(min, max int) {
	m.memory = append(m.memory, bounds(min, max))
	m.exports = append(m.exports, str("memory")+"\x02\x00")
}

// Table defines a table of functions; max below 0 leaves the maximum out.
func (m *Module) Table(min, max int) { m.tables = append(m.tables, "\x70"+bounds(min, max)) }

// Global defines a mutable global of type i32 or i64 with an initial value, called by name.
func (m *Module) Global(name, typ string, init int64) {
	op := map[string]string{"i32": "\x41", "i64": "\x42"}[typ]
	m.gnames[name] = len(m.globals)
	m.globals = append(m.globals, string([]byte{valueTypes[typ], 1})+op+snum(init)+"\x0b")
}

// Func defines a function. A name that begins with $ is only for calls within the module; any other is exported too.
func (m *Module) Func(name, sig, locals, body string) {
	params, _, _ := strings.Cut(sig, "->")
	names, p := list(params)
	more, types := list(locals)
	for n, i := range more {
		names[n] = i + len(p)
	}
	var groups []string
	for i := range len(types) {
		groups = append(groups, "\x01"+types[i:i+1])
	}
	m.add(name, fn{typ: m.Type(sig), locals: vecOf(groups), names: names, text: body})
}

// FuncRaw defines a function whose body, groups of locals included, is given in the binary format.
func (m *Module) FuncRaw(name, sig string, body []byte) {
	m.add(name, fn{typ: m.Type(sig), raw: body})
}

func (m *Module) add(name string, f fn) {
	index := len(m.imports) + len(m.funcs)
	m.funcs = append(m.funcs, f)
	if inner, ok := strings.CutPrefix(name, "$"); ok {
		m.names["$"+inner] = index
		return
	}
	m.names["$"+name] = index
	m.ExportAs(name, name)
}

// ExportAs exports the function called name once more, as another name.
func (m *Module) ExportAs(name, as string) {
	m.exports = append(m.exports, str(as)+"\x00"+num(m.index(name)))
}

func (m *Module) index(name string) int {
	i, ok := m.names["$"+strings.TrimPrefix(name, "$")]
	if !ok {
		panic("plugintest: no function is called " + name)
	}
	return i
}

// Start makes a function the start function, which runs when the module is instantiated.
func (m *Module) Start(name string) { m.start = m.index(name) }

// Elem fills table 0 from offset with functions.
func (m *Module) Elem(offset int, names ...string) {
	var index []string
	for _, n := range names {
		index = append(index, num(m.index(n)))
	}
	m.elems = append(m.elems, "\x00\x41"+snum(int64(offset))+"\x0b"+vecOf(index))
}

// Data puts bytes into the memory at offset.
func (m *Module) Data(offset int, data string) {
	m.datas = append(m.datas, "\x00\x41"+snum(int64(offset))+"\x0b"+str(data))
}

// Passive adds a passive data segment, for memory.init.
func (m *Module) Passive(data string) { m.datas = append(m.datas, "\x01"+str(data)) }

// Custom adds a custom section at the end.
func (m *Module) Custom(name string, data []byte) {
	m.customs = append(m.customs, str(name)+string(data))
}

// Raw replaces the section with an id by body: for modules that no assembler would write.
func (m *Module) Raw(id byte, body []byte) { m.extra[id] = string(body) }

// Bytes returns the binary.
func (m *Module) Bytes() []byte {
	out := "\x00asm\x01\x00\x00\x00"
	emit := func(id byte, body string, present bool) {
		if raw, ok := m.extra[id]; ok {
			body, present = raw, true
		}
		if present {
			out += string([]byte{id}) + str(body)
		}
	}
	var types, codes []string
	for _, f := range m.funcs {
		types = append(types, num(f.typ))
		body := string(f.raw)
		if f.raw == nil {
			body = f.locals + m.assemble(f)
		}
		codes = append(codes, str(body))
	}
	emit(1, vecOf(m.types), len(m.types) > 0)
	emit(2, vecOf(m.imports), len(m.imports) > 0)
	emit(3, vecOf(types), len(types) > 0)
	emit(4, vecOf(m.tables), len(m.tables) > 0)
	emit(5, vecOf(m.memory), len(m.memory) > 0)
	emit(6, vecOf(m.globals), len(m.globals) > 0)
	emit(7, vecOf(m.exports), len(m.exports) > 0)
	emit(8, num(m.start), m.start >= 0)
	emit(9, vecOf(m.elems), len(m.elems) > 0)
	emit(12, num(len(m.datas)), len(m.datas) > 0)
	emit(10, vecOf(codes), len(codes) > 0)
	emit(11, vecOf(m.datas), len(m.datas) > 0)
	for _, c := range m.customs {
		out += "\x00" + str(c)
	}
	return []byte(out)
}

func bounds(min, max int) string {
	if max < 0 {
		return "\x00" + num(min)
	}
	return "\x01" + num(min) + num(max)
}

func num(x int) string {
	var b []byte
	for v := uint32(x); ; v >>= 7 {
		if v < 0x80 {
			return string(append(b, byte(v)))
		}
		b = append(b, byte(v)|0x80)
	}
}

func snum(x int64) string {
	var b []byte
	for ; ; x >>= 7 {
		if x >= -64 && x < 64 {
			return string(append(b, byte(x&0x7f)))
		}
		b = append(b, byte(x)|0x80)
	}
}

func str(s string) string { return num(len(s)) + s }
func vec(s string) string { return num(len(s)) + s }

func vecOf(items []string) string { return num(len(items)) + strings.Join(items, "") }
