package fuel

import (
	"fmt"

	"github.com/tidewheel/tidewheel/plugins/internal/wasm"
)

// Export is the name under which the rewritten module exports its fuel, a mutable i64.
const Export = "tw.fuel"

// What is charged. The sum of all charges of a run is part of what a user sees (fuel per record, limits), so a change
// needs a line in the CHANGELOG.
const (
	entryCost = 16   // function entry, beside the slots of its frame
	loopCost  = 1    // turn of a loop, beside its instructions
	growCost  = 1024 // memory.grow and table.grow
	perUnit   = 8    // instructions, bytes or elements of a unit
	straight  = 128  // instructions without a check
)

// Options tell Rewrite the limits that it writes into the module.
type Options struct {
	Initial     int64  // fuel that the start function finds, in units
	MemoryPages uint32 // most pages of memory, each 64 KiB; 1 to 65,536
}

// Stats say what was added.
type Stats struct {
	Checks int // places where fuel is taken
	Bytes  int // size of the result
}

// Rewrite returns m with fuel, as the bytes of a new module. m is not changed. The error is a *wasm.Error when m begins with
// more memory than allowed or already exports the name of the fuel.
func Rewrite(m *wasm.Module, o Options) ([]byte, Stats, error) {
	if _, ok := m.Export(Export); ok {
		return nil, Stats{}, &wasm.Error{Kind: wasm.ErrUnsupported, Where: "export section", Reason: fmt.Sprintf("export %q belongs to the host", Export)}
	}
	if m.Memory.Min > o.MemoryPages {
		return nil, Stats{}, &wasm.Error{Kind: wasm.ErrLimit, Where: "memory section",
			Reason: fmt.Sprintf("begins with %d pages of memory, at most %d", m.Memory.Min, o.MemoryPages)}
	}
	w := &writer{m: m, o: o, out: []byte("\x00asm\x01\x00\x00\x00")}
	done := 0
	for _, s := range m.Sections {
		if s.ID == wasm.SectionCustom {
			continue
		}
		// A module may have no section of globals or exports; the new ones then go where they would have been.
		for _, id := range []byte{wasm.SectionGlobal, wasm.SectionExport} {
			if done < wasm.Rank(id) && wasm.Rank(id) < wasm.Rank(s.ID) {
				w.section(id, nil)
			}
		}
		w.section(s.ID, s.Body)
		done = wasm.Rank(s.ID)
	}
	for _, id := range []byte{wasm.SectionGlobal, wasm.SectionExport} {
		if done < wasm.Rank(id) {
			w.section(id, nil)
		}
	}
	w.names()
	w.stats.Bytes = len(w.out)
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
	case wasm.SectionTable:
		body = w.tables()
	case wasm.SectionMemory:
		top := w.o.MemoryPages
		if w.m.Memory.HasMax {
			top = min(top, w.m.Memory.Max)
		}
		body = wasm.AppendU32(wasm.AppendU32([]byte{1, 1}, w.m.Memory.Min), top)
	case wasm.SectionGlobal:
		entry := append(wasm.AppendS64([]byte{wasm.I64, 1, 0x42}, w.o.Initial), 0x0b)
		body = grown(body, len(w.m.Globals), entry)
	case wasm.SectionExport:
		entry := append(wasm.AppendU32(nil, uint32(len(Export))), Export...)
		entry = wasm.AppendU32(append(entry, wasm.KindGlobal), w.global())
		body = grown(body, len(w.m.Exports), entry)
	case wasm.SectionCode:
		body = w.code()
	}
	w.out = append(w.out, id)
	w.out = wasm.AppendU32(w.out, uint32(len(body)))
	w.out = append(w.out, body...)
}

// global is the index of the fuel: imported globals do not exist.
func (w *writer) global() uint32 { return uint32(len(w.m.Globals)) }

// grown returns a vector of n elements with one more at its end.
func grown(body []byte, n int, entry []byte) []byte {
	out := wasm.AppendU32(nil, uint32(n+1))
	if body != nil {
		out = append(out, body[countLen(body):]...)
	}
	return append(out, entry...)
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
	w.buf = wasm.AppendU32(w.buf[:0], uint32(len(w.m.Codes)))
	var body []byte
	for i := range w.m.Codes {
		body = w.function(body[:0], i)
		w.buf = wasm.AppendU32(w.buf, uint32(len(body)))
		w.buf = append(w.buf, body...)
	}
	return w.buf
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

// check appends: fuel -= cost; if fuel < 0, unreachable.
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

// settle subtracts the i64 on top of the stack from the one below it, which is the fuel. What is left is kept in a local:
// reading the global again would be a load that the compiler cannot leave out.
func (w *writer) settle(dst []byte, left uint32) []byte {
	w.stats.Checks++
	dst = append(dst, 0x7d)                             // i64.sub
	dst = wasm.AppendU32(append(dst, 0x22), left)       // local.tee
	dst = wasm.AppendU32(append(dst, 0x24), w.global()) // global.set
	dst = wasm.AppendU32(append(dst, 0x20), left)       // local.get
	return append(dst, 0x42, 0, 0x53, 0x04, 0x40, 0x00, 0x0b)
}
