package consumequeue

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"

	"github.com/tidewheel/tidewheel/engine/internal/segment"
)

// Sizes of a checkpoint section. They are part of the file format, do not change.
const (
	statesHead = 4 + 4
	stateHead  = 4 + 4
	minState   = stateHead + 20 // with an empty tail
)

// ErrStates is returned by DecodeStates for bytes that Append did not write.
var ErrStates = errors.New("consumequeue: bad states")

// States is what a checkpoint remembers of all queues. The zero States are none.
type States struct {
	PerFile int // units of a file
	Queues  []QueueState
}

// QueueState is what a checkpoint remembers of a queue.
type QueueState struct {
	Key
	segment.State
}

// Marks is all queues as they stood at a moment.
type Marks struct {
	perFile int
	queues  []queueMark
}

type queueMark struct {
	q *Queue
	m segment.Mark
}

// Mark freezes the bounds of all queues for a checkpoint. It copies no units.
func (s *Set) Mark() Marks {
	m := Marks{perFile: s.opts.PerFile, queues: make([]queueMark, len(s.sorted))}
	for i, q := range s.sorted {
		m.queues[i] = queueMark{q, q.Mark()}
	}
	return m
}

// Flush makes the queues durable up to their marks and returns the states to record. Queues with fewer than the given
// number of bytes in no file have them in their state instead; see segment.Array.Flush for that and for errors. After
// an error Flush may be called again with the same marks or later ones, unless it is of kind segment.ErrSync.
func (s *Set) Flush(m Marks, least int) (States, error) {
	at := States{PerFile: m.perFile, Queues: make([]QueueState, len(m.queues))}
	for i, mark := range m.queues {
		state, err := mark.q.Flush(mark.m, least)
		if err != nil {
			return States{}, fmt.Errorf("consumequeue: flush topic %d queue %d: %w",
				mark.q.key.Topic, mark.q.key.Queue, err)
		}
		at.Queues[i] = QueueState{mark.q.key, state}
	}
	return at, nil
}

// Installed tells the queues that a checkpoint with these states is durable: the memory of units that are in files
// goes. A caller short of time gives it a part of the Queues at a time.
func (s *Set) Installed(at States) {
	for _, state := range at.Queues {
		if q := s.byKey[state.pack()]; q != nil {
			q.Installed(state.State)
		}
	}
}

// Delete unlinks the files that lie wholly below the minimum offsets in the states. No checkpoint with lower ones may
// be in use any more.
func (s *Set) Delete(at States) error {
	for _, state := range at.Queues {
		q := s.Queue(state.Topic, state.Queue)
		if q == nil {
			continue
		}
		if err := q.Delete(QueueOffset(state.First)); err != nil {
			return fmt.Errorf("consumequeue: topic %d queue %d: %w", state.Topic, state.Queue, err)
		}
	}
	return nil
}

// Verify checks that the files of all queues are there and long enough. The first that is not is a *corrupt.Error. It
// reads no units.
func (s *Set) Verify() error {
	for q := range s.All() {
		if err := q.Verify(); err != nil {
			return fmt.Errorf("consumequeue: topic %d queue %d: %w", q.key.Topic, q.key.Queue, err)
		}
	}
	return nil
}

// Sweep removes the files of queues that are neither in the set nor in the states of the last checkpoint: a crash came
// between the end of a topic and the job that RemoveTopic returned. As that job, it must not run before both copies of
// that checkpoint are durable. What does not look like the directory of a queue stays.
func (s *Set) Sweep(at States) error {
	recorded := make(map[Key]bool, len(at.Queues))
	for _, state := range at.Queues {
		recorded[state.Key] = true
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
			} else if err := s.removeQueue(k); err != nil {
				return err
			}
		}
		if kept == 0 {
			if err := s.removeDir(s.topicDir(topic), s.dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeQueue removes the files of a queue that is not in the set.
func (s *Set) removeQueue(k Key) error {
	cells, err := segment.Open(s.fsys, s.queueDir(k), segment.Params{
		Magic: magic, Cell: UnitSize, PerFile: s.opts.PerFile, Handles: s.opts.Handles,
	}, segment.State{})
	if err == nil {
		err = cells.RemoveAll()
	}
	if err != nil {
		return fmt.Errorf("consumequeue: remove topic %d queue %d: %w", k.Topic, k.Queue, err)
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

// Append appends the checkpoint section of the states to b.
func (at States) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(at.PerFile))
	b = binary.BigEndian.AppendUint32(b, uint32(len(at.Queues)))
	for _, state := range at.Queues {
		b = binary.BigEndian.AppendUint32(b, state.Topic)
		b = binary.BigEndian.AppendUint32(b, state.Queue)
		b = state.State.Append(b)
	}
	return b
}

// DecodeStates reads the checkpoint section that Append wrote; b holds nothing else. The error is of kind ErrStates.
// The tails are parts of b.
func DecodeStates(b []byte) (States, error) {
	if len(b) < statesHead {
		return States{}, fmt.Errorf("%w: %d bytes of %d", ErrStates, len(b), statesHead)
	}
	perFile, count := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	b = b[statesHead:]
	if perFile > math.MaxInt32 || perFile == 0 && count > 0 {
		return States{}, fmt.Errorf("%w: %d units per file", ErrStates, perFile)
	}
	if uint64(count) > uint64(len(b)/minState) {
		return States{}, fmt.Errorf("%w: %d queues in %d bytes", ErrStates, count, len(b))
	}
	at := States{PerFile: int(perFile)}
	if count > 0 {
		at.Queues = make([]QueueState, count)
	}
	for i := range at.Queues {
		if len(b) < stateHead {
			return States{}, fmt.Errorf("%w: queue %d of %d is cut short", ErrStates, i, count)
		}
		state := &at.Queues[i]
		state.Key = Key{Topic: binary.BigEndian.Uint32(b), Queue: binary.BigEndian.Uint32(b[4:])}
		if i > 0 && compareKeys(at.Queues[i-1].Key, state.Key) >= 0 {
			return States{}, fmt.Errorf("%w: topic %d queue %d is out of order", ErrStates, state.Topic, state.Queue)
		}
		var err error
		if state.State, b, err = segment.DecodeState(b[stateHead:], UnitSize); err != nil {
			return States{}, fmt.Errorf("%w: topic %d queue %d: %w", ErrStates, state.Topic, state.Queue, err)
		}
	}
	if len(b) > 0 {
		return States{}, fmt.Errorf("%w: %d bytes too many", ErrStates, len(b))
	}
	return at, nil
}

func compareKeys(a, b Key) int { return cmp.Compare(a.pack(), b.pack()) }
