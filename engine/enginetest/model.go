package enginetest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/handle"
)

// Model judges what an engine answers, from the promises alone: it knows no file and folds no log. It hears of a call
// with Appended or Ticked and keeps it in a journal; Released makes true what is behind the mark, and then looks at what
// became visible. After a crash Recovered drops the rest of the journal and holds the store to it.
//
// The first violation stays in Err. A Model is not safe for concurrent use.
type Model struct {
	opts engine.Options // those that decide something: Retention, Queues, NoAutoTopics, RollAfter
	// levels are the delays of the level table in ms; level n is levels[n-1].
	levels []int64

	msgs    []msg
	byID    map[uint64]int
	topics  map[string]*topic // those that exist
	queues  map[engine.QueueRef]*queue
	names   map[uint32]string // of every topic id that was given out
	groups  map[string]uint32 // the attributes of each
	commits map[commitKey]int64
	settled map[commitKey]map[int64]bool // above the committed offset
	origins map[uint32]uint32            // topics of stages, by number
	order   int                          // of the last message that a stage kept
	once    map[onceKey]put              // the last message that was put with an idempotency key
	tails   map[int64]int64              // greatest due time of a level message, by delay
	nextID  uint64
	nextTop uint32
	latest  int64 // greatest time of day that was heard of

	journal  []entry
	released engine.Offset
	overtook [][2]int // pairs (a, b): b became visible before a of its level, which is fine only if a is late

	// Lenient says that the disk may be full: ErrDiskFull is an answer then. Forgets says that the store was rebuilt from
	// a log whose head is gone: an old handle may be unknown then. Both are set by the test.
	// Faulty says that reads may fail: one that fails twice makes the model blind until the store is opened again.
	Lenient, Forgets, Faulty bool

	blind bool
	carry window // of a look that a fault ended: what it should have seen comes after recovery

	running func() int64 // running time of the store, ms
	err     error
}

// status of a message.
type status uint8

const (
	unborn     status = iota // not stored, as far as was answered
	waiting                  //
	visible                  //
	cancelled                //
	superseded               //
	orphaned                 // its topic was deleted while it waited: it is dropped when due
	staged                   // in the stage of its topic
	kept                     // it was kept by the stage, and is to be visible
	decided                  // it was settled in the stage and not kept, or went with it
)

func (s status) String() string {
	return [...]string{"unborn", "waiting", "visible", "cancelled", "superseded", "orphaned", "in the stage", "kept", "decided"}[s]
}

// msg is what the model knows of a message. A move makes a new one with the content of the old.
type msg struct {
	content, size int    // whose bytes it has
	once          string // the idempotency key that it is put with

	status status
	name   string // of the topic
	topic  uint32
	queue  uint32 // asked for; the topic may have fewer when it is due
	level  int64  // delay of a level message, ms
	fifo   bool   // may not overtake an earlier message of its level
	asked  int64  // due time asked for, ms
	due    int64  // due time answered
	id     uint64
	lane   uint8
	handle handle.Handle
	pos    engine.Offset // journal position: it is in the log before any call with a greater one
	late   bool          // it was stored behind the frontier, as its record says
	seen   bool          // in its queue, at offset at
	at     int64

	nowhere bool   // the position of its record is not known
	keptTo  uint32 // the queue for which a stage kept it
	order   int    // of what was kept: its number in the order of verdicts
}

func (m *msg) less(o *msg) bool { return m.due < o.due || m.due == o.due && m.id < o.id }

type topic struct {
	id     uint32
	queues int // for new messages
	most   int // ever; those beyond are still read
	attrs  uint32
	paused bool
	staged bool
	stage  uint32 // the number of its stage; 0: it was never staged
}

// queue is what was seen of a queue.
type queue struct {
	min   int64         // smallest offset that may be read
	units []unit        // by offset
	want  map[int64]int // offsets that were answered and not seen yet, to messages
	kept  int           // order of the last message that a stage kept for it
}

type unit struct {
	msg int   // -1: it was trimmed before it was seen
	run int64 // running time before which it did not become visible
}

type onceKey struct {
	topic uint32
	key   string
}

// put says when a message was stored.
type put struct{ wall, run int64 }

type commitKey struct {
	group string
	topic uint32
	queue int
}

// entry is a call whose answers are not released yet.
type entry struct {
	pos       engine.Offset
	start     engine.Offset // of a tick: what it delivered lies between start and pos
	wall, run int64
	call      Call // Command is nil for a tick
	ans       engine.Answer
}

// Call is a command with what the model has to know of it.
type Call struct {
	Command engine.Command
	New     int // number of the message that a Put or a Move makes, from Model.New
	Target  int // number of the message that a Cancel or a Move is about; -1 for one that never was
	// Of a Settle of a stage: the numbers of the messages that it is about, and of those that it puts.
	Settled, News []int
}

// NewModel returns a model of an empty store. levels is the table of delay levels; running says how long the store has
// been open in all, in ms.
func NewModel(opts engine.Options, levels []time.Duration, running func() int64) *Model {
	m := &Model{
		running: running,
		byID:    map[uint64]int{}, topics: map[string]*topic{}, queues: map[engine.QueueRef]*queue{},
		names: map[uint32]string{}, groups: map[string]uint32{}, commits: map[commitKey]int64{}, once: map[onceKey]put{},
		tails: map[int64]int64{}, nextID: 1, nextTop: 1, settled: map[commitKey]map[int64]bool{}, origins: map[uint32]uint32{},
	}
	m.Tune(opts, levels)
	return m
}

// Tune tells the model the options of the engine that runs now.
func (m *Model) Tune(opts engine.Options, levels []time.Duration) {
	m.opts, m.levels = opts, nil
	fill(&m.opts.Queues, 4)
	fill(&m.opts.Retention, 72*time.Hour)
	fill(&m.opts.RollAfter, 72*time.Hour)
	fill(&m.opts.MaxDelay, 7*24*time.Hour)
	fill(&m.opts.IdempotencyWindow, 24*time.Hour)
	for _, d := range levels {
		m.levels = append(m.levels, d.Milliseconds())
	}
}

// Err is the first violation, nil so far.
func (m *Model) Err() error { return m.err }

func (m *Model) violated(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf(format, args...)
	}
}

// New returns a number for a message with a body of size bytes.
func (m *Model) New(size int) int {
	m.msgs = append(m.msgs, msg{content: len(m.msgs), size: size})
	return len(m.msgs) - 1
}

// Clone returns a model that knows the same and hears on its own.
func (m *Model) Clone(running func() int64) *Model {
	c := *m
	c.running = running
	c.msgs = slices.Clone(m.msgs)
	c.byID = maps.Clone(m.byID)
	c.topics = maps.Clone(m.topics)
	for name, t := range c.topics {
		t := *t
		c.topics[name] = &t
	}
	c.queues = maps.Clone(m.queues)
	for ref, q := range c.queues {
		c.queues[ref] = &queue{q.min, slices.Clone(q.units), maps.Clone(q.want), q.kept}
	}
	c.names = maps.Clone(m.names)
	c.groups = maps.Clone(m.groups)
	c.commits = maps.Clone(m.commits)
	c.settled, c.origins = maps.Clone(m.settled), maps.Clone(m.origins)
	for key, set := range c.settled {
		c.settled[key] = maps.Clone(set)
	}
	c.once = maps.Clone(m.once)
	c.tails = maps.Clone(m.tails)
	c.journal = slices.Clone(m.journal)
	c.overtook = slices.Clone(m.overtook)
	return &c
}

// Appended says that a call of Append took these calls, with these answers, at position pos. wall is the time of day
// and run the running time of the store, both in ms.
func (m *Model) Appended(wall, run int64, calls []Call, answers []engine.Answer, pos engine.Offset) {
	m.journaled(pos)
	for i, a := range answers {
		m.journal = append(m.journal, entry{pos: pos, wall: wall, run: run, call: calls[i], ans: a})
	}
}

// Ticked says that a call of Tick found the log's end at start and left it at pos.
func (m *Model) Ticked(wall, run int64, start, pos engine.Offset) {
	m.journaled(pos)
	m.journal = append(m.journal, entry{start: start, pos: pos, wall: wall, run: run})
}

func (m *Model) journaled(pos engine.Offset) {
	if n := len(m.journal); pos < m.released || n > 0 && pos < m.journal[n-1].pos {
		m.violated("positions go back: %d after %v", pos, m.journal)
	}
}

// window is what the journal says of a stretch of log that was released at once.
type window struct {
	walls     []tick // of its ticks, in order
	firstTick engine.Offset
	run       int64    // smallest running time of its ticks
	owed      []int    // messages that were answered as delivered and must be visible now
	fired     []int    // messages that became visible by falling due
	counts    []uint32 // numbers of queues that topics had before they were changed
	last      lastSeen
	staging
}

// lastSeen is the unit that was looked at last, if it was a delivery.
type lastSeen struct {
	ref engine.QueueRef
	at  int64
}

// tick adds a tick to the window.
func (w *window) tick(e *entry) {
	w.firstTick = min(w.firstTick, e.start)
	w.walls = append(w.walls, tick{e.pos, e.wall})
	w.run = min(w.run, e.run)
}

func newWindow() window { return window{firstTick: math.MaxInt64, run: math.MaxInt64} }

type tick struct {
	pos  engine.Offset
	wall int64
}

// Released says that the engine released the log up to pos: answers up to there are heard, and what is new in the
// queues is looked at. woken is what Release said.
func (m *Model) Released(e *engine.Engine, pos engine.Offset, woken []engine.QueueRef) {
	w := m.hear(pos)
	for _, ref := range woken {
		m.look(e, ref, &w)
	}
	if m.blind {
		m.carry = w
		return
	}
	m.settle(&w)
}

// hear applies the journal up to pos.
func (m *Model) hear(pos engine.Offset) window {
	w := newWindow()
	if len(m.carry.walls) > 0 {
		w, m.carry = m.carry, newWindow()
	}
	n := 0
	for ; n < len(m.journal) && m.journal[n].pos <= pos; n++ {
		if e := &m.journal[n]; e.call.Command == nil {
			m.latest = max(m.latest, e.wall)
			w.tick(e)
		} else {
			m.judge(e, &w)
		}
	}
	for i := n; i < len(m.journal); i++ { // a tick may have sealed the segment behind what it delivered
		if e := &m.journal[i]; e.call.Command == nil && e.start < pos {
			w.tick(e)
		}
	}
	m.journal = slices.Delete(m.journal, 0, n)
	m.released = max(m.released, pos)
	return w
}

// NextDue is the smallest due time of a waiting message; ok is false when none waits. A message whose topic is gone counts
// for nothing.
func (m *Model) NextDue() (due int64, ok bool) {
	due = math.MaxInt64
	for i := range m.msgs {
		if m.msgs[i].status == waiting {
			due, ok = min(due, m.msgs[i].due), true
		}
	}
	return due, ok
}
