package state

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/consumequeue"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/record"
	"github.com/tidewheel/tidewheel/engine/statebits"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// maxSteps bounds the table of clock steps; the oldest go.
const maxSteps = 4096

// decoded has one value of each kind, so that a replay allocates nothing per record.
type decoded struct {
	message   message.Message
	deliver   record.Deliver
	cancel    record.Cancel
	supersede record.Supersede
	topic     record.Topic
	group     record.Group
	commit    record.Commit
	roll      record.Roll
	trim      record.Trim
	state     record.State
	hole      record.Hole
	verdict   record.Verdict
}

// BeginBatch sets the clocks for the records of a batch.
func (s *State) BeginBatch(logMs, wallMs int64) {
	s.LogMs, s.WallMs = logMs, wallMs
	if n := len(s.Steps); n > 0 {
		last := s.Steps[n-1]
		drift := (wallMs - last.WallMs) - (logMs - last.LogMs)
		if drift >= -stepMs && drift <= stepMs {
			return
		}
	}
	if len(s.Steps) == maxSteps {
		s.Steps = append(s.Steps[:0], s.Steps[1:]...)
	}
	s.Steps = append(s.Steps, Step{logMs, wallMs})
}

// EndBatch moves the end; a seal closes the segment and begins the next.
func (s *State) EndBatch(end Offset, seal bool) {
	s.End = end
	if !seal || len(s.Segments) == 0 {
		return
	}
	last := &s.Segments[len(s.Segments)-1]
	last.End, last.Sealed = end, s.LogMs
	last.Visible = max(last.Visible, s.LogMs) // what was recorded here is kept as long as what became visible at its end
	s.Segments = append(s.Segments, Segment{Base: end, Visible: s.LogMs, Opened: s.LogMs})
	s.End = end + commitlog.SegmentHeaderSize
}

// Apply decodes a record and folds it. mustUnderstand says whether a kind that this version does not know is an error.
func (s *State) Apply(r *commitlog.Record, mustUnderstand bool, ix Index) error {
	err := s.apply(r, mustUnderstand, ix)
	if err != nil {
		return fmt.Errorf("state: %s record at %d: %w", record.Name(r.Kind), r.Pos, err)
	}
	return nil
}

func (s *State) apply(r *commitlog.Record, mustUnderstand bool, ix Index) error {
	d := &s.scratch
	switch r.Kind {
	case message.KindMessage:
		if err := message.DecodeHead(r.Payload, &d.message); err != nil {
			return err
		}
		if d.message.Flags&message.Keyed != 0 {
			if err := message.Decode(r.Payload, &d.message); err != nil {
				return err
			}
		}
		return s.Message(r.Pos, int32(r.Size), &d.message, ix)
	case record.KindDeliver:
		return decodeThen(&d.deliver, r.Payload, func() error { return s.Deliver(r.Pos, &d.deliver, ix) })
	case record.KindCancel:
		return decodeThen(&d.cancel, r.Payload, func() error { return s.Cancel(r.Pos, &d.cancel, ix) })
	case record.KindSupersede:
		return decodeThen(&d.supersede, r.Payload, func() error { return s.Supersede(r.Pos, &d.supersede, ix) })
	case record.KindUndo:
		return decodeThen(&d.supersede, r.Payload, func() error { return s.Undo(r.Pos, &d.supersede, ix) })
	case record.KindTopic:
		return decodeThen(&d.topic, r.Payload, func() error { return s.Topic(&d.topic, ix) })
	case record.KindGroup:
		return decodeThen(&d.group, r.Payload, func() error { return s.Group(&d.group) })
	case record.KindCommit:
		return decodeThen(&d.commit, r.Payload, func() error { return s.Commit(&d.commit) })
	case record.KindRoll:
		return decodeThen(&d.roll, r.Payload, func() error { return s.Roll(&d.roll) })
	case record.KindTrim:
		return decodeThen(&d.trim, r.Payload, func() error { return s.Trim(&d.trim, ix) })
	case record.KindState:
		return decodeThen(&d.state, r.Payload, func() error { return s.State(&d.state, ix) })
	case record.KindHole:
		return decodeThen(&d.hole, r.Payload, func() error { return s.Hole(&d.hole) })
	case record.KindVerdict:
		return decodeThen(&d.verdict, r.Payload, func() error { return s.Verdict(&d.verdict, ix) })
	}
	if mustUnderstand {
		return fmt.Errorf("%w: the batch must be understood whole", ErrNewer)
	}
	return nil
}

// decodeThen decodes a payload and folds what it says.
func decodeThen(v interface{ Decode([]byte) error }, payload []byte, fold func() error) error {
	if err := v.Decode(payload); err != nil {
		return err
	}
	return fold()
}

// Message folds a message record: visible at once, waiting, or the copy of one that waits.
func (s *State) Message(pos Offset, size int32, m *message.Message, ix Index) error {
	if m.Flags&(message.Keyed|message.Copy) == message.Keyed {
		key, _ := m.IdempotencyKey()
		ix.Keyed(m.Topic, key, pos)
	}
	if m.ID == 0 {
		return s.visibleMessage(pos, size, m, ix)
	}
	if int(m.Lane) >= len(s.Lanes) {
		return fmt.Errorf("%w: lane %d of %d", ErrFold, m.Lane, len(s.Lanes))
	}
	if s.lossy {
		s.spoken(m.Topic, 0)
	}
	isCopy, late := m.Flags&message.Copy != 0, m.Flags&message.Late != 0
	topic := s.Topics[m.Topic]
	if !isCopy {
		if m.ID < s.NextID || m.ID > s.NextID && !s.lossy || m.ID >= maxID {
			return fmt.Errorf("%w: id %d, the next is %d", ErrFold, m.ID, s.NextID)
		}
		s.NextID = m.ID + 1
		s.Live += int64(size)
		s.earn(size)
		s.count(topic, m.DueMs, 1)
		s.touch(m.ID, pos, 1)
	} else {
		if !s.known(m.ID) {
			return fmt.Errorf("%w: copy of id %d, the next is %d", ErrFold, m.ID, s.NextID)
		}
		s.Credit -= int64(size)
		s.touch(m.ID, pos, 0)
	}
	e := timerlog.Entry{
		Key:      timerlog.Key{Due: m.DueMs, ID: m.ID},
		Position: pos, Size: size, Topic: m.Topic, Queue: m.Queue, Tags: m.Tags, KeyHash: m.KeyHash,
		Flags: timerlog.EntryFlags(late, m.Level, m.Lane),
	}
	delay := m.DelayMs
	switch {
	case late:
		delay = 0
		if err := ix.SetBits(m.ID, statebits.LatePending); err != nil {
			return err
		}
	case delay > 0:
		if tail, ok := s.Levels[delay]; ok && m.DueMs < tail {
			return fmt.Errorf("%w: due %d in the schedule queue of %d ms, its tail is %d", ErrFold, m.DueMs, delay, tail)
		}
		s.Levels[delay] = m.DueMs
	}
	return ix.Put(e, delay)
}

func (s *State) visibleMessage(pos Offset, size int32, m *message.Message, ix Index) error {
	s.earn(size)
	return s.unit(m.Topic, m.Queue, m.QueueOffset, consumequeue.Unit{Position: pos, Size: size, Tags: m.Tags, LogMs: s.LogMs}, ix)
}

// unit appends to a queue; at is the offset that the record says.
func (s *State) unit(topic, queue uint32, at int64, u consumequeue.Unit, ix Index) error {
	t := s.Topics[topic]
	if t == nil || int(queue) >= len(t.Queues) {
		if s.lossy {
			s.spoken(topic, 0)
			return nil // its definition is in the hole; the next state record knows it
		}
		return fmt.Errorf("%w: topic %d has no queue %d", ErrFold, topic, queue)
	}
	q := &t.Queues[queue]
	if at != q.Next && (!s.lossy || at < q.Next) {
		return fmt.Errorf("%w: offset %d in queue %d of topic %q, the next is %d", ErrFold, at, queue, t.Name, q.Next)
	}
	q.Next = at + 1
	if g := s.segmentAt(u.Position); g != nil {
		g.Visible = max(g.Visible, s.LogMs)
	}
	return ix.Unit(topic, queue, at, u)
}

// spoken notes that a record behind a lost range speaks of a topic and a group: their numbers were given out, and are not
// given out again.
func (s *State) spoken(topic, group uint32) {
	if topic >= s.NextTopic && topic < math.MaxUint32 {
		s.NextTopic = topic + 1
	}
	if group >= s.NextGroup && group < math.MaxUint32 {
		s.NextGroup = group + 1
	}
}

// Deliver folds a chunk of deliveries. It uses up d: the bases of its queues count up.
func (s *State) Deliver(pos Offset, d *record.Deliver, ix Index) error {
	if int(d.Lane) >= len(s.Lanes) {
		return fmt.Errorf("%w: lane %d of %d", ErrFold, d.Lane, len(s.Lanes))
	}
	if d.Frontier.Less(s.Lanes[d.Lane]) {
		return fmt.Errorf("%w: the frontier of lane %d goes back to %v from %v", ErrFold, d.Lane, d.Frontier, s.Lanes[d.Lane])
	}
	s.Lanes[d.Lane] = d.Frontier
	for i := range d.Items {
		it := &d.Items[i]
		q := &d.Queues[it.Queue] // its base counts up with the items
		if !s.known(it.ID) {
			return fmt.Errorf("%w: id %d is delivered, the next is %d", ErrFold, it.ID, s.NextID)
		}
		topic := s.Topics[q.Topic]
		if topic != nil && topic.Origin != nil {
			topic = topic.Origin // it waited for the topic, and is in the stage now
		}
		s.spare(int64(it.Size))
		s.count(topic, it.Due, -1)
		s.touch(it.ID, pos, -1)
		if it.Late {
			if err := ix.SetBits(it.ID, statebits.Regular); err != nil {
				return err
			}
		}
		ix.Gone(d.Lane, it.Key)
		if q.Base == record.Gone {
			s.Dropped++
			continue
		}
		u := consumequeue.Unit{Position: it.Position, Size: it.Size, Tags: it.Tags, LogMs: s.LogMs}
		if err := s.unit(q.Topic, q.Queue, q.Base, u, ix); err != nil {
			return err
		}
		q.Base++
	}
	return nil
}

// Cancel folds a cancel.
func (s *State) Cancel(pos Offset, c *record.Cancel, ix Index) error {
	return s.takeBack(pos, c, statebits.Cancelled, ix)
}

// Supersede folds the first half of a move; the message record with the new id follows.
func (s *State) Supersede(pos Offset, m *record.Supersede, ix Index) error {
	if m.NewID != s.NextID && !s.lossy {
		return fmt.Errorf("%w: moved to id %d, the next is %d", ErrFold, m.NewID, s.NextID)
	}
	return s.takeBack(pos, &m.Cancel, statebits.Superseded, ix)
}

// Undo folds that a cancel was taken back: the cancelled id is superseded by that of the message record that follows.
func (s *State) Undo(pos Offset, m *record.Supersede, ix Index) error {
	if m.NewID != s.NextID && !s.lossy || !s.known(m.ID) {
		return fmt.Errorf("%w: cancel of %d undone as id %d, the next is %d", ErrFold, m.ID, m.NewID, s.NextID)
	}
	s.touch(m.ID, pos, 0)
	return ix.SetBits(m.ID, statebits.Superseded)
}

func (s *State) takeBack(pos Offset, c *record.Cancel, bits statebits.State, ix Index) error {
	if int(c.Lane) >= len(s.Lanes) || !s.known(c.ID) {
		return fmt.Errorf("%w: id %d of lane %d, the next id is %d", ErrFold, c.ID, c.Lane, s.NextID)
	}
	s.spare(s.Live / max(s.Pending, 1))
	s.count(s.Topics[c.Topic], c.Due, -1)
	s.touch(c.ID, pos, -1)
	if err := ix.SetBits(c.ID, bits); err != nil {
		return err
	}
	ix.Gone(c.Lane, c.Key())
	return nil
}

// earn lets a roll copy as much as was written. What is copied and never pays, since it lives, costs no more than that.
func (s *State) earn(size int32) {
	s.Credit = min(s.Credit+int64(size), int64(s.End-s.Head()))
}

// spare takes the bytes of one message off those that wait, before it is counted off.
func (s *State) spare(size int64) {
	if s.Live -= size; s.Live < 0 || s.Pending <= 1 {
		s.Live = 0
	}
}

// known says whether a record may speak of an id as one that was given out. Behind a lost range every id that a store can
// have is: its message may lie in the range, and what is said of it now must hold when a state record has counted it.
func (s *State) known(id uint64) bool {
	if id >= s.NextID && id < maxID && s.lossy {
		s.NextID = id + 1
	}
	return id > 0 && id < s.NextID
}

// hourMs is the width of a count in Hours.
const hourMs = 3600 * 1000

// count counts messages that wait; the topic may be gone.
func (s *State) count(t *Topic, dueMs, n int64) {
	s.Pending += n
	if t != nil {
		t.Pending += n
	}
	if hour := dueMs / hourMs; s.hourN == nil || hour != s.hour {
		s.hour, s.hourN = hour, s.Hours[hour]
		if s.hourN == nil {
			s.hourN = new(int64)
			s.Hours[hour] = s.hourN
		}
	}
	if *s.hourN += n; *s.hourN == 0 {
		delete(s.Hours, s.hour)
		s.hourN = nil
	}
}

// touch notes that a record spoke of an id.
func (s *State) touch(id uint64, pos Offset, pending int64) {
	c := s.chunkOf(id)
	c.Pending += pending
	c.Changed, c.ChangedAt = pos, s.LogMs
	if id < s.Oldest {
		s.see(id)
	}
}

// see remembers that the suffix of the log that was folded speaks of an id from before it. The set keeps everything in
// memory until a checkpoint; reading its pages back is Fate's to report.
func (s *State) see(id uint64) {
	if err := s.Seen.Set(id, seen); err != nil && s.seenErr == nil {
		s.seenErr = err
	}
}

// seen is the value of a seen id in Seen.
const seen = statebits.Cancelled

// Commit folds a committed offset.
func (s *State) Commit(c *record.Commit) error {
	if s.Topics[c.Topic] == nil || s.Groups[c.Group] == nil {
		if s.lossy {
			s.spoken(c.Topic, c.Group)
			return nil
		}
		return fmt.Errorf("%w: group %d, topic %d", ErrFold, c.Group, c.Topic)
	}
	s.reach(c.Topic, c.Queue, c.Offset)
	k := OffsetKey{c.Group, c.Topic, c.Queue}
	if c.Seek {
		s.Offsets.Seek(k, c.Offset)
	} else {
		s.Offsets.Commit(k, c.Offset)
	}
	return nil
}

// Verdict folds what plugins decided: the offsets are settled for the group, and what a stage kept is visible in its topic.
func (s *State) Verdict(v *record.Verdict, ix Index) error {
	base := v.Base
	for i := range v.Items {
		it := &v.Items[i]
		if !it.Kept {
			continue
		}
		u := consumequeue.Unit{Position: it.Position, Size: it.Size, Tags: it.Tags, LogMs: s.LogMs}
		if err := s.unit(v.Origin, v.To, base, u, ix); err != nil {
			return err
		}
		base++
	}
	t := s.Topics[v.Topic]
	if t == nil || s.Groups[v.Group] == nil || int(v.Queue) >= len(t.Queues) {
		if s.lossy {
			s.spoken(v.Topic, v.Group)
			return nil
		}
		return fmt.Errorf("%w: group %d, topic %d, queue %d", ErrFold, v.Group, v.Topic, v.Queue)
	}
	q := &t.Queues[v.Queue]
	if n := len(v.Items); n > 0 {
		s.reach(v.Topic, v.Queue, v.Items[n-1].Offset+1)
	}
	c := s.Offsets.entry(OffsetKey{v.Group, v.Topic, v.Queue}, v.Low)
	c.raise(v.Low)
	for i := range v.Items {
		at := v.Items[i].Offset
		if (at >= q.Next || !c.settle(at)) && !s.lossy {
			return fmt.Errorf("%w: offset %d in queue %d of topic %q is settled, the group is at %d, the next is %d",
				ErrFold, at, v.Queue, t.Name, c.at, q.Next)
		}
	}
	return nil
}

// reach notes, behind a lost range, that a record speaks of offsets of a queue: they were given out, and the next message gets
// none of them.
func (s *State) reach(topic, queue uint32, next int64) {
	if t := s.Topics[topic]; s.lossy && int(queue) < len(t.Queues) {
		q := &t.Queues[queue]
		q.Next = max(q.Next, next)
	}
}

// Roll folds that what waits below a position has been copied.
func (s *State) Roll(r *record.Roll) error {
	if r.To < s.Rolled || r.To > s.End {
		return fmt.Errorf("%w: rolled to %d, before it was %d, the log ends at %d", ErrFold, r.To, s.Rolled, s.End)
	}
	s.Rolled = r.To
	return nil
}

// Trim folds that the log begins later.
func (s *State) Trim(t *record.Trim, ix Index) error {
	kept := len(s.Segments)
	var visible int64
	for i, g := range s.Segments {
		if g.Base >= t.Head {
			kept = i
			break
		}
		visible = max(visible, g.Visible)
	}
	if kept == len(s.Segments) || s.Segments[kept].Base != t.Head {
		return fmt.Errorf("%w: the log is to begin at %d, where no segment does", ErrFold, t.Head)
	}
	s.Segments = append(s.Segments[:0], s.Segments[kept:]...)
	s.hitSeg = 0
	for _, m := range t.Mins {
		topic := s.Topics[m.Topic]
		if topic == nil || int(m.Queue) >= len(topic.Queues) {
			continue
		}
		q := &topic.Queues[m.Queue]
		q.Min = max(q.Min, m.Min)
		ix.Trimmed(m.Topic, m.Queue, q.Min)
	}
	s.closeChunks(visible, ix)
	s.forget()
	return nil
}

// closeChunks drops the bits that no entry and no fair question needs: every copy of a message of the chunk lies below R,
// and the last word about one was spoken no later than what was trimmed became visible, so that the retention is over.
func (s *State) closeChunks(visible int64, ix Index) {
	for i := range s.Chunks {
		c := &s.Chunks[i]
		last := uint64(i+1) * ChunkIDs
		if c.Closed || last > s.NextID || c.Pending > 0 || c.Changed >= s.Rolled || c.ChangedAt > visible {
			continue
		}
		*c = Chunk{Closed: true}
		ix.CloseChunk(uint64(i))
	}
}

// forget drops clock steps and holes that lie before the head.
func (s *State) forget() {
	opened := s.Segments[0].Opened
	for len(s.Steps) > 1 && s.Steps[1].LogMs <= opened {
		s.Steps = s.Steps[1:]
	}
	for len(s.Holes) > 0 && s.Holes[0].To <= s.Segments[0].Base {
		s.Holes = s.Holes[1:]
	}
}

// Hole folds that the bytes of a message cannot be read. Holes that meet become one.
func (s *State) Hole(h *record.Hole) error {
	n := Hole{h.From, h.To}
	from := sort.Search(len(s.Holes), func(i int) bool { return s.Holes[i].To >= n.From })
	to := from
	for ; to < len(s.Holes) && s.Holes[to].From <= n.To; to++ {
		n.From, n.To = min(n.From, s.Holes[to].From), max(n.To, s.Holes[to].To)
	}
	s.Holes = slices.Replace(s.Holes, from, to, n)
	return nil
}

// LostBatches folds a range whose batches are gone: what follows may speak of what is not known.
func (s *State) LostBatches(from, to Offset) {
	s.Lost = append(s.Lost, Hole{from, to})
	s.lossy = true
	s.parts = s.parts[:0]
}
