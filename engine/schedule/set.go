package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"

	"github.com/tidewheel/tidewheel/engine/internal/segment"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// DefaultPerFile is the number of entries of a file, 3.5 MiB.
const DefaultPerFile = 65536

var magic = [8]byte{'t', 'w', 's', 'c', 'h', 'e', 'd', 'q'}

// Returned by Ensure and Start.
var (
	ErrDelay  = errors.New("schedule: delay out of range") // it is not 1 to MaxDelayMs
	ErrExists = errors.New("schedule: queue exists")
)

// Options tune a Set.
type Options struct {
	// PerFile is the number of entries of a file; 0 means DefaultPerFile. A Set opened with queues keeps the number
	// that their files have.
	PerFile int
	// LogID is the id of the CommitLog that the queues belong to. Files of another are refused as damage.
	LogID uint64
	// Handles is shared with other arrays of cells. Nil: of the Set's own.
	Handles *segment.Handles
}

// Set is all schedule queues of an engine, one for each delay that a table has or had. One goroutine, the writer, calls
// Ensure, Start, Mark and Installed; one job at a time calls Flush, Delete and Verify; any goroutine calls Queue and
// All. The owner calls Close when nobody else uses the set.
type Set struct {
	fsys vfs.FS // set by Open, then read-only
	dir  string
	opts Options

	// guarded by mu, and changed by the writer only, which therefore reads without it. There are few queues: at most
	// MaxLevels for each table that still drains.
	mu     sync.RWMutex
	sorted []*Queue // by delay
}

// Open returns the queues in the directory dir as a checkpoint knew them. It touches no file: what is missing or
// damaged shows in Verify and in reads.
func Open(fsys vfs.FS, dir string, opts Options, at States) (*Set, error) {
	if opts.PerFile == 0 {
		opts.PerFile = DefaultPerFile
	}
	if len(at.Queues) > 0 {
		opts.PerFile = at.PerFile
	}
	if opts.Handles == nil {
		opts.Handles = segment.NewHandles(0)
	}
	s := &Set{fsys: fsys, dir: dir, opts: opts}
	for _, state := range at.Queues {
		if _, err := s.add(state.DelayMs, state.State); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// search finds the place of a delay in sorted.
func (s *Set) search(delayMs int64) (int, bool) {
	return slices.BinarySearchFunc(s.sorted, delayMs, func(q *Queue, delayMs int64) int {
		return cmp.Compare(q.delayMs, delayMs)
	})
}

// Queue is the schedule queue of a delay, nil if there is none.
func (s *Set) Queue(delayMs int64) *Queue {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if i, ok := s.search(delayMs); ok {
		return s.sorted[i]
	}
	return nil
}

// Ensure is Queue for the writer: it makes a queue that is not there.
func (s *Set) Ensure(delayMs int64) (*Queue, error) {
	if i, ok := s.search(delayMs); ok {
		return s.sorted[i], nil
	}
	return s.add(delayMs, segment.State{})
}

// Start makes a queue whose first entry will have the index i. For a queue that is there the error is ErrExists.
func (s *Set) Start(delayMs, i int64) (*Queue, error) {
	return s.add(delayMs, segment.State{First: i, Flushed: i})
}

// add opens a queue and makes it known.
func (s *Set) add(delayMs int64, at segment.State) (*Queue, error) {
	if delayMs < 1 || delayMs > MaxDelayMs {
		return nil, fmt.Errorf("%w: %d ms, allowed is 1 to %d", ErrDelay, delayMs, MaxDelayMs)
	}
	i, exists := s.search(delayMs)
	if exists {
		return nil, fmt.Errorf("%w: delay %d ms", ErrExists, delayMs)
	}
	cells, err := segment.Open(s.fsys, s.dir+"/"+strconv.FormatInt(delayMs, 10), segment.Params{
		Magic: magic, Cell: cellSize, PerFile: s.opts.PerFile,
		Ident: [2]uint64{s.opts.LogID, uint64(delayMs)}, Handles: s.opts.Handles,
	}, at)
	if err != nil {
		return nil, fmt.Errorf("schedule: delay %d ms: %w", delayMs, err)
	}
	q := &Queue{delayMs: delayMs, cells: cells}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sorted = slices.Insert(s.sorted, i, q)
	return q, nil
}

// All goes over the queues as they are at its start, by delay.
func (s *Set) All() iter.Seq[*Queue] {
	return func(yield func(*Queue) bool) {
		s.mu.RLock()
		queues := slices.Clone(s.sorted)
		s.mu.RUnlock()
		for _, q := range queues {
			if !yield(q) {
				return
			}
		}
	}
}

// Close closes all queues. It writes nothing. A second Close returns segment.ErrClosed.
func (s *Set) Close() error {
	var first error
	for q := range s.All() {
		if err := q.cells.Close(); err != nil && first == nil {
			first = fmt.Errorf("schedule: close delay %d ms: %w", q.delayMs, err)
		}
	}
	return first
}
