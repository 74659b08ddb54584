package wasm

import "fmt"

// Code is the body of a defined function. Body is a window of the file: the groups of locals, then the instructions.
type Code struct {
	Offset int // of Body in the file
	Body   []byte
	Groups int // groups of locals in Body
	Instrs int // where the instructions begin, in Body
	Locals int // parameters and locals
	Height int // most values on the operand stack, never less than what really happens
	Blocks int // blocks, loops and ifs
	Loops  int // loops among them
	Bulks  int // instructions whose work grows with an operand
	Ops    int // instructions

	branches, targets int
}

// Work estimates what compiling the function takes, in units of about 50 ns: the register allocator's time grows with the
// square of the number of basic blocks. Each check for fuel adds one, and a loop has one in its header.
func (c *Code) Work() int {
	n := c.Blocks + c.branches + c.targets/16 + 2*c.Loops + 2*c.Bulks + c.Ops/128
	return n*n + c.Ops
}

// function is what one function's walk knows.
type function struct {
	locals  int
	blocks  []block
	targets []uint32 // of the instruction in hand
}

// block is an open block, loop or if.
type block struct {
	op      byte
	base    int // height below its parameters
	inner   int // its parameters
	results int
}

// label reads one more target of the instruction in hand and returns all of them.
func (f *function) label(r *reader) []uint32 {
	depth := r.u32()
	if r.err == nil && int64(depth) >= int64(len(f.blocks)) {
		r.fail(ErrMalformed, "label %d of %d", depth, len(f.blocks))
	}
	f.targets = append(f.targets, depth)
	return f.targets
}

func (m *Module) codeSection(r *reader) {
	n := r.count(m.limits.Functions, "bodies")
	if r.err == nil && n != len(m.Funcs) {
		r.fail(ErrMalformed, "%d functions with %d bodies", len(m.Funcs), n)
		return
	}
	m.Codes = make([]Code, 0, n)
	for i := range n {
		size := r.u32()
		if r.err == nil && int64(size) > int64(m.limits.Body) {
			r.fail(ErrLimit, "function %d of %d bytes, at most %d", i+len(m.Imports), size, m.limits.Body)
		}
		body := r.part(size, fmt.Sprintf("function %d", i+len(m.Imports)))
		if r.err != nil {
			return
		}
		m.Codes = append(m.Codes, m.code(body, m.Types[m.Funcs[i]]))
		if r.err = body.done(); r.err != nil {
			return
		}
	}
}

// code walks one body.
func (m *Module) code(r *reader, t FuncType) Code {
	c := Code{Offset: r.base, Body: r.b, Locals: len(t.Params)}
	c.Groups = r.count(len(r.b), "groups of locals")
	for n := c.Groups; n > 0 && r.err == nil; n-- {
		k := r.u32()
		if all := uint64(c.Locals) + uint64(k); r.err == nil && all > uint64(m.limits.Locals) {
			r.fail(ErrLimit, "%d locals, at most %d", all, m.limits.Locals)
			return c
		}
		c.Locals += int(k)
		checkValueType(r, r.u8())
	}
	if m.locals += c.Locals; r.err == nil && m.locals > m.limits.LocalsTotal {
		r.fail(ErrLimit, "more than %d locals in all functions", m.limits.LocalsTotal)
	}
	c.Instrs = r.off
	f := &function{locals: c.Locals, blocks: []block{{op: opBlock, results: len(t.Results)}}}
	var in Instr
	height := 0
	for len(f.blocks) > 0 {
		m.next(r, f, &in)
		if r.err != nil {
			return c
		}
		height = m.step(r, f, &in, height)
		if c.Height = max(c.Height, height); c.Height > m.limits.Height {
			r.fail(ErrLimit, "more than %d values on the operand stack", m.limits.Height)
		}
		m.count(r, &c, &in)
	}
	if m.work += c.Work(); r.err == nil && m.work > m.limits.Work {
		r.fail(ErrLimit, "compiling the functions would take too long: work of more than %d", m.limits.Work)
	}
	return c
}

// count adds an instruction to the numbers that are limited.
func (m *Module) count(r *reader, c *Code, in *Instr) {
	c.Ops++
	c.targets += len(in.Targets)
	if len(in.Targets) > 0 {
		c.branches++
	}
	if in.Opens() {
		c.Blocks++
	}
	if in.Loop() {
		c.Loops++
	}
	if bulk, _ := in.Bulk(); bulk {
		c.Bulks++
		m.bulk++
	}
	switch {
	case c.Blocks+c.branches > m.limits.Blocks:
		r.fail(ErrLimit, "more than %d blocks and branches in a function", m.limits.Blocks)
	case c.Loops > m.limits.Loops:
		r.fail(ErrLimit, "more than %d loops in a function", m.limits.Loops)
	case c.targets > m.limits.Targets:
		r.fail(ErrLimit, "more than %d branch targets in a function", m.limits.Targets)
	case c.Bulks > m.limits.Bulk:
		r.fail(ErrLimit, "more than %d bulk operations in a function", m.limits.Bulk)
	case m.bulk > m.limits.BulkTotal:
		r.fail(ErrLimit, "more than %d bulk operations", m.limits.BulkTotal)
	}
}

// step keeps the open blocks and returns the height of the operand stack after in. The types of values are the runtime's
// business; the height only has to be no less than the real one. After a jump the rest of a block never runs: there the
// height stops at the block's base, and end sets it right.
func (m *Module) step(r *reader, f *function, in *Instr, height int) int {
	top := &f.blocks[len(f.blocks)-1]
	switch in.Op {
	case opBlock, opLoop, opIf:
		if len(f.blocks) > m.limits.Nesting {
			r.fail(ErrLimit, "blocks nested deeper than %d", m.limits.Nesting)
			return height
		}
		base := max(height-in.pop, top.base)
		f.blocks = append(f.blocks, block{op: in.Op, base: base, inner: in.inner, results: in.push})
		return base + in.inner
	case opElse:
		if top.op != opIf {
			r.fail(ErrMalformed, "else without if")
			return height
		}
		top.op = opElse
		return top.base + top.inner
	case opEnd:
		height = top.base + top.results
		f.blocks = f.blocks[:len(f.blocks)-1]
		return height
	case opBr, opBrTable, opReturn, opUnreachable:
		return top.base
	}
	return max(height-in.pop, top.base) + in.push
}

// Each calls fn for every instruction of defined function i, in order. fn must not keep the *Instr.
func (m *Module) Each(i int, fn func(*Instr)) error {
	c := &m.Codes[i]
	r := &reader{b: c.Body, off: c.Instrs, base: c.Offset, where: fmt.Sprintf("function %d", i+len(m.Imports))}
	f := &function{locals: c.Locals, blocks: []block{{op: opBlock}}}
	var in Instr
	for len(f.blocks) > 0 && r.err == nil {
		m.next(r, f, &in)
		if r.err == nil {
			fn(&in)
			m.step(r, f, &in, 0)
		}
	}
	return r.err
}
