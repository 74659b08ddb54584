package crashfs

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// plain is what a view should be.
type plain struct {
	data     []byte
	reserved int64
}

func (p *plain) resize(size int64) {
	if size <= int64(len(p.data)) {
		p.data = p.data[:size]
		p.reserved = min(p.reserved, chunksOf(size))
		return
	}
	p.data = append(p.data[:len(p.data):len(p.data)], make([]byte, size-int64(len(p.data)))...)
}

// Random operations on a view, and on copies of it, are those on a slice; and the account is right.
func TestViewIsASparseSlice(t *testing.T) {
	const maxSize = 3 * leafSize * chunkSize
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 1))
		own := new(owner)
		v, p := view{}, plain{}
		var copies []view
		var plains []plain
		for step := range 150 {
			size := r.Int64N(maxSize)
			if r.IntN(2) == 0 {
				size = size / chunkSize * chunkSize
			}
			switch r.IntN(6) {
			case 0, 1, 2:
				b := bytes.Repeat([]byte{byte(step)}, 1+r.IntN(3*chunkSize))
				v.writeAt(own, b, size)
				if end := size + int64(len(b)); end > int64(len(p.data)) {
					p.resize(end)
				}
				copy(p.data[size:], b)
			case 3:
				v.truncate(own, size)
				p.resize(size)
			case 4:
				before, need := v.charge(), v.toReserve(size/4)
				v.preallocate(size / 4)
				if v.charge()-before != need {
					t.Fatalf("seed %d step %d: preallocate took %d bytes, toReserve said %d", seed, step, v.charge()-before, need)
				}
				if size/4 > int64(len(p.data)) {
					p.resize(size / 4)
				}
				p.reserved = max(p.reserved, chunksOf(size/4))
			case 5:
				copies, plains = append(copies, v), append(plains, plain{bytes.Clone(p.data), p.reserved})
				own = new(owner)
				if k := r.IntN(len(copies)); r.IntN(3) == 0 { // go on with an old one
					v, copies[k] = copies[k], v
					p, plains[k] = plains[k], p
				}
			}
			checkView(t, &v, &p)
		}
		for i := range copies {
			checkView(t, &copies[i], &plains[i])
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func checkView(t *testing.T, v *view, p *plain) {
	t.Helper()
	if v.size != int64(len(p.data)) || v.reserved != p.reserved {
		t.Fatalf("size %d, reserved %d; want %d, %d", v.size, v.reserved, len(p.data), p.reserved)
	}
	got := make([]byte, v.size)
	v.readAt(got, 0)
	if !bytes.Equal(got, p.data) {
		t.Fatal("another content")
	}
	if n := v.count(v.reserved, 1<<40); n != v.outside {
		t.Fatalf("%d chunks outside of what is reserved, the account says %d", n, v.outside)
	}
	// Beyond the end all is zero, so that growing needs no clearing.
	for i := v.size / chunkSize; i < int64(len(v.top))*leafSize; i++ {
		c := v.chunk(i)
		if c == nil {
			continue
		}
		for at := max(v.size-i*chunkSize, 0); at < chunkSize; at++ {
			if c[at] != 0 {
				t.Fatalf("byte %d is not zero, beyond the size %d", i*chunkSize+at, v.size)
			}
		}
	}
}

// An owner changes only what is its own: views of other owners keep every byte and every chunk's address.
func TestViewSharesUntilWritten(t *testing.T) {
	one, two := new(owner), new(owner)
	var v view
	v.writeAt(one, make([]byte, 10*chunkSize), 0)
	w := v
	w.writeAt(two, []byte{1}, 5*chunkSize)
	for i := range int64(10) {
		if same := v.chunk(i) == w.chunk(i); same != (i != 5) {
			t.Errorf("chunk %d shared: %t", i, same)
		}
	}
	if n := bitsMine(&w, two); n != 1 {
		t.Errorf("writing one byte copied %d chunks", n)
	}
	at := w.chunk(5)
	w.writeAt(two, []byte{2}, 5*chunkSize+1)
	if w.chunk(5) != at {
		t.Error("a chunk of one's own is copied")
	}
}

func bitsMine(v *view, own *owner) (n int) {
	for _, l := range v.top {
		if l == nil || l.own != own {
			continue
		}
		for mine := l.mine; mine != 0; mine &= mine - 1 {
			n++
		}
	}
	return n
}
