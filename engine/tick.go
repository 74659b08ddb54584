package engine

import (
	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/record"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// Status is what a Tick did, and what it wants next.
type Status struct {
	Next     int64   // wall clock, ms, at which to call Tick again; now or earlier: at once. At most a second ahead
	Jobs     []*Job  // ready to run, each handed out once; the slice is valid until the next Tick
	Fired    int     // messages delivered
	Dues     []int64 // their due times, ms since 1970; valid until the next Tick
	Position Offset  // end of the log after what Tick appended: Commit, Sync and Release bring it out
	Blocked  bool    // something is due, and waits for a Sync and Release, or for a job
	Err      error   // what keeps due messages from being delivered, ErrFailed or damage; tried again a second later
}

// tickMs is the longest time between two calls of Tick: what is due is found out again, so that a clock that stepped, a
// machine that slept or a wake-up that got lost delay nothing by more.
const tickMs = 1000

// fire is what a delivery needs, reused.
type fire struct {
	entries []timerlog.Entry
	queues  map[QueueRef]int // index into the record's queues
	err     error            // of the last try
	broken  uint64           // lanes that it is about, a bit each
	turn    int              // the lane that fired last
	bound   int              // bytes of the largest record
	dues    []int64          // Status.Dues
}

// Tick delivers a chunk of what is due and looks after the store: it seals, trims, begins checkpoints, and hands out
// jobs. It takes about 1 ms at most. It belongs to the writer.
func (e *Engine) Tick() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.readClocks()
	now := e.batch.wall
	s := Status{Next: now + tickMs, Position: e.log.End()}
	if s.Err = e.usable(); s.Err != nil {
		return s
	}
	more := e.deliver(&s)
	e.look(&s)
	e.handOut(&s)
	s.Position = e.log.End()
	if s.Err = e.usable(); s.Err == nil {
		s.Err = e.fire.err
	}
	s.Next = min(s.Next, e.wakeUp(now, more))
	return s
}

// wakeUp is when the next message is due, or now when there is more to do.
func (e *Engine) wakeUp(now int64, more bool) int64 {
	if more {
		return now
	}
	next := now + tickMs
	for i, l := range e.lanes {
		if e.fire.broken&(1<<i) != 0 {
			continue // tried again a second later
		}
		if due, ok, err := l.Next(); err == nil && ok {
			next = min(next, max(due, now))
		}
	}
	return next
}

// deliver makes a chunk of due messages visible by one record: of one lane, the lanes take turns. It says whether there
// are more.
func (e *Engine) deliver(s *Status) (more bool) {
	e.fire.err, e.fire.broken = nil, 0
	for range e.lanes {
		e.fire.turn = (e.fire.turn + 1) % len(e.lanes)
		due, ok, err := e.lanes[e.fire.turn].Next()
		if err != nil {
			e.breaks(e.fire.turn, err)
		}
		switch {
		case err != nil || !ok || due > e.batch.wall:
		case s.Fired > 0 || s.Blocked:
			e.fire.turn = (e.fire.turn + len(e.lanes) - 1) % len(e.lanes) // its turn is the next call
			return true
		default:
			more = e.deliverFrom(e.fire.turn, s)
		}
	}
	return more
}

// breaks notes a lane whose index cannot be read.
func (e *Engine) breaks(lane int, err error) {
	e.fire.err = err
	e.fire.broken |= 1 << lane
}

func (e *Engine) deliverFrom(lane int, s *Status) (more bool) {
	if e.room(e.fire.bound, 0) != nil {
		s.Blocked = true
		return false
	}
	var err error
	e.fire.entries, more, err = e.lanes[lane].Take(e.batch.wall, e.opts.FireChunk, e.fire.entries[:0])
	if err != nil {
		e.breaks(lane, err)
	}
	if len(e.fire.entries) == 0 {
		return more
	}
	d := &e.scratch.deliver
	e.fillDeliver(d, uint8(lane), e.fire.entries)
	pos, _ := e.write(record.KindDeliver, d)
	e.folded(e.st.Deliver(pos, d, (*index)(e)))
	if _, err := e.endBatch(); err != nil {
		return false
	}
	s.Fired = len(e.fire.entries)
	e.fire.dues = e.fire.dues[:0]
	for i := range e.fire.entries {
		e.fire.dues = append(e.fire.dues, e.fire.entries[i].Due)
	}
	s.Dues = e.fire.dues
	e.stats.fired.Add(int64(s.Fired))
	return more
}

// deliverBound is at least the size of a deliver record with so many items, each for a queue of its own.
func deliverBound(items int) int {
	d := record.Deliver{Queues: make([]record.DeliverQueue, items), Items: make([]record.DeliverItem, items)}
	return recordOverhead + d.PayloadSize()
}

// fillDeliver makes the record. A message whose topic is gone is dropped by it; one whose queue is beyond those that the
// topic has now goes to queue modulo count; one of a topic that is staged goes to the stage.
func (e *Engine) fillDeliver(d *record.Deliver, lane uint8, entries []timerlog.Entry) {
	d.Lane, d.Frontier = lane, e.st.Lanes[lane]
	d.Queues, d.Items = d.Queues[:0], d.Items[:0]
	if e.fire.queues == nil {
		e.fire.queues = map[QueueRef]int{}
	}
	clear(e.fire.queues)
	for i := range entries {
		en := &entries[i]
		if !en.Late() {
			d.Frontier = en.Key
		}
		ref, base := QueueRef{Topic: en.Topic}, record.Gone
		if t := e.st.Topics[en.Topic]; t != nil {
			if t.Staged() {
				t = t.Stage
				ref.Topic = t.ID
			}
			if ref.Queue = en.Queue; int(ref.Queue) >= t.Count {
				ref.Queue %= uint32(t.Count)
			}
			base = t.Queues[ref.Queue].Next
		}
		at, ok := e.fire.queues[ref]
		if !ok {
			at = len(d.Queues)
			e.fire.queues[ref] = at
			d.Queues = append(d.Queues, record.DeliverQueue{Topic: ref.Topic, Queue: ref.Queue, Base: base})
		}
		d.Items = append(d.Items, record.DeliverItem{
			Key: en.Key, Position: en.Position, Size: en.Size, Queue: uint16(at), Tags: en.Tags, Late: en.Late(),
		})
	}
}

// look does what time or size asks for, except delivering: it is quick and mostly finds nothing.
func (e *Engine) look(s *Status) {
	e.sealOld()
	e.lookAgain()
	e.roll()
	e.trim()
	e.beginCheckpoint()
	if e.space.idleSoon(e) {
		s.Next = min(s.Next, e.batch.wall+idleMs)
	}
}

// sealOld ends a segment that is old, if it is worth it: a segment costs a state record, and the checkpoint that lets the
// one before it go. Else an idle store with a single timer would write those every day, and then, since that the old segment
// went is a record in the new one, on and on.
func (e *Engine) sealOld() {
	segs := e.st.Segments
	last := segs[len(segs)-1]
	if e.batch.logMs-last.Opened < e.opts.SealAfter.Milliseconds() || !e.log.SegmentUsed() {
		return
	}
	if e.segmentCost == 0 { // this life has begun no segment yet
		e.segmentCost = commitlog.SegmentHeaderSize + Offset(len(e.st.Append(nil)))
	}
	if held := e.log.End() - last.Base - e.segmentCost; held < max(4*e.segmentCost, Offset(e.opts.SegmentSize/2048)) {
		return
	}
	_ = e.seal() // busy until the next segment is there, as at any seal
}
