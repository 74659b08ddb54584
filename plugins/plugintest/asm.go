package plugintest

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// simple are the instructions without operands in the text.
var simple = func() map[string]byte {
	all := map[string]byte{
		"unreachable": 0x00, "nop": 0x01, "else": 0x05, "return": 0x0f, "drop": 0x1a, "select": 0x1b, "ref.is_null": 0xd1,
	}
	for i, name := range strings.Fields(numeric) {
		all[name] = 0x45 + byte(i)
	}
	return all
}()

// access are loads and stores: the opcode, and the exponent of their natural alignment.
var access = func() map[string][2]byte {
	all := map[string][2]byte{}
	for i, name := range strings.Fields(`i32.load:2 i64.load:3 f32.load:2 f64.load:3 i32.load8_s:0 i32.load8_u:0 i32.load16_s:1
		i32.load16_u:1 i64.load8_s:0 i64.load8_u:0 i64.load16_s:1 i64.load16_u:1 i64.load32_s:2 i64.load32_u:2 i32.store:2
		i64.store:3 f32.store:2 f64.store:3 i32.store8:0 i32.store16:1 i64.store8:0 i64.store16:1 i64.store32:2`) {
		name, align, _ := strings.Cut(name, ":")
		all[name] = [2]byte{0x28 + byte(i), align[0] - '0'}
	}
	return all
}()

// numeric are the instructions from opcode 0x45 on, in order.
const numeric = `i32.eqz i32.eq i32.ne i32.lt_s i32.lt_u i32.gt_s i32.gt_u i32.le_s i32.le_u i32.ge_s i32.ge_u
		i64.eqz i64.eq i64.ne i64.lt_s i64.lt_u i64.gt_s i64.gt_u i64.le_s i64.le_u i64.ge_s i64.ge_u
		f32.eq f32.ne f32.lt f32.gt f32.le f32.ge f64.eq f64.ne f64.lt f64.gt f64.le f64.ge
		i32.clz i32.ctz i32.popcnt i32.add i32.sub i32.mul i32.div_s i32.div_u i32.rem_s i32.rem_u i32.and i32.or i32.xor
		i32.shl i32.shr_s i32.shr_u i32.rotl i32.rotr
		i64.clz i64.ctz i64.popcnt i64.add i64.sub i64.mul i64.div_s i64.div_u i64.rem_s i64.rem_u i64.and i64.or i64.xor
		i64.shl i64.shr_s i64.shr_u i64.rotl i64.rotr
		f32.abs f32.neg f32.ceil f32.floor f32.trunc f32.nearest f32.sqrt f32.add f32.sub f32.mul f32.div f32.min f32.max f32.copysign
		f64.abs f64.neg f64.ceil f64.floor f64.trunc f64.nearest f64.sqrt f64.add f64.sub f64.mul f64.div f64.min f64.max f64.copysign
		i32.wrap_i64 i32.trunc_f32_s i32.trunc_f32_u i32.trunc_f64_s i32.trunc_f64_u i64.extend_i32_s i64.extend_i32_u
		i64.trunc_f32_s i64.trunc_f32_u i64.trunc_f64_s i64.trunc_f64_u f32.convert_i32_s f32.convert_i32_u f32.convert_i64_s
		f32.convert_i64_u f32.demote_f64 f64.convert_i32_s f64.convert_i32_u f64.convert_i64_s f64.convert_i64_u f64.promote_f32
		i32.reinterpret_f32 i64.reinterpret_f64 f32.reinterpret_i32 f64.reinterpret_i64
		i32.extend8_s i32.extend16_s i64.extend8_s i64.extend16_s i64.extend32_s`

// indexed take one index: of a local, a global, a table or a function.
var indexed = map[string]byte{
	"local.get": 0x20, "local.set": 0x21, "local.tee": 0x22, "global.get": 0x23, "global.set": 0x24,
	"table.get": 0x25, "table.set": 0x26, "call": 0x10, "ref.func": 0xd2, "br": 0x0c, "br_if": 0x0d,
}

// fixed are instructions whose indexes are all zero, or are numbers after the name.
var fixed = map[string]string{
	"memory.size": "\x3f\x00", "memory.grow": "\x40\x00", "memory.copy": "\xfc\x0a\x00\x00", "memory.fill": "\xfc\x0b\x00",
	"table.grow": "\xfc\x0f\x00", "table.size": "\xfc\x10\x00", "table.fill": "\xfc\x11\x00", "table.copy": "\xfc\x0e\x00\x00",
	"ref.null":            "\xd0\x70",
	"i32.trunc_sat_f32_s": "\xfc\x00", "i32.trunc_sat_f32_u": "\xfc\x01", "i32.trunc_sat_f64_s": "\xfc\x02",
	"i32.trunc_sat_f64_u": "\xfc\x03", "i64.trunc_sat_f32_s": "\xfc\x04", "i64.trunc_sat_f32_u": "\xfc\x05",
	"i64.trunc_sat_f64_s": "\xfc\x06", "i64.trunc_sat_f64_u": "\xfc\x07",
}

// asm is one body on its way to bytes.
type asm struct {
	m      *Module
	f      fn
	words  []string
	labels []string
	out    []byte
}

func (m *Module) assemble(f fn) string {
	a := &asm{m: m, f: f, labels: []string{""}}
	for line := range strings.Lines(f.text) {
		line, _, _ = strings.Cut(line, ";;")
		a.words = append(a.words, strings.Fields(line)...)
	}
	for len(a.words) > 0 {
		a.instr(a.word())
	}
	if len(a.labels) != 1 {
		panic(fmt.Sprintf("plugintest: %d blocks without end in %s", len(a.labels)-1, f.text))
	}
	return string(append(a.out, 0x0b))
}

func (a *asm) word() string {
	if len(a.words) == 0 {
		panic("plugintest: the body ends in the middle of an instruction")
	}
	w := a.words[0]
	a.words = a.words[1:]
	return w
}

// option takes the next word if it has a prefix.
func (a *asm) option(prefix string) (string, bool) {
	if len(a.words) == 0 || !strings.HasPrefix(a.words[0], prefix) {
		return "", false
	}
	return strings.TrimPrefix(a.word(), prefix), true
}

func (a *asm) integer() int64 {
	w := a.word()
	x, err := strconv.ParseInt(w, 0, 64)
	if err != nil {
		u, err := strconv.ParseUint(w, 0, 64)
		if err != nil {
			panic(fmt.Sprintf("plugintest: %q is not a number", w))
		}
		x = int64(u)
	}
	return x
}

func (a *asm) emit(s string) { a.out = append(a.out, s...) }

func (a *asm) instr(op string) {
	if code, ok := simple[op]; ok {
		a.out = append(a.out, code)
		return
	}
	if code, ok := access[op]; ok {
		a.out = append(a.out, code[0], code[1])
		offset := 0
		if s, ok := a.option("offset="); ok {
			offset, _ = strconv.Atoi(s)
		}
		a.emit(num(offset))
		return
	}
	if code, ok := indexed[op]; ok {
		a.out = append(a.out, code)
		a.emit(num(a.reference(op)))
		return
	}
	if code, ok := fixed[op]; ok {
		a.emit(code)
		return
	}
	switch op {
	case "block", "loop", "if":
		a.open(op)
	case "end":
		a.labels = a.labels[:len(a.labels)-1]
		a.out = append(a.out, 0x0b)
	case "br_table": // br_table N label×N default
		n := int(a.integer())
		a.emit("\x0e" + num(n))
		for range n + 1 {
			a.emit(num(a.reference("br")))
		}
	case "call_indirect": // call_indirect <index of a type>
		a.emit("\x11" + num(int(a.integer())) + "\x00")
	case "memory.init": // memory.init <data segment>
		a.emit("\xfc\x08" + num(int(a.integer())) + "\x00")
	case "data.drop":
		a.emit("\xfc\x09" + num(int(a.integer())))
	case "i32.const":
		a.emit("\x41" + snum(int64(int32(a.integer()))))
	case "i64.const":
		a.emit("\x42" + snum(a.integer()))
	case "f32.const":
		a.out = binary.LittleEndian.AppendUint32(append(a.out, 0x43), math.Float32bits(float32(a.float())))
	case "f64.const":
		a.out = binary.LittleEndian.AppendUint64(append(a.out, 0x44), math.Float64bits(a.float()))
	default:
		panic(fmt.Sprintf("plugintest: unknown instruction %q", op))
	}
}

func (a *asm) float() float64 {
	w := a.word()
	x, err := strconv.ParseFloat(w, 64)
	if err != nil {
		panic(fmt.Sprintf("plugintest: %q is not a number", w))
	}
	return x
}

func (a *asm) open(op string) {
	a.out = append(a.out, map[string]byte{"block": 0x02, "loop": 0x03, "if": 0x04}[op])
	label, _ := a.option("$")
	a.labels = append(a.labels, "$"+label)
	if t, ok := a.option("result="); ok {
		a.out = append(a.out, valueTypes[t])
	} else if t, ok := a.option("type="); ok {
		i, _ := strconv.Atoi(t)
		a.emit(snum(int64(i)))
	} else {
		a.out = append(a.out, 0x40)
	}
}

// reference resolves a name or a number for op.
func (a *asm) reference(op string) int {
	w := a.word()
	if w[0] != '$' {
		x, err := strconv.ParseUint(w, 0, 32)
		if err != nil {
			panic(fmt.Sprintf("plugintest: %s %s: not a name and not a number", op, w))
		}
		return int(x)
	}
	names := a.m.names
	switch op[:2] {
	case "lo":
		names = a.f.names
	case "gl":
		names = a.m.gnames
	case "br":
		for i := len(a.labels) - 1; i > 0; i-- {
			if a.labels[i] == w {
				return len(a.labels) - 1 - i
			}
		}
		panic(fmt.Sprintf("plugintest: no label %s", w))
	}
	i, ok := names[w]
	if !ok {
		panic(fmt.Sprintf("plugintest: %s %s: no such name", op, w))
	}
	return i
}
