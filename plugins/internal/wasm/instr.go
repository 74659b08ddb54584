package wasm

// Opcodes that the checks and the fuel rewriter name.
const (
	opUnreachable  = 0x00
	opNop          = 0x01
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opDrop         = 0x1a
	opSelect       = 0x1b
	opSelectTyped  = 0x1c
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opTableGet     = 0x25
	opTableSet     = 0x26
	opMemorySize   = 0x3f
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opF32Const     = 0x43
	opF64Const     = 0x44
	opRefNull      = 0xd0
	opRefIsNull    = 0xd1
	opRefFunc      = 0xd2
	opPrefix       = 0xfc // bulk operations and saturating conversions; the number that follows is Instr.Sub
)

// Numbers after the prefix 0xfc.
const (
	subMemoryInit = 8
	subDataDrop   = 9
	subMemoryCopy = 10
	subMemoryFill = 11
	subTableInit  = 12
	subElemDrop   = 13
	subTableCopy  = 14
	subTableGrow  = 15
	subTableSize  = 16
	subTableFill  = 17
)

// Instr is one instruction of a function's body.
type Instr struct {
	Op    byte
	Sub   uint32 // after the prefix 0xfc
	Start int    // first byte, in Code.Body
	End   int    // one past the last byte

	// Targets are the labels that the instruction may branch to, as depths: 0 is the innermost block. Valid until the next
	// instruction.
	Targets []uint32

	pop, push int // of the operand stack
	inner     int // values a block begins with
}

// Loop says whether the instruction opens a loop: its header is where every turn passes.
func (in *Instr) Loop() bool { return in.Op == opLoop }

// Opens says whether the instruction opens a block of any kind, which an end closes.
func (in *Instr) Opens() bool { return in.Op == opBlock || in.Op == opLoop || in.Op == opIf }

// Else says whether the instruction begins the second branch of an if.
func (in *Instr) Else() bool { return in.Op == opElse }

// If says whether the instruction opens a block that may be skipped.
func (in *Instr) If() bool { return in.Op == opIf }

// Closes says whether the instruction ends a block.
func (in *Instr) Closes() bool { return in.Op == opEnd }

// Leaves says whether what follows the instruction within its block is never run.
func (in *Instr) Leaves() bool {
	return in.Op == opBr || in.Op == opBrTable || in.Op == opReturn || in.Op == opUnreachable
}

// Bulk says whether the work of the instruction grows with the number on top of the operand stack, an i32: bytes of a
// memory, elements of a table, or pages and elements to grow by.
func (in *Instr) Bulk() (ok, grow bool) {
	if in.Op == opMemoryGrow {
		return true, true
	}
	if in.Op != opPrefix {
		return false, false
	}
	switch in.Sub {
	case subMemoryInit, subMemoryCopy, subMemoryFill, subTableInit, subTableCopy, subTableFill:
		return true, false
	case subTableGrow:
		return true, true
	}
	return false, false
}

// next decodes the instruction at the reader's place. It checks every index, so that an index the rewriter adds cannot be
// reached by code that was there before.
func (m *Module) next(r *reader, f *function, in *Instr) {
	*in = Instr{Start: r.off}
	in.Op = r.u8()
	f.targets = f.targets[:0]
	switch op := in.Op; {
	case r.err != nil:
	case op >= 0x45 && op <= 0xc4:
		in.pop, in.push = arity(op), 1
	case op >= 0x28 && op <= 0x35:
		in.pop, in.push = 1, 1
		memarg(r)
	case op >= 0x36 && op <= 0x3e:
		in.pop = 2
		memarg(r)
	case op <= opCallIndirect:
		m.control(r, f, in)
	case op >= opLocalGet && op <= opTableSet:
		m.variable(r, f, in)
	case op == opPrefix:
		m.prefixed(r, in)
	default:
		m.plain(r, in)
	}
	in.End = r.off
}

// arity is the number of operands of a numeric instruction.
func arity(op byte) int {
	switch {
	case op == 0x45, op == 0x50, // eqz
		op >= 0x67 && op <= 0x69, op >= 0x79 && op <= 0x7b, // clz, ctz, popcnt
		op >= 0x8b && op <= 0x91, op >= 0x99 && op <= 0x9f, // abs … sqrt
		op >= 0xa7: // conversions and sign extensions
		return 1
	}
	return 2
}

func memarg(r *reader) {
	if align := r.u32(); r.err == nil && align > 4 {
		r.fail(ErrUnsupported, "memory access with alignment %d", align)
	}
	r.u32()
}

func zero(r *reader, what string) {
	if i := r.u32(); r.err == nil && i != 0 {
		r.fail(ErrUnsupported, "%s %d", what, i)
	}
}

func (m *Module) control(r *reader, f *function, in *Instr) {
	switch in.Op {
	case opUnreachable, opNop, opElse, opEnd, opReturn:
	case opBlock, opLoop, opIf:
		t := m.blockType(r)
		in.pop, in.push, in.inner = len(t.Params), len(t.Results), len(t.Params)
		if in.Op == opIf {
			in.pop++
		}
	case opBr:
		in.Targets = f.label(r)
	case opBrIf:
		in.pop = 1
		in.Targets = f.label(r)
	case opBrTable:
		in.pop = 1
		for n := r.count(len(r.b), "labels"); n >= 0 && r.err == nil; n-- {
			in.Targets = f.label(r)
		}
	case opCall:
		t, _ := m.FuncType(m.funcIndex(r))
		in.pop, in.push = len(t.Params), len(t.Results)
	case opCallIndirect:
		i := m.typeIndex(r)
		m.tableIndex(r)
		if r.err == nil {
			t := m.Types[i]
			in.pop, in.push = len(t.Params)+1, len(t.Results)
		}
	default:
		r.fail(ErrUnsupported, "opcode %#02x", in.Op)
	}
}

func (m *Module) blockType(r *reader) FuncType {
	switch x := r.signed(33); {
	case r.err != nil || x == -0x40:
		return FuncType{}
	case x >= 0:
		if x >= int64(len(m.Types)) {
			r.fail(ErrMalformed, "block of type %d of %d", x, len(m.Types))
			return FuncType{}
		}
		return m.Types[x]
	default:
		t := byte(x & 0x7f)
		checkValueType(r, t)
		return FuncType{Results: []byte{t}}
	}
}

func (m *Module) tableIndex(r *reader) {
	if i := r.u32(); r.err == nil && int64(i) >= int64(len(m.Tables)) {
		r.fail(ErrMalformed, "table %d of %d", i, len(m.Tables))
	}
}

func (m *Module) variable(r *reader, f *function, in *Instr) {
	switch in.Op {
	case opLocalGet, opLocalSet, opLocalTee:
		if i := r.u32(); r.err == nil && int64(i) >= int64(f.locals) {
			r.fail(ErrMalformed, "local %d of %d", i, f.locals)
		}
	case opGlobalGet, opGlobalSet:
		if i := r.u32(); r.err == nil && int64(i) >= int64(len(m.Globals)) {
			r.fail(ErrMalformed, "global %d of %d", i, len(m.Globals))
		}
	case opTableGet, opTableSet:
		m.tableIndex(r)
	}
	switch in.Op {
	case opLocalGet, opGlobalGet:
		in.push = 1
	case opLocalSet, opGlobalSet:
		in.pop = 1
	case opLocalTee, opTableGet:
		in.pop, in.push = 1, 1
	case opTableSet:
		in.pop = 2
	}
}

func (m *Module) plain(r *reader, in *Instr) {
	switch in.Op {
	case opDrop:
		in.pop = 1
	case opSelect:
		in.pop, in.push = 3, 1
	case opSelectTyped:
		in.pop, in.push = 3, 1
		m.valueTypes(r, 1, "types of select")
	case opMemorySize:
		in.push = 1
		zero(r, "memory")
	case opMemoryGrow:
		in.pop, in.push = 1, 1
		zero(r, "memory")
	case opI32Const:
		in.push = 1
		r.signed(32)
	case opI64Const:
		in.push = 1
		r.signed(64)
	case opF32Const:
		in.push = 1
		r.take(4)
	case opF64Const:
		in.push = 1
		r.take(8)
	case opRefNull:
		in.push = 1
		r.u8()
	case opRefIsNull:
		in.pop, in.push = 1, 1
	case opRefFunc:
		in.push = 1
		m.funcIndex(r)
	case 0xfd:
		r.fail(ErrUnsupported, "SIMD instruction")
	case 0xfe:
		r.fail(ErrUnsupported, "atomic instruction")
	default:
		r.fail(ErrUnsupported, "opcode %#02x", in.Op)
	}
}

func (m *Module) prefixed(r *reader, in *Instr) {
	in.Sub = r.u32()
	switch {
	case r.err != nil:
	case in.Sub < subMemoryInit:
		in.pop, in.push = 1, 1
	case in.Sub == subMemoryInit:
		in.pop = 3
		r.u32()
		zero(r, "memory")
	case in.Sub == subMemoryCopy:
		in.pop = 3
		zero(r, "memory")
		zero(r, "memory")
	case in.Sub == subMemoryFill:
		in.pop = 3
		zero(r, "memory")
	case in.Sub == subDataDrop, in.Sub == subElemDrop:
		r.u32()
	case in.Sub == subTableInit:
		in.pop = 3
		r.u32()
		m.tableIndex(r)
	case in.Sub == subTableCopy:
		in.pop = 3
		m.tableIndex(r)
		m.tableIndex(r)
	case in.Sub == subTableGrow:
		in.pop, in.push = 2, 1
		m.tableIndex(r)
	case in.Sub == subTableSize:
		in.push = 1
		m.tableIndex(r)
	case in.Sub == subTableFill:
		in.pop = 3
		m.tableIndex(r)
	default:
		r.fail(ErrUnsupported, "opcode 0xfc %d", in.Sub)
	}
}
