package crashfs

import (
	"fmt"
	"math/rand/v2"
)

// Policy says what a power cut keeps of what was not synced. The zero Policy keeps none of it.
type Policy struct {
	Sector  int  // bytes that the disk writes as a whole, 512 or 4096; 0 is 512
	KeepPct int  // per cent of un-synced sectors, and of un-synced changes of a file's length, that survive
	MetaPct int  // per cent of un-synced directory changes that survive
	MetaAny bool // they survive each on its own; otherwise those of one directory up to the first that does not
	Garbage bool // a part of the un-synced sectors that do not survive hold neither the old bytes nor the new ones
}

// Policies returns the ones a sweep should draw from: nothing kept, all, and mixtures over both sector sizes, with and
// without a journal, with and without garbage. The slice is the caller's.
func Policies() []Policy {
	return []Policy{
		{},
		{KeepPct: 100, MetaPct: 100},
		{KeepPct: 100},
		{MetaPct: 100},
		{KeepPct: 10, MetaPct: 50},
		{KeepPct: 50, MetaPct: 50, MetaAny: true},
		{KeepPct: 90, MetaPct: 90},
		{KeepPct: 50, MetaPct: 90, Sector: 4096},
		{KeepPct: 50, MetaPct: 50, Garbage: true},
		{KeepPct: 90, MetaPct: 90, MetaAny: true, Garbage: true, Sector: 4096},
	}
}

// String prints the policy as a Go literal, for the log of a failed test.
func (p Policy) String() string {
	return fmt.Sprintf("crashfs.Policy{Sector: %d, KeepPct: %d, MetaPct: %d, MetaAny: %t, Garbage: %t}",
		p.Sector, p.KeepPct, p.MetaPct, p.MetaAny, p.Garbage)
}

func (p Policy) sector() int64 {
	if p.Sector <= 0 {
		return 512
	}
	return int64(p.Sector)
}

func (p Policy) keep(r *rand.Rand) bool { return r.IntN(100) < p.KeepPct }

// drawSectors writes the sectors of b that the disk got.
func (p Policy) drawSectors(v *view, own *owner, r *rand.Rand, b []byte, off int64) {
	sector := p.sector()
	for len(b) > 0 {
		n := min(int64(len(b)), sector-off%sector)
		switch {
		case p.keep(r):
			v.writeAt(own, b[:n], off)
		case p.Garbage && r.IntN(4) == 0:
			v.writeAt(own, garbage(r, b[:n]), off)
		}
		b, off = b[n:], off+n
	}
}

// garbage is what may lie where b should have been written when the power failed: the first bytes of b, then noise.
func garbage(r *rand.Rand, b []byte) []byte {
	g := make([]byte, len(b))
	good := 0
	if r.IntN(2) == 0 {
		good = copy(g, b[:r.IntN(len(b))])
	}
	for i := good; i < len(g); i++ {
		g[i] = byte(r.Uint32())
	}
	return g
}
