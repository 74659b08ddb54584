package idempotency

import (
	"path"
	"slices"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// source is a run, or a table, that a merge goes through in order.
type source struct {
	x      *Index
	run    Run // zero of a table
	f      vfs.File
	done   func()
	number int64   // of the next block
	rest   []Entry // of the block before it
	last   Entry   // of that block

	// reused
	block   [blockSize]byte
	entries []Entry
}

// source goes through a table that nothing is added to any more.
func (t *table) source() *source {
	sorted := slices.Clone(t.entries)
	sortEntries(sorted)
	return &source{rest: sorted, done: func() {}}
}

// source goes through a run.
func (x *Index) source(r Run) (*source, error) {
	f, done, err := x.open(r)
	if err != nil {
		return nil, err
	}
	return &source{x: x, run: r, f: f, done: done}, nil
}

// more reads the next block when the one before is used up; false at the end.
func (s *source) more() (bool, error) {
	if len(s.rest) > 0 || s.number == s.run.blocks() {
		return len(s.rest) > 0, nil
	}
	var err error
	if s.entries, err = s.x.readBlock(s.f, s.run, s.number, s.block[:], s.entries); err != nil {
		return false, err
	}
	if s.number > 0 && s.last.compare(s.entries[0]) >= 0 {
		return false, corrupt.Errorf(s.x.File(s.run), headerSize+s.number*blockSize, "block %d is out of order", s.number)
	}
	s.number++
	s.rest, s.last = s.entries, s.entries[len(s.entries)-1]
	return true, nil
}

// mergeSources calls add for the entries of all sources that are at or above cut, in order. unread is the run that could not
// be read, if it was that which failed.
func mergeSources(sources []*source, cut commitlog.Offset, add func(Entry) error) (unread Run, err error) {
	sources = slices.Clone(sources)
	for {
		var least *source
		for i := 0; i < len(sources); i++ {
			s := sources[i]
			more, err := s.more()
			if err != nil {
				return s.run, err
			}
			if !more {
				sources = slices.Delete(sources, i, i+1)
				i--
				continue
			}
			if least == nil || s.rest[0].compare(least.rest[0]) < 0 {
				least = s
			}
		}
		if least == nil {
			return Run{}, nil
		}
		e := least.rest[0]
		least.rest = least.rest[1:]
		if e.Position < cut {
			continue
		}
		if err := add(e); err != nil {
			return Run{}, err
		}
	}
}

// Each calls visit for the entries of a run, in order, until it says false, and fault for each block that cannot be read.
func (x *Index) Each(r Run, visit func(Entry) bool, fault func(error)) {
	s, err := x.source(r)
	if err != nil {
		fault(err)
		return
	}
	defer s.done()
	for number := range r.blocks() {
		s.number, s.rest = number, nil
		if _, err := s.more(); err != nil {
			fault(err)
			continue
		}
		for _, e := range s.rest {
			if !visit(e) {
				return
			}
		}
	}
}

// File is the name of the run's file.
func (x *Index) File(r Run) string { return path.Join(x.dir, r.name()) }
