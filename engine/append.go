package engine

import (
	"errors"
	"fmt"
	"math"

	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// Append decides commands, in their order, and encodes what follows from them as one batch. It takes as many as fit into
// a batch (about 256 KiB of messages, at least one command): len(answers) says how many. Answers are valid until the
// next Append, and may leave when the log is released up to the position. Nothing is written yet: Commit does that.
//
// With an error nothing was taken: ErrBusy (come again), ErrFailed, ErrClosed. It belongs to the writer.
func (e *Engine) Append(cmds []Command) ([]Answer, Offset, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.usable(); err != nil {
		return nil, 0, err
	}
	room := e.memory()
	e.batch.full = room == 0 && e.indexStuck()
	if e.batch.full {
		room = math.MaxInt // what needs any is refused with a reason
	}
	n, bytes, waiting := e.prefix(cmds, room)
	if n == 0 {
		return nil, e.log.End(), nil
	}
	if e.batch.full {
		waiting = 0
	}
	if err := e.room(bytes, waiting); err != nil {
		return nil, 0, err
	}
	e.readClocks()
	e.answers = e.answers[:0]
	for _, c := range cmds[:n] {
		e.answers = append(e.answers, e.decide(c))
		if e.failed.Load() != nil {
			break
		}
	}
	pos, err := e.endBatch()
	if err != nil {
		return nil, 0, err
	}
	return e.answers, pos, nil
}

// prefix says how many commands go into the next batch, and bounds the bytes of their records and the entries that they
// may send to a memtable.
func (e *Engine) prefix(cmds []Command, most int) (n, bytes, waiting int) {
	e.batch.staging = e.opts.Stage != nil || e.st.Stages() > 0
	e.batch.restaged = false
	for n < len(cmds) {
		size, rows := bound(cmds[n]), e.waits(cmds[n])
		if n > 0 && (bytes+size > batchBytes || waiting+rows > most) {
			break
		}
		bytes, waiting = bytes+size, waiting+rows
		e.batch.restaged = e.batch.restaged || e.restages(cmds[n])
		n++
	}
	return n, bytes, waiting
}

// waits says how many entries a command may send to a memtable.
func (e *Engine) waits(c Command) (n int) {
	switch c := c.(type) {
	case *Put:
		if c.Level != 0 || c.DueMs != 0 || c.DelayMs != 0 || e.mayStage(c) {
			n = 1
		}
		if c.Then != nil {
			n += e.waits(c.Then)
		}
	case *Settle:
		for _, p := range c.Puts {
			n += e.waits(p)
		}
	case *Move, *Undo:
		n = 1
	}
	return n
}

// mayStage says whether a put without a delay may become a message that waits, whatever the commands before it in the batch do.
func (e *Engine) mayStage(p *Put) bool {
	if p.Unstaged || !e.batch.staging && !e.batch.restaged {
		return false
	}
	t := e.st.TopicByName(p.Topic)
	return e.batch.restaged || t == nil && e.opts.Stage != nil || t != nil && t.Staged()
}

// bound is at least the bytes of the records that a command makes: its own, and those of a topic and its stage, or of a group, made on
// first use. What is too large to be stored is refused later, and counts little here.
func bound(c Command) int {
	const fixed = 2*(recordOverhead+64+message.MaxTopic) + recordOverhead + 64
	switch c := c.(type) {
	case *Put:
		size := messageSize(c)
		if size > maxMessage {
			size = 0
		}
		if c.Then != nil {
			size += bound(c.Then)
		}
		return fixed + size
	case *Move:
		return fixed + recordOverhead + message.HeadSize + len(c.Record.payload)
	case *Undo:
		return fixed + recordOverhead + message.HeadSize + len(c.Record.payload)
	case *MarkHole:
		return fixed + len(c.Reason)
	case *Settle:
		size := fixed + settleSize(c)
		for _, p := range c.Puts {
			size += bound(p)
		}
		if size > maxSettle {
			return fixed
		}
		return size
	}
	return fixed
}

// maxSettle is the most that the records of a Settle that is not refused take.
const maxSettle = MaxSettleBytes + 1<<20

// maxMessage is the payload of the largest message that is stored.
const maxMessage = message.HeadSize + message.MaxBody + message.MaxProperties + message.MaxKey + message.MaxTag + 32

func messageSize(p *Put) int {
	size := message.HeadSize + len(p.Body) + len(p.Properties) + len(p.Key) + len(p.Tag) + len(p.BornHost)
	if len(p.IdempotencyKey) > 0 {
		size += len(p.IdempotencyKey) + keyOverhead
	}
	return size
}

func (e *Engine) decide(c Command) Answer {
	var a Answer
	var err error
	switch c := c.(type) {
	case *Put:
		if err = e.mayDelay(c); err == nil {
			a, err = e.put(c)
		}
	case *Cancel:
		a, err = e.cancel(c)
	case *Move:
		a, err = e.move(c)
	case *Undo:
		a, err = e.undo(c)
	case *CommitOffset:
		a, err = e.commitOffset(c)
	case *DefineTopic:
		a, err = e.defineTopic(c)
	case *DeleteTopic:
		a, err = e.deleteTopic(c)
	case *PauseTopic:
		a, err = e.pauseTopic(c)
	case *StageTopic:
		a, err = e.stageTopic(c)
	case *Settle:
		a, err = e.settleOffsets(c)
	case *DefineGroup:
		a, err = e.defineGroup(c)
	case *DeleteGroup:
		a, err = e.deleteGroup(c)
	case *MarkHole:
		a, err = e.markHole(c)
	default:
		err = fmt.Errorf("%w: %T", ErrBadCommand, c)
	}
	if err != nil {
		return Answer{Outcome: Refused, Err: err, Offset: -1}
	}
	return a
}

// put stores a message.
func (e *Engine) put(p *Put) (Answer, error) {
	w, err := e.mayPut(p)
	if err != nil {
		return Answer{}, err
	}
	m := &e.scratch.message
	t, queue := e.target(p, &w)
	m.Topic, m.Queue = t.ID, queue
	m.StoreMs = e.batch.wall
	if m.BornMs == 0 {
		m.BornMs = e.batch.wall
	}
	m.Level = uint8(w.level)
	var a Answer
	switch {
	case w.staged && w.due <= e.batch.wall:
		m.Level = 0
		a, err = e.putTimed(m, max(e.batch.wall, 0))
	case w.due <= e.batch.wall:
		m.Level = 0
		a = e.putVisible(m, t.Queues[queue].Next)
	case w.delay > 0:
		a, err = e.putLevel(m, w.due, w.delay)
	default:
		a, err = e.putTimed(m, w.due)
	}
	if err != nil {
		return Answer{}, err
	}
	a.Level, a.Clamped = w.level, w.clamped
	if p.Then != nil {
		e.decide(p.Then)
	}
	return a, nil
}

// mayPut says why a put is refused, or where and when its message goes, and makes that of it that does not depend on where.
// Nothing is stored yet.
func (e *Engine) mayPut(p *Put) (when, error) {
	w, err := e.whenDue(p)
	if err != nil {
		return w, err
	}
	if err := e.takesPuts(); err != nil {
		return w, err
	}
	if err := e.mayTarget(p, &w); err != nil {
		return w, err
	}
	if w.due > e.batch.wall || w.staged {
		if err := e.takesWaiting(); err != nil {
			return w, err
		}
	}
	m := &e.scratch.message
	if err := fillMessage(m, p); err != nil {
		return w, err
	}
	return w, e.keyed(m, p, w.topic)
}

// when is the time of a put, and its topic.
type when struct {
	due     int64 // ms since 1970
	delay   int64 // of a level that has a schedule queue, else 0
	level   int
	clamped bool

	topic  *state.Topic // nil: it is to be made
	staged bool         // the message goes through the stage
}

// whenDue works out when a message is due. A delay becomes a time here; from then on only the wall clock decides.
func (e *Engine) whenDue(p *Put) (when, error) {
	set := 0
	for _, v := range []int64{int64(p.Level), p.DueMs, p.DelayMs} {
		if v != 0 {
			set++
		}
	}
	if set > 1 {
		return when{}, fmt.Errorf("%w: of level %d, due %d and delay %d ms only one may be set", ErrDue, p.Level, p.DueMs, p.DelayMs)
	}
	if p.Level != 0 {
		delay, level, clamped, err := e.levels.Delay(p.Level)
		if err != nil {
			return when{}, fmt.Errorf("%w: %w", ErrLevel, err)
		}
		w := when{due: saturate(e.batch.wall, delay), delay: delay, level: level, clamped: clamped}
		if delay >= e.levelLimit() {
			w.delay = 0 // it would have to be rolled, which is for messages with a time of their own
		}
		return w, nil
	}
	if set == 0 {
		return when{due: math.MinInt64}, nil // at once, also by a clock before 1970
	}
	due := p.DueMs
	if p.DelayMs != 0 {
		if p.DelayMs < 0 {
			return when{}, fmt.Errorf("%w: delay of %d ms, allowed is 0 to %d", ErrDue, p.DelayMs, e.opts.MaxDelay.Milliseconds())
		}
		due = saturate(e.batch.wall, p.DelayMs)
	}
	return when{due: due}, e.checkDue(due)
}

// checkDue refuses a due time that no message can have.
func (e *Engine) checkDue(due int64) error {
	if due < 0 || due > maxDueMs {
		return fmt.Errorf("%w: %d ms since 1970, allowed is 0 to %d (year 9999)", ErrDue, due, int64(maxDueMs))
	}
	if ahead, limit := due-e.batch.wall, e.opts.MaxDelay.Milliseconds(); ahead > limit {
		return fmt.Errorf("%w: %d ms ahead, the limit is %d ms (MaxDelay %v)", ErrDelay, ahead, limit, e.opts.MaxDelay)
	}
	return nil
}

// levelLimit is the delay from which on a level's messages would have to be rolled while they wait.
func (e *Engine) levelLimit() int64 {
	roll := e.opts.RollAfter.Milliseconds()
	return roll - min(roll/3, 24*60*60*1000)
}

// fillMessage takes what the producer says, and refuses what cannot be stored.
func fillMessage(m *message.Message, p *Put) error {
	*m = message.Message{
		QueueOffset: -1,
		BornMs:      p.BornMs, BornHost: p.BornHost,
		UserFlag: p.UserFlag, SysFlag: p.SysFlag, Attempts: p.Attempts,
		Tag: p.Tag, Key: p.Key, Properties: p.Properties, Body: p.Body,
		Tags: message.TagHash(p.Tag), KeyHash: message.KeyHash(p.Key),
	}
	if len(p.Key) == 0 {
		m.KeyHash = 0
	}
	if err := m.Check(); err != nil {
		if errors.Is(err, message.ErrTooLarge) {
			return fmt.Errorf("%w: %w", ErrTooLarge, err)
		}
		return fmt.Errorf("%w: %w", ErrBadCommand, err)
	}
	if err := message.CheckProperties(m.Properties); err != nil {
		return fmt.Errorf("%w: %w", ErrProperties, err)
	}
	return nil
}

func (e *Engine) putVisible(m *message.Message, offset int64) Answer {
	m.QueueOffset = offset
	pos, size := e.writeMessage(m)
	return Answer{Outcome: Stored, Topic: m.Topic, Queue: m.Queue, Offset: offset, Position: pos, Size: size}
}

// writeMessage writes a message and folds it. Its first copy is named by the position that it gets here.
func (e *Engine) writeMessage(m *message.Message) (Offset, int32) {
	w := e.writer()
	if w == nil {
		return 0, 0
	}
	pos := w.Open(message.KindMessage, 0)
	if m.Flags&message.Copy == 0 {
		m.First = pos
	}
	w.Buf = m.Append(w.Buf)
	_, size := w.Close()
	e.folded(e.st.Message(pos, int32(size), m, (*index)(e)))
	return pos, int32(size)
}

// backMs is how far before the tail of its schedule queue a message may fall due (the clock stepped back a little) to be
// raised to the tail. More leaves the queue for the loose messages of the lane.
const backMs = 1000

// putLevel stores a message that is due later, through the schedule queue of its delay.
func (e *Engine) putLevel(m *message.Message, due, delay int64) (Answer, error) {
	m.DelayMs, m.Lane = delay, levelLane
	if tail, ok := e.st.Levels[delay]; ok && due < tail {
		if tail-due > backMs {
			m.DelayMs = 0
		} else {
			due = tail
		}
	}
	return e.putWaiting(m, due)
}

// putTimed stores a message with a due time of its own.
func (e *Engine) putTimed(m *message.Message, due int64) (Answer, error) {
	m.DelayMs, m.Lane = 0, e.laneOf(m.Topic)
	return e.putWaiting(m, due)
}

// takesWaiting says why no message that waits is stored.
func (e *Engine) takesWaiting() error {
	if e.batch.full {
		return fmt.Errorf("%w: the index of waiting messages cannot be written, and memory is full: %w", ErrBacklog, e.jobs.lastErr)
	}
	return nil
}

func (e *Engine) putWaiting(m *message.Message, due int64) (Answer, error) {
	late, err := e.isLate(m.Lane, due)
	if err != nil {
		return Answer{}, err
	}
	if late {
		m.Flags |= message.Late
	}
	m.ID, m.DueMs = e.st.NextID, due
	pos, size := e.writeMessage(m)
	return Answer{
		Outcome: Scheduled, Topic: m.Topic, Queue: m.Queue, Offset: -1, Position: pos, Size: size,
		ID: m.ID, DueMs: m.DueMs, Lane: m.Lane,
	}, nil
}

// isLate says whether a message that is stored now is late, and brings the state bits of one that is into memory: a read that
// fails while the record is folded would leave the batch half done.
func (e *Engine) isLate(lane uint8, due int64) (bool, error) {
	id := e.st.NextID
	if e.st.Lanes[lane].Less(timerlog.Key{Due: due, ID: id}) {
		return false, nil
	}
	if _, err := e.bits.Get(id); err != nil {
		return true, fmt.Errorf("engine: put: %w", err)
	}
	return true, nil
}

// saturate adds a delay to a time.
func saturate(ms, delay int64) int64 {
	if delay > 0 && ms > math.MaxInt64-delay {
		return math.MaxInt64
	}
	return ms + delay
}
