package consumequeue

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strconv"
	"sync"

	"github.com/tidewheel/tidewheel/engine/internal/segment"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// DefaultPerFile is the number of units of a file, 8 MiB.
const DefaultPerFile = 262144

var magic = [8]byte{'t', 'w', 'c', 'o', 'n', 's', 'm', 'q'}

// ErrExists is returned by Start for a queue that is there already.
var ErrExists = errors.New("consumequeue: queue exists")

// Key names a ConsumeQueue.
type Key struct{ Topic, Queue uint32 }

// pack makes a number of the key that sorts as the key does.
func (k Key) pack() uint64 { return uint64(k.Topic)<<32 | uint64(k.Queue) }

// Options tune a Set.
type Options struct {
	// PerFile is the number of units of a file; 0 means DefaultPerFile. A Set opened with queues keeps the number that
	// their files have.
	PerFile int
	// LogID is the id of the CommitLog that the queues belong to. Files of another are refused as damage.
	LogID uint64
	// Handles is shared with other arrays of cells. Nil: of the Set's own.
	Handles *segment.Handles
}

// Set is all ConsumeQueues of an engine. One goroutine, the writer, calls Ensure, Start, RemoveTopic, Mark and
// Installed; one job at a time calls Flush, Delete, Verify, Sweep and what RemoveTopic returned; any goroutine calls
// Queue and All. The owner calls Close when nobody else uses the set.
type Set struct {
	fsys    vfs.FS // set by Open, then read-only
	dir     string
	opts    Options
	buffers *sync.Pool

	// guarded by mu, and changed by the writer only, which therefore reads without it
	mu     sync.RWMutex
	byKey  map[uint64]*Queue
	sorted []*Queue // by Key
}

// Open returns the queues in the directory dir as a checkpoint knew them. All their units are visible. It touches no
// file: what is missing or damaged shows in Verify and in reads.
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
	s := &Set{
		fsys: fsys, dir: dir, opts: opts,
		buffers: &sync.Pool{New: func() any { return new([readUnits * UnitSize]byte) }},
		byKey:   make(map[uint64]*Queue, len(at.Queues)),
		sorted:  make([]*Queue, 0, len(at.Queues)),
	}
	for _, state := range at.Queues {
		if _, err := s.add(state.Key, state.State); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Queue is the ConsumeQueue of a queue of a topic, nil if nothing ever became visible there.
func (s *Set) Queue(topic, queue uint32) *Queue {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byKey[Key{topic, queue}.pack()]
}

// Ensure is Queue for the writer: it makes a queue that is not there.
func (s *Set) Ensure(topic, queue uint32) (*Queue, error) {
	if q := s.byKey[Key{topic, queue}.pack()]; q != nil {
		return q, nil
	}
	return s.add(Key{topic, queue}, segment.State{})
}

// Start makes a queue whose first unit will have the offset o: a rebuild begins where the log does. For a queue that is
// there the error is ErrExists.
func (s *Set) Start(topic, queue uint32, o QueueOffset) (*Queue, error) {
	return s.add(Key{topic, queue}, segment.State{First: int64(o), Flushed: int64(o)})
}

// add opens a queue and makes it known.
func (s *Set) add(k Key, at segment.State) (*Queue, error) {
	if s.byKey[k.pack()] != nil {
		return nil, fmt.Errorf("%w: topic %d queue %d", ErrExists, k.Topic, k.Queue)
	}
	cells, err := segment.Open(s.fsys, s.queueDir(k), segment.Params{
		Magic: magic, Cell: UnitSize, PerFile: s.opts.PerFile,
		Ident: [2]uint64{s.opts.LogID, k.pack()}, Handles: s.opts.Handles,
	}, at)
	if err != nil {
		return nil, fmt.Errorf("consumequeue: topic %d queue %d: %w", k.Topic, k.Queue, err)
	}
	q := &Queue{key: k, cells: cells, buffers: s.buffers}
	q.visible.Store(cells.Len())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byKey[k.pack()] = q
	i, _ := s.search(k)
	s.sorted = slices.Insert(s.sorted, i, q)
	return q, nil
}

// search finds the place of k in sorted.
func (s *Set) search(k Key) (int, bool) {
	return slices.BinarySearchFunc(s.sorted, k, func(q *Queue, k Key) int {
		return compareKeys(q.key, k)
	})
}

func (s *Set) topicDir(topic uint32) string {
	return s.dir + "/" + strconv.FormatUint(uint64(topic), 10)
}

func (s *Set) queueDir(k Key) string {
	return s.topicDir(k.Topic) + "/" + strconv.FormatUint(uint64(k.Queue), 10)
}

// All goes over the queues as they are at its start, by topic and queue.
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

// Len is the number of queues.
func (s *Set) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.sorted)
}

// RemoveTopic forgets the queues of a topic; readers that have one get segment.ErrClosed once its files are gone. It
// returns the job that removes the files, which may run again after an error. The job must not run before both copies
// of a checkpoint are durable that do not have the topic.
func (s *Set) RemoveTopic(topic uint32) (removeFiles func() error) {
	from, _ := s.search(Key{Topic: topic})
	to := from
	for to < len(s.sorted) && s.sorted[to].key.Topic == topic {
		to++
	}
	removed := slices.Clone(s.sorted[from:to])
	s.mu.Lock()
	for _, q := range removed {
		delete(s.byKey, q.key.pack())
	}
	s.sorted = slices.Delete(s.sorted, from, to)
	s.mu.Unlock()
	return func() error {
		for _, q := range removed {
			if err := q.cells.RemoveAll(); err != nil {
				return fmt.Errorf("consumequeue: remove topic %d: %w", topic, err)
			}
		}
		return s.removeDir(s.topicDir(topic), s.dir)
	}
}

// removeDir removes an empty directory from its parent, durably; one that is not there is no error.
func (s *Set) removeDir(dir, parent string) error {
	err := s.fsys.Remove(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("consumequeue: remove directory: %w", err)
	}
	if err := vfs.SyncDir(s.fsys, parent); err != nil {
		return fmt.Errorf("consumequeue: %w: %s: %w", segment.ErrSync, parent, err)
	}
	return nil
}

// Close closes all queues. It writes nothing. A second Close returns segment.ErrClosed.
func (s *Set) Close() error {
	var first error
	for q := range s.All() {
		if err := q.cells.Close(); err != nil && first == nil {
			first = fmt.Errorf("consumequeue: close topic %d queue %d: %w", q.key.Topic, q.key.Queue, err)
		}
	}
	return first
}
