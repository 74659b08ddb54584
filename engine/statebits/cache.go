package statebits

// page is a chunk's bits in memory. It is clean (the page on disk is equal), dirty (changed since the last Freeze), frozen
// (a checkpoint that is being written holds these bits), or frozen and dirty: then data is a copy that was changed.
type page struct {
	chunk  uint64
	data   *[PageBytes]byte
	frozen *[PageBytes]byte // what the checkpoint holds; nil: no checkpoint does
	dirty  bool

	prev, next *page // in the list of clean pages
}

func (p *page) clean() bool { return !p.dirty && p.frozen == nil }

// cache is the pages in memory. Clean ones are bounded and the one not used for longest goes; others are pinned.
type cache struct {
	limit  int // clean pages
	pages  map[uint64]*page
	pinned int              // arrays that belong to dirty and frozen pages
	count  int              // clean pages
	list   page             // ring of clean pages, used last first; list itself is no page
	spare  *[PageBytes]byte // of a page that went, for the next one that comes
}

func (c *cache) init(limit int) {
	c.limit, c.pages = limit, make(map[uint64]*page)
	c.list.prev, c.list.next = &c.list, &c.list
}

// insert adds a clean page.
func (c *cache) insert(chunk uint64, data *[PageBytes]byte) *page {
	p := &page{chunk: chunk, data: data}
	c.pages[chunk] = p
	c.link(p)
	return p
}

func (c *cache) link(p *page) {
	p.prev, p.next = &c.list, c.list.next
	p.prev.next, p.next.prev = p, p
	c.count++
}

func (c *cache) unlink(p *page) {
	p.prev.next, p.next.prev = p.next, p.prev
	p.prev, p.next = nil, nil
	c.count--
}

// touch notes that p is used.
func (c *cache) touch(p *page) {
	if p.clean() {
		c.unlink(p)
		c.link(p)
	}
}

// evict drops clean pages beyond the limit.
func (c *cache) evict() {
	for c.count > c.limit {
		p := c.list.prev
		c.unlink(p)
		delete(c.pages, p.chunk)
		c.spare = p.data
	}
}

func (c *cache) takeSpare() *[PageBytes]byte {
	if d := c.spare; d != nil {
		c.spare = nil
		return d
	}
	return new([PageBytes]byte)
}

// change makes p dirty, which it is not, before its first change. What a checkpoint holds is not touched: p gets a copy.
func (c *cache) change(p *page) {
	if p.clean() {
		c.unlink(p)
	} else {
		data := *p.frozen
		p.data = &data
	}
	p.dirty = true
	c.pinned++
}

// freeze lends the bits of a dirty page to a checkpoint. If one had it already, that one was never finished.
func (c *cache) freeze(p *page) {
	if p.frozen != nil {
		c.pinned--
	}
	p.frozen, p.dirty = p.data, false
}

// thaw ends that a checkpoint holds p.
func (c *cache) thaw(p *page) {
	p.frozen = nil
	c.pinned--
	if !p.dirty {
		c.link(p)
	}
}

// drop forgets p, whatever it is. A checkpoint keeps what it holds.
func (c *cache) drop(p *page) {
	if p.clean() {
		c.unlink(p)
	}
	if p.dirty {
		c.pinned--
	}
	if p.frozen != nil {
		c.pinned--
	}
	delete(c.pages, p.chunk)
}
