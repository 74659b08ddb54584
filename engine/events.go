package engine

import (
	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/handle"
	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/record"
)

// The kinds of events.
const (
	EventStored    = "stored"    // a message came and is visible: Offset
	EventScheduled = "scheduled" // a message came and waits until DueMs
	EventRolled    = "rolled"    // a message that waits was copied to the end of the log
	EventDelivered = "delivered" // a message that waited is in its queue: Offset
	EventStaged    = "staged"    // a message was due and is in the stage of its topic: Offset there
	EventDecided   = "decided"   // a message was settled and is not visible by that; what a stage kept is delivered
	EventDropped   = "dropped"   // a message was due and its topic is gone
	EventCancelled = "cancelled"
	EventMoved     = "moved"     // to NewDueMs, under NewID
	EventUndone    = "undone"    // a cancel was taken back: the message waits under NewID
	EventCommitted = "committed" // Group stands at Offset
	EventTopic     = "topic"     // a topic was made or changed
	EventNoTopic   = "topic_deleted"
	EventGroup     = "group" // a group was made or changed
	EventNoGroup   = "group_deleted"
	EventTrimmed   = "trimmed" // the log begins at First
	EventLost      = "lost"    // a message that cannot be read was declared lost
)

// Event is something that happened: to a message, a topic, a group or the log. What its kind does not speak of is zero,
// positions and offsets -1.
type Event struct {
	Kind   string // one of the constants
	WallMs int64  // when the writer decided it, ms since 1970
	// Position is the event's own place in the log: it grows from event to event. What came after it begins at
	// Position + 1. (It is the position of the record; of the messages of one deliver record, a byte in it for each.)
	Position Offset

	ID       uint64 // number of a message that waits or waited; 0 for one that was visible at once
	First    Offset // of the message's first record, which names it; of a move, that of the new one
	DueMs    int64  // ms since 1970; 0 without a delay
	Topic    uint32
	Queue    uint32
	Offset   int64 // in the queue
	Key, Tag string
	Size     int32 // bytes of the message's record

	NewID    uint64 // of a move or an undo
	NewDueMs int64
	Group    uint32
	Paused   bool          // of a topic: groups are kept from reading it
	Staged   bool          // of a topic: what falls due in it goes to its stage
	Verdict  *EventVerdict // of a message that was settled; nil: no plugin was asked about it

	// TopicName and GroupName are set by an EventReader; empty for what has been deleted since.
	TopicName, GroupName string
}

// EventVerdict is what was decided about a message. Group is that of the event.
type EventVerdict struct {
	Action uint8 // a number of the plugins' ABI
	Code   uint16
	Asked  bool // a plugin decided: Digest is the SHA-256 of its file
	Digest [32]byte
	Queue  uint32 // where the message was settled: the stage's, or the group's
	Offset int64
}

// LatenessMs is how long after its due time a message was delivered, in ms; 0 for other events.
func (ev *Event) LatenessMs() int64 {
	if ev.Kind != EventDelivered {
		return 0
	}
	return ev.WallMs - ev.DueMs
}

// eventScan takes events out of batches. It is the one way in which the log is told.
type eventScan struct {
	id   uint64            // only what happened to this message; 0: everything
	home uint32            // its topic; else 0
	want func(uint32) bool // whether a topic is meant; nil: all are
	name func(*record.Topic)
	from Offset // events before are passed over

	events []Event
	copied int           // index of the move whose copy comes next; -1: none
	next   handle.Handle // of the copy that came last
	parts  []byte        // of the first state record, for its names
	begun  bool          // it was read

	// reused
	message   message.Message
	deliver   record.Deliver
	verdict   record.Verdict
	supersede record.Supersede
}

// read takes the events of a batch.
func (s *eventScan) read(b *commitlog.Batch) error {
	records := b.Records()
	s.copied = -1
	for {
		r, ok, err := records.Next()
		if err != nil || !ok {
			return err
		}
		if err := s.record(&r, b.AppendMs); err != nil {
			return err
		}
	}
}

// record takes the events of a record.
func (s *eventScan) record(r *commitlog.Record, wallMs int64) error {
	ev := Event{WallMs: wallMs, Position: r.Pos, Offset: -1, First: -1}
	switch r.Kind {
	case message.KindMessage:
		return s.readMessage(r, ev)
	case record.KindDeliver:
		return s.readDelivery(r, ev)
	case record.KindVerdict:
		return s.readVerdict(r, ev)
	case record.KindCancel:
		var c record.Cancel
		if err := c.Decode(r.Payload); err != nil {
			return err
		}
		ev.Kind, ev.ID, ev.DueMs, ev.Topic = EventCancelled, c.ID, c.Due, c.Topic
		s.add(&ev)
	case record.KindSupersede, record.KindUndo:
		if err := s.supersede.Decode(r.Payload); err != nil {
			return err
		}
		old := &s.supersede
		ev.Kind, ev.ID, ev.DueMs, ev.Topic, ev.NewID = EventMoved, old.ID, old.Due, old.Topic, old.NewID
		if r.Kind == record.KindUndo {
			ev.Kind = EventUndone
		}
		if s.copied = -1; s.add(&ev) {
			s.copied = len(s.events) - 1
		}
	case record.KindState:
		if s.name != nil && !s.begun {
			return s.readState(r)
		}
	case record.KindTopic, record.KindGroup, record.KindCommit, record.KindTrim, record.KindHole:
		if s.id == 0 {
			return s.readRest(r, ev)
		}
	}
	return nil
}

// readState takes the names of the topics that were there when the segment began in which the reading begins.
func (s *eventScan) readState(r *commitlog.Record) error {
	var part record.State
	if err := part.Decode(r.Payload); err != nil {
		return err
	}
	if part.Part == 0 {
		s.parts = s.parts[:0]
	}
	if s.parts = append(s.parts, part.Data...); part.Part != part.Parts-1 {
		return nil
	}
	st := state.New(0)
	if err := st.Decode(s.parts); err != nil {
		return err
	}
	for _, t := range st.Topics {
		s.name(&record.Topic{ID: t.ID, Name: t.Name})
	}
	s.parts, s.begun = nil, true
	return nil
}

// add adds an event that is wanted.
func (s *eventScan) add(ev *Event) bool {
	if ev.Position < s.from || s.id != 0 && ev.ID != s.id || s.want != nil && !s.want(ev.Topic) {
		return false
	}
	s.events = append(s.events, *ev)
	return true
}

// readMessage takes a message that came, or a copy. That of a move is part of the move's event.
func (s *eventScan) readMessage(r *commitlog.Record, ev Event) error {
	m := &s.message
	if err := message.Decode(r.Payload, m); err != nil {
		return err
	}
	if m.Flags&message.Moved != 0 && m.Flags&message.Copy == 0 {
		if s.copied >= 0 && s.events[s.copied].NewID == m.ID {
			moved := &s.events[s.copied]
			moved.NewDueMs = m.DueMs
			moved.describe(m, r.Size)
			s.next = handle.Handle{Lane: m.Lane, Topic: m.Topic, ID: m.ID, Due: m.DueMs, Position: m.First}
			s.copied = -1
		}
		if s.id == 0 {
			return nil
		}
	}
	ev.ID, ev.DueMs, ev.Topic, ev.Queue = m.ID, m.DueMs, m.Topic, m.Queue
	switch {
	case m.Flags&message.Copy != 0:
		ev.Kind = EventRolled
	case m.ID != 0:
		ev.Kind = EventScheduled
	default:
		ev.Kind, ev.Offset, ev.DueMs = EventStored, m.QueueOffset, 0
	}
	if s.add(&ev) {
		s.events[len(s.events)-1].describe(m, r.Size)
	}
	return nil
}

// describe says what message an event is about.
func (ev *Event) describe(m *message.Message, size int) {
	ev.First, ev.Queue, ev.Key, ev.Tag, ev.Size = m.First, m.Queue, string(m.Key), string(m.Tag), int32(size)
}

// readDelivery takes an event for each message of a deliver record. An item takes at least five bytes of the record, so
// there is a byte in it to name each. The record does not say which of its topics are stages: where the message's own topic is
// known that tells it.
func (s *eventScan) readDelivery(r *commitlog.Record, ev Event) error {
	d := &s.deliver
	if err := d.Decode(r.Payload); err != nil {
		return err
	}
	for i := range d.Items {
		it := &d.Items[i]
		q := &d.Queues[it.Queue] // its base counts up with the items
		ev.Kind, ev.Offset = EventDelivered, q.Base
		if q.Base == record.Gone {
			ev.Kind = EventDropped
		} else {
			q.Base++
		}
		ev.Position = r.Pos + Offset(i)
		ev.ID, ev.DueMs, ev.Topic, ev.Queue, ev.Size = it.ID, it.Due, q.Topic, q.Queue, it.Size
		ev.First = it.Position // of the copy: an EventReader looks whether there was one before
		if s.home != 0 {
			ev.inStage(s.home)
		}
		s.add(&ev)
	}
	return nil
}

// inStage makes of a delivery one to the stage, if it was to another topic than the message's own.
func (ev *Event) inStage(own uint32) {
	if ev.Kind == EventDelivered && ev.Verdict == nil && ev.Topic != own {
		ev.Kind, ev.Topic = EventStaged, own
	}
}

// readVerdict takes an event for each message of a verdict record, as readDelivery.
func (s *eventScan) readVerdict(r *commitlog.Record, ev Event) error {
	v := &s.verdict
	if err := v.Decode(r.Payload); err != nil {
		return err
	}
	base, verdicts := v.Base, make([]EventVerdict, len(v.Items))
	for i := range v.Items {
		it, x := &v.Items[i], &verdicts[i]
		ev.Kind, ev.Topic, ev.Queue, ev.Offset, ev.Group = EventDecided, v.Topic, v.Queue, -1, v.Group
		if v.Origin != 0 {
			ev.Topic = v.Origin
		}
		if it.Kept {
			ev.Kind, ev.Queue, ev.Offset = EventDelivered, v.To, base
			base++
		}
		ev.Position = r.Pos + Offset(i)
		ev.ID, ev.DueMs, ev.Size, ev.First = it.ID, it.Due, it.Size, it.Position
		*x = EventVerdict{Action: it.Action, Code: it.Code, Queue: v.Queue, Offset: it.Offset}
		if it.Plugin != record.Nobody {
			x.Asked, x.Digest = true, v.Digests[it.Plugin]
		}
		ev.Verdict = x
		s.add(&ev)
	}
	return nil
}

// readRest takes what does not happen to a message.
func (s *eventScan) readRest(r *commitlog.Record, ev Event) error {
	switch r.Kind {
	case record.KindTopic:
		var t record.Topic
		if err := t.Decode(r.Payload); err != nil {
			return err
		}
		if s.name != nil {
			s.name(&t)
		}
		ev.Kind, ev.Topic, ev.TopicName, ev.Paused = EventTopic, t.ID, t.Name, t.Attrs&record.TopicPaused != 0
		ev.Staged = t.Attrs&record.TopicStaged != 0
		if t.Op == record.Delete {
			ev.Kind = EventNoTopic
		}
		s.add(&ev)
		return nil
	case record.KindCommit:
		var c record.Commit
		if err := c.Decode(r.Payload); err != nil {
			return err
		}
		ev.Kind, ev.Group, ev.Topic, ev.Queue, ev.Offset = EventCommitted, c.Group, c.Topic, c.Queue, c.Offset
		s.add(&ev)
		return nil
	}
	if s.want != nil {
		return nil // the others are of no topic
	}
	switch r.Kind {
	case record.KindGroup:
		var g record.Group
		if err := g.Decode(r.Payload); err != nil {
			return err
		}
		ev.Kind, ev.Group, ev.GroupName = EventGroup, g.ID, g.Name
		if g.Op == record.Delete {
			ev.Kind = EventNoGroup
		}
	case record.KindTrim:
		var t record.Trim
		if err := t.Decode(r.Payload); err != nil {
			return err
		}
		ev.Kind, ev.First = EventTrimmed, t.Head
	case record.KindHole:
		var h record.Hole
		if err := h.Decode(r.Payload); err != nil {
			return err
		}
		ev.Kind, ev.First = EventLost, h.From
	}
	s.add(&ev)
	return nil
}
