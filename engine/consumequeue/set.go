package consumequeue

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"sync"

	"github.com/tidewheel/tidewheel/engine/internal/arrays"
	"github.com/tidewheel/tidewheel/engine/internal/segment"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// DefaultPerFile is the number of units of a file, 8 MiB.
const DefaultPerFile = 262144

var (
	// ErrExists is returned by Start for a queue that is there already.
	ErrExists = arrays.ErrExists
	// ErrStates is returned by DecodeStates for bytes that States.Append did not write.
	ErrStates = arrays.ErrStates
)

// kind is what makes an array of cells a ConsumeQueue.
var kind = arrays.Kind{
	Package: "consumequeue", Magic: [8]byte{'t', 'w', 'c', 'o', 'n', 's', 'm', 'q'}, Cell: UnitSize, PerFile: DefaultPerFile,
	Path: func(n uint64) string { return KeyOf(n).dir() },
	Name: func(n uint64) string { return KeyOf(n).String() },
}

// Key names a ConsumeQueue.
type Key struct{ Topic, Queue uint32 }

// KeyOf is the key of the queue that stands under a number in States.
func KeyOf(number uint64) Key { return Key{Topic: uint32(number >> 32), Queue: uint32(number)} }

// pack makes the number of the key, which sorts as the key does.
func (k Key) pack() uint64 { return uint64(k.Topic)<<32 | uint64(k.Queue) }

// String names the queue in the text of an error.
func (k Key) String() string { return fmt.Sprintf("topic %d queue %d", k.Topic, k.Queue) }

// dir is the directory of the queue below that of the set.
func (k Key) dir() string { return decimal(k.Topic) + "/" + decimal(k.Queue) }

func decimal(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// Options tune a Set. The cells are units.
type Options = arrays.Options

// States is what a checkpoint remembers of all queues; KeyOf has the key of each. The zero States are none.
type States = arrays.States

// Marks is all queues as they stood at a moment.
type Marks = arrays.Marks

// DecodeStates reads the checkpoint section that States.Append wrote; b holds nothing else. The error is of kind
// ErrStates. The tails are parts of b.
func DecodeStates(b []byte) (States, error) { return kind.DecodeStates(b) }

// Set is all ConsumeQueues of an engine. One goroutine, the writer, calls Ensure, Start, RemoveTopic, Mark and
// Installed; one job at a time calls Flush, Delete, Verify, Sweep and what RemoveTopic returned; any goroutine calls
// Queue, Len and All. The owner calls Close when nobody else uses the set.
type Set struct {
	*arrays.Set[*Queue]
	fsys vfs.FS // set by Open, then read-only
	dir  string
}

// Open returns the queues in the directory dir as a checkpoint knew them. All their units are visible. It touches no
// file: what is missing or damaged shows in Verify and in reads.
func Open(fsys vfs.FS, dir string, opts Options, at States) (*Set, error) {
	buffers := &sync.Pool{New: func() any { return new([readUnits * UnitSize]byte) }}
	set, err := arrays.Open(fsys, dir, &kind, opts, at, func(n uint64, cells *segment.Array) *Queue {
		q := &Queue{key: KeyOf(n), cells: cells, buffers: buffers}
		q.visible.Store(cells.Len())
		return q
	})
	if err != nil {
		return nil, err
	}
	return &Set{set, fsys, dir}, nil
}

// Queue is the ConsumeQueue of a queue of a topic, nil if nothing ever became visible there.
func (s *Set) Queue(topic, queue uint32) *Queue { return s.Find(Key{topic, queue}.pack()) }

// Ensure is Queue for the writer: it makes a queue that is not there.
func (s *Set) Ensure(topic, queue uint32) (*Queue, error) {
	return s.Set.Ensure(Key{topic, queue}.pack())
}

// Start makes a queue whose first unit will have the offset o: a rebuild begins where the log does. For a queue that is
// there the error is ErrExists.
func (s *Set) Start(topic, queue uint32, o QueueOffset) (*Queue, error) {
	return s.Set.Start(Key{topic, queue}.pack(), int64(o))
}

// RemoveTopic forgets the queues of a topic; readers that have one get segment.ErrClosed once its files are gone. It
// returns the job that removes the files, which may run again after an error. The job must not run before both copies
// of a checkpoint are durable that do not have the topic.
func (s *Set) RemoveTopic(topic uint32) (removeFiles func() error) {
	removeQueues := s.Remove(Key{topic, 0}.pack(), Key{topic, math.MaxUint32}.pack())
	return func() error {
		if err := removeQueues(); err != nil {
			return err
		}
		return s.removeTopicDir(topic)
	}
}

// removeTopicDir removes the empty directory of a topic, durably; one that is not there is no error.
func (s *Set) removeTopicDir(topic uint32) error {
	err := s.fsys.Remove(s.topicDir(topic))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("consumequeue: remove directory: %w", err)
	}
	if err := vfs.SyncDir(s.fsys, s.dir); err != nil {
		return fmt.Errorf("consumequeue: %w: %s: %w", segment.ErrSync, s.dir, err)
	}
	return nil
}

func (s *Set) topicDir(topic uint32) string { return s.dir + "/" + decimal(topic) }

// Sweep removes the files of queues that are neither in the set nor in the states of the last checkpoint: a crash came
// between the end of a topic and the job that RemoveTopic returned. As that job, it must not run before both copies of
// that checkpoint are durable. What does not look like the directory of a queue stays.
func (s *Set) Sweep(at States) error {
	recorded := make(map[Key]bool, len(at.Arrays))
	for _, state := range at.Arrays {
		recorded[KeyOf(state.Number)] = true
	}
	topics, err := s.dirs(s.dir)
	if err != nil {
		return err
	}
	for _, topic := range topics {
		queues, err := s.dirs(s.topicDir(topic))
		if err != nil {
			return err
		}
		kept := 0
		for _, queue := range queues {
			if k := (Key{topic, queue}); recorded[k] || s.Queue(topic, queue) != nil {
				kept++
			} else if err := s.RemoveFiles(k.pack()); err != nil {
				return err
			}
		}
		if kept == 0 {
			if err := s.removeTopicDir(topic); err != nil {
				return err
			}
		}
	}
	return nil
}

// dirs lists the directories in dir whose names are numbers.
func (s *Set) dirs(dir string) ([]uint32, error) {
	infos, err := s.fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("consumequeue: list: %w", err)
	}
	var numbers []uint32
	for _, info := range infos {
		if n, err := strconv.ParseUint(info.Name, 10, 32); err == nil && info.Dir {
			numbers = append(numbers, uint32(n))
		}
	}
	return numbers, nil
}
