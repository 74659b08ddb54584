package arrays

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/tidewheel/tidewheel/engine/internal/segment"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// ErrExists is returned by Start for a number that has an array.
var ErrExists = errors.New("exists already")

// Kind says what the arrays of a set have in common. Its functions are called by any goroutine.
type Kind struct {
	Package string                // whose arrays they are; every error begins with it
	Magic   [8]byte               // of their files
	Cell    int                   // bytes of a cell
	PerFile int                   // cells of a file, where Options do not say
	Path    func(n uint64) string // directory of array n, below that of the set
	Name    func(n uint64) string // array n in the text of an error
	Check   func(n uint64) error  // says why there can be no array n; nil: all numbers are good
}

// fail says where an error comes from. what ends with a space, or is empty.
func (k *Kind) fail(what string, n uint64, err error) error {
	return fmt.Errorf("%s: %s%s: %w", k.Package, what, k.Name(n), err)
}

// check is Check where there is one.
func (k *Kind) check(n uint64) error {
	if k.Check == nil {
		return nil
	}
	return k.Check(n)
}

// Options tune a Set.
type Options struct {
	// PerFile is the number of cells of a file; 0 means that of the Kind. A Set opened with arrays keeps the number that
	// their files have.
	PerFile int
	// LogID is the id of the CommitLog that the arrays belong to. Files of another are refused as damage.
	LogID uint64
	// Handles is shared with other arrays of cells. Nil: of the Set's own.
	Handles *segment.Handles
}

// Set is arrays of one kind, and for each of them a Q. One goroutine, the writer, calls Ensure, Start, Remove, Mark and
// Installed; one job at a time calls Flush, Delete, Verify, RemoveFiles and what Remove returned; any goroutine calls
// Find, Len and All. The owner calls Close when nobody else uses the set.
type Set[Q any] struct {
	kind *Kind // set by Open, then read-only
	fsys vfs.FS
	dir  string
	opts Options
	wrap func(n uint64, cells *segment.Array) Q

	// guarded by mu, and changed by the writer only, which therefore reads without it
	mu       sync.RWMutex
	byNumber map[uint64]*member[Q]
	sorted   []*member[Q] // by number
}

type member[Q any] struct {
	number uint64
	cells  *segment.Array
	q      Q
}

// Open returns the arrays in the directory dir as a checkpoint knew them; wrap makes the Q of each. It touches no file:
// what is missing or damaged shows in Verify and in reads.
func Open[Q any](fsys vfs.FS, dir string, kind *Kind, opts Options, at States, wrap func(uint64, *segment.Array) Q) (*Set[Q], error) {
	if opts.PerFile == 0 {
		opts.PerFile = kind.PerFile
	}
	if len(at.Arrays) > 0 {
		opts.PerFile = at.PerFile
	}
	if opts.Handles == nil {
		opts.Handles = segment.NewHandles(0)
	}
	s := &Set[Q]{
		kind: kind, fsys: fsys, dir: dir, opts: opts, wrap: wrap,
		byNumber: make(map[uint64]*member[Q], len(at.Arrays)), sorted: make([]*member[Q], 0, len(at.Arrays)),
	}
	for _, state := range at.Arrays {
		if _, err := s.add(state.Number, state.State); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Find is the Q of array n, zero if there is none.
func (s *Set[Q]) Find(n uint64) (q Q) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if m := s.byNumber[n]; m != nil {
		q = m.q
	}
	return q
}

// Ensure is Find for the writer: it makes an array that is not there.
func (s *Set[Q]) Ensure(n uint64) (Q, error) {
	if m := s.byNumber[n]; m != nil {
		return m.q, nil
	}
	return s.add(n, segment.State{})
}

// Start makes an array whose first cell will have the index i. For one that is there the error is ErrExists.
func (s *Set[Q]) Start(n uint64, i int64) (Q, error) {
	return s.add(n, segment.State{First: i, Flushed: i})
}

// add opens an array and makes it known.
func (s *Set[Q]) add(n uint64, at segment.State) (none Q, err error) {
	if err := s.kind.check(n); err != nil {
		return none, s.kind.fail("", n, err)
	}
	if s.byNumber[n] != nil {
		return none, s.kind.fail("", n, ErrExists)
	}
	cells, err := s.open(n, at)
	if err != nil {
		return none, s.kind.fail("", n, err)
	}
	m := &member[Q]{n, cells, s.wrap(n, cells)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byNumber[n] = m
	s.sorted = slices.Insert(s.sorted, s.search(n), m)
	return m.q, nil
}

func (s *Set[Q]) open(n uint64, at segment.State) (*segment.Array, error) {
	return segment.Open(s.fsys, s.dir+"/"+s.kind.Path(n), segment.Params{
		Magic: s.kind.Magic, Cell: s.kind.Cell, PerFile: s.opts.PerFile,
		Ident: [2]uint64{s.opts.LogID, n}, Handles: s.opts.Handles,
	}, at)
}

// search finds the place in sorted of the first array with a number of at least n.
func (s *Set[Q]) search(n uint64) int {
	i, _ := slices.BinarySearchFunc(s.sorted, n, func(m *member[Q], n uint64) int { return cmp.Compare(m.number, n) })
	return i
}

// members are the arrays as they are now, by number.
func (s *Set[Q]) members() []*member[Q] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.sorted)
}

// All goes over the arrays as they are at its start, by number.
func (s *Set[Q]) All() iter.Seq[Q] {
	return func(yield func(Q) bool) {
		for _, m := range s.members() {
			if !yield(m.q) {
				return
			}
		}
	}
}

// Len is the number of arrays.
func (s *Set[Q]) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.sorted)
}

// Remove forgets the arrays with the numbers first to last, both included; readers that have one get segment.ErrClosed
// once its files are gone. It returns the job that removes the files, which may run again after an error. The job must
// not run before both copies of a checkpoint are durable that do not have the arrays.
func (s *Set[Q]) Remove(first, last uint64) (removeFiles func() error) {
	from := s.search(first)
	to := from
	s.mu.Lock()
	for ; to < len(s.sorted) && s.sorted[to].number <= last; to++ {
		delete(s.byNumber, s.sorted[to].number)
	}
	removed := slices.Clone(s.sorted[from:to])
	s.sorted = slices.Delete(s.sorted, from, to)
	s.mu.Unlock()
	return func() error {
		for _, m := range removed {
			if err := m.cells.RemoveAll(); err != nil {
				return s.kind.fail("remove ", m.number, err)
			}
		}
		return nil
	}
}

// RemoveFiles removes the files of array n, which is not in the set.
func (s *Set[Q]) RemoveFiles(n uint64) error {
	cells, err := s.open(n, segment.State{})
	if err == nil {
		err = cells.RemoveAll()
	}
	if err != nil {
		return s.kind.fail("remove ", n, err)
	}
	return nil
}

// Verify checks that the files of all arrays are there and long enough. The first that is not is a *corrupt.Error. It
// reads no cells.
func (s *Set[Q]) Verify() error {
	for _, m := range s.members() {
		if err := m.cells.Verify(); err != nil {
			return s.kind.fail("", m.number, err)
		}
	}
	return nil
}

// Close closes all arrays. It writes nothing. A second Close returns segment.ErrClosed.
func (s *Set[Q]) Close() error {
	var first error
	for _, m := range s.members() {
		if err := m.cells.Close(); err != nil && first == nil {
			first = s.kind.fail("close ", m.number, err)
		}
	}
	return first
}
