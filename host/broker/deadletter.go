package broker

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
)

// The queues of a group's dead-letter topic. What is removed from the middle of the first stands in the second: a message
// whose body is a list of offsets, 8 bytes each, big-endian. What is removed from its beginning is committed.
const (
	deadQueue    = 0
	removedQueue = 1
	deadQueues   = 2
)

// deadPage is how many dead letters are read, and removed, at once.
const deadPage = 256

// DeadLetter is a message that a group gave up. It is a copy and belongs to the caller.
type DeadLetter struct {
	Offset int64  // names it among the group's dead letters
	Topic  string // that it was put into, with Queue and TopicOffset
	Queue  int
	// TopicOffset is where it stood in that queue.
	TopicOffset int64
	ID          string // of the message at its first delivery
	Attempts    int    // deliveries
	Reason      string // why the last one failed
	FirstMs     int64  // when the first one failed, ms since 1970
	DiedMs      int64  // when it was given up, ms since 1970
	// Plugin, Code and Digest say which plugin gave it up, with which code and of which file, and Hook where: as it was being put
	// (publish), when it was due (due), before a group got it (consume), or as its reader (deliver). Empty and zero when none did.
	Plugin string
	Hook   string
	Code   uint16
	Digest [32]byte

	Key, Tag   string
	Properties map[string]string // its own
	Body       []byte
	BornMs     int64
	Err        error // its bytes cannot be read: only Offset holds
}

// DeadFilter says which dead letters are meant. The zero value means all; of what is set, all must hold.
type DeadFilter struct {
	Offsets []int64 // one of these
	Topic   string  // that they were put into
	Key     string
	Tag     string
	Reason  string // part of the reason, in any case
	FromMs  int64  // given up at or after, ms since 1970
	ToMs    int64  // given up before; 0: no bound
	// Before is an offset: only those below it; 0: no bound. With DeadCount.End, what came after the count is left alone.
	Before int64
}

// matches says whether a dead letter is meant.
func (f *DeadFilter) matches(d *DeadLetter) bool {
	switch {
	case f.Before != 0 && d.Offset >= f.Before,
		len(f.Offsets) > 0 && !slices.Contains(f.Offsets, d.Offset):
		return false
	case d.Err != nil:
		return f.Topic == "" && f.Key == "" && f.Tag == "" && f.Reason == "" && f.FromMs == 0 && f.ToMs == 0
	case f.Topic != "" && f.Topic != d.Topic, f.Key != "" && f.Key != d.Key, f.Tag != "" && f.Tag != d.Tag,
		f.FromMs != 0 && d.DiedMs < f.FromMs, f.ToMs != 0 && d.DiedMs >= f.ToMs:
		return false
	}
	return f.Reason == "" || strings.Contains(strings.ToLower(d.Reason), strings.ToLower(f.Reason))
}

// all says that every dead letter below Before is meant.
func (f *DeadFilter) all() bool {
	return len(f.Offsets) == 0 && f.Topic == "" && f.Key == "" && f.Tag == "" && f.Reason == "" && f.FromMs == 0 && f.ToMs == 0
}

// dead is what the broker knows of a group's dead letters. Who holds the turn owns it.
type dead struct {
	turn    chan struct{} // has a token while somebody has the turn
	id      uint32        // of the topic that the rest is about
	next    int64         // removals are known up to here
	removed map[int64]struct{}
	low     int64 // all below is removed
	pruned  int64 // removed has nothing below
	end     int64 // there are none from here on
}

// deadTurn takes the turn of a group's dead letters and brings what is known of them up to date. It ends with done.
func (b *Broker) deadTurn(ctx context.Context, name string) (g *group, done func(), err error) {
	if err := message.ValidGroup(name); err != nil {
		return nil, nil, fmt.Errorf("broker: %w: %w", engine.ErrGroupName, err)
	}
	g = b.groups.acquire(name)
	select {
	case g.dead.turn <- struct{}{}:
	case <-ctx.Done():
		b.groups.release(g)
		return nil, nil, ctx.Err()
	case <-b.closing:
		b.groups.release(g)
		return nil, nil, ErrClosed
	}
	done = func() {
		<-g.dead.turn
		b.groups.release(g)
	}
	if err := b.learnDead(ctx, g); err != nil {
		done()
		return nil, nil, err
	}
	return g, done, nil
}

// learnDead reads what was removed since the last time.
func (b *Broker) learnDead(ctx context.Context, g *group) error {
	d, topic := &g.dead, DeadLetterTopic(g.name)
	if err := b.enter(); err != nil {
		return err
	}
	info, ok, _ := b.e.Topic(topic)
	committed, _, pos := b.e.Committed(g.name, topic, deadQueue)
	b.leave()
	if err := b.gate.wait(ctx, pos); err != nil && !errors.Is(err, ErrFailed) {
		return err
	}
	if !ok || len(info.Queues) < deadQueues {
		*d = dead{turn: d.turn}
		return nil
	}
	if d.id != info.ID {
		*d = dead{turn: d.turn, id: info.ID, removed: map[int64]struct{}{}}
	}
	d.low = max(d.low, committed, info.Queues[deadQueue].Min)
	d.end = info.Queues[deadQueue].Visible
	d.next = max(d.next, info.Queues[removedQueue].Min)
	var into engine.Pulled
	for d.next < info.Queues[removedQueue].Visible {
		err := b.readDead(topic, removedQueue, d.next, &into)
		if errors.Is(err, engine.ErrTrimmed) && into.Min > d.next {
			d.next = into.Min // of removals that were as old as what they removed
			continue
		}
		if err != nil {
			return err
		}
		for i := range into.Messages {
			d.pruned = min(d.pruned, d.low-1) // the list may be of what is below by now
			for body := into.Messages[i].Body; len(body) >= 8; body = body[8:] {
				d.removed[int64(binary.BigEndian.Uint64(body))] = struct{}{}
			}
		}
		d.next = into.Next
	}
	d.prune()
	if d.low > max(committed, info.Queues[deadQueue].Min) { // what was removed one by one needs no list any more
		b.queue.offer(&request{
			cmds: []engine.Command{&engine.CommitOffset{Group: g.name, Topic: topic, Queue: deadQueue, Offset: d.low}},
			size: requestOverhead, done: make(chan struct{}), written: true,
		})
	}
	return nil
}

// prune raises low over what is removed, and forgets what is below.
func (d *dead) prune() {
	if d.pruned < d.low {
		maps.DeleteFunc(d.removed, func(offset int64, _ struct{}) bool { return offset < d.low })
	}
	for {
		if _, ok := d.removed[d.low]; !ok {
			d.pruned = d.low
			return
		}
		delete(d.removed, d.low)
		d.low++
	}
}

func (b *Broker) readDead(topic string, queue int, from int64, into *engine.Pulled) error {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	err := b.e.Pull(engine.PullRequest{Topic: topic, Queue: queue, Offset: from, MaxCount: deadPage}, into)
	if err != nil {
		return fmt.Errorf("broker: dead letters: %w", err)
	}
	return nil
}

// DeadPage is one look at dead letters.
type DeadPage struct {
	Letters []DeadLetter // in the order in which they were given up
	Next    string       // where to go on; "" at the end
}

// DeadLettersPage lists a group's dead letters that match, from a page on ("" at first), at most limit (0: 100). A page
// may be empty and not the last. A group without any has an empty list, whether it is there or not.
func (b *Broker) DeadLettersPage(ctx context.Context, group string, f DeadFilter, page string, limit int) (DeadPage, error) {
	if limit == 0 {
		limit = 100
	}
	from := int64(0)
	if page != "" {
		var err error
		if from, err = strconv.ParseInt(page, 10, 64); err != nil || from < 0 {
			return DeadPage{}, fmt.Errorf("%w: page %q", ErrRequest, page)
		}
	}
	if limit < 0 || limit > MaxPull {
		return DeadPage{}, fmt.Errorf("%w: limit is %d, allowed is 1 to %d", ErrRequest, limit, MaxPull)
	}
	g, done, err := b.deadTurn(ctx, group)
	if err != nil {
		return DeadPage{}, err
	}
	defer done()
	letters, next, err := b.lookDead(g, &f, from, limit)
	p := DeadPage{Letters: letters}
	if next < g.dead.bound(&f) {
		p.Next = strconv.FormatInt(next, 10)
	}
	return p, err
}

// bound is where a look at what a filter means can end.
func (d *dead) bound(f *DeadFilter) int64 {
	end := d.end
	if f.Before != 0 {
		end = min(end, f.Before)
	}
	if len(f.Offsets) > 0 {
		end = min(end, slices.Max(f.Offsets)+1)
	}
	return end
}

// lookDead reads one page from an offset on: what matches, at most limit, and where to go on. The caller has the turn.
func (b *Broker) lookDead(g *group, f *DeadFilter, from int64, limit int) (letters []DeadLetter, next int64, err error) {
	d := &g.dead
	from = max(from, d.low)
	if len(f.Offsets) > 0 {
		from = max(from, slices.Min(f.Offsets))
	}
	if from >= d.bound(f) {
		return nil, from, nil
	}
	var into engine.Pulled
	err = b.readDead(DeadLetterTopic(g.name), deadQueue, from, &into)
	if errors.Is(err, engine.ErrTrimmed) && into.Min > from {
		return nil, into.Min, nil
	}
	if err != nil {
		return nil, from, err
	}
	for i := range into.Messages {
		m := &into.Messages[i]
		if _, gone := d.removed[m.Offset]; gone || errors.Is(m.Err, engine.ErrTrimmed) {
			continue
		}
		if letter := b.deadLetter(m); f.matches(&letter) {
			if len(letters) == limit {
				return letters, m.Offset, nil
			}
			letters = append(letters, letter)
		}
	}
	return letters, into.Next, nil
}

// deadLetter copies a message out of the group's dead letters.
func (b *Broker) deadLetter(m *engine.Message) DeadLetter {
	d := DeadLetter{Offset: m.Offset, Err: m.Err}
	if m.Err != nil {
		return d
	}
	d.ID, d.Attempts, d.DiedMs, d.BornMs = b.firstID(m), int(m.Attempts), m.StoreMs, m.BornMs
	d.Key, d.Tag, d.Body = string(m.Key), string(m.Tag), slices.Clone(m.Body)
	for name, value := range m.Properties.All() {
		number, _ := strconv.ParseInt(string(value), 10, 64)
		switch string(name) {
		case PropOriginTopic:
			d.Topic = string(value)
		case PropOriginQueue:
			d.Queue = int(number)
		case PropOriginOffset:
			d.TopicOffset = number
		case PropFirstFailed:
			d.FirstMs = number
		case PropReason:
			d.Reason = string(value)
		case PropHook:
			d.Hook = string(value)
		case PropPlugin:
			d.Plugin = string(value)
		case PropCode:
			d.Code = uint16(number)
		case PropDigest:
			if len(value) == 2*len(d.Digest) {
				_, _ = hex.Decode(d.Digest[:], value)
			}
		}
		if !ownProperty(string(name)) {
			if d.Properties == nil {
				d.Properties = map[string]string{}
			}
			d.Properties[string(name)] = string(value)
		}
	}
	return d
}

// DeadLetters goes over a group's dead letters that match, in the order in which they were given up, lazily. After an
// error the loop ends.
func (b *Broker) DeadLetters(ctx context.Context, group string, f DeadFilter) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		for page := ""; ; {
			p, err := b.DeadLettersPage(ctx, group, f, page, deadPage)
			if err != nil {
				yield(DeadLetter{}, err)
				return
			}
			for _, d := range p.Letters {
				if !yield(d, nil) {
					return
				}
			}
			if page = p.Next; page == "" {
				return
			}
		}
	}
}

// DeadLetter is one dead letter by its offset; engine.ErrNoMessage when there is none.
func (b *Broker) DeadLetter(ctx context.Context, group string, offset int64) (DeadLetter, error) {
	p, err := b.DeadLettersPage(ctx, group, DeadFilter{Offsets: []int64{offset}}, "", 1)
	if err != nil {
		return DeadLetter{}, err
	}
	if len(p.Letters) == 0 {
		return DeadLetter{}, fmt.Errorf("broker: %w: dead letter %d of group %q", engine.ErrNoMessage, offset, group)
	}
	return p.Letters[0], nil
}

// DeadCount is how many dead letters match.
type DeadCount struct {
	Count int64
	End   int64 // as DeadFilter.Before it keeps to those that were counted
}

// CountDeadLetters counts a group's dead letters that match. All of them cost nothing to count; else they are read.
func (b *Broker) CountDeadLetters(ctx context.Context, group string, f DeadFilter) (DeadCount, error) {
	g, done, err := b.deadTurn(ctx, group)
	if err != nil {
		return DeadCount{}, err
	}
	c := DeadCount{End: max(g.dead.bound(&f), 1)}
	if f.all() && f.Before == 0 {
		c.Count = g.dead.end - g.dead.low - int64(len(g.dead.removed))
		done()
		return c, nil
	}
	done()
	f.Before = c.End
	for _, err := range b.DeadLetters(ctx, group, f) {
		if err != nil {
			return DeadCount{}, err
		}
		c.Count++
	}
	return c, nil
}

// removal makes the command that removes dead letters, at least one, in ascending order of their offsets. What is removed
// from the beginning is committed, which a full disk does not refuse.
func (g *group) removal(offsets []int64) engine.Command {
	low, rest := g.dead.low, offsets
	for {
		_, gone := g.dead.removed[low]
		if len(rest) > 0 && rest[0] == low {
			rest, gone = rest[1:], true
		}
		if !gone {
			break
		}
		low++
	}
	var commit engine.Command
	if low > g.dead.low {
		commit = &engine.CommitOffset{Group: g.name, Topic: DeadLetterTopic(g.name), Queue: deadQueue, Offset: low}
	}
	if len(rest) == 0 {
		return commit
	}
	return &engine.Put{Topic: DeadLetterTopic(g.name), Queue: removedQueue, Body: removedBody(rest...), Then: commit}
}

// removedBody is the body of a message that says which dead letters are gone.
func removedBody(offsets ...int64) (body []byte) {
	for _, offset := range offsets {
		body = binary.BigEndian.AppendUint64(body, uint64(offset))
	}
	return body
}

// DropDeadLetters removes a group's dead letters that match, durably, and says how many it were. After an error some may
// be removed.
func (b *Broker) DropDeadLetters(ctx context.Context, name string, f DeadFilter) (int64, error) {
	return b.eachDead(ctx, name, f, func(g *group, letters []DeadLetter) (int64, error) {
		offsets := make([]int64, len(letters))
		for i := range letters {
			offsets[i] = letters[i].Offset
		}
		return int64(len(letters)), b.command(ctx, g.removal(offsets))
	})
}

// eachDead goes over the dead letters that match and are there now, page by page, with the turn.
func (b *Broker) eachDead(ctx context.Context, name string, f DeadFilter, do func(*group, []DeadLetter) (int64, error)) (n int64, err error) {
	for from := int64(0); ; {
		g, done, err := b.deadTurn(ctx, name)
		if err != nil {
			return n, err
		}
		if f.Before == 0 {
			f.Before = max(g.dead.end, 1) // and not what is given up meanwhile, perhaps again
		}
		letters, next, err := b.lookDead(g, &f, from, math.MaxInt)
		if err == nil && len(letters) > 0 {
			var some int64
			some, err = do(g, letters)
			n += some
		}
		end := next >= g.dead.bound(&f)
		done()
		if err != nil || end {
			return n, err
		}
		from = next
	}
}
