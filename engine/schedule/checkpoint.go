package schedule

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/tidewheel/tidewheel/engine/internal/segment"
)

// Sizes of a checkpoint section. They are part of the file format, do not change.
const (
	statesHead = 4 + 4
	stateHead  = 8
	minState   = stateHead + 20 // with an empty tail
)

// ErrStates is returned by DecodeStates for bytes that Append did not write.
var ErrStates = errors.New("schedule: bad states")

// States is what a checkpoint remembers of all queues. The zero States are none.
type States struct {
	PerFile int // entries of a file
	Queues  []QueueState
}

// QueueState is what a checkpoint remembers of a queue.
type QueueState struct {
	DelayMs int64
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

// Mark freezes the bounds of all queues for a checkpoint. It copies no entries.
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
			return States{}, fmt.Errorf("schedule: flush delay %d ms: %w", mark.q.delayMs, err)
		}
		at.Queues[i] = QueueState{mark.q.delayMs, state}
	}
	return at, nil
}

// Installed tells the queues that a checkpoint with these states is durable: the memory of entries that are in files
// goes.
func (s *Set) Installed(at States) {
	for _, state := range at.Queues {
		if i, ok := s.search(state.DelayMs); ok {
			s.sorted[i].Installed(state.State)
		}
	}
}

// Delete unlinks the files that lie wholly below the first indexes in the states. No checkpoint with lower ones may be
// in use any more.
func (s *Set) Delete(at States) error {
	for _, state := range at.Queues {
		q := s.Queue(state.DelayMs)
		if q == nil {
			continue
		}
		if err := q.Delete(state.First); err != nil {
			return fmt.Errorf("schedule: delay %d ms: %w", state.DelayMs, err)
		}
	}
	return nil
}

// Verify checks that the files of all queues are there and long enough. The first that is not is a *corrupt.Error. It
// reads no entries.
func (s *Set) Verify() error {
	for q := range s.All() {
		if err := q.Verify(); err != nil {
			return fmt.Errorf("schedule: delay %d ms: %w", q.delayMs, err)
		}
	}
	return nil
}

// Append appends the checkpoint section of the states to b.
func (at States) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(at.PerFile))
	b = binary.BigEndian.AppendUint32(b, uint32(len(at.Queues)))
	for _, state := range at.Queues {
		b = binary.BigEndian.AppendUint64(b, uint64(state.DelayMs))
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
		return States{}, fmt.Errorf("%w: %d entries per file", ErrStates, perFile)
	}
	if uint64(count) > uint64(len(b)/minState) {
		return States{}, fmt.Errorf("%w: %d queues in %d bytes", ErrStates, count, len(b))
	}
	at := States{PerFile: int(perFile)}
	if count > 0 {
		at.Queues = make([]QueueState, count)
	}
	previous := int64(0)
	for i := range at.Queues {
		if len(b) < stateHead {
			return States{}, fmt.Errorf("%w: queue %d of %d is cut short", ErrStates, i, count)
		}
		state := &at.Queues[i]
		state.DelayMs = int64(binary.BigEndian.Uint64(b))
		if state.DelayMs <= previous || state.DelayMs > MaxDelayMs {
			return States{}, fmt.Errorf("%w: delay %d ms after %d ms", ErrStates, state.DelayMs, previous)
		}
		previous = state.DelayMs
		var err error
		if state.State, b, err = segment.DecodeState(b[stateHead:], cellSize); err != nil {
			return States{}, fmt.Errorf("%w: delay %d ms: %w", ErrStates, state.DelayMs, err)
		}
	}
	if len(b) > 0 {
		return States{}, fmt.Errorf("%w: %d bytes too many", ErrStates, len(b))
	}
	return at, nil
}
