package enginetest

import (
	"encoding/binary"
	"math/rand/v2"
)

// newRand returns a generator of a seed. Different uses of one seed add different salts.
func newRand(seed uint64, salt ...uint64) *rand.Rand {
	s := uint64(7)
	for _, x := range salt {
		s = s*0x9e3779b97f4a7c15 + x
	}
	return rand.New(rand.NewPCG(seed, s))
}

// random is an io.Reader of bytes that follow from a seed, for engine.Env.
type random struct{ *rand.Rand }

func newRandom(seed uint64) random { return random{newRand(seed, 99)} }

// Read fills p.
func (r random) Read(p []byte) (int, error) {
	for i := 0; i < len(p); i += 8 {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], r.Uint64())
		copy(p[i:], b[:])
	}
	return len(p), nil
}
