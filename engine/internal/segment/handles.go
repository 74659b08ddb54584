package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// DefaultHandles is how many files are open for reading when NewHandles is not told.
const DefaultHandles = 256

// Handles keeps files open for reading, the most recently used of all arrays that share it, so that ten thousand arrays
// do not need ten thousand file descriptors. It is safe for concurrent use. It has nothing to close: Array.Close and
// Array.Delete close what they opened.
type Handles struct {
	max int // set by NewHandles, then read-only

	mu             sync.Mutex // held for no I/O
	files          map[handleKey]*handle
	newest, oldest *handle // by last use
}

type handleKey struct {
	array *Array
	first int64
}

type handle struct {
	file vfs.File  // set by open, then read-only
	key  handleKey // set by open, then read-only

	// guarded by Handles.mu
	refs         int
	gone         bool // not in the map: whoever releases it last closes it
	newer, older *handle
}

// NewHandles makes a cache of at most max open files; 0 means DefaultHandles. More are open while more readers than
// that are at work at once.
func NewHandles(max int) *Handles {
	if max <= 0 {
		max = DefaultHandles
	}
	return &Handles{max: max, files: make(map[handleKey]*handle)}
}

// Open is the number of files that are kept open.
func (hs *Handles) Open() int {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return len(hs.files)
}

// acquire returns an open file whose header is good. The caller releases it.
func (hs *Handles) acquire(a *Array, first int64) (*handle, error) {
	key := handleKey{a, first}
	hs.mu.Lock()
	if h := hs.files[key]; h != nil {
		h.refs++
		hs.unlink(h)
		hs.pushNewest(h)
		hs.mu.Unlock()
		return h, nil
	}
	hs.mu.Unlock()

	f, err := a.openForRead(first)
	if err != nil {
		return nil, err
	}
	h := &handle{file: f, key: key, refs: 1}
	hs.mu.Lock()
	var idle []*handle
	switch other := hs.files[key]; {
	case other != nil: // someone else was as slow as we were: theirs is the one to share
		other.refs++
		idle, h = append(idle, h), other
	case a.closed.Load() || first+int64(a.p.PerFile) <= a.first.Load():
		// Close or Delete has been here, or will not look again: keeping the file would keep it for ever.
		h.gone = true
	default:
		hs.files[key] = h
		hs.pushNewest(h)
		idle = hs.evict(idle)
	}
	hs.mu.Unlock()
	closeAll(idle)
	return h, nil
}

func (hs *Handles) release(h *handle) {
	hs.mu.Lock()
	h.refs--
	last := h.gone && h.refs == 0
	hs.mu.Unlock()
	if last {
		closeAll([]*handle{h})
	}
}

// drop forgets the files of an array whose first cell lies below an index. Readers in flight finish.
func (hs *Handles) drop(a *Array, below int64) {
	var idle []*handle
	hs.mu.Lock()
	// The list, not the map: a test that counts file operations wants them in the same order each time.
	for h := hs.newest; h != nil; {
		older := h.older
		if h.key.array == a && h.key.first < below {
			idle = hs.remove(h, idle)
		}
		h = older
	}
	hs.mu.Unlock()
	closeAll(idle)
}

// evict forgets the files that were not used for longest, until the limit is kept.
func (hs *Handles) evict(idle []*handle) []*handle {
	for len(hs.files) > hs.max {
		idle = hs.remove(hs.oldest, idle)
	}
	return idle
}

// remove forgets a file, and adds it to idle if nobody uses it.
func (hs *Handles) remove(h *handle, idle []*handle) []*handle {
	hs.unlink(h)
	delete(hs.files, h.key)
	h.gone = true
	if h.refs == 0 {
		idle = append(idle, h)
	}
	return idle
}

func (hs *Handles) unlink(h *handle) {
	if h.newer != nil {
		h.newer.older = h.older
	} else {
		hs.newest = h.older
	}
	if h.older != nil {
		h.older.newer = h.newer
	} else {
		hs.oldest = h.newer
	}
	h.newer, h.older = nil, nil
}

func (hs *Handles) pushNewest(h *handle) {
	h.older = hs.newest
	if h.older != nil {
		h.older.newer = h
	} else {
		hs.oldest = h
	}
	hs.newest = h
}

// closeAll closes files that were read only: an error means nothing, since nothing was written through them.
func closeAll(idle []*handle) {
	for _, h := range idle {
		_ = h.file.Close()
	}
}

// openForRead opens a file of the array and checks its header.
func (a *Array) openForRead(first int64) (vfs.File, error) {
	name := a.path(first)
	f, err := a.fsys.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, corrupt.Errorf(name, 0, "the file is missing")
	}
	if err != nil {
		return nil, fmt.Errorf("segment: open: %w", err)
	}
	if err := a.readHeader(f, first); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// readHeader reads and checks the header of an open file.
func (a *Array) readHeader(f vfs.File, first int64) error {
	name := a.path(first)
	var b [headerSize]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("segment: read header of %s: %w", name, err)
	}
	return a.p.checkHeader(name, b[:n], first)
}
