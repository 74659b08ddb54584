package timerlog

import (
	"errors"
	"sync"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// handles keeps files open for reading, the most recently used ones, and closes none that somebody reads. It is safe
// for concurrent use; no file is opened or read under its lock.
type handles struct {
	open  func(number int64) (vfs.File, error)
	limit int

	mu     sync.Mutex
	byFile map[int64]*handle
	tick   uint64
	closed bool
}

type handle struct {
	number int64
	once   sync.Once
	file   vfs.File // set by once, then read-only
	err    error    // set by once, then read-only

	// guarded by handles.mu
	refs int
	used uint64
	gone bool // no longer in the map: closed with the last reference
}

func (s *handles) init(limit int, open func(number int64) (vfs.File, error)) {
	s.open, s.limit, s.byFile = open, limit, make(map[int64]*handle)
}

// acquire returns an open file; the caller releases it.
func (s *handles) acquire(number int64) (*handle, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	h := s.byFile[number]
	var evicted *handle
	if h == nil {
		evicted = s.makeRoomLocked()
		h = &handle{number: number}
		s.byFile[number] = h
	}
	s.tick++
	h.refs, h.used = h.refs+1, s.tick
	s.mu.Unlock()
	if evicted != nil && evicted.file != nil {
		_ = evicted.file.Close() // opened for reading: there is nothing to lose
	}

	h.once.Do(func() { h.file, h.err = s.open(number) })
	if h.err == nil {
		return h, nil
	}
	s.mu.Lock()
	s.dropLocked(h) // the next one tries again
	s.mu.Unlock()
	err := h.err
	s.release(h)
	return nil, err
}

// makeRoomLocked takes the handle out that was not used for longest, if there are too many.
func (s *handles) makeRoomLocked() *handle {
	if len(s.byFile) < s.limit {
		return nil
	}
	var oldest *handle
	for _, h := range s.byFile {
		if h.refs == 0 && (oldest == nil || h.used < oldest.used) {
			oldest = h
		}
	}
	if oldest != nil {
		s.dropLocked(oldest)
	}
	return oldest
}

func (s *handles) dropLocked(h *handle) {
	if !h.gone {
		h.gone = true
		delete(s.byFile, h.number)
	}
}

func (s *handles) release(h *handle) {
	s.mu.Lock()
	h.refs--
	last := h.gone && h.refs == 0
	s.mu.Unlock()
	if last && h.file != nil {
		_ = h.file.Close()
	}
}

// drop closes the handle of a file that goes; who reads it now reads on.
func (s *handles) drop(number int64) {
	s.mu.Lock()
	h := s.byFile[number]
	if h != nil {
		s.dropLocked(h)
		h.refs++
	}
	s.mu.Unlock()
	if h != nil {
		s.release(h)
	}
}

func (s *handles) closeAll() error {
	s.mu.Lock()
	s.closed = true
	var idle []*handle
	for _, h := range s.byFile {
		if h.refs == 0 {
			idle = append(idle, h)
		}
		s.dropLocked(h)
	}
	s.mu.Unlock()
	var errs []error
	for _, h := range idle {
		if h.file != nil {
			errs = append(errs, h.file.Close())
		}
	}
	return errors.Join(errs...)
}
