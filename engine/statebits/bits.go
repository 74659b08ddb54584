package statebits

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"sync"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Options tune Bits. The zero value is right for most callers.
type Options struct {
	// CacheBytes bounds the pages in memory that a page on disk equals. Changed pages come on top, until the next
	// checkpoint. 8 MiB.
	CacheBytes int
	// Ident is written into every page and compared when one is read, so that a page of another store is seen: the
	// store's id. Any value will do.
	Ident uint64
}

// Bits is the state bits of one lane.
//
// WritePages and DeleteClosed belong to a job and may run beside the writer; they wait for each other. All other methods
// are the writer's and not safe for concurrent use.
type Bits struct {
	fsys  vfs.FS
	dir   string
	ident uint64

	// owned by the writer
	cache
	last      *page  // of lastChunk; nil: it has no page
	lastChunk uint64 // noChunk: last means nothing
	scratch   []byte // for Page
	head      []byte // of the page being read
	readers   readers

	mu    sync.Mutex
	table Table // changed by the writer under mu; so he reads it without

	job jobs
}

// noChunk is the chunk of no id.
const noChunk = ^uint64(0)

// Open returns the Bits in dir, of which at says which pages there are. It touches no file. Redo installs the pages of the
// checkpoint that at comes from.
func Open(fsys vfs.FS, dir string, opts Options, at Table) (*Bits, error) {
	if opts.CacheBytes == 0 {
		opts.CacheBytes = 8 << 20
	}
	if opts.CacheBytes < 0 {
		return nil, fmt.Errorf("statebits: open: cache of %d bytes", opts.CacheBytes)
	}
	if err := at.check(); err != nil {
		return nil, fmt.Errorf("statebits: open: table: %w", err)
	}
	b := &Bits{
		fsys:      fsys,
		dir:       path.Clean(dir),
		ident:     opts.Ident,
		lastChunk: noChunk,
		head:      make([]byte, pageHeaderSize),
		table:     at.clone(),
	}
	b.cache.init(max(1, opts.CacheBytes/PageBytes))
	b.job.named = make(map[uint64]bool)
	return b, nil
}

// Get returns the state of an id. It may read a page. If that is missing or damaged the error is a *corrupt.Error.
func (b *Bits) Get(id uint64) (State, error) {
	p := b.last
	if id>>chunkShift != b.lastChunk {
		var err error
		if p, err = b.find(id >> chunkShift); err != nil {
			return Regular, err
		}
	}
	if p == nil {
		return Regular, nil
	}
	return State(p.data[id%ChunkIDs/4] >> (id % 4 * 2) & 3), nil
}

// Set changes the state of an id. It may read a page; after an error nothing is changed.
func (b *Bits) Set(id uint64, s State) error {
	if s > LatePending {
		return fmt.Errorf("statebits: set id %d: %v", id, s)
	}
	p := b.last
	if id>>chunkShift != b.lastChunk {
		var err error
		if p, err = b.find(id >> chunkShift); err != nil {
			return err
		}
	}
	if p == nil {
		if s == Regular {
			return nil
		}
		p = b.create(id >> chunkShift)
	}
	at, shift := id%ChunkIDs/4, id%4*2
	was := p.data[at]
	now := was&^(3<<shift) | byte(s)<<shift
	if now == was {
		return nil
	}
	if !p.dirty {
		b.change(p)
	}
	p.data[at] = now
	return nil
}

// find returns the page of a chunk, nil if it has none, and remembers it for the next call.
func (b *Bits) find(chunk uint64) (*page, error) {
	p := b.pages[chunk]
	if p != nil {
		b.touch(p)
	} else if b.table.Has(chunk) {
		data := b.takeSpare()
		if err := b.read(chunk, data[:]); err != nil {
			b.spare = data
			return nil, err
		}
		p = b.insert(chunk, data)
		b.evict() // not p, which was used last
	}
	b.last, b.lastChunk = p, chunk
	return p, nil
}

// create makes the first page of a chunk.
func (b *Bits) create(chunk uint64) *page {
	p := b.insert(chunk, new([PageBytes]byte))
	b.change(p)
	b.last, b.lastChunk = p, chunk
	b.mu.Lock()
	b.table.add(chunk)
	b.mu.Unlock()
	return p
}

// Page returns the PageBytes of a chunk, nil if it has no page. They are good until the next call of a method and must not
// be changed. A page that is not in memory does not push out another.
func (b *Bits) Page(chunk uint64) ([]byte, error) {
	if p := b.pages[chunk]; p != nil {
		return p.data[:], nil
	}
	if !b.table.Has(chunk) {
		return nil, nil
	}
	if b.scratch == nil {
		b.scratch = make([]byte, PageBytes)
	}
	if err := b.read(chunk, b.scratch); err != nil {
		return nil, err
	}
	return b.scratch, nil
}

var zeroes [PageBytes]byte

// EachPage calls fn for every page that has a bit, by ascending chunk, as Page returns it, and stops at its first error,
// which it returns. Two Bits that answer every Get alike give the same calls: a digest of them is one of the state.
func (b *Bits) EachPage(fn func(chunk uint64, data []byte) error) error {
	for _, r := range b.table.Ranges {
		for chunk := r.First; chunk < r.End; chunk++ {
			data, err := b.Page(chunk)
			if err != nil {
				return err
			}
			// Whether a page was ever needed is no part of the state.
			if bytes.Equal(data, zeroes[:]) {
				continue
			}
			if err := fn(chunk, data); err != nil {
				return err
			}
		}
	}
	return nil
}

// DirtyBytes is how much memory cannot be given back before the next Thaw: pages changed since the last Freeze, and frozen
// ones. The caller bounds it by taking checkpoints.
func (b *Bits) DirtyBytes() int { return b.pinned * PageBytes }

// Freeze returns the pages that the next checkpoint has to hold, by ascending chunk: those changed since the last Freeze,
// and those of the last Freeze if there was no Thaw. Their data does not change until Thaw; it may be read by any goroutine
// and must not be changed.
func (b *Bits) Freeze() []Page {
	var pages []Page
	for chunk, p := range b.pages {
		if p.dirty {
			b.freeze(p)
		}
		if p.frozen != nil {
			pages = append(pages, Page{Chunk: chunk, Data: p.frozen[:]})
		}
	}
	slices.SortFunc(pages, func(x, y Page) int {
		if x.Chunk < y.Chunk {
			return -1
		}
		return 1
	})
	return pages
}

// Thaw gives back the pages of a Freeze, when both copies of the checkpoint are written and WritePages has returned nil.
// Their data must not be used afterwards.
func (b *Bits) Thaw(pages []Page) {
	for _, f := range pages {
		if p := b.pages[f.Chunk]; p != nil && p.frozen != nil && &p.frozen[0] == &f.Data[0] {
			b.thaw(p)
		}
	}
	b.evict()
	if b.last != nil && b.pages[b.lastChunk] != b.last {
		b.last, b.lastChunk = nil, noChunk
	}
}

// Redo installs a page from the checkpoint that was loaded, before anything else is done. It may not be in place yet, so it
// counts as changed. The data is copied.
func (b *Bits) Redo(p Page) error {
	if len(p.Data) != PageBytes || p.Chunk > maxChunk {
		return fmt.Errorf("statebits: redo chunk %d: %d bytes", p.Chunk, len(p.Data))
	}
	q := b.pages[p.Chunk]
	if q == nil {
		q = b.create(p.Chunk)
	} else if !q.dirty {
		b.change(q)
	}
	copy(q.data[:], p.Data)
	return nil
}

// CloseChunk gives up the bits of a chunk: every id in it is Regular from now on. The caller asks its table of closed
// chunks first, and sets no bit in one. A closed chunk has no page, changed or not.
func (b *Bits) CloseChunk(chunk uint64) {
	if p := b.pages[chunk]; p != nil {
		b.drop(p)
	}
	if b.lastChunk == chunk {
		b.last, b.lastChunk = nil, noChunk
	}
	b.mu.Lock()
	b.table.remove(chunk)
	b.mu.Unlock()
	// Before DeleteClosed may unlink the file: what is read after this may be a file of the same name made anew.
	if first := firstOf(chunk); !b.table.hasAny(first, first+filePages) {
		b.readers.close(first)
	}
}

// Table returns the chunks that have a page, in memory or on disk: at the moment of Freeze, what a checkpoint records.
func (b *Bits) Table() Table { return b.table.clone() }

// Close closes the files. Closing twice is ErrClosed.
func (b *Bits) Close() error { return b.readers.closeAll() }
