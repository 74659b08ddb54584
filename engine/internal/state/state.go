package state

import (
	"errors"
	"slices"
	"sort"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/consumequeue"
	"github.com/tidewheel/tidewheel/engine/record"
	"github.com/tidewheel/tidewheel/engine/statebits"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// ChunkIDs is the number of ids in a chunk of state bits. It is part of the file format, do not change.
const ChunkIDs = 65536

// stepMs is how far the wall clock may drift from logTime before a step is noted.
const stepMs = 1000

// ErrFold is the kind of an error of the fold: a record that contradicts the state before it. Bytes with good checksums
// do that only if the writer or the fold is wrong, or if a part of the log is missing.
var ErrFold = errors.New("state: record contradicts the log before it")

// ErrNewer is the kind of an error about something that only a newer version understands.
var ErrNewer = errors.New("state: written by a newer version")

// Offset is a position in the CommitLog.
type Offset = commitlog.Offset

// Index follows the fold: the caches that grow with the number of messages. Errors are of reading or writing them.
type Index interface {
	// Unit appends a unit to a ConsumeQueue; at is its queue offset.
	Unit(topic, queue uint32, at int64, u consumequeue.Unit) error
	// Put takes a waiting message in: delayMs names the schedule queue, 0 sends it to the loose memtable.
	Put(e timerlog.Entry, delayMs int64) error
	// Keyed notes a message that was put with an idempotency key. The key is valid until Keyed returns.
	Keyed(topic uint32, key []byte, pos Offset)
	// Gone drops a waiting message that was delivered, cancelled or moved, wherever it still takes room.
	Gone(lane uint8, k timerlog.Key)
	// SetBits says what became of an id.
	SetBits(id uint64, s statebits.State) error
	// CloseChunk forgets the bits of a chunk.
	CloseChunk(chunk uint64)
	// TopicGone drops the ConsumeQueues of a topic.
	TopicGone(topic uint32)
	// Trimmed raises the minimum offset of a queue.
	Trimmed(topic, queue uint32, low int64)
}

// State is the fold. It is not safe for concurrent use.
type State struct {
	End    Offset // where the next batch goes
	LogMs  int64  // running time of the store: follows the monotonic clock, stands still while it is down
	WallMs int64  // wall clock of the last batch
	Rolled Offset // R: every waiting message below was copied above; an entry below is stale

	NextID    uint64
	NextTopic uint32
	NextGroup uint32

	Live    int64 // bytes of the records of messages that wait; a cancel, which has no size, takes off what one has on average
	Credit  int64 // bytes that a roll may copy: as many as were written, at most the length of the log
	Pending int64 // messages that wait
	Dropped int64 // due, but their topic was deleted

	Lanes   []timerlog.Key // F of each lane: the last delivery that was not late
	Levels  map[int64]int64
	Topics  map[uint32]*Topic
	Groups  map[uint32]*Group
	Offsets Offsets

	Segments []Segment
	Chunks   []Chunk
	Steps    []Step
	Holes    []Hole
	Hours    map[int64]*int64 // waiting messages by hour of their due time

	topicID map[string]uint32
	stages  int // topics that are stages, by their names
	groupID map[string]uint32

	// After a rebuild from a suffix of the log, ids below Oldest are unknown unless the suffix spoke of them. Oldest is
	// local to this machine and no part of the encoding.
	Oldest uint64
	Seen   Bits
	// Lost are the holes that a repair made where whole batches are gone. They are found again at every replay and no
	// part of the encoding, since the state records behind them were written before.
	Lost []Hole

	fresh   bool     // nothing was folded yet: the next state record is believed, not compared
	lossy   bool     // a lost range was folded: until the next state record, which is believed again, jumps are allowed
	parts   []byte   // of a state record that is not complete
	digest  [16]byte // of the state at its begin
	hitSeg  int      // index of the segment that the last unit pointed into
	hour    int64    // the key in Hours that was changed last, and its count
	hourN   *int64
	seenErr error // the first error of Seen
	scratch decoded
}

// Bits is what became of ids.
type Bits interface {
	// Get returns the state of an id, Regular if nothing was said of it. It may read a page.
	Get(id uint64) (statebits.State, error)
	// Set says what became of an id. It may read a page.
	Set(id uint64, s statebits.State) error
}

// Topic is a named set of queues. Its id is never used again.
type Topic struct {
	ID      uint32
	Attrs   uint32
	Name    string
	Count   int     // queues that new messages go to
	Queues  []Queue // at least Count; those beyond are only read
	Pending int64   // messages that wait for it; of a stage none

	Stage  *Topic // where what is due waits for a verdict; nil if it never was staged
	Origin *Topic // of a stage: its topic
}

// Staged says whether what falls due goes to the stage.
func (t *Topic) Staged() bool { return t.Attrs&record.TopicStaged != 0 && t.Stage != nil }

// Paused says whether groups are kept from reading the topic.
func (t *Topic) Paused() bool { return t.Attrs&record.TopicPaused != 0 }

// Queue is what the fold knows of a ConsumeQueue: offsets [Min, Next).
type Queue struct{ Min, Next int64 }

// Group is a consumer group.
type Group struct {
	ID    uint32
	Attrs uint32
	Name  string
}

// Segment is a row of the segment table. End is 0 until it is sealed. Visible is the logTime at which the last message
// in it became visible, or at which it was sealed.
type Segment struct {
	Base, End               Offset
	Visible, Opened, Sealed int64
}

// Chunk is the table entry of ChunkIDs ids. A closed chunk has no bits; its handles are not found.
type Chunk struct {
	Pending   int64
	Changed   Offset // position of the last record that spoke of an id in it
	ChangedAt int64  // logTime of that
	Closed    bool
}

// Step says that from LogMs on the wall clock showed WallMs at LogMs, and went at the same pace.
type Step struct{ LogMs, WallMs int64 }

// Hole is a lost range of the log.
type Hole struct{ From, To Offset }

// New returns the state before the first record of a log. Lanes is their number.
func New(lanes int) *State {
	s := &State{
		NextID: 1, NextTopic: 1, NextGroup: 1,
		Lanes:   make([]timerlog.Key, lanes),
		Levels:  map[int64]int64{},
		Topics:  map[uint32]*Topic{},
		Groups:  map[uint32]*Group{},
		Hours:   map[int64]*int64{},
		topicID: map[string]uint32{},
		groupID: map[string]uint32{},
		fresh:   true,
	}
	return s
}

// Create is the state of a new store: nothing may fall due before now, and the first segment begins.
func (s *State) Create(wallMs int64) {
	for i := range s.Lanes {
		s.Lanes[i] = timerlog.Key{Due: wallMs}
	}
	s.WallMs = wallMs
	s.Steps = []Step{{0, wallMs}}
	s.End = commitlog.SegmentHeaderSize
	s.Segments = []Segment{{Base: 0}}
	s.fresh = false
}

// TopicByName finds a topic.
func (s *State) TopicByName(name string) *Topic {
	return s.Topics[s.topicID[name]]
}

// Stages is how many topics are stages.
func (s *State) Stages() int { return s.stages }

// GroupByName finds a group.
func (s *State) GroupByName(name string) *Group {
	return s.Groups[s.groupID[name]]
}

// Alive says whether an entry still waits: it is the current copy and nothing was decided about its id.
func (s *State) Alive(e *timerlog.Entry, lane uint8, bits Bits) (bool, error) {
	if e.Position < s.Rolled {
		return false, nil
	}
	b, err := bits.Get(e.ID)
	if err != nil {
		return false, err
	}
	if e.Late() {
		return b == statebits.LatePending, nil
	}
	return b == statebits.Regular && s.Lanes[lane].Less(e.Key), nil
}

// Fate is what became of an id.
type Fate uint8

// The fates.
const (
	Unknown Fate = iota
	Waiting
	Fired
	Cancelled
	Superseded
)

// Fate answers for a handle from the fold alone: it reads no body, no TimerLog.
func (s *State) Fate(lane uint8, k timerlog.Key, bits Bits) (Fate, error) {
	if k.ID == 0 || k.ID >= s.NextID || int(lane) >= len(s.Lanes) || s.chunkOf(k.ID).Closed {
		return Unknown, nil
	}
	if k.ID < s.Oldest {
		if b, err := s.Seen.Get(k.ID); err != nil || s.seenErr != nil || b != seen {
			return Unknown, errors.Join(err, s.seenErr)
		}
	}
	b, err := bits.Get(k.ID)
	switch {
	case err != nil:
		return Unknown, err
	case b == statebits.Cancelled:
		return Cancelled, nil
	case b == statebits.Superseded:
		return Superseded, nil
	case b == statebits.LatePending || s.Lanes[lane].Less(k):
		return Waiting, nil
	}
	return Fired, nil
}

// chunkOf returns the chunk of an id that was given out.
func (s *State) chunkOf(id uint64) *Chunk {
	for uint64(len(s.Chunks)) <= id/ChunkIDs {
		s.Chunks = append(s.Chunks, Chunk{})
	}
	return &s.Chunks[id/ChunkIDs]
}

// Head is the base of the oldest segment.
func (s *State) Head() Offset {
	if len(s.Segments) == 0 {
		return 0
	}
	return s.Segments[0].Base
}

// segmentAt finds the segment that holds a position, nil if it was trimmed.
func (s *State) segmentAt(pos Offset) *Segment {
	holds := func(i int) bool {
		g := &s.Segments[i]
		return pos >= g.Base && (g.End == 0 || pos < g.End)
	}
	if s.hitSeg < len(s.Segments) && holds(s.hitSeg) {
		return &s.Segments[s.hitSeg]
	}
	i := sort.Search(len(s.Segments), func(i int) bool { return s.Segments[i].Base > pos }) - 1
	if i < 0 || !holds(i) {
		return nil
	}
	s.hitSeg = i
	return &s.Segments[i]
}

// LogTimeOf maps a wall clock time to the first logTime at which the wall clock had reached it.
func (s *State) LogTimeOf(wallMs int64) int64 {
	for i, st := range s.Steps {
		reached := st.LogMs + max(wallMs-st.WallMs, 0)
		if i == len(s.Steps)-1 || reached < s.Steps[i+1].LogMs {
			return reached
		}
	}
	return 0
}

// WallTimeOf maps a logTime to what the wall clock showed at it, but for what it had drifted since the step before.
func (s *State) WallTimeOf(logMs int64) int64 {
	i := sort.Search(len(s.Steps), func(i int) bool { return s.Steps[i].LogMs > logMs })
	if len(s.Steps) == 0 {
		return logMs
	}
	st := s.Steps[max(i-1, 0)]
	return st.WallMs + (logMs - st.LogMs)
}

// InHole says whether a position is in a lost range.
func (s *State) InHole(pos Offset) bool { return holds(s.Holes, pos) || holds(s.Lost, pos) }

func holds(sorted []Hole, pos Offset) bool {
	i := sort.Search(len(sorted), func(i int) bool { return sorted[i].To > pos })
	return i < len(sorted) && pos >= sorted[i].From
}

// Behead folds what a trim in a lost range would have said: the log begins at head, and a queue at the first of its units
// that is there, which first says. It is only for a fold that is lossy: the next state record is made from it.
func (s *State) Behead(head Offset, first func(topic, queue uint32) int64) {
	kept := slices.IndexFunc(s.Segments, func(g Segment) bool { return g.Base >= head })
	if kept <= 0 {
		return
	}
	s.Segments = slices.Delete(s.Segments, 0, kept)
	s.hitSeg = 0
	for _, t := range s.Topics {
		for i := range t.Queues {
			q := &t.Queues[i]
			q.Min = max(q.Min, min(first(t.ID, uint32(i)), q.Next))
		}
	}
}

// Lossy says whether the fold waits for a state record after a lost range.
func (s *State) Lossy() bool { return s.lossy }

// Resume continues a fold that a checkpoint saved, lossy or not.
func (s *State) Resume(lossy bool) { s.lossy = lossy }
