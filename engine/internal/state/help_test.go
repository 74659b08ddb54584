package state_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/consumequeue"
	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/record"
	"github.com/tidewheel/tidewheel/engine/statebits"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// payload is what every kind of record is.
type payload interface{ Append(b []byte) []byte }

// undo takes a cancel back: the payload of a move under another kind.
type undo struct{ *record.Supersede }

// kindOf says under which kind a payload stands in the log.
func kindOf(p payload) commitlog.Kind {
	switch p.(type) {
	case *message.Message:
		return message.KindMessage
	case *record.Deliver:
		return record.KindDeliver
	case *record.Cancel:
		return record.KindCancel
	case *record.Supersede:
		return record.KindSupersede
	case *record.Topic:
		return record.KindTopic
	case *record.Group:
		return record.KindGroup
	case *record.Commit:
		return record.KindCommit
	case *record.Roll:
		return record.KindRoll
	case *record.Trim:
		return record.KindTrim
	case *record.State:
		return record.KindState
	case *record.Hole:
		return record.KindHole
	case undo:
		return record.KindUndo
	case *record.Verdict:
		return record.KindVerdict
	}
	return 99
}

// index writes down what the fold tells it, and is the set of bits.
type index struct {
	calls []string
	bits  map[uint64]statebits.State
	fail  error // of what can fail
}

func (ix *index) note(format string, args ...any) {
	ix.calls = append(ix.calls, fmt.Sprintf(format, args...))
}

func (ix *index) Unit(topic, queue uint32, at int64, u consumequeue.Unit) error {
	ix.note("unit %d/%d at %d: position %d size %d tags %d log %d", topic, queue, at, u.Position, u.Size, u.Tags, u.LogMs)
	return ix.fail
}

func (ix *index) Put(e timerlog.Entry, delayMs int64) error {
	ix.note("put (%d, %d) delay %d: position %d size %d to %d/%d late %t level %d", e.Due, e.ID, delayMs, e.Position, e.Size,
		e.Topic, e.Queue, e.Late(), e.Level())
	return ix.fail
}

func (ix *index) Gone(lane uint8, k timerlog.Key) { ix.note("gone %d (%d, %d)", lane, k.Due, k.ID) }

func (ix *index) SetBits(id uint64, s statebits.State) error {
	ix.note("bits %d %v", id, s)
	ix.bits[id] = s
	return ix.fail
}

func (ix *index) CloseChunk(chunk uint64) { ix.note("close %d", chunk) }

func (ix *index) Keyed(topic uint32, key []byte, pos state.Offset) {
	ix.note("topic %d key %s at %d", topic, key, pos)
}
func (ix *index) TopicGone(topic uint32) { ix.note("topic %d gone", topic) }

func (ix *index) Trimmed(topic, queue uint32, low int64) {
	ix.note("trim %d/%d to %d", topic, queue, low)
}

// take returns the calls since the last take.
func (ix *index) take() []string {
	calls := ix.calls
	ix.calls = nil
	return calls
}

// bits is a set of bits in memory.
type bits map[uint64]statebits.State

func (b bits) Get(id uint64) (statebits.State, error) { return b[id], nil }

func (b bits) Set(id uint64, s statebits.State) error { b[id] = s; return nil }

// brokenBits cannot be read.
type brokenBits struct{}

var errBroken = errors.New("broken")

func (brokenBits) Get(uint64) (statebits.State, error) { return 0, errBroken }

func (brokenBits) Set(uint64, statebits.State) error { return errBroken }

// world is a fold with its clocks and its place in the log.
type world struct {
	t     testing.TB
	s     *state.State
	ix    *index
	logMs int64
	// wallMs goes with logMs unless a test steps it.
	wallMs int64
	flags  bool // must understand
}

const (
	begin = 1_000_000 // wall clock at creation
	size  = 100       // bytes of every record here
)

// newWorld is a store just made, with a lane.
func newWorld(t testing.TB) *world {
	w := &world{t: t, s: state.New(1), ix: &index{bits: map[uint64]statebits.State{}}, wallMs: begin, flags: true}
	w.s.Create(begin)
	w.s.Seen = bits{}
	return w
}

// pass lets time go by, on both clocks.
func (w *world) pass(ms int64) { w.logMs, w.wallMs = w.logMs+ms, w.wallMs+ms }

// apply folds records as one batch at the end of the log, and says what was wrong with the first bad one.
func (w *world) apply(ps ...payload) error {
	w.s.BeginBatch(w.logMs, w.wallMs)
	pos := w.s.End + commitlog.BatchHeaderSize
	for _, p := range ps {
		r := commitlog.Record{Pos: pos, Size: size, Kind: kindOf(p), Payload: p.Append(nil)}
		if err := w.s.Apply(&r, w.flags, w.ix); err != nil {
			return err
		}
		pos += size
	}
	w.s.EndBatch(pos, false)
	return nil
}

// must is apply without an error.
func (w *world) must(ps ...payload) {
	w.t.Helper()
	if err := w.apply(ps...); err != nil {
		w.t.Fatal(err)
	}
}

// seal ends the segment.
func (w *world) seal() {
	w.s.BeginBatch(w.logMs, w.wallMs)
	w.s.EndBatch(w.s.End+commitlog.BatchHeaderSize, true)
}

// next is where the first record of the next batch will stand.
func (w *world) next() commitlog.Offset { return w.s.End + commitlog.BatchHeaderSize }

func topic(id uint32, name string, queues uint32) *record.Topic {
	return &record.Topic{Op: record.Define, ID: id, Queues: queues, Name: name}
}

func group(id uint32, name string) *record.Group {
	return &record.Group{Op: record.Define, ID: id, Name: name}
}

// visible is a message that is visible at once.
func visible(topic, queue uint32, at int64) *message.Message {
	return &message.Message{Topic: topic, Queue: queue, QueueOffset: at, Tags: 7}
}

// waiting is a level message.
func waiting(id uint64, due, delay int64) *message.Message {
	return &message.Message{ID: id, QueueOffset: -1, Topic: 1, DueMs: due, DelayMs: delay, Level: 3}
}

// flagged is a waiting message that is not in a schedule queue.
func flagged(id uint64, due int64, flags message.Flags) *message.Message {
	return &message.Message{ID: id, QueueOffset: -1, Topic: 1, DueMs: due, Flags: flags}
}

// deliver makes one item of each key visible in queue 0 of topic 1, from an offset on.
func deliver(base int64, keys ...timerlog.Key) *record.Deliver {
	d := &record.Deliver{Queues: []record.DeliverQueue{{Topic: 1, Base: base}}}
	for _, k := range keys {
		d.Items = append(d.Items, record.DeliverItem{Key: k, Position: 700, Size: size})
		d.Frontier = k
	}
	return d
}

func key(due int64, id uint64) timerlog.Key { return timerlog.Key{Due: due, ID: id} }

// timerEntry is the entry of a message, where the log has it.
func timerEntry(due int64, id uint64, late bool) timerlog.Entry {
	return timerlog.Entry{Key: key(due, id), Position: 1000, Size: size, Topic: 1, Flags: timerlog.EntryFlags(late, 0, 0)}
}

// peopled is a world with topic 1 of two queues, topic 2 of one, a group, and two messages that wait, id 1 and 2.
func peopled(t testing.TB) *world {
	w := newWorld(t)
	w.must(topic(1, "orders", 2), topic(2, "mail", 1), group(1, "billing"))
	w.must(waiting(1, begin+1000, 1000), flagged(2, begin+5000, 0))
	w.ix.take()
	return w
}
