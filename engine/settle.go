package engine

import (
	"fmt"

	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/record"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// Limits of a Settle.
const (
	MaxSettled     = record.MaxSettled // messages
	MaxDigests     = record.MaxDigests // plugins
	MaxSettleBytes = 6 << 20           // of the records of its Puts
	// MaxSettledAbove is how many offsets may be settled above the committed one of a group in a queue.
	MaxSettledAbove = 65536
	// Nobody stands in the place of a plugin's number where none was asked.
	Nobody = record.Nobody
)

// Settle says what plugins decided about messages of a queue for a group: about each offset once, ever. It is the one command
// by which verdicts enter the log, as one batch: the messages that take the place of others, then the verdicts. The
// committed offset of the group moves over what is settled without a gap; what is settled above a gap is kept beside it
// (Engine.Settled). A group that has no offset in the queue begins at the first that is there; one that begins elsewhere
// commits that before.
//
// It is refused whole, and nothing of it happens: with ErrSettled when an offset is below the committed one or settled already,
// or when too many would be settled above it; with ErrOffset when there is none yet; with ErrNoTopic when the topic is gone or is
// another one; with what one of the Puts would be refused with. The answer's Offset is the committed one.
type Settle struct {
	Group   string
	Topic   string // in a stage: its name, StagePrefix and the topic's; then the group is StageGroup
	TopicID uint32 // if not 0, the topic must be this one, and not another that was made later under the name
	Queue   int
	// InOrder has it refused with ErrSettled unless its first offset is the lowest that is not settled. So of several that are on
	// their way none is done when one before it is refused.
	InOrder bool

	Digests [][32]byte // SHA-256 of the files of the plugins that were asked, at most MaxDigests
	Items   []Settled  // 1 to MaxSettled, in ascending order of their offsets
	// Puts are stored in the same batch: copies for other topics, changed messages, retries, dead letters. Their records may
	// have MaxSettleBytes together. None has a Then or an idempotency key.
	Puts []*Put
}

func (*Settle) command() {}

// Settled is what was decided about one message. All but the verdict is as Pull has it: Message.Settled fills it in.
type Settled struct {
	Offset   int64
	ID       uint64
	DueMs    int64
	Position Offset
	Size     int32
	Tags     int32

	Action uint8  // of the verdict, a number of the plugins' ABI; the engine only keeps it
	Code   uint16 // the plugin's reason; the engine only keeps it
	Plugin uint8  // index in Digests of the plugin that decided; Nobody when none was asked
	// Keep is for a stage only: the message becomes visible in its topic, in the queue of the same number (modulo count).
	Keep bool
}

// Settled returns the message as an item of a Settle, about which nobody was asked and that is not kept.
func (m *Message) Settled() Settled {
	return Settled{
		Offset: m.Offset, ID: m.ID, DueMs: m.DueMs, Position: m.Position, Size: m.Size, Tags: m.Tags, Plugin: Nobody,
	}
}

// settleSize bounds the bytes of the record of the verdicts.
func settleSize(c *Settle) int {
	return recordOverhead + record.VerdictSize(min(len(c.Digests), MaxDigests), min(len(c.Items), MaxSettled))
}

func (e *Engine) settleOffsets(c *Settle) (Answer, error) {
	t, key, err := e.maySettle(c)
	if err != nil {
		return Answer{}, err
	}
	if err := e.mayPutAll(c.Puts); err != nil {
		return Answer{}, err
	}
	for _, p := range c.Puts {
		if _, err := e.put(p); err != nil {
			e.folded(err) // it was asked before; half of a Settle may not be
			return Answer{}, err
		}
	}
	if _, known := e.st.Offsets.Get(key); !known {
		e.readers = nil // it is the first offset, perhaps of a broadcast group
	}
	if key.Group == 0 {
		g, err := e.group(c.Group, 0)
		if err != nil {
			e.folded(err)
			return Answer{}, err
		}
		key.Group = g.ID
	}
	v := &e.scratch.verdict
	fillVerdict(v, c, t, key)
	v.Low = e.low(t, key.Queue)
	e.batch.understand = true
	e.write(record.KindVerdict, v)
	e.folded(e.st.Verdict(v, (*index)(e)))
	v.Digests = nil // the caller's
	at, _ := e.st.Offsets.Get(key)
	return Answer{Outcome: Done, Topic: t.ID, Queue: key.Queue, Offset: at}, nil
}

// low is the first offset of a queue that there is. After a repair that may be above the minimum that the log says.
func (e *Engine) low(t *state.Topic, queue uint32) int64 {
	low := t.Queues[queue].Min
	if q := e.queues.Queue(t.ID, queue); q != nil {
		low = max(low, int64(q.First()))
	}
	return low
}

// fillVerdict makes the record.
func fillVerdict(v *record.Verdict, c *Settle, t *state.Topic, key state.OffsetKey) {
	*v = record.Verdict{Group: key.Group, Topic: key.Topic, Queue: key.Queue, Digests: c.Digests, Items: v.Items[:0]}
	if o := t.Origin; o != nil {
		v.Origin, v.To = o.ID, key.Queue
		if int(v.To) >= o.Count {
			v.To %= uint32(o.Count)
		}
		v.Base = o.Queues[v.To].Next
	}
	for i := range c.Items {
		it := &c.Items[i]
		v.Items = append(v.Items, record.VerdictItem{
			Key: timerlog.Key{Due: it.DueMs, ID: it.ID}, Offset: it.Offset, Position: it.Position, Size: it.Size, Tags: it.Tags,
			Action: it.Action, Plugin: it.Plugin, Code: it.Code, Kept: it.Keep,
		})
	}
}

// maySettle says why a Settle is refused, but for its Puts, and whose offset it is about. The group is 0 when it has to be made.
func (e *Engine) maySettle(c *Settle) (*state.Topic, state.OffsetKey, error) {
	var key state.OffsetKey
	t := e.st.TopicByName(c.Topic)
	if t == nil || c.TopicID != 0 && c.TopicID != t.ID {
		return nil, key, fmt.Errorf("%w: %q", ErrNoTopic, c.Topic)
	}
	if c.Queue < 0 || c.Queue >= len(t.Queues) {
		return nil, key, fmt.Errorf("%w: queue %d of topic %q, allowed is 0 to %d", ErrQueue, c.Queue, c.Topic, len(t.Queues)-1)
	}
	if isStage(c.Topic) != isStage(c.Group) || c.Group != StageGroup && isStage(c.Group) {
		return nil, key, fmt.Errorf("%w: group %q settles topic %q", ErrReserved, c.Group, c.Topic)
	}
	g := e.st.GroupByName(c.Group)
	if g == nil {
		if err := message.ValidGroup(c.Group); err != nil {
			return nil, key, fmt.Errorf("%w: %w", ErrGroupName, err)
		}
	} else {
		key.Group = g.ID
	}
	key.Topic, key.Queue = t.ID, uint32(c.Queue)
	if _, known := e.st.Offsets.Get(key); g != nil && !known {
		if err := e.mayEnter(g, t); err != nil {
			return nil, key, err
		}
	}
	if n := len(c.Items); n < 1 || n > MaxSettled || len(c.Digests) > MaxDigests {
		return nil, key, fmt.Errorf("%w: settle of %d messages, allowed are 1 to %d; by %d plugins, allowed are %d",
			ErrBadCommand, n, MaxSettled, len(c.Digests), MaxDigests)
	}
	low := e.low(t, key.Queue)
	for i := range c.Items {
		if err := e.maySettleItem(c, i, t, key, low); err != nil {
			return nil, key, err
		}
	}
	if at, _ := e.st.Offsets.Get(key); c.InOrder && c.Items[0].Offset != max(at, low) {
		return nil, key, fmt.Errorf("%w: offset %d in queue %d of topic %q is not the next for group %q, which is %d", ErrSettled,
			c.Items[0].Offset, c.Queue, c.Topic, c.Group, max(at, low))
	}
	return t, key, e.maySettleMore(c, low, key)
}

// maySettleItem says why one item is refused.
func (e *Engine) maySettleItem(c *Settle, i int, t *state.Topic, key state.OffsetKey, low int64) error {
	it, q := &c.Items[i], &t.Queues[key.Queue]
	switch {
	case i > 0 && it.Offset <= c.Items[i-1].Offset:
		return fmt.Errorf("%w: offset %d is settled behind %d", ErrBadCommand, it.Offset, c.Items[i-1].Offset)
	case it.Plugin != Nobody && int(it.Plugin) >= len(c.Digests):
		return fmt.Errorf("%w: offset %d was decided by plugin %d, there are %d", ErrBadCommand, it.Offset, it.Plugin, len(c.Digests))
	case it.Offset < 0 || it.Offset >= q.Next:
		return fmt.Errorf("%w: %d in queue %d of topic %q, allowed is 0 to %d", ErrOffset, it.Offset, c.Queue, c.Topic, q.Next-1)
	case e.st.Offsets.IsSettled(key, low, it.Offset):
		return fmt.Errorf("%w: offset %d in queue %d of topic %q, for group %q", ErrSettled, it.Offset, c.Queue, c.Topic, c.Group)
	case it.Keep && t.Origin == nil:
		return fmt.Errorf("%w: offset %d is to be kept, and %q is no stage of a topic", ErrBadCommand, it.Offset, c.Topic)
	case it.Position < 0 || it.Size < 0 || it.Position > e.log.End()-Offset(it.Size):
		return fmt.Errorf("%w: offset %d is a record of %d bytes at %d, the log ends at %d", ErrBadCommand, it.Offset, it.Size, it.Position, e.log.End())
	}
	return nil
}

// maySettleMore bounds what is settled above the committed offset.
func (e *Engine) maySettleMore(c *Settle, low int64, key state.OffsetKey) error {
	if e.st.Offsets.SettledCount(key)+int64(len(c.Items)) <= MaxSettledAbove {
		return nil
	}
	more := make([]int64, len(c.Items))
	for i := range c.Items {
		more[i] = c.Items[i].Offset
	}
	if at, above := e.st.Offsets.Would(key, low, more); above > MaxSettledAbove {
		return fmt.Errorf("%w: group %q would have %d offsets settled above %d in queue %d of topic %q, allowed are %d",
			ErrSettled, c.Group, above, at, c.Queue, c.Topic, MaxSettledAbove)
	}
	return nil
}

// mayPutAll says why one of the messages of a Settle would be refused. What could fail later, but for the log itself, is
// brought into memory.
func (e *Engine) mayPutAll(puts []*Put) error {
	bytes, rows := 0, 0
	for i, p := range puts {
		if p.Then != nil || len(p.IdempotencyKey) > 0 {
			return fmt.Errorf("%w: message %d of a settle has a Then or an idempotency key", ErrBadCommand, i)
		}
		// That a topic which a broadcast group reads takes no delays is for producers: a plugin's retry is none of theirs.
		if _, err := e.mayPut(p); err != nil {
			return fmt.Errorf("message %d of a settle: %w", i, err)
		}
		bytes, rows = bytes+messageSize(p), rows+e.waits(p)
	}
	if bytes > MaxSettleBytes {
		return fmt.Errorf("%w: messages of %d bytes in a settle, allowed are %d", ErrTooLarge, bytes, MaxSettleBytes)
	}
	if most := e.rollMost(); rows > most {
		return fmt.Errorf("%w: %d messages that wait in a settle, the index takes %d at once", ErrTooLarge, rows, most)
	}
	if len(puts) > 0 {
		for _, id := range [...]uint64{e.st.NextID, e.st.NextID + uint64(len(puts)) - 1} {
			if _, err := e.bits.Get(id); err != nil {
				return fmt.Errorf("engine: settle: %w", err)
			}
		}
	}
	return nil
}

// actionNames are the names of verdicts, by the numbers of the plugins' ABI.
var actionNames = [...]string{1: "keep", "drop", "retry", "dead_letter", "route", "replace", "error", "defer"}

// ActionName is the word for a verdict; "action 99" for one that this version does not know.
func ActionName(action uint8) string {
	if int(action) < len(actionNames) && actionNames[action] != "" {
		return actionNames[action]
	}
	return fmt.Sprintf("action %d", action)
}

// OffsetRange is offsets of a queue [From, To).
type OffsetRange struct{ From, To int64 }

// Settled is what is settled for a group in a queue above its committed offset: sorted, with gaps between, none when there is
// nothing. The answer may leave when the log is released up to the position. Safe for concurrent use.
func (e *Engine) Settled(group, topic string, queue int) (ranges []OffsetRange, pos Offset) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if g, t := e.st.GroupByName(group), e.st.TopicByName(topic); g != nil && t != nil {
		for _, r := range e.st.Offsets.Settled(state.OffsetKey{Group: g.ID, Topic: t.ID, Queue: uint32(queue)}) {
			ranges = append(ranges, OffsetRange(r))
		}
	}
	return ranges, e.asOf()
}
