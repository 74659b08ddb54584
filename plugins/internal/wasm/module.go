package wasm

import (
	"fmt"
)

// The sections of a module, by the ids of the binary format.
const (
	SectionCustom    = 0
	SectionType      = 1
	SectionImport    = 2
	SectionFunction  = 3
	SectionTable     = 4
	SectionMemory    = 5
	SectionGlobal    = 6
	SectionExport    = 7
	SectionStart     = 8
	SectionElement   = 9
	SectionCode      = 10
	SectionData      = 11
	SectionDataCount = 12
)

// The types of values.
const (
	I32       = 0x7f
	I64       = 0x7e
	F32       = 0x7d
	F64       = 0x7c
	FuncRef   = 0x70
	ExternRef = 0x6f
)

// Kinds of what a module exports.
const (
	KindFunc   = 0
	KindTable  = 1
	KindMemory = 2
	KindGlobal = 3
)

// rank is the order in which sections must come; the section with the number of data segments comes before the code.
var rank = [...]int{
	SectionType: 1, SectionImport: 2, SectionFunction: 3, SectionTable: 4, SectionMemory: 5, SectionGlobal: 6,
	SectionExport: 7, SectionStart: 8, SectionElement: 9, SectionDataCount: 10, SectionCode: 11, SectionData: 12,
}

var sectionNames = [...]string{
	"custom section", "type section", "import section", "function section", "table section", "memory section", "global section",
	"export section", "start section", "element section", "code section", "data section", "data count section",
}

// Rank is the place of a section among the others: a section with a higher rank comes later. Custom sections have rank 0
// and may stand anywhere.
func Rank(id byte) int {
	if int(id) >= len(rank) {
		return 0
	}
	return rank[id]
}

// Section is one section as it stands in the file. Body is a window of the file.
type Section struct {
	ID     byte
	Offset int // of Body in the file
	Body   []byte
}

// FuncType is the type of a function. Both are windows of the file, one byte per value.
type FuncType struct {
	Params, Results []byte
}

// String writes the type as (i32 i32) -> (i32).
func (t FuncType) String() string { return "(" + values(t.Params) + ") -> (" + values(t.Results) + ")" }

func values(types []byte) string {
	var s string
	for i, t := range types {
		if i > 0 {
			s += " "
		}
		s += valueName(t)
	}
	return s
}

func valueName(t byte) string {
	switch t {
	case I32:
		return "i32"
	case I64:
		return "i64"
	case F32:
		return "f32"
	case F64:
		return "f64"
	case FuncRef:
		return "funcref"
	case ExternRef:
		return "externref"
	}
	return fmt.Sprintf("%#02x", t)
}

// Import is a function that the module wants from its host.
type Import struct {
	Module, Name string
	Type         uint32 // index into Module.Types
}

// Bounds are the sizes of a memory (pages of 64 KiB) or a table (elements).
type Bounds struct {
	Min, Max uint32
	HasMax   bool
}

// Table is a table that the module defines.
type Table struct {
	Elem byte // FuncRef or ExternRef
	Bounds
}

// GlobalType is the type of a global that the module defines.
type GlobalType struct {
	Value   byte
	Mutable bool
}

// Export is a name that the host can reach.
type Export struct {
	Name  string
	Kind  byte
	Index uint32
}

// Custom is a custom section. Data is a window of the file.
type Custom struct {
	Name string
	Data []byte
}

// Module is a module that passed Parse. Its slices are windows of the file: the caller must not change the bytes while the
// Module is in use. A Module is read-only and safe for concurrent use.
type Module struct {
	Sections []Section
	Types    []FuncType
	Imports  []Import
	Funcs    []uint32 // type of each defined function, index into Types
	Tables   []Table
	Memory   Bounds
	Globals  []GlobalType
	Exports  []Export
	Start    int // index of the start function among all functions, -1 without
	Customs  []Custom
	Codes    []Code // bodies of the defined functions
	NamesOK  bool   // the name section exists and is well formed

	limits    Limits
	memories  int
	dataCount int // -1 without a data count section
	datas     int
	elems     int
	locals    int
	bulk      int
	work      int
}

// Parse reads a module. On error it returns nil and an *Error.
func Parse(file []byte, limits Limits) (*Module, error) {
	r := &reader{b: file, where: "file"}
	if len(file) > limits.Binary {
		r.fail(ErrLimit, "%d bytes, at most %d", len(file), limits.Binary)
		return nil, r.err
	}
	m := &Module{Start: -1, limits: limits, dataCount: -1}
	if err := m.header(r); err != nil {
		return nil, err
	}
	last := 0
	for r.err == nil && r.left() > 0 {
		id := r.u8()
		if int(id) >= len(sectionNames) {
			r.fail(ErrUnsupported, "section with id %d", id)
			break
		}
		if id != SectionCustom {
			if Rank(id) <= last {
				r.fail(ErrMalformed, "%s out of order", sectionNames[id])
				break
			}
			last = Rank(id)
		}
		n := r.u32()
		s := r.part(n, sectionNames[id])
		if r.err != nil {
			break
		}
		m.Sections = append(m.Sections, Section{ID: id, Offset: s.base, Body: s.b})
		m.section(id, s)
		if err := s.done(); err != nil {
			return nil, err
		}
	}
	if r.err == nil {
		m.whole(r)
	}
	if r.err != nil {
		return nil, r.err
	}
	return m, nil
}

func (m *Module) header(r *reader) error {
	magic, version := r.take(4), r.take(4)
	switch {
	case r.err != nil || string(magic) != "\x00asm":
		r.err, r.off = nil, 0
		r.fail(ErrMalformed, "does not begin with the magic of WebAssembly")
	case string(version) == "\x0d\x00\x01\x00":
		r.fail(ErrUnsupported, "a component, not a core module")
	case string(version) != "\x01\x00\x00\x00":
		r.fail(ErrUnsupported, "version % x", version)
	}
	return r.err
}

func (m *Module) section(id byte, r *reader) {
	switch id {
	case SectionCustom:
		m.customSection(r)
	case SectionType:
		m.typeSection(r)
	case SectionImport:
		m.importSection(r)
	case SectionFunction:
		for n := r.count(m.limits.Functions, "functions"); n > 0 && r.err == nil; n-- {
			m.Funcs = append(m.Funcs, m.typeIndex(r))
		}
	case SectionTable:
		m.tableSection(r)
	case SectionMemory:
		m.memorySection(r)
	case SectionGlobal:
		m.globalSection(r)
	case SectionExport:
		m.exportSection(r)
	case SectionStart:
		m.startSection(r)
	case SectionElement:
		m.elementSection(r)
	case SectionCode:
		m.codeSection(r)
	case SectionData:
		m.dataSection(r)
	case SectionDataCount:
		m.dataCount = int(r.u32())
	}
}

// whole checks what only the end of the file shows.
func (m *Module) whole(r *reader) {
	switch {
	case len(m.Codes) != len(m.Funcs):
		r.fail(ErrMalformed, "%d functions with %d bodies", len(m.Funcs), len(m.Codes))
	case m.memories != 1:
		r.fail(ErrUnsupported, "%d memories, want one", m.memories)
	case m.dataCount >= 0 && m.dataCount != m.datas:
		r.fail(ErrMalformed, "%d data segments announced, %d found", m.dataCount, m.datas)
	}
}

// FuncType returns the type of function index, imports included; false when there is no such function.
func (m *Module) FuncType(index uint32) (FuncType, bool) {
	if int64(index) < int64(len(m.Imports)) {
		return m.Types[m.Imports[index].Type], true
	}
	if i := int64(index) - int64(len(m.Imports)); i < int64(len(m.Funcs)) {
		return m.Types[m.Funcs[i]], true
	}
	return FuncType{}, false
}

// Export returns the export with a name; false when there is none.
func (m *Module) Export(name string) (Export, bool) {
	for _, e := range m.Exports {
		if e.Name == name {
			return e, true
		}
	}
	return Export{}, false
}

// Custom returns the data of the first custom section with a name; false when there is none.
func (m *Module) Custom(name string) ([]byte, bool) {
	for _, c := range m.Customs {
		if c.Name == name {
			return c.Data, true
		}
	}
	return nil, false
}
