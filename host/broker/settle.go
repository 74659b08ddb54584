package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
)

// maxRouted is how often plugins may send a message from one topic to another: two of them could do so for ever.
const maxRouted = 16

// Where a dead letter of a plugin comes from, in its property PropHook.
const (
	hookPublish = "publish" // it was being put
	hookDue     = "due"     // it was due
	hookConsume = "consume" // a group was about to get it
	hookDeliver = "deliver" // a reader said so (Settle)
)

// settling is a Settle that is being put together. The zero value with a Group, Topic, TopicID and Queue is ready.
type settling struct {
	engine.Settle
	bytes   int              // of the messages of its Puts
	keeps   bool             // a message of a stage is kept by it
	defines []engine.Command // topics that have to be there before
}

// full says that no message of a size may be added any more.
func (s *settling) full(size int) bool {
	return len(s.Items) == engine.MaxSettled || len(s.Items) > 0 && s.bytes+size > batchBytes ||
		len(s.Digests) > engine.MaxDigests-maxAsked-1
}

// maxAsked is how many of the plugins that were asked about one message are noted in the log.
const maxAsked = 8

// add adds a message, in ascending order of offsets, with what takes its place.
func (s *settling) add(m *engine.Message, d *Decision, puts ...*engine.Put) *engine.Settled {
	item := m.Settled()
	item.Action, item.Code = uint8(d.Action), d.Code
	for i, digest := range d.Asked {
		if i < maxAsked {
			s.number(digest)
		}
	}
	if d.Plugin != "" {
		item.Plugin = s.number(d.Digest)
	}
	for _, p := range puts {
		s.bytes += len(p.Body) + len(p.Properties) + requestOverhead
	}
	s.Puts = append(s.Puts, puts...)
	s.Items = append(s.Items, item)
	return &s.Items[len(s.Items)-1]
}

// number is the place of a digest among those of the Settle.
func (s *settling) number(digest [32]byte) uint8 {
	at := slices.Index(s.Digests, digest)
	if at < 0 && len(s.Digests) < engine.MaxDigests {
		at, s.Digests = len(s.Digests), append(s.Digests, digest)
	}
	if at < 0 {
		return engine.Nobody
	}
	return uint8(at)
}

// define has a topic made before, unless it is there with as many queues; 0: as any topic has.
func (s *settling) define(b *Broker, topic string, queues int) error {
	info, ok, err := b.lookUp(topic)
	if err != nil || ok && info.Count >= queues {
		return err
	}
	if queues == 0 {
		queues = b.queues()
	}
	s.defineOnce(topic, &engine.DefineTopic{Topic: topic, Queues: queues})
	return nil
}

// defineDead has the dead letters of a plugin made before, and the group that they belong to, unless they are there.
func (s *settling) defineDead(b *Broker, group string) error {
	topic := DeadLetterTopic(group)
	info, ok, err := b.lookUp(topic)
	if err != nil || ok && info.Count >= deadQueues {
		return err
	}
	s.defineOnce(topic, deadDefinition(group)...)
	return nil
}

// deadDefinition makes the dead letters of a plugin, which belong to a group, and the group: else nobody would know of it.
func deadDefinition(group string) []engine.Command {
	return []engine.Command{&engine.DefineTopic{Topic: DeadLetterTopic(group), Queues: deadQueues}, &engine.DefineGroup{Group: group}}
}

func (s *settling) defineOnce(topic string, cmds ...engine.Command) {
	for _, c := range s.defines {
		if d, ok := c.(*engine.DefineTopic); ok && d.Topic == topic {
			return
		}
	}
	s.defines = append(s.defines, cmds...)
}

// request makes the request of it.
func (s *settling) request() *request {
	return &request{
		cmds: append(slices.Clip(s.defines), &s.Settle),
		size: s.bytes + requestOverhead + len(s.Items)*64,
	}
}

// finish has it done, and returns the answer to the Settle.
func (s *settling) finish(ctx context.Context, b *Broker) (engine.Answer, error) {
	r := s.request()
	if err := b.queue.finish(ctx, r); err != nil {
		return engine.Answer{}, err
	}
	return s.answered(r)
}

// answered takes the answer to the Settle out of its request.
func (s *settling) answered(r *request) (engine.Answer, error) {
	a := r.answers[len(r.answers)-1]
	if a.Err != nil {
		return a, fmt.Errorf("broker: settle queue %d of topic %q for group %q: %w", s.Queue, s.Topic, s.Group, a.Err)
	}
	return a, nil
}

// moved is a message as it goes on in another topic, or again in its own, with what a consumer has to know of its past.
func (m *leasedMessage) moved(b *Broker, topic string, more ...property) *engine.Put {
	first := []property{{PropOriginID, b.firstID(&m.Message)}}
	return &engine.Put{
		Topic: topic, Queue: engine.AnyQueue, Key: m.Key, Tag: m.Tag, Body: m.Body,
		Properties: withPast(&m.Message.Message, first, more),
		BornMs:     m.BornMs, BornHost: m.BornHost, UserFlag: m.UserFlag, SysFlag: m.SysFlag,
	}
}

// routed is a message as it goes to the topic of a decision; an error is the reason why it may not.
func (m *leasedMessage) routed(b *Broker, d *Decision) (*engine.Put, error) {
	text, _ := m.Properties.Lookup(PropRouted)
	times, _ := strconv.Atoi(string(text))
	switch {
	case reservedTopic(d.Topic):
		return nil, fmt.Errorf("it was routed to %q, which is no topic of a producer", d.Topic)
	case times >= maxRouted:
		return nil, fmt.Errorf("it was routed %d times, the last time to %q", times+1, d.Topic)
	}
	if err := message.ValidTopic(d.Topic); err != nil {
		return nil, fmt.Errorf("it was routed to a topic that cannot be: %w", err)
	}
	if d.Message != nil {
		m = m.with(d.Message)
	}
	return m.moved(b, d.Topic, property{PropRouted, strconv.Itoa(times + 1)}), nil
}

// replaced is a message with the content of a decision.
func (m *leasedMessage) replaced(b *Broker, topic string, c *Content) *engine.Put {
	p := m.with(c).moved(b, topic)
	p.Attempts = m.Attempts
	return p
}

// with is a message with another content, and its own past.
func (m *leasedMessage) with(c *Content) *leasedMessage {
	changed := *m
	changed.Properties = c.properties()
	for _, name := range []string{PropOriginID, PropRouted} {
		if value, ok := m.Properties.Lookup(name); ok {
			changed.Properties = message.AppendProperty(changed.Properties, name, string(value))
		}
	}
	changed.Key, changed.Tag, changed.Body = []byte(c.Key), []byte(c.Tag), c.Body
	return &changed
}

// dead is a message as it goes to the dead letters of a group, by a decision.
func (m *leasedMessage) dead(b *Broker, group, hook string, d *Decision) *engine.Put {
	p := m.copyTo(b, DeadLetterTopic(group), d.Reason, d.properties(hook)...)
	p.Queue = deadQueue
	return &p
}

// deadGroup is the group to which the dead letters of a plugin belong that decides for no group.
func (d *Decision) deadGroup() string {
	if group := PluginGroup(d.Plugin); message.ValidGroup(group) == nil {
		return group
	}
	return PluginGroup("")
}

// action is the Action, if the decision can be done at all.
func (d *Decision) action() Action {
	if d.Action > ActionReplace || d.Action == ActionReplace && d.Message == nil {
		return Undecided
	}
	return d.Action
}

// instead is the decision that a message becomes a dead letter because what was decided cannot be done.
func (d *Decision) instead(reason error) *Decision {
	other := *d
	other.Action, other.Reason = ActionDeadLetter, fmt.Sprintf("%v, decided by plugin %q, cannot be done: %v", d.Action, d.Plugin, reason)
	return &other
}

// delayMs is how long a decision puts a message off.
func (d *Decision) delayMs(b *Broker) int64 {
	delay := min(max(d.Delay, time.Millisecond), b.MaxDelay())
	return (delay + time.Millisecond - 1).Milliseconds()
}

// isTransient says whether a Settle that was refused may be taken later as it is.
func isTransient(err error) bool {
	for _, kind := range []error{
		engine.ErrDiskFull, engine.ErrBacklog, engine.ErrFailed, engine.ErrSettled, ErrClosed, ErrUnknown,
		context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// Settlement is what the holder of a lease says about its message.
type Settlement struct {
	Receipt string
	// Decision: ActionKeep acks the message and ActionDrop forgets it, ActionRetry has it delivered again after Delay,
	// ActionDeadLetter makes it a dead letter of the group, and ActionRoute sends it to another topic. No other is allowed.
	Decision
}

// Settle ends leases, each durably and for good: what was decided is in the log, with the plugin and the file that decided, and
// the message does not come again, also not after a restart and whatever of the messages before it is not done with (of an Ack
// above a gap that is known in memory only). The copy of a message that is put off or given up is made in the same step. Messages of one queue share
// a record of the log.
//
// The errors stand at the indexes of the settlements: nil when it is done, ErrExpired or ErrReceipt when there is no such lease;
// after any other the lease goes on. Retries are not counted against MaxAttempts.
func (b *Broker) Settle(ctx context.Context, settlements []Settlement) []error {
	errs := make([]error, len(settlements))
	groups := map[*group][]heldMessage{}
	for i := range settlements {
		s := &settlements[i]
		switch s.Action {
		case ActionKeep, ActionDrop, ActionRetry, ActionDeadLetter, ActionRoute:
		default:
			errs[i] = fmt.Errorf("%w: the holder of a lease cannot decide %v", ErrRequest, s.Action)
			continue
		}
		r, g, outcome := b.holder(s.Receipt)
		if g == nil {
			errs[i] = outcome.Err()
			continue
		}
		groups[g] = append(groups[g], heldMessage{decidedMessage: decidedMessage{d: &s.Decision, hook: hookDeliver}, r: r, at: i})
	}
	for g, list := range groups { // one after the other: who is in two of them could wait for a seek that waits for it
		b.settleGroup(ctx, g, list, errs)
		for range list {
			b.groups.release(g)
		}
	}
	return errs
}

// heldMessage is one whose lease is being ended by Settle.
type heldMessage struct {
	decidedMessage
	r  receipt
	at int // index of its Settlement
}

// settleGroup settles what is leased to one group.
func (b *Broker) settleGroup(ctx context.Context, g *group, list []heldMessage, errs []error) {
	if err := b.join(ctx, g); err != nil {
		for i := range list {
			errs[list[i].at] = err
		}
		return
	}
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.part()
	}()
	held := map[*track][]heldMessage{}
	for i := range list {
		h := &list[i]
		if errs[h.at] = b.holdFor(g, h); errs[h.at] == nil {
			held[h.t] = append(held[h.t], *h)
		}
	}
	for t, list := range held {
		slices.SortFunc(list, func(x, y heldMessage) int { return cmp.Compare(x.Offset, y.Offset) })
		messages := make([]decidedMessage, len(list))
		for i := range list {
			messages[i] = list[i].decidedMessage
		}
		committed := b.settleList(ctx, g, t, messages)
		g.mu.Lock()
		for i := range list {
			h, m := &list[i], &messages[i]
			b.untake(g, t, h.r, h.epoch, committed, m.err)
			if errs[h.at] = m.err; m.err == nil {
				b.measures.consumed.add(m.d.Action)
			}
		}
		g.mu.Unlock()
	}
}

// holdFor makes the caller, who has joined, the only one that may end a lease, and reads its message.
func (b *Broker) holdFor(g *group, h *heldMessage) error {
	g.mu.Lock()
	m, t, err := g.take(h.r, b.env.Mono())
	if err != nil {
		g.mu.Unlock()
		return err
	}
	h.t, h.epoch = t, t.epoch
	g.mu.Unlock()
	if err := b.readOne(m, t.id, new(engine.Pulled)); err != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		b.untake(g, t, h.r, h.epoch, 0, err)
		return err
	}
	h.leasedMessage = *m
	return nil
}

// settleList settles messages of a queue that are held for a group, in ascending order of their offsets: several at once, or
// each by itself where that is refused for one of them. It notes why one is not, and returns where the group stands then. The
// caller has joined.
func (b *Broker) settleList(ctx context.Context, g *group, t *track, list []decidedMessage) (committed int64) {
	single := 0
	for len(list) > 0 {
		most := len(list)
		if single > 0 {
			most = 1
			single--
		}
		n, at, err := b.settleSome(ctx, g, t, list[:most])
		if err != nil && n > 1 && !isTransient(err) {
			single = n
			continue
		}
		for i := range list[:n] {
			list[i].err = err
		}
		committed, list = max(committed, at), list[n:]
	}
	return committed
}

// settleSome settles as many as go into one Settle, at least one.
func (b *Broker) settleSome(ctx context.Context, g *group, t *track, list []decidedMessage) (n int, committed int64, err error) {
	s := &settling{Settle: engine.Settle{Group: g.name, Topic: t.topic, TopicID: t.id, Queue: t.queue}}
	for n < len(list) && (n == 0 || !s.full(list[n].size())) {
		m := &list[n]
		n++
		put, d, err := b.groupPut(s, g, m)
		if err != nil {
			return n, 0, err
		}
		if put != nil {
			s.add(&m.Message, d, put)
		} else {
			s.add(&m.Message, d)
		}
	}
	a, err := s.finish(ctx, b)
	if err != nil {
		return n, 0, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(s.defines) > 0 {
		g.kick() // the group's pulls have to listen to a topic that is new
	}
	return n, a.Offset, nil
}

// groupPut is what takes the place of a message for a group; nil if nothing does. A decision that cannot be done becomes a dead
// letter's.
func (b *Broker) groupPut(s *settling, g *group, m *decidedMessage) (*engine.Put, *Decision, error) {
	d := m.d
	switch d.Action {
	case ActionRetry:
		if m.Err != nil || m.hook == hookConsume && m.attempt >= b.opts.MaxAttempts {
			d = d.instead(fmt.Errorf("it was put off %d times", m.attempt))
			break
		}
		p := m.copyTo(b, RetryTopic(g.name), d.Reason)
		p.DelayMs = d.delayMs(b)
		info, _, err := b.lookUp(p.Topic)
		if err == nil {
			err = s.define(b, p.Topic, 0)
		}
		p.Queue = int(message.KeyHash(string(originOf(&m.Message, m.topic))) % uint64(max(info.Count, 1)))
		return &p, d, err
	case ActionRoute:
		p, err := m.routed(b, d)
		if err != nil {
			d = d.instead(err)
			break
		}
		return p, d, nil
	}
	if d.Action != ActionDeadLetter {
		return nil, d, nil
	}
	p := m.dead(b, g.name, m.hook, d)
	return p, d, s.define(b, p.Topic, deadQueues)
}
