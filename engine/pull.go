package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/consumequeue"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/segment"
	"github.com/tidewheel/tidewheel/engine/message"
)

// Bounds of a pull.
const (
	defaultPullCount = 32
	maxPullCount     = 1024
	defaultPullBytes = 1 << 20
	scanUnits        = 4096    // units looked at by one pull: a filter that nothing passes is resumed by the caller
	joinGap          = 4 << 10 // messages of a pull that lie no farther apart are read together
	joinRead         = 256 << 10
)

// PullRequest says what to read.
type PullRequest struct {
	Topic    string
	Queue    int
	Offset   int64   // first queue offset
	MaxCount int     // of messages; 0: 32, at most 1,024
	MaxBytes int     // of their records; 0: 1 MiB. The first message comes even if it is larger
	Tags     []int32 // only messages with one of these tag hashes (message.TagHash); nil: all. Equal hashes may be of other tags
}

// Message is a message that is visible. Its slices belong to the Pulled.
type Message struct {
	message.Message
	Offset    int64  // in its queue
	Position  Offset // of its record
	Size      int32  // bytes of its record
	VisibleMs int64  // running time of the store at which it became visible
	Err       error  // its bytes cannot be read: damage, or a hole that was declared; then only Offset, Position, Size and Tags hold
}

// Pulled is the result of a pull, and its memory: it may be used again. Not safe for concurrent use.
type Pulled struct {
	Messages []Message // in order of their offsets; valid until the next Pull into the same Pulled
	Next     int64     // where to go on: behind the last unit that was looked at
	Min, Max int64     // offsets that the queue has, [Min, Max)
	// Position: messages may leave at once, since only released ones are read; but Min, and an ErrNoTopic, ErrQueue or
	// ErrTrimmed, only when the log is released up to here.
	Position Offset

	units  []consumequeue.Unit
	wanted []wanted
	all    []wanted // of PullAll
	reads  []joined
	buf    []byte
}

// wanted is a message to be read.
type wanted struct {
	unit   consumequeue.Unit
	offset int64
	in     *Pulled
	at     int // index in its Messages
}

func (w *wanted) message() *Message { return &w.in.Messages[w.at] }

// joined is a read of several messages that lie close together.
type joined struct {
	pos      Offset
	size     int
	from, to int // in the list of what is wanted, sorted by position
	buf      []byte
}

// Pull reads messages of a queue into p. An offset below Min is ErrTrimmed, one above Max ErrOffset; at Max the answer is
// empty. A message whose bytes are damaged is in the answer with its Err, and the others with it. Safe for concurrent
// use; it never waits for the writer longer than for a fold.
func (e *Engine) Pull(req PullRequest, p *Pulled) error {
	err := e.pick(&req, p)
	e.readWanted(p, p.wanted)
	return err
}

// PullAll is a Pull of each of several requests, with their messages read together: what lies close together in the log, as that of the
// queues of a topic mostly does, is read once. The errors stand at the indexes of the requests, and so do the answers. All
// messages are valid until the next pull into the first of the answers, or into their own.
func (e *Engine) PullAll(reqs []PullRequest, into []*Pulled) []error {
	if len(reqs) == 0 {
		return nil
	}
	errs, lists := make([]error, len(reqs)), make([][]wanted, 0, len(reqs))
	for i, p := range into[:len(reqs)] {
		if errs[i] = e.pick(&reqs[i], p); len(p.wanted) > 0 {
			lists = append(lists, p.wanted)
		}
	}
	into[0].all = merge(into[0].all[:0], lists)
	e.readWanted(into[0], into[0].all)
	return errs
}

// merge appends all lists, the one with the lowest position first, again and again. None is empty, and each is mostly in the order
// of positions, and then so is the result: sorting would cost more than reading.
func merge(all []wanted, lists [][]wanted) []wanted {
	for len(lists) > 0 {
		first := 0
		for i := range lists {
			if lists[i][0].unit.Position < lists[first][0].unit.Position {
				first = i
			}
		}
		all = append(all, lists[first][0])
		if lists[first] = lists[first][1:]; len(lists[first]) == 0 {
			lists = slices.Delete(lists, first, first+1)
		}
	}
	return all
}

// pick picks the messages of an answer. With an error there are none.
func (e *Engine) pick(req *PullRequest, p *Pulled) error {
	p.Messages, p.wanted = p.Messages[:0], p.wanted[:0]
	if e.closed.Load() {
		return ErrClosed
	}
	q, low, pos, err := e.queue(req.Topic, req.Queue)
	p.Position = pos
	if err != nil {
		return err
	}
	p.Min, p.Max, p.Next = low, low, req.Offset
	if q != nil {
		p.Max = max(low, int64(q.Visible()))
	}
	switch {
	case req.Offset < p.Min:
		return fmt.Errorf("%w: %d in queue %d of topic %q, the first is %d", ErrTrimmed, req.Offset, req.Queue, req.Topic, p.Min)
	case req.Offset > p.Max:
		return fmt.Errorf("%w: %d in queue %d of topic %q, the end is %d", ErrOffset, req.Offset, req.Queue, req.Topic, p.Max)
	case req.Offset == p.Max:
		return nil
	}
	if err := p.choose(q, req); err != nil {
		p.wanted = p.wanted[:0]
		return pullError(req, err)
	}
	p.Messages = slices.Grow(p.Messages, len(p.wanted))[:len(p.wanted)]
	for _, w := range p.wanted {
		p.Messages[w.at] = Message{Offset: w.offset, Position: w.unit.Position, Size: w.unit.Size, VisibleMs: w.unit.LogMs}
		p.Messages[w.at].Tags = w.unit.Tags
	}
	return nil
}

func pullError(req *PullRequest, err error) error {
	switch {
	case errors.Is(err, consumequeue.ErrTrimmed):
		err = fmt.Errorf("%w: %w", ErrTrimmed, err)
	case errors.Is(err, segment.ErrClosed):
		err = fmt.Errorf("%w: it was deleted meanwhile", ErrNoTopic)
	}
	return fmt.Errorf("engine: pull queue %d of topic %q: %w", req.Queue, req.Topic, err)
}

// queue finds a ConsumeQueue, nil while it is empty, and its minimum offset, and says from which position that is.
func (e *Engine) queue(topic string, queue int) (*consumequeue.Queue, int64, Offset, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	end := e.asOf()
	t := e.st.TopicByName(topic)
	if t == nil {
		return nil, 0, end, fmt.Errorf("%w: %q", ErrNoTopic, topic)
	}
	if queue < 0 || queue >= len(t.Queues) {
		return nil, 0, end, fmt.Errorf("%w: queue %d of topic %q, allowed is 0 to %d", ErrQueue, queue, topic, len(t.Queues)-1)
	}
	return e.queues.Queue(t.ID, uint32(queue)), e.low(t, uint32(queue)), end, nil
}

// choose picks the units of the answer.
func (p *Pulled) choose(q *consumequeue.Queue, req *PullRequest) error {
	count, bytes := req.MaxCount, req.MaxBytes
	if count <= 0 {
		count = defaultPullCount
	}
	if bytes <= 0 {
		bytes = defaultPullBytes
	}
	count = min(count, maxPullCount)
	end := min(p.Max, req.Offset+scanUnits)
	total := 0
	for p.Next < end {
		want := int(min(end-p.Next, int64(max(count-len(p.wanted), 64))))
		p.units = slices.Grow(p.units[:0], want)[:want]
		n, err := q.Units(consumequeue.QueueOffset(p.Next), p.units)
		if n == 0 {
			return err
		}
		for _, u := range p.units[:n] {
			if req.Tags == nil || u.Flags&consumequeue.FlagHole != 0 || slices.Contains(req.Tags, u.Tags) {
				if len(p.wanted) == count || len(p.wanted) > 0 && total+int(u.Size) > bytes {
					return nil
				}
				total += int(u.Size)
				p.wanted = append(p.wanted, wanted{u, p.Next, p, len(p.wanted)})
			}
			p.Next++
		}
	}
	return nil
}

// readWanted reads messages into the memory of p, in the order of their positions, those that lie close together at once.
func (e *Engine) readWanted(p *Pulled, list []wanted) {
	if len(list) == 0 {
		return
	}
	sortWanted(list)
	total, segment := 0, Offset(0) // the end of the segment of the last read
	p.reads = p.reads[:0]
	for i := range list {
		w := &list[i]
		if w.unit.Flags&consumequeue.FlagHole != 0 {
			w.message().Err = fmt.Errorf("%w: lost", ErrHole)
			continue
		}
		end := w.unit.Position + Offset(w.unit.Size)
		if n := len(p.reads); n > 0 {
			r := &p.reads[n-1]
			gap := w.unit.Position - (r.pos + Offset(r.size))
			if gap >= 0 && gap <= joinGap && end-r.pos <= joinRead && end <= segment {
				total += int(end-r.pos) - r.size
				r.size, r.to = int(end-r.pos), i+1
				continue
			}
		}
		_, segment, _, _ = e.log.SegmentOf(w.unit.Position)
		p.reads = append(p.reads, joined{pos: w.unit.Position, size: int(w.unit.Size), from: i, to: i + 1})
		total += int(w.unit.Size)
	}
	p.buf = slices.Grow(p.buf[:0], total)[:total]
	rest := p.buf
	for i := range p.reads {
		r := &p.reads[i]
		r.buf, rest = rest[:r.size:r.size], rest[r.size:]
	}
	if len(p.reads) == 1 {
		e.readJoined(&p.reads[0], list)
		return
	}
	e.env.Parallel(len(p.reads), func(i int) { e.readJoined(&p.reads[i], list) })
}

// sortWanted sorts by position; mostly there is nothing to do.
func sortWanted(list []wanted) {
	for i := 1; i < len(list); i++ {
		if list[i].unit.Position < list[i-1].unit.Position {
			slices.SortFunc(list, func(a, b wanted) int { return cmp.Compare(a.unit.Position, b.unit.Position) })
			return
		}
	}
}

// readJoined does one read and takes the messages out of it. When it fails whole, each message is tried by itself.
func (e *Engine) readJoined(r *joined, list []wanted) {
	err := e.log.ReadRaw(r.pos, r.buf)
	for i := r.from; i < r.to; i++ {
		w := &list[i]
		if w.unit.Flags&consumequeue.FlagHole != 0 {
			continue
		}
		m := w.message()
		at := int(w.unit.Position - r.pos)
		b := r.buf[at : at+int(w.unit.Size)]
		if err != nil && r.to-r.from > 1 {
			m.Err = e.log.ReadRaw(w.unit.Position, b)
		} else {
			m.Err = err
		}
		if m.Err == nil {
			m.Err = e.parse(w.unit.Position, b, &m.Message)
		} else if errors.Is(m.Err, commitlog.ErrOutOfLog) { // deleted while we looked
			m.Err = fmt.Errorf("%w: offset %d", ErrTrimmed, w.offset)
		}
	}
}

// parse checks and decodes a message record; damage is named by the segment's file.
func (e *Engine) parse(pos Offset, b []byte, m *message.Message) error {
	rec, err := commitlog.ParseRecord(pos, b)
	if err == nil && rec.Kind != message.KindMessage {
		err = corrupt.Errorf("", 0, "record of kind %d where a message should be", rec.Kind)
	}
	if err == nil && rec.Size != len(b) {
		err = corrupt.Errorf("", 0, "record of %d bytes, the unit says %d", rec.Size, len(b))
	}
	if err == nil {
		err = message.Decode(rec.Payload, m)
	}
	if err == nil {
		return nil
	}
	*m = message.Message{Tags: m.Tags}
	e.mu.RLock()
	hole := e.st.InHole(pos)
	e.mu.RUnlock()
	if hole {
		return fmt.Errorf("%w: at %d", ErrHole, pos)
	}
	base, _, _, _ := e.log.SegmentOf(pos)
	reason := err.Error()
	var c *corrupt.Error
	if errors.As(err, &c) {
		reason = c.Reason
	}
	return corrupt.Errorf(e.segmentName(base), int64(pos-base), "message: %s", reason)
}
