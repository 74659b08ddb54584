package segment

// Blocks of cells in memory: the first one grows from minBlock to maxBlock, so that an array with a few cells stays
// small; the others are made whole, so that the writer never copies more than one block.
const (
	minBlock = 128       // bytes, at least one cell
	maxBlock = 64 * 1024 // bytes, at least one cell
)

// tail is the cells that are in memory. A tail is immutable: the writer replaces it. The bytes of a block below the
// array's length never change, those above belong to the writer, so readers need no lock.
type tail struct {
	first  int64    // index of the first cell of blocks[0]
	blocks [][]byte // len is the capacity; all but the last have blockCells cells
}

// blockCells is the number of cells of a full block.
func (p *Params) blockCells() int { return max(1, maxBlock/p.Cell) }

// copyTo copies cells from index i into dst, which must not reach beyond the array's length.
func (t *tail) copyTo(dst []byte, i int64, p *Params) {
	cells := int64(p.blockCells())
	for len(dst) > 0 {
		block := t.blocks[(i-t.first)/cells]
		at := (i - t.first) % cells
		n := copy(dst, block[at*int64(p.Cell):])
		dst = dst[n:]
		i += int64(n / p.Cell)
	}
}

// each calls fn with the bytes of cells [from, to), a block at a time.
func (t *tail) each(from, to int64, p *Params, fn func(b []byte) error) error {
	cells := int64(p.blockCells())
	for from < to {
		block := t.blocks[(from-t.first)/cells]
		at := (from - t.first) % cells
		n := min(cells-at, to-from)
		if err := fn(block[at*int64(p.Cell) : (at+n)*int64(p.Cell)]); err != nil {
			return err
		}
		from += n
	}
	return nil
}

// makeRoom gives the writer space for at least one more cell.
func (a *Array) makeRoom() {
	t, n := a.tail.Load(), a.length.Load()
	whole := a.p.blockCells() * a.p.Cell
	switch {
	case t == nil:
		a.room = make([]byte, blockSize(minBlock, &a.p))
		a.tail.Store(&tail{first: n, blocks: [][]byte{a.room}})
	case len(t.blocks) == 1 && len(t.blocks[0]) < whole:
		old := t.blocks[0]
		block := make([]byte, blockSize(2*len(old), &a.p))
		copy(block, old)
		a.room = block[len(old):]
		a.tail.Store(&tail{first: t.first, blocks: [][]byte{block}})
	default:
		// Appending in place is safe: readers of the old tail do not look beyond its length.
		a.room = make([]byte, whole)
		a.tail.Store(&tail{first: t.first, blocks: append(t.blocks, a.room)})
	}
}

// blockSize is the length of a block for at least the given number of bytes: whole cells, no more than a full block.
func blockSize(bytes int, p *Params) int {
	cells := (bytes + p.Cell - 1) / p.Cell
	return min(cells, p.blockCells()) * p.Cell
}

// forget lets go of the memory of cells below i.
func (a *Array) forget(i int64) {
	t, n := a.tail.Load(), a.length.Load()
	switch {
	case t == nil || i <= t.first:
		return
	case i >= n:
		a.tail.Store(nil)
		a.room = nil
		return
	}
	cells := int64(a.p.blockCells())
	gone := (i - t.first) / cells
	if int(gone) < len(t.blocks)-1 {
		if gone > 0 {
			// A new list: the old one would keep the blocks alive.
			a.tail.Store(&tail{first: t.first + gone*cells, blocks: append([][]byte(nil), t.blocks[gone:]...)})
		}
		return
	}
	// One block is left, and what lives in it may be little: ten thousand queues with a dead block each are 640 MB.
	live := int(n-i) * a.p.Cell
	block := make([]byte, blockSize(max(minBlock, live), &a.p))
	t.copyTo(block[:live], i, &a.p)
	a.room = block[live:]
	a.tail.Store(&tail{first: i, blocks: [][]byte{block}})
}
