package fuel

import (
	"fmt"

	"github.com/tidewheel/tidewheel/plugins/internal/wasm"
)

// The rewritten module exports its fuel as two mutable i64: what is left of the slice in hand, and what is left beside it.
const (
	ExportSlice = "tw.fuel"
	ExportRest  = "tw.rest"
)

// What is charged. The sum of all charges of a run is part of what a user sees (fuel per record, limits), so a change
// needs a line in the CHANGELOG.
const (
	entryCost = 16   // function entry, beside the slots of its frame
	loopCost  = 1    // turn of a loop, beside its instructions
	growCost  = 1024 // memory.grow and table.grow
	perUnit   = 8    // instructions, bytes or elements of a unit
	straight  = 128  // instructions without a check
)

// Slice is how much fuel code uses before it passes through the runtime once, which is where the process can stop it: for a
// garbage collection above all. It is 20 µs of ordinary code and 10 ms of the slowest that we could write, loads that each wait
// for the one before and miss all caches. Passing through takes 0.1 to 0.2 µs.
const Slice = 20_000

// Options tell Rewrite the limits that it writes into the module.
type Options struct {
	Initial     int64  // fuel that the start function finds, in units
	MemoryPages uint32 // most pages of memory, each 64 KiB; 1 to 65,536
	Slice       int64  // fuel between two passages through the runtime; Slice if zero
}

// Stats say what was added.
type Stats struct {
	Checks int    // places where fuel is taken
	Bytes  int    // size of the result
	Refill uint32 // index of the function that was added: it is where a module runs into unreachable when its fuel is out
}

// Rewrite returns m with fuel, as the bytes of a new module. m is not changed. The error is a *wasm.Error when m begins with
// more memory than allowed or already exports the name of the fuel.
func Rewrite(m *wasm.Module, o Options) ([]byte, Stats, error) {
	for _, name := range []string{ExportSlice, ExportRest} {
		if _, ok := m.Export(name); ok {
			return nil, Stats{}, &wasm.Error{Kind: wasm.ErrUnsupported, Where: "export section", Reason: fmt.Sprintf("export %q belongs to the host", name)}
		}
	}
	if m.Memory.Min > o.MemoryPages {
		return nil, Stats{}, &wasm.Error{Kind: wasm.ErrLimit, Where: "memory section",
			Reason: fmt.Sprintf("begins with %d pages of memory, at most %d", m.Memory.Min, o.MemoryPages)}
	}
	if o.Slice == 0 {
		o.Slice = Slice
	}
	w := &writer{m: m, o: o, out: []byte("\x00asm\x01\x00\x00\x00")}
	// Sections that get something at their end, in their order; those that the module lacks are made.
	grow := []byte{wasm.SectionType, wasm.SectionFunction, wasm.SectionGlobal, wasm.SectionExport, wasm.SectionCode}
	upTo := func(rank int) {
		for len(grow) > 0 && wasm.Rank(grow[0]) < rank {
			w.section(grow[0], nil)
			grow = grow[1:]
		}
	}
	for _, s := range m.Sections {
		if s.ID == wasm.SectionCustom {
			continue
		}
		upTo(wasm.Rank(s.ID))
		w.section(s.ID, s.Body)
		if len(grow) > 0 && grow[0] == s.ID {
			grow = grow[1:]
		}
	}
	upTo(wasm.Rank(wasm.SectionData))
	w.names()
	w.stats.Bytes, w.stats.Refill = len(w.out), w.refillIndex()
	return w.out, w.stats, w.err
}

type writer struct {
	m     *wasm.Module
	o     Options
	out   []byte
	buf   []byte // body of the section in hand
	plan  plan
	stats Stats
	err   error
}

// section writes one section, changed where it must be. A nil body is a section that the module does not have.
func (w *writer) section(id byte, body []byte) {
	switch id {
	case wasm.SectionType:
		body = grown(body, len(w.m.Types), []byte{0x60, 0, 0}, 1)
	case wasm.SectionFunction:
		body = grown(body, len(w.m.Funcs), wasm.AppendU32(nil, uint32(len(w.m.Types))), 1)
	case wasm.SectionTable:
		body = w.tables()
	case wasm.SectionMemory:
		top := w.o.MemoryPages
		if w.m.Memory.HasMax {
			top = min(top, w.m.Memory.Max)
		}
		body = wasm.AppendU32(wasm.AppendU32([]byte{1, 1}, w.m.Memory.Min), top)
	case wasm.SectionGlobal:
		first := min(w.o.Initial, w.o.Slice)
		entries := append(wasm.AppendS64([]byte{wasm.I64, 1, 0x42}, first), 0x0b)
		entries = append(wasm.AppendS64(append(entries, wasm.I64, 1, 0x42), w.o.Initial-first), 0x0b)
		body = grown(body, len(w.m.Globals), entries, 2)
	case wasm.SectionExport:
		var entries []byte
		for i, name := range []string{ExportSlice, ExportRest} {
			entries = append(wasm.AppendU32(entries, uint32(len(name))), name...)
			entries = wasm.AppendU32(append(entries, wasm.KindGlobal), w.global()+uint32(i))
		}
		body = grown(body, len(w.m.Exports), entries, 2)
	case wasm.SectionCode:
		body = w.code()
	}
	w.out = append(w.out, id)
	w.out = wasm.AppendU32(w.out, uint32(len(body)))
	w.out = append(w.out, body...)
}

// global is the index of the slice, and that of the rest is the next: imported globals do not exist.
func (w *writer) global() uint32 { return uint32(len(w.m.Globals)) }

// grown returns a vector of n elements with more at its end.
func grown(body []byte, n int, entries []byte, more int) []byte {
	out := wasm.AppendU32(nil, uint32(n+more))
	if body != nil {
		out = append(out, body[countLen(body):]...)
	}
	return append(out, entries...)
}

// countLen is the length of the LEB128 number at the beginning of body, which need not be in its shortest form.
func countLen(body []byte) int {
	for i, c := range body {
		if c < 0x80 {
			return i + 1
		}
	}
	return len(body)
}

// tables gives each table a maximum: the one it has, or its size.
func (w *writer) tables() []byte {
	out := wasm.AppendU32(nil, uint32(len(w.m.Tables)))
	for _, t := range w.m.Tables {
		top := t.Min
		if t.HasMax {
			top = t.Max
		}
		out = append(out, t.Elem, 1)
		out = wasm.AppendU32(wasm.AppendU32(out, t.Min), top)
	}
	return out
}

// names copies the name section: its indexes are those of the new module as well.
func (w *writer) names() {
	if data, ok := w.m.Custom("name"); ok && w.m.NamesOK {
		w.out = wasm.AppendCustom(w.out, "name", data)
	}
}

func (w *writer) code() []byte {
	w.buf = wasm.AppendU32(w.buf[:0], uint32(len(w.m.Codes)+1))
	var body []byte
	for i := range w.m.Codes {
		body = w.function(body[:0], i)
		w.buf = wasm.AppendU32(w.buf, uint32(len(body)))
		w.buf = append(w.buf, body...)
	}
	body = w.refill(body[:0])
	w.buf = wasm.AppendU32(w.buf, uint32(len(body)))
	return append(w.buf, body...)
}

// refillIndex is the index of the function behind all that there were.
func (w *writer) refillIndex() uint32 { return uint32(len(w.m.Imports) + len(w.m.Funcs)) }

// refill appends the body of the function that is called when the slice is used up: it takes as much of the rest as makes
// the slice whole again, and ends the guest when that does not cover what was charged. memory.grow by nothing is what passes
// through the runtime.
func (w *writer) refill(dst []byte) []byte {
	get := func(global uint32) { dst = wasm.AppendU32(append(dst, 0x23), w.global()+global) }
	set := func(global uint32) { dst = wasm.AppendU32(append(dst, 0x24), w.global()+global) }
	const slice, rest = 0, 1
	dst = append(dst, 1, 1, wasm.I64)         // a local: what is missing
	dst = append(dst, 0x41, 0, 0x40, 0, 0x1a) // memory.grow by 0, drop
	dst = wasm.AppendS64(append(dst, 0x42), w.o.Slice)
	get(slice)
	dst = append(dst, 0x7d, 0x22, 0) // i64.sub, local.tee: missing = Slice - slice
	get(rest)
	dst = append(dst, 0x55, 0x04, 0x40) // i64.gt_s, if: it is more than the rest
	get(rest)
	dst = append(dst, 0x21, 0, 0x0b) // local.set, end: missing = rest
	get(slice)
	dst = append(dst, 0x20, 0, 0x7c) // local.get, i64.add
	set(slice)
	get(rest)
	dst = append(dst, 0x20, 0, 0x7d) // local.get, i64.sub
	set(rest)
	get(slice)
	return append(dst, 0x42, 0, 0x53, 0x04, 0x40, 0x00, 0x0b, 0x0b) // i64.const 0, i64.lt_s, if unreachable end, end
}

// function appends the new body of defined function i. Two locals are added behind those it has: one for what is left of
// the fuel, one for the operand of a bulk operation.
func (w *writer) function(dst []byte, i int) []byte {
	c := &w.m.Codes[i]
	w.plan.make(w.m, i, &w.err)
	left, operand := uint32(c.Locals), uint32(c.Locals+1)
	groups := c.Groups + 1
	if c.Bulks > 0 {
		groups++
	}
	dst = wasm.AppendU32(dst, uint32(groups))
	dst = append(dst, c.Body[countLen(c.Body):c.Instrs]...)
	dst = append(dst, 1, wasm.I64)
	if c.Bulks > 0 {
		dst = append(dst, 1, wasm.I32)
	}
	dst = w.check(dst, left, int64(entryCost+c.Locals+c.Height))
	charges := w.plan.charges
	n := 0
	err := w.m.Each(i, func(in *wasm.Instr) {
		if bulk, grow := in.Bulk(); grow {
			dst = w.check(dst, left, growCost)
		} else if bulk {
			dst = w.checkBulk(dst, left, operand)
		}
		dst = append(dst, c.Body[in.Start:in.End]...)
		if len(charges) > 0 && charges[0].at == n {
			dst = w.check(dst, left, charges[0].cost)
			charges = charges[1:]
		}
		n++
	})
	if w.err == nil {
		w.err = err
	}
	return dst
}

// check appends: slice -= cost; if slice < 0, refill.
func (w *writer) check(dst []byte, left uint32, cost int64) []byte {
	dst = wasm.AppendU32(append(dst, 0x23), w.global()) // global.get
	dst = wasm.AppendS64(append(dst, 0x42), cost)       // i64.const
	return w.settle(dst, left)
}

// checkBulk charges for the i32 on top of the stack and leaves it there.
func (w *writer) checkBulk(dst []byte, left, operand uint32) []byte {
	dst = wasm.AppendU32(append(dst, 0x22), operand)    // local.tee
	dst = wasm.AppendU32(append(dst, 0x23), w.global()) // global.get
	dst = wasm.AppendU32(append(dst, 0x20), operand)    // local.get
	dst = append(dst, 0x41, 3, 0x76, 0xad)              // i32.const 3, i32.shr_u, i64.extend_i32_u
	return w.settle(dst, left)
}

// settle subtracts the i64 on top of the stack from the one below it, which is the slice. What is left is kept in a local:
// reading the global again would be a load that the compiler cannot leave out.
func (w *writer) settle(dst []byte, left uint32) []byte {
	w.stats.Checks++
	dst = append(dst, 0x7d)                             // i64.sub
	dst = wasm.AppendU32(append(dst, 0x22), left)       // local.tee
	dst = wasm.AppendU32(append(dst, 0x24), w.global()) // global.set
	dst = wasm.AppendU32(append(dst, 0x20), left)       // local.get
	dst = append(dst, 0x42, 0, 0x53, 0x04, 0x40, 0x10)  // i64.const 0, i64.lt_s, if, call
	return append(wasm.AppendU32(dst, w.refillIndex()), 0x0b)
}
