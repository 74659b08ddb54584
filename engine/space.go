package engine

import (
	"fmt"
	"io/fs"
	"math"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/record"
	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// space is the writer's care for the log's length: the mark at its end, and the deletion of its head.
type space struct {
	// The mark.
	end     Offset // of the log, as it was seen last
	since   int64  // monotonic ns when end moved
	marked  Offset
	looked  int64  // monotonic ns of the last look at the disk
	full    error  // why messages are refused; nil: they are not
	limit   Offset // end of the log at which full is found out again
	rolled  *rolled
	trimmed *record.Trim // made by a job, not yet in the log
	drop    Offset       // segments below go when the log is released up to dropAt
	dropAt  Offset
	visible int64  // of the head when the beginnings for a trim were looked for
	heldBy  string // the topic whose stage held up the last trim; empty: none did
	held    int64  // monotonic ns before which no trim is tried: a stage held the last one up
}

// idleMs is how long the log stands still before the mark is written: it closes the window in which a lost last batch
// looks like one that was never finished.
const idleMs = 50

// idleSoon says whether a mark will be due.
func (s *space) idleSoon(e *Engine) bool {
	if end := e.log.End(); end != s.end {
		s.end, s.since = end, e.env.Mono()
	}
	return s.marked < e.log.Durable()
}

// markJob writes the durable end into the mark file after idleness.
func (e *Engine) markJob() *Job {
	s := &e.space
	durable := e.log.Durable()
	if s.marked >= durable || e.env.Mono()-s.since < idleMs*1e6 || e.log.End() != s.end {
		return nil
	}
	logMs := e.st.LogMs
	return &Job{
		run:     func() error { return e.log.WriteMark(durable, logMs) },
		install: func() bool { s.marked = durable; return true },
	}
}

// diskLookNs is how often the disk is asked for its free space.
const diskLookNs = 1e9

// takesPuts says why new messages are refused. Delivering, cancelling and deleting go on.
func (e *Engine) takesPuts() error {
	if distance := int64(e.log.End() - e.ck.x); distance > backlogDistances*e.opts.CheckpointEvery {
		return fmt.Errorf("%w: %d bytes since the last one, allowed are %d", ErrBacklog, distance, backlogDistances*e.opts.CheckpointEvery)
	}
	s := &e.space
	if mono := e.env.Mono(); s.looked == 0 || mono-s.looked >= diskLookNs {
		s.looked = mono
		s.limit, s.full = e.diskFull()
	}
	if s.full == nil && e.log.End() >= s.limit {
		s.limit, s.full = e.diskFull()
	}
	return s.full
}

// lookAgain finds out whether there is room again, though nobody puts.
func (e *Engine) lookAgain() {
	s := &e.space
	if mono := e.env.Mono(); s.full != nil && mono-s.looked >= diskLookNs {
		s.looked = mono
		s.limit, s.full = e.diskFull()
	}
}

// diskFull compares the log with its high-water mark, and the disk with what is kept for going on. It says at which end of
// the log it should be asked again, before the second is over.
func (e *Engine) diskFull() (again Offset, full error) {
	again = math.MaxInt64
	if high := e.opts.HighWater; high > 0 {
		size := e.log.Size()
		if size >= high {
			return 0, fmt.Errorf("%w: the log has %d bytes, the high-water mark is %d", ErrDiskFull, size, high)
		}
		again = e.log.End() + max(Offset(high-size)/2, lookBytes) // a segment may be longer than what is in it
	}
	free, err := vfs.Free(e.fs)
	if err != nil {
		return again, nil // it is asked again; a write will say what is wrong
	}
	if keep := uint64(max(e.opts.Reserve, 0)) * uint64(e.opts.SegmentSize); free < keep {
		return 0, fmt.Errorf("%w: %d bytes are free, %d are kept for deliveries", ErrDiskFull, free, keep)
	}
	return again, nil
}

// lookBytes is how much is appended at least between two looks at the log's size.
const lookBytes = 4096

// rolled is what a roll job read: messages of the head that may wait, in log order.
type rolled struct {
	to       Offset
	messages []rolledMessage
	bytes    int
}

type rolledMessage struct {
	pos     Offset
	payload []byte
}

// rollScan bounds what one roll job reads.
const rollScan = 4 << 20

// rollJob reads the next part of the head segment that has to go.
func (e *Engine) rollJob() *Job {
	s := &e.space
	if s.rolled != nil || !e.wantsRoll() {
		return nil
	}
	head := e.st.Segments[0]
	from := max(e.st.Rolled, head.Base)
	most := e.rollMost()
	r := &rolled{}
	return &Job{
		run: func() (err error) {
			r, err = e.readHead(from, head.End, most)
			return err
		},
		install: func() bool {
			if r.to > e.st.Rolled { // else nothing waited any more while it read, and roll went on without it
				s.rolled = r
			}
			return true
		},
	}
}

// rollMost is how many messages a roll copies at once: what every memtable takes when it is empty.
func (e *Engine) rollMost() int {
	return min(e.opts.SecondsEntries, e.opts.HoursEntries, e.opts.LooseEntries)
}

// wantsRoll says whether the head segment should be emptied: its messages were readable for the retention, and the log
// is larger than twice what is alive and what is young, or the disk is full and there is something to be had.
func (e *Engine) wantsRoll() bool {
	st := e.st
	head := st.Segments[0]
	if head.End == 0 || st.Rolled >= head.End || !e.outlived(head.Visible) {
		return false
	}
	if e.space.full != nil {
		// When nearly all of the log is alive, going round it frees nothing, and would not end.
		dead := int64(st.End-head.Base) - st.Live
		return st.Pending == 0 || dead > st.Live/4+e.opts.SegmentSize
	}
	young := st.End
	since := e.batch.logMs - e.opts.RollAfter.Milliseconds() - e.opts.Retention.Milliseconds()
	for _, g := range st.Segments {
		if g.End == 0 || g.Sealed >= since {
			young = g.Base
			break
		}
	}
	if st.Credit <= 0 && st.Pending > 0 {
		return false // without new messages nothing is copied twice
	}
	return int64(st.End-head.Base) > 2*st.Live+int64(st.End-young)
}

// readHead reads messages that may wait, from a batch boundary on.
func (e *Engine) readHead(from, end Offset, most int) (*rolled, error) {
	r := &rolled{to: from}
	var m message.Message
	err := e.log.Scan(from, 0, false, func(b *commitlog.Batch) error {
		if b.Base >= end || r.bytes >= batchBytes || len(r.messages) >= most || b.Base-from >= rollScan {
			return fs.SkipAll
		}
		before, bytes := len(r.messages), r.bytes
		records := b.Records()
		for {
			rec, ok, err := records.Next()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			if rec.Kind != message.KindMessage {
				continue
			}
			if err := message.DecodeHead(rec.Payload, &m); err != nil {
				return err
			}
			if m.ID != 0 {
				r.messages = append(r.messages, rolledMessage{rec.Pos, append([]byte(nil), rec.Payload...)})
				r.bytes += rec.Size
			}
		}
		if before > 0 && (len(r.messages) > most || r.bytes > commitlog.MaxBatch/2) {
			r.messages, r.bytes = r.messages[:before], bytes // the next job begins with this batch
			return fs.SkipAll
		}
		r.to = b.End()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("engine: roll: %w", err)
	}
	r.to = min(r.to, end)
	return r, nil
}

// roll copies what a roll job read and still waits to the end of the log, in one batch with the new R.
func (e *Engine) roll() {
	s := &e.space
	if s.rolled == nil && e.wantsRoll() && e.st.Pending == 0 {
		s.rolled = &rolled{to: e.st.Segments[0].End} // nothing waits: nothing need be read
	}
	r := s.rolled
	if r == nil {
		return
	}
	bytes := 2*recordOverhead + 64 + r.bytes + 16*len(r.messages)
	if e.room(bytes, min(len(r.messages), e.rollMost())) != nil {
		return
	}
	m := &e.scratch.message
	for _, c := range r.messages {
		if err := message.Decode(c.payload, m); err != nil {
			e.folded(err) // it was read a moment ago
			return
		}
		entry := timerlog.Entry{
			Key: timerlog.Key{Due: m.DueMs, ID: m.ID}, Position: c.pos,
			Flags: timerlog.EntryFlags(m.Flags&message.Late != 0, m.Level, m.Lane),
		}
		alive, err := e.st.Alive(&entry, m.Lane, e.bits)
		if err != nil {
			e.folded(err)
			return
		}
		if alive {
			m.Flags |= message.Copy
			m.DelayMs = 0
			e.writeMessage(m)
			e.stats.rolled.Add(1)
		}
	}
	to := &record.Roll{To: r.to}
	e.write(record.KindRoll, to)
	e.folded(e.st.Roll(to))
	if _, err := e.endBatch(); err == nil {
		s.rolled = nil
	}
}

// trim logs that the head segment goes: nothing in it waits, what became visible from it was readable for the retention,
// and no checkpoint has to be replayed from it. The new minimum of each queue was found by a job.
func (e *Engine) trim() {
	s := &e.space
	if s.trimmed == nil || e.room(recordOverhead+s.trimmed.PayloadSize(), 0) != nil {
		return
	}
	t := s.trimmed
	s.trimmed = nil
	if e.holdsTrim(t) {
		s.held = e.env.Mono() + trimRetryNs
		return
	}
	e.write(record.KindTrim, t)
	e.folded(e.st.Trim(t, (*index)(e)))
	end, err := e.endBatch()
	if err == nil {
		s.drop, s.dropAt = t.Head, end
	}
}

// trimRetryNs is after which time a trim is tried again that a stage held up.
const trimRetryNs = 1e9

// holdsTrim says whether a stage holds up a trim: a message in it that is not decided would go, or one that was kept has become
// visible from the head since the new minimums were looked for, so that they leave it out.
func (e *Engine) holdsTrim(t *record.Trim) bool {
	e.space.heldBy = ""
	if e.st.Segments[0].Visible != e.space.visible {
		return true
	}
	if e.st.Stages() == 0 {
		return false
	}
	g := e.st.GroupByName(StageGroup)
	for _, m := range t.Mins {
		topic := e.st.Topics[m.Topic]
		if topic == nil || topic.Origin == nil {
			continue
		}
		at := e.low(topic, m.Queue)
		if g != nil {
			committed, _ := e.st.Offsets.Get(state.OffsetKey{Group: g.ID, Topic: m.Topic, Queue: m.Queue})
			at = max(at, committed)
		}
		if at < m.Min {
			e.space.heldBy = topic.Origin.Name
			return true
		}
	}
	return false
}

// dropJob finds the new minimums before a trim, and unlinks what is behind one that is released.
func (e *Engine) dropJob() *Job {
	s := &e.space
	if s.drop > 0 {
		if e.Released() < s.dropAt {
			return nil
		}
		head := s.drop
		return &Job{
			run:     func() error { return e.log.DropBefore(head) },
			install: func() bool { s.drop = 0; return true },
		}
	}
	if s.trimmed != nil || !e.wantsTrim() || e.env.Mono() < s.held {
		return nil
	}
	t := &record.Trim{Head: e.st.Segments[1].Base}
	visible := e.st.Segments[0].Visible
	s.visible = visible
	whole := false
	return &Job{
		run: func() (err error) { whole, err = e.findMins(t, visible); return err },
		install: func() bool {
			if s.trimmed = t; !whole {
				s.trimmed, s.held = nil, e.env.Mono()+trimRetryNs
			}
			return true
		},
	}
}

// outlived says whether the retention of what became visible at a logTime is over.
func (e *Engine) outlived(visible int64) bool {
	return visible+e.opts.Retention.Milliseconds() < e.batch.logMs
}

func (e *Engine) wantsTrim() bool {
	head := e.st.Segments[0]
	if head.End == 0 || e.st.Rolled < head.End || !e.outlived(head.Visible) || e.keysIn(head) {
		return false
	}
	if e.ck.x < head.End {
		e.ck.wanted = e.ck.pending == nil || e.ck.pending.x < head.End
		return false
	}
	return true
}

// findMins finds, for each queue, the first unit that became visible later than everything that goes. What points into
// the head segment became visible no later than that, and so did what was recorded in it. It says whether it saw enough: only
// units that are released can be looked at, and one that is not may point into the head.
func (e *Engine) findMins(t *record.Trim, visible int64) (whole bool, err error) {
	t.Mins = t.Mins[:0]
	for q := range e.queues.All() {
		all, seen := q.Len(), q.Visible() // first: what comes meanwhile is later than the head's
		low, err := q.SearchLogTime(visible + 1)
		if err != nil {
			return false, fmt.Errorf("engine: trim: %w", err)
		}
		if low < all && low >= seen {
			return false, nil
		}
		if low > q.First() {
			t.Mins = append(t.Mins, record.TrimMin{Topic: q.Key().Topic, Queue: q.Key().Queue, Min: int64(low)})
		}
	}
	return true, nil
}
