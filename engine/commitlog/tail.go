package commitlog

import "sync/atomic"

// block is a piece of the end of the log in memory. Batches are encoded in it and lie in it whole.
//
// Invariant: the writer changes memory only behind the length of buf, and lengthens buf under Log.mu; a reader takes
// buf and a reference under Log.mu and looks only within it. So copying needs no lock.
type block struct {
	base  Offset // position of buf[0]
	buf   []byte
	users atomic.Int32 // readers that copy from buf; raised under Log.mu
}

func (b *block) end() Offset { return b.base + Offset(len(b.buf)) }

// tail is the end of the log in memory: blocks in order, without a gap but the headers of segments. The bytes below it
// are in files.
type tail struct {
	// set when made, then read-only
	blockSize int
	limit     int // bytes of memory; more only while the blocks are not written to files

	// changed by the writer, under Log.mu
	blocks []*block

	// owned by the writer
	memory int // capacity of all blocks
}

// reserve gives the block in which a batch of at most n bytes at position at is encoded: the current one, or a new one
// when the batch does not fit or does not follow on.
func (l *Log) reserve(at Offset, n int) *block {
	if k := len(l.tail.blocks); k > 0 {
		b := l.tail.blocks[k-1]
		if b.end() == at && cap(b.buf)-len(b.buf) >= n {
			return b
		}
	}
	return l.addBlock(at, l.newBlock(max(n, l.tail.blockSize)))
}

// addBlock puts an empty block at the end of the tail.
func (l *Log) addBlock(at Offset, b *block) *block {
	b.base = at
	l.tail.memory += cap(b.buf)
	l.mu.Lock()
	l.tail.blocks = append(l.tail.blocks, b)
	l.mu.Unlock()
	return b
}

// newBlock returns a block of size n: one that is written whole, when the tail has as much memory as it may, or a new
// one.
func (l *Log) newBlock(n int) *block {
	t := &l.tail
	written := l.written.Load()
	var again *block
	l.mu.Lock()
	k := 0
	for ; k < len(t.blocks) && t.memory+n > t.limit && t.blocks[k].end() <= written; k++ {
		b := t.blocks[k]
		t.memory -= cap(b.buf)
		if cap(b.buf) == n && b.users.Load() == 0 {
			again = b // a reader that comes now no longer finds it
		}
	}
	// Copied down, so that the list keeps its memory.
	kept := copy(t.blocks, t.blocks[k:])
	clear(t.blocks[kept:])
	t.blocks = t.blocks[:kept]
	l.mu.Unlock()

	if again != nil {
		again.buf = again.buf[:0]
		return again
	}
	return &block{buf: make([]byte, 0, n)}
}

// copyTail copies what the tail holds from pos on, as much of p as lies in one block, and says how much. Zero means
// that pos is in a file, and so is all between it and the position below.
func (l *Log) copyTail(pos Offset, p []byte) (n int, below Offset) {
	l.mu.Lock()
	below = l.end.Load()
	blocks := l.tail.blocks
	i := len(blocks) - 1
	for ; i >= 0 && blocks[i].base > pos; i-- {
		below = blocks[i].base
	}
	if i < 0 || pos >= blocks[i].end() {
		l.mu.Unlock()
		return 0, below
	}
	b := blocks[i]
	src := b.buf[pos-b.base:]
	b.users.Add(1)
	l.mu.Unlock()
	n = copy(p, src)
	b.users.Add(-1)
	return n, below
}
