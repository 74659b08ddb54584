package fuel

import "github.com/tidewheel/tidewheel/plugins/internal/wasm"

// charge is a check after the instruction with number at.
type charge struct {
	at   int
	cost int64
}

// plan finds out where a function needs checks besides its entry. It walks the code once and keeps the greatest number of
// instructions that any path to the current place has run since its last check. Control flow in WebAssembly is structured,
// so one number per open block is enough: branches forward meet at its end, branches backward at its loop's header.
type plan struct {
	charges []charge
	blocks  []open
}

// open is an open block.
type open struct {
	loop  int // index in charges of its header's check, -1 for other blocks
	ifTop int // instructions at the if, for the branch that skips it; -1 once an else was seen, and for other blocks
	meet  int // most instructions of a branch to its end; -1 without one
}

func (p *plan) make(m *wasm.Module, i int, err *error) {
	p.charges, p.blocks = p.charges[:0], append(p.blocks[:0], open{loop: -1, ifTop: -1, meet: -1})
	n, run := 0, 0 // number of the instruction; instructions since the last check, -1 where nothing can run
	walkErr := m.Each(i, func(in *wasm.Instr) {
		if run >= 0 {
			run++
			p.branch(in, run)
		}
		run = p.block(in, n, run)
		if run >= straight && len(p.blocks) > 0 { // nothing can stand behind the function's own end
			p.charges = append(p.charges, charge{at: n, cost: straight / perUnit})
			run = 0
		}
		n++
	})
	if *err == nil {
		*err = walkErr
	}
}

// branch carries what has been run to the places where in may go.
func (p *plan) branch(in *wasm.Instr, run int) {
	for _, depth := range in.Targets {
		b := &p.blocks[len(p.blocks)-1-int(depth)]
		if b.loop >= 0 {
			c := &p.charges[b.loop]
			c.cost = max(c.cost, int64(loopCost+run/perUnit))
		} else {
			b.meet = max(b.meet, run)
		}
	}
}

// block keeps the open blocks and returns what has been run after in.
func (p *plan) block(in *wasm.Instr, n, run int) int {
	top := &p.blocks[len(p.blocks)-1]
	switch {
	case in.Loop():
		// The header's check pays for what came before it as well, so that nothing is carried into the first turn.
		p.charges = append(p.charges, charge{at: n, cost: int64(loopCost + max(run, 0)/perUnit)})
		p.blocks = append(p.blocks, open{loop: len(p.charges) - 1, ifTop: -1, meet: -1})
		return min(run, 0)
	case in.Opens():
		b := open{loop: -1, ifTop: -1, meet: -1}
		if in.If() {
			b.ifTop = run
		}
		p.blocks = append(p.blocks, b)
	case in.Else():
		top.meet = max(top.meet, run)
		run, top.ifTop = top.ifTop, -1
	case in.Closes():
		run = max(run, top.meet, top.ifTop)
		p.blocks = p.blocks[:len(p.blocks)-1]
	case in.Leaves():
		return -1
	}
	return run
}
