package schedule

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/tidewheel/tidewheel/engine/internal/arrays"
	"github.com/tidewheel/tidewheel/engine/internal/segment"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// DefaultPerFile is the number of entries of a file, 3.5 MiB.
const DefaultPerFile = 65536

var (
	// ErrDelay is returned by Ensure and Start for a delay that is not 1 to MaxDelayMs.
	ErrDelay = errors.New("delay out of range")
	// ErrExists is returned by Start for a queue that is there already.
	ErrExists = arrays.ErrExists
	// ErrStates is returned by DecodeStates for bytes that States.Append did not write.
	ErrStates = arrays.ErrStates
)

// kind is what makes an array of cells a schedule queue. The number of an array is the delay in milliseconds.
var kind = arrays.Kind{
	Package: "schedule", Magic: [8]byte{'t', 'w', 's', 'c', 'h', 'e', 'd', 'q'}, Cell: cellSize, PerFile: DefaultPerFile,
	Path: func(n uint64) string { return strconv.FormatUint(n, 10) },
	Name: func(n uint64) string { return fmt.Sprintf("delay %d ms", int64(n)) },
	Check: func(n uint64) error {
		if delayMs := int64(n); delayMs < 1 || delayMs > MaxDelayMs {
			return fmt.Errorf("%w, allowed is 1 to %d ms", ErrDelay, MaxDelayMs)
		}
		return nil
	},
}

// Options tune a Set. The cells are entries.
type Options = arrays.Options

// States is what a checkpoint remembers of all queues; the number of each is its delay in milliseconds. The zero States
// are none.
type States = arrays.States

// Marks is all queues as they stood at a moment.
type Marks = arrays.Marks

// DecodeStates reads the checkpoint section that States.Append wrote; b holds nothing else. The error is of kind
// ErrStates. The tails are parts of b.
func DecodeStates(b []byte) (States, error) { return kind.DecodeStates(b) }

// Set is all schedule queues of an engine, one for each delay that a table has or had. One goroutine, the writer, calls
// Ensure, Start, Mark and Installed; one job at a time calls Flush, Delete and Verify; any goroutine calls Queue, Len
// and All. The owner calls Close when nobody else uses the set.
type Set struct{ *arrays.Set[*Queue] }

// Open returns the queues in the directory dir as a checkpoint knew them. It touches no file: what is missing or
// damaged shows in Verify and in reads.
func Open(fsys vfs.FS, dir string, opts Options, at States) (*Set, error) {
	set, err := arrays.Open(fsys, dir, &kind, opts, at, func(n uint64, cells *segment.Array) *Queue {
		return &Queue{delayMs: int64(n), cells: cells}
	})
	if err != nil {
		return nil, err
	}
	return &Set{set}, nil
}

// Queue is the schedule queue of a delay, nil if there is none.
func (s *Set) Queue(delayMs int64) *Queue { return s.Find(uint64(delayMs)) }

// Ensure is Queue for the writer: it makes a queue that is not there. For a delay that no queue can have the error is
// ErrDelay.
func (s *Set) Ensure(delayMs int64) (*Queue, error) { return s.Set.Ensure(uint64(delayMs)) }

// Start makes a queue whose first entry will have the index i. For a queue that is there the error is ErrExists.
func (s *Set) Start(delayMs, i int64) (*Queue, error) { return s.Set.Start(uint64(delayMs), i) }
