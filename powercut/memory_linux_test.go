package powercut

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// blockSize is what two memories share or copy.
const blockSize = 16 << 10

// memory is an array of bytes of fixed size. Blocks never written take no space, and a clone shares blocks until one of
// the two writes. Not safe for concurrent use.
type memory struct {
	size   int64
	blocks [][]byte
	own    []bool // the block belongs to this memory alone
}

func newMemory(size int64) *memory {
	n := (size + blockSize - 1) / blockSize
	return &memory{size: size, blocks: make([][]byte, n), own: make([]bool, n)}
}

func (m *memory) clone() *memory {
	clear(m.own)
	return &memory{size: m.size, blocks: append([][]byte(nil), m.blocks...), own: make([]bool, len(m.own))}
}

// readAt copies from off on and returns how many bytes there were.
func (m *memory) readAt(p []byte, off int64) int {
	p = p[:max(0, min(int64(len(p)), m.size-off))]
	for n := 0; n < len(p); {
		block, at := (off+int64(n))/blockSize, (off+int64(n))%blockSize
		if b := m.blocks[block]; b != nil {
			n += copy(p[n:], b[at:])
			continue
		}
		end := min(len(p), n+int(blockSize-at))
		clear(p[n:end])
		n = end
	}
	return len(p)
}

// writeAt copies p to off; what would lie beyond the end is dropped.
func (m *memory) writeAt(p []byte, off int64) int {
	p = p[:max(0, min(int64(len(p)), m.size-off))]
	for n := 0; n < len(p); {
		block, at := (off+int64(n))/blockSize, (off+int64(n))%blockSize
		if !m.own[block] {
			b := make([]byte, blockSize)
			copy(b, m.blocks[block])
			m.blocks[block], m.own[block] = b, true
		}
		n += copy(m.blocks[block][at:], p[n:])
	}
	return len(p)
}

func TestMemoryIsAnArrayAndClonesAreApart(t *testing.T) {
	const size = 5*blockSize + 77
	r := rand.New(rand.NewPCG(1, 2))
	mems, plain := []*memory{newMemory(size)}, [][]byte{make([]byte, size)}
	for range 400 {
		i := r.IntN(len(mems))
		if len(mems) < 6 && r.IntN(20) == 0 {
			mems, plain = append(mems, mems[i].clone()), append(plain, bytes.Clone(plain[i]))
		}
		p := make([]byte, r.IntN(2*blockSize))
		for j := range p {
			p[j] = byte(r.Uint32())
		}
		off := r.Int64N(size + 10)
		want := 0
		if off < size {
			want = copy(plain[i][off:], p)
		}
		if n := mems[i].writeAt(p, off); n != want {
			t.Fatalf("writeAt(%d bytes, %d) = %d, want %d", len(p), off, n, want)
		}
	}
	for i, m := range mems {
		got := make([]byte, size+10)
		if n := m.readAt(got, 0); n != size || !bytes.Equal(got[:n], plain[i]) {
			t.Errorf("memory %d of %d differs from the plain array, or has %d bytes", i, len(mems), n)
		}
	}
}
