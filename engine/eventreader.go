package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/record"
)

// Bounds of one EventReader.Read: it ends with the batch in which one of them is reached.
const (
	eventBytes = 4 << 20 // of log
	eventCount = 1024
)

// EventReader tells what happened, from the log: everything, in its order, nothing twice. It holds no file open between
// two calls. It is not safe for concurrent use; any number of readers may be at work beside the writer.
type EventReader struct {
	e     *Engine
	topic string // "": all
	scan  eventScan
	ids   []uint32 // that the topic and its stage have or had
	buf   []byte

	// at is the batch where reading goes on: of what lies before scan.from in it and behind it nothing is told.
	at Offset
}

// NewEventReader makes a reader of the events of a topic, "" for all, from a place of the log on: the position of an
// event, or one more than that of the last one seen. It need not be exact: the next event behind it is the first that is
// told. A topic need not be there yet. ErrTrimmed: the place was deleted, and the error says where the log begins now;
// ErrOffset: it lies behind the end of what is released. Safe for concurrent use.
func (e *Engine) NewEventReader(topic string, from Offset) (*EventReader, error) {
	if e.closed.Load() {
		return nil, ErrClosed
	}
	r := &EventReader{e: e, topic: topic}
	r.scan.from = from
	end, first := e.Released(), e.log.First()
	switch {
	case from > end:
		return nil, fmt.Errorf("%w: events from %d on, the log is released up to %d", ErrOffset, from, end)
	case from == end:
		r.at = end
	case from < first:
		return nil, eventsTrimmed(from, first)
	default:
		base, _, _, ok := e.log.SegmentOf(from)
		if !ok {
			return nil, eventsTrimmed(from, e.log.First())
		}
		// A record does not say where its batch begins: the reader starts at the segment and passes over what comes before.
		r.at = base
	}
	if topic != "" {
		r.scan.want = func(id uint32) bool { return slices.Contains(r.ids, id) }
		r.scan.name = func(t *record.Topic) {
			if t.Name == topic || t.Name == StagePrefix+topic {
				r.know(t.ID)
			}
		}
		r.learn()
	}
	return r, nil
}

// First is the position at which the log begins: what was before was deleted. Safe for concurrent use.
func (e *Engine) First() Offset { return e.log.First() }

func eventsTrimmed(from, first Offset) error {
	return fmt.Errorf("%w: events from %d on, the log begins at %d", ErrTrimmed, from, first)
}

// learn notes the ids that the topic and its stage have now.
func (r *EventReader) learn() {
	r.e.mu.RLock()
	defer r.e.mu.RUnlock()
	if t := r.e.st.TopicByName(r.topic); t != nil {
		r.know(t.ID)
		if t.Stage != nil {
			r.know(t.Stage.ID)
		}
	}
}

// know notes an id.
func (r *EventReader) know(id uint32) {
	if !slices.Contains(r.ids, id) {
		r.ids = append(r.ids, id)
	}
}

// At is the batch where reading goes on. When it equals the engine's released position nothing more has happened yet.
func (r *EventReader) At() Offset { return r.at }

// Read appends the next events to into. Only what is released is told. None and a higher At mean that there were none
// in what was read, none and the same At that the end is reached. The work is bounded: it reads about 4 MiB of log, and
// the records of the messages that it tells of as delivered, for their keys.
//
// The answer may leave when the log is released up to the position, which is 0 but where a name is missing: that a topic
// or a group was deleted since may not be durable yet. Errors are those of reading the log, and ErrTrimmed when the
// reader was so slow that what it would have told was deleted; the reader stays where it was.
func (r *EventReader) Read(into []Event) ([]Event, Offset, error) {
	if r.e.closed.Load() {
		return into, 0, ErrClosed
	}
	if r.topic != "" {
		r.learn()
	}
	start, end := r.at, r.e.Released()
	if start >= end {
		return into, 0, nil
	}
	at, known := end, len(into)
	r.scan.events = into
	err := r.e.log.Scan(start, 0, false, func(b *commitlog.Batch) error {
		if b.End() > end {
			return fs.SkipAll
		}
		if err := r.scan.read(b); err != nil {
			return err
		}
		if b.End()-start >= eventBytes || len(r.scan.events)-known >= eventCount {
			at = b.End()
			return fs.SkipAll
		}
		return nil
	})
	into, r.scan.events = r.scan.events, nil
	if err != nil {
		into = into[:known]
		if first := r.e.log.First(); start < first && (errors.Is(err, commitlog.ErrOutOfLog) || errors.Is(err, fs.ErrNotExist)) {
			return into, 0, eventsTrimmed(max(start, r.scan.from), first)
		}
		return into, 0, fmt.Errorf("engine: read events: %w", err)
	}
	r.at = at
	for i := known; i < len(into); i++ {
		if into[i].Kind == EventDelivered || into[i].Kind == EventDecided {
			r.look(&into[i])
		}
	}
	return into, r.names(into[known:]), nil
}

// look reads the record of a message that was delivered or settled, which that does not repeat, and finds out whether it was
// delivered to the stage of its topic. What cannot be read is left
// open: whoever pulls the message is told why.
func (r *EventReader) look(ev *Event) {
	rec, buf, err := r.e.log.ReadRecord(ev.First, int(ev.Size), r.buf)
	r.buf = buf
	m := &r.scan.message
	if err != nil || rec.Kind != message.KindMessage || message.Decode(rec.Payload, m) != nil || m.ID != ev.ID {
		ev.First = -1
		r.e.mu.RLock()
		if t := r.e.st.Topics[ev.Topic]; t != nil && t.Origin != nil {
			ev.inStage(t.Origin.ID)
		}
		r.e.mu.RUnlock()
		return
	}
	ev.inStage(m.Topic)
	queue := ev.Queue // of the delivery: the topic may have fewer queues since the message was stored
	ev.describe(m, rec.Size)
	ev.Queue = queue
}

// names fills in the names. A name never changes, so one that is known may be told at once.
func (r *EventReader) names(events []Event) (pos Offset) {
	r.e.mu.RLock()
	defer r.e.mu.RUnlock()
	for i := range events {
		ev := &events[i]
		switch t := r.e.st.Topics[ev.Topic]; {
		case t != nil:
			ev.TopicName = t.Name
		case ev.TopicName == "" && r.topic != "":
			ev.TopicName = r.topic
		case ev.TopicName == "" && ev.Topic != 0:
			pos = r.e.asOf()
		}
		switch g := r.e.st.Groups[ev.Group]; {
		case g != nil:
			ev.GroupName = g.Name
		case ev.GroupName == "" && ev.Group != 0:
			pos = r.e.asOf()
		}
	}
	return pos
}
