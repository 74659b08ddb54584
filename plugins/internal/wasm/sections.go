package wasm

import "bytes"

func (m *Module) customSection(r *reader) {
	name := r.name(m.limits.Name)
	data := r.take(uint32(r.left()))
	if r.err != nil {
		return
	}
	m.Customs = append(m.Customs, Custom{Name: name, Data: data})
	if name == "name" {
		m.NamesOK = m.namesWellFormed(data)
	}
}

// namesWellFormed walks the name section. Names only serve stack traces, so a damaged one is left out and is no error; but
// the runtime sizes allocations by the counts in it, so it must not see one that was not checked.
func (m *Module) namesWellFormed(data []byte) bool {
	r := &reader{b: data, where: "name section"}
	for r.err == nil && r.left() > 0 {
		id := r.u8()
		p := r.part(r.u32(), "name section")
		switch id {
		case 0:
			p.name(m.limits.Name)
		case 1:
			m.nameMap(p)
		case 2:
			for n := p.count(m.limits.Functions, "functions"); n > 0 && p.err == nil; n-- {
				p.u32()
				m.nameMap(p)
			}
		default:
			continue // later proposals; the runtime skips them as well
		}
		if p.done() != nil {
			return false
		}
	}
	return r.err == nil
}

// nameMap reads pairs of index and name, which must rise.
func (m *Module) nameMap(r *reader) {
	last := int64(-1)
	for n := r.count(m.limits.Functions+m.limits.Imports, "names"); n > 0 && r.err == nil; n-- {
		index := int64(r.u32())
		if index <= last {
			r.fail(ErrMalformed, "names out of order")
		}
		last = index
		// The linker writes long names for instances of generic functions; they are shown cut, so they are no danger.
		r.take(uint32(r.count(64<<10, "bytes of a name")))
	}
}

func (m *Module) typeSection(r *reader) {
	n := r.count(m.limits.Types, "types")
	m.Types = make([]FuncType, 0, n)
	for ; n > 0 && r.err == nil; n-- {
		if form := r.u8(); form != 0x60 && r.err == nil {
			r.fail(ErrUnsupported, "type of form %#02x", form)
			return
		}
		m.Types = append(m.Types, FuncType{
			Params:  m.valueTypes(r, m.limits.Params, "parameters"),
			Results: m.valueTypes(r, m.limits.Results, "results"),
		})
	}
}

func (m *Module) valueTypes(r *reader, limit int, what string) []byte {
	types := r.take(uint32(r.count(limit, what)))
	for _, t := range types {
		checkValueType(r, t)
	}
	return types
}

func checkValueType(r *reader, t byte) {
	switch t {
	case I32, I64, F32, F64, FuncRef, ExternRef:
	case 0x7b:
		r.fail(ErrUnsupported, "SIMD vector")
	default:
		r.fail(ErrMalformed, "value type %#02x", t)
	}
}

func (m *Module) typeIndex(r *reader) uint32 {
	i := r.u32()
	if r.err == nil && int64(i) >= int64(len(m.Types)) {
		r.fail(ErrMalformed, "type %d of %d", i, len(m.Types))
		return 0
	}
	return i
}

func (m *Module) importSection(r *reader) {
	for n := r.count(m.limits.Imports, "imports"); n > 0 && r.err == nil; n-- {
		module, name := r.name(m.limits.Name), r.name(m.limits.Name)
		switch kind := r.u8(); {
		case r.err != nil:
		case kind == KindFunc:
			if t := m.typeIndex(r); r.err == nil {
				m.Imports = append(m.Imports, Import{Module: module, Name: name, Type: t})
			}
		case kind == KindMemory:
			r.fail(ErrUnsupported, "imports a memory as %s.%s; the module must define and export its own", module, name)
		default:
			r.fail(ErrUnsupported, "imports %s.%s, which is not a function", module, name)
		}
	}
}

// bounds reads limits of the binary format. Flag bits beyond the maximum announce shared or 64-bit memories.
func (m *Module) bounds(r *reader) Bounds {
	flag := r.u8()
	if r.err == nil && flag > 1 {
		r.fail(ErrUnsupported, "limits with flags %#02x (shared or 64-bit)", flag)
	}
	b := Bounds{Min: r.u32(), HasMax: flag == 1}
	if b.HasMax {
		if b.Max = r.u32(); r.err == nil && b.Max < b.Min {
			r.fail(ErrMalformed, "maximum %d below minimum %d", b.Max, b.Min)
		}
	}
	return b
}

func (m *Module) tableSection(r *reader) {
	for n := r.count(m.limits.Tables, "tables"); n > 0 && r.err == nil; n-- {
		t := Table{Elem: r.u8()}
		if r.err == nil && t.Elem != FuncRef && t.Elem != ExternRef {
			r.fail(ErrUnsupported, "table of %s", valueName(t.Elem))
		}
		t.Bounds = m.bounds(r)
		if size := max(t.Min, t.Max); r.err == nil && size > m.limits.TableMax {
			r.fail(ErrLimit, "table of %d elements, at most %d", size, m.limits.TableMax)
		}
		m.Tables = append(m.Tables, t)
	}
}

func (m *Module) memorySection(r *reader) {
	m.memories = int(r.u32())
	if r.err == nil && m.memories != 1 {
		r.fail(ErrUnsupported, "%d memories, want one", m.memories)
		return
	}
	m.Memory = m.bounds(r)
	if r.err == nil && m.Memory.Min > m.limits.MemoryPages {
		r.fail(ErrLimit, "begins with %d pages of memory of 64 KiB each, and memory_max allows %d", m.Memory.Min, m.limits.MemoryPages)
	}
}

func (m *Module) globalSection(r *reader) {
	for n := r.count(m.limits.Globals, "globals"); n > 0 && r.err == nil; n-- {
		g := GlobalType{Value: r.u8()}
		checkValueType(r, g.Value)
		mutable := r.u8()
		if r.err == nil && mutable > 1 {
			r.fail(ErrMalformed, "mutability %#02x", mutable)
		}
		g.Mutable = mutable == 1
		m.constant(r)
		m.Globals = append(m.Globals, g)
	}
}

// constant reads a constant expression: one value and its end. Globals cannot be imported here, so none can be named.
func (m *Module) constant(r *reader) {
	switch op := r.u8(); {
	case r.err != nil:
	case op == opI32Const:
		r.signed(32)
	case op == opI64Const:
		r.signed(64)
	case op == opF32Const:
		r.take(4)
	case op == opF64Const:
		r.take(8)
	case op == opRefNull:
		r.u8()
	case op == opRefFunc:
		m.funcIndex(r)
	default:
		r.fail(ErrUnsupported, "constant expression with opcode %#02x", op)
	}
	if end := r.u8(); r.err == nil && end != opEnd {
		r.fail(ErrUnsupported, "constant expression of more than one instruction")
	}
}

func (m *Module) funcIndex(r *reader) uint32 {
	i := r.u32()
	if all := len(m.Imports) + len(m.Funcs); r.err == nil && int64(i) >= int64(all) {
		r.fail(ErrMalformed, "function %d of %d", i, all)
		return 0
	}
	return i
}

func (m *Module) exportSection(r *reader) {
	n := r.count(m.limits.Exports, "exports")
	seen := make(map[string]bool, n)
	for ; n > 0 && r.err == nil; n-- {
		e := Export{Name: r.name(m.limits.Name)}
		e.Kind = r.u8()
		e.Index = r.u32()
		var all int
		switch e.Kind {
		case KindFunc:
			all = len(m.Imports) + len(m.Funcs)
		case KindTable:
			all = len(m.Tables)
		case KindMemory:
			all = m.memories
		case KindGlobal:
			all = len(m.Globals)
		default:
			r.fail(ErrUnsupported, "export %q of kind %d", e.Name, e.Kind)
		}
		switch {
		case r.err != nil:
		case int64(e.Index) >= int64(all):
			r.fail(ErrMalformed, "export %q of index %d, there are %d", e.Name, e.Index, all)
		case seen[e.Name]:
			r.fail(ErrMalformed, "export %q twice", e.Name)
		}
		seen[e.Name] = true
		m.Exports = append(m.Exports, e)
	}
}

func (m *Module) startSection(r *reader) {
	i := m.funcIndex(r)
	if r.err != nil {
		return
	}
	if t, _ := m.FuncType(i); len(t.Params)+len(t.Results) > 0 {
		r.fail(ErrMalformed, "start function of type %v", t)
	}
	m.Start = int(i)
}

// elementSection reads element segments in their eight forms: bit 0 passive or declarative, bit 1 with an explicit table
// (or declarative), bit 2 expressions instead of function indexes.
func (m *Module) elementSection(r *reader) {
	m.elems = r.count(m.limits.Segments, "element segments")
	for n := m.elems; n > 0 && r.err == nil; n-- {
		form := r.u32()
		if r.err == nil && form > 7 {
			r.fail(ErrMalformed, "element segment of form %d", form)
			return
		}
		if form&1 == 0 {
			var table uint32
			if form&2 != 0 {
				table = r.u32()
			}
			if r.err == nil && int64(table) >= int64(len(m.Tables)) {
				r.fail(ErrMalformed, "element segment for table %d of %d", table, len(m.Tables))
			}
			m.constant(r)
		}
		if form&3 != 0 {
			r.u8() // kind or type of the elements; the runtime checks it
		}
		for k := r.count(int(m.limits.TableMax), "elements"); k > 0 && r.err == nil; k-- {
			if form&4 != 0 {
				m.constant(r)
			} else {
				m.funcIndex(r)
			}
		}
	}
}

func (m *Module) dataSection(r *reader) {
	m.datas = r.count(m.limits.Segments, "data segments")
	for n := m.datas; n > 0 && r.err == nil; n-- {
		switch form := r.u32(); {
		case r.err != nil:
			return
		case form == 0:
			m.constant(r)
		case form == 1:
		case form == 2:
			if memory := r.u32(); r.err == nil && memory != 0 {
				r.fail(ErrUnsupported, "data segment for memory %d", memory)
			}
			m.constant(r)
		default:
			r.fail(ErrMalformed, "data segment of form %d", form)
		}
		r.take(r.u32())
	}
}

// AppendCustom appends a custom section to a module's bytes: the form in which a manifest is attached. It copies nothing
// that is in dst already.
func AppendCustom(dst []byte, name string, data []byte) []byte {
	body := AppendU32(nil, uint32(len(name)))
	body = append(body, name...)
	body = append(body, data...)
	dst = append(dst, SectionCustom)
	dst = AppendU32(dst, uint32(len(body)))
	return append(dst, body...)
}

// Is reports whether file begins like any WebAssembly binary.
func Is(file []byte) bool { return bytes.HasPrefix(file, []byte("\x00asm")) }
