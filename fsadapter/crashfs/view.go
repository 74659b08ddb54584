package crashfs

const (
	chunkSize = 4096
	leafSize  = 64 // chunks of a leaf: one bit each in leaf.mine
)

type chunk [chunkSize]byte

// owner is the identity of whoever may change a leaf or a top in place. An FS has one; a copy of the FS gets a new one,
// and so does the FS itself if it goes on, whereby all that both can reach is read-only from then on. It is compared
// by address, so it must not have size zero.
type owner struct{ _ byte }

// leaf holds the chunks of 256 KiB of a file. A nil chunk is all zeros.
//
// Invariant: only an FS whose owner is own changes a leaf, and of its chunks only those with a bit in mine.
type leaf struct {
	own  *owner
	mine uint64
	c    [leafSize]*chunk
}

// view is the content of a file, sparse. Copying the struct copies the view, provided that the owner of both changes.
//
// Invariant: bytes at and beyond size are zero or in nil chunks. outside counts the chunks with index >= reserved.
type view struct {
	own      *owner // who may change top in place
	top      []*leaf
	size     int64
	reserved int64 // chunks that Preallocate set aside, from the first
	outside  int64 // chunks in memory that were not set aside
}

// charge is how many bytes of the disk the content takes.
func (v *view) charge() int64 { return (v.reserved + v.outside) * chunkSize }

func chunksOf(size int64) int64 { return (size + chunkSize - 1) / chunkSize }

// chunk returns chunk i, or nil if it is a hole.
func (v *view) chunk(i int64) *chunk {
	if l := i / leafSize; l < int64(len(v.top)) && v.top[l] != nil {
		return v.top[l].c[i%leafSize]
	}
	return nil
}

// readAt fills p from off; the caller has cut p to the size.
func (v *view) readAt(p []byte, off int64) {
	for len(p) > 0 {
		i, at := off/chunkSize, off%chunkSize
		n := min(len(p), int(chunkSize-at))
		if c := v.chunk(i); c != nil {
			copy(p[:n], c[at:])
		} else {
			clear(p[:n])
		}
		p, off = p[n:], off+int64(n)
	}
}

// leaf returns leaf l for writing.
func (v *view) leaf(own *owner, l int64) *leaf {
	if v.own != own {
		v.own, v.top = own, append([]*leaf(nil), v.top...)
	}
	for int64(len(v.top)) <= l {
		v.top = append(v.top, nil)
	}
	old := v.top[l]
	if old != nil && old.own == own {
		return old
	}
	fresh := &leaf{own: own}
	if old != nil {
		fresh.c = old.c
	}
	v.top[l] = fresh
	return fresh
}

// writeAt puts p at off and lengthens the view if needed.
func (v *view) writeAt(own *owner, p []byte, off int64) {
	v.size = max(v.size, off+int64(len(p)))
	for len(p) > 0 {
		i, at := off/chunkSize, off%chunkSize
		n := min(len(p), int(chunkSize-at))
		l, slot := v.leaf(own, i/leafSize), i%leafSize
		c, bit := l.c[slot], uint64(1)<<slot
		if c == nil && i >= v.reserved {
			v.outside++
		}
		if l.mine&bit == 0 {
			fresh := new(chunk)
			if c != nil && n < chunkSize {
				*fresh = *c
			}
			c, l.c[slot], l.mine = fresh, fresh, l.mine|bit
		}
		copy(c[at:], p[:n])
		p, off = p[n:], off+int64(n)
	}
}

// truncate sets the size; a hole takes the place of what lay beyond it.
func (v *view) truncate(own *owner, size int64) {
	if size < v.size {
		keep := chunksOf(size)
		v.dropFrom(own, keep)
		v.reserved = min(v.reserved, keep)
		if at := size % chunkSize; at > 0 && v.chunk(keep-1) != nil {
			var zero chunk
			v.writeAt(own, zero[at:], size)
		}
	}
	v.size = size
}

// dropFrom forgets the chunks from index keep on.
func (v *view) dropFrom(own *owner, keep int64) {
	for l := keep / leafSize; l < int64(len(v.top)); l++ {
		old := v.top[l]
		if old == nil {
			continue
		}
		first := max(keep-l*leafSize, 0)
		for slot := first; slot < leafSize; slot++ {
			if old.c[slot] != nil && l*leafSize+slot >= v.reserved {
				v.outside--
			}
		}
		if first == 0 {
			v.leaf(own, l) // makes top ours
			v.top[l] = nil
			continue
		}
		w := v.leaf(own, l)
		clear(w.c[first:])
		w.mine &= 1<<first - 1
	}
}

// toReserve is how many more bytes of the disk preallocate would take.
func (v *view) toReserve(size int64) int64 {
	w := chunksOf(size)
	if w <= v.reserved {
		return 0
	}
	return (w - v.reserved - v.count(v.reserved, w)) * chunkSize
}

// preallocate sets the first size bytes aside, and lengthens the view to that.
func (v *view) preallocate(size int64) {
	if w := chunksOf(size); w > v.reserved {
		v.outside -= v.count(v.reserved, w)
		v.reserved = w
	}
	v.size = max(v.size, size)
}

// count says how many chunks in [lo, hi) are in memory.
func (v *view) count(lo, hi int64) (n int64) {
	hi = min(hi, int64(len(v.top))*leafSize)
	for i := lo; i < hi; i++ {
		if v.top[i/leafSize] == nil {
			i |= leafSize - 1
		} else if v.chunk(i) != nil {
			n++
		}
	}
	return n
}
