package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
)

// Properties of a message that is delivered again, and of a dead letter. The first two are RocketMQ's. A producer may not
// use them, nor any other name that begins as the rest.
const (
	PropOriginTopic  = "RETRY_TOPIC"       // the topic in which the group met it first
	PropOriginID     = "ORIGIN_MESSAGE_ID" // its id there
	PropOriginQueue  = "RETRY_QUEUE"       // its queue there
	PropOriginOffset = "RETRY_OFFSET"      // its offset there
	PropFirstFailed  = "RETRY_FIRST_MS"    // when its first delivery failed, ms since 1970
	PropReason       = "RETRY_REASON"      // why the last delivery failed, as the consumer said
	PropCut          = "RETRY_CUT"         // how many of its own last properties had to be left out of the copy
	PropHook         = "RETRY_HOOK"        // of a plugin's dead letter: where it decided, publish, due, consume or deliver
	PropPlugin       = "RETRY_PLUGIN"      // its name
	PropCode         = "RETRY_CODE"        // the code that it gave
	PropDigest       = "RETRY_DIGEST"      // SHA-256 of its file, as hexadecimal digits
	PropRouted       = "RETRY_ROUTED"      // how often plugins have sent it from one topic to another
)

// maxReason is how much of a reason is kept, in bytes.
const maxReason = 512

// ownProperty says whether a property is one of those above.
func ownProperty(name string) bool {
	return name == PropOriginID || name == PropPut || strings.HasPrefix(name, "RETRY_")
}

// levelOfRetry is the delay level of the nth retry: RocketMQ's rule.
func levelOfRetry(n int) int { return n + 2 }

// RetryOptions say how a message is put off. The zero value is right for most.
type RetryOptions struct {
	// Delay is how long to wait, at most the broker's MaxDelay; 0: the nth retry waits as long as level n+2 of the table
	// says, the first 10 s and the fifteenth 1 h with the default table.
	Delay time.Duration
	// Reason is kept with the message, up to 512 bytes.
	Reason string
}

// Retried says what became of a message that was put off or rejected.
type Retried struct {
	DeadLetter bool  // it is a dead letter of the group now, and does not come again
	Attempt    int   // the deliveries that it had
	DueMs      int64 // when it comes again, ms since 1970; 0 for a dead letter
	Level      int   // the level that was applied
}

// Retry puts a message off: a copy waits in the group's retry topic, and comes again with a higher attempt; the message
// itself is done with. Both are one step, durable when Retry returns. After Options.MaxAttempts deliveries the copy goes
// to the group's dead letters instead. The error is of kind ErrExpired or ErrReceipt when there is no such lease; after
// any other the lease goes on, and the message comes again when it is over.
func (b *Broker) Retry(ctx context.Context, receipt string, opts RetryOptions) (Retried, error) {
	if opts.Delay < 0 {
		return Retried{}, fmt.Errorf("%w: a delay of %v", ErrRequest, opts.Delay)
	}
	l := letting{reason: opts.Reason, delay: opts.Delay}
	return b.letGo(ctx, receipt, l.retry)
}

// Reject makes a message a dead letter of the group at once. It is like Retry otherwise.
func (b *Broker) Reject(ctx context.Context, receipt, reason string) (Retried, error) {
	l := letting{reason: reason}
	return b.letGo(ctx, receipt, l.bury)
}

func (b *Broker) letGo(ctx context.Context, text string, plan plan) (Retried, error) {
	r, g, outcome := b.holder(text)
	if g == nil {
		return Retried{}, outcome.Err()
	}
	defer b.groups.release(g)
	return b.moveOn(ctx, g, r, plan)
}

// plan makes the copy of a message that was leased; queues is how many the copy's topic has at least.
type plan func(b *Broker, g *group, m *leasedMessage) (p engine.Put, queues int)

// leasedMessage is a message as a plan sees it.
type leasedMessage struct {
	engine.Message
	topic   string // it stands in
	queue   int
	attempt int // deliveries
}

// letting is what a consumer says about a message that it could not handle.
type letting struct {
	reason string
	delay  time.Duration
}

// retry plans the next delivery.
func (l *letting) retry(b *Broker, g *group, m *leasedMessage) (engine.Put, int) {
	if m.attempt >= b.opts.MaxAttempts || m.Err != nil {
		return l.bury(b, g, m)
	}
	p := m.copyTo(b, RetryTopic(g.name), l.reason)
	p.Queue = engine.AnyQueue
	if p.DelayMs = (l.delay + time.Millisecond - 1).Milliseconds(); p.DelayMs == 0 {
		p.Level = levelOfRetry(m.attempt)
	}
	return p, 0
}

// bury plans a dead letter. One that cannot be read is a stub that says so.
func (l *letting) bury(b *Broker, g *group, m *leasedMessage) (engine.Put, int) {
	reason := l.reason
	if m.Err != nil {
		reason = fmt.Sprintf("it cannot be read: %v", m.Err)
	}
	p := m.copyTo(b, DeadLetterTopic(g.name), reason)
	p.Queue = deadQueue
	return p, deadQueues
}

// moveOn replaces a leased message by a copy elsewhere, in one step with the commit of what the group is done with then.
func (b *Broker) moveOn(ctx context.Context, g *group, r receipt, plan plan) (Retried, error) {
	m, t, epoch, err := b.hold(ctx, g, r)
	if err != nil {
		return Retried{}, err
	}
	answer, low, err := b.replace(ctx, g, t, m, plan)
	b.unhold(g, t, r, epoch, low, err)
	if err != nil {
		return Retried{}, err
	}
	return Retried{
		DeadLetter: answer.Outcome == engine.Stored, Attempt: m.attempt, DueMs: answer.DueMs, Level: answer.Level,
	}, nil
}

// hold makes the holder of a lease the only one that may end it.
func (b *Broker) hold(ctx context.Context, g *group, r receipt) (*leasedMessage, *track, uint32, error) {
	if err := b.join(ctx, g); err != nil {
		return nil, nil, 0, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	m, t, err := g.take(r, b.env.Mono())
	if err != nil {
		g.part()
		return nil, nil, 0, err
	}
	return m, t, t.epoch, nil
}

// take is hold for a caller that has joined. The caller holds mu.
func (g *group) take(r receipt, now int64) (*leasedMessage, *track, error) {
	t, e, outcome := g.held(r, now)
	if outcome != Acked {
		return nil, nil, outcome.Err()
	}
	e.state = stateBusy
	m := &leasedMessage{topic: t.topic, queue: t.queue, attempt: e.attempt()}
	m.Offset = r.offset
	return m, t, nil
}

// unhold ends what hold began. After an error the lease goes on.
func (b *Broker) unhold(g *group, t *track, r receipt, epoch uint32, low int64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.part()
	b.untake(g, t, r, epoch, low, err)
}

// untake ends what take began. The caller holds mu.
func (b *Broker) untake(g *group, t *track, r receipt, epoch uint32, low int64, err error) {
	if t.epoch != epoch {
		return
	}
	e := t.find(r.offset)
	if e == nil || e.token != r.token {
		return // committed over meanwhile
	}
	if err != nil {
		e.state = stateOpen
		t.ends = min(t.ends, e.until)
		g.own.lower(t.ends)
		return
	}
	t.done(e)
	t.committed = max(t.committed, low)
	g.roomier(t)
	if g.tracks[r.queue] == t && t.low() > t.committed {
		b.nudge(g)
	}
}

// replace reads the message and has the copy stored, with the commit of low.
func (b *Broker) replace(ctx context.Context, g *group, t *track, m *leasedMessage, plan plan) (engine.Answer, int64, error) {
	var into engine.Pulled
	if err := b.readOne(m, t.id, &into); err != nil {
		return engine.Answer{}, 0, err
	}
	put, queues := plan(b, g, m)
	r := &request{size: requestOverhead + m.size()}
	info, ok, err := b.lookUp(put.Topic)
	if err != nil {
		return engine.Answer{}, 0, err
	}
	if !ok || info.Count < queues {
		if queues == 0 {
			queues = b.queues()
		}
		r.cmds = append(r.cmds, &engine.DefineTopic{Topic: put.Topic, Queues: queues})
	}
	if put.Queue == engine.AnyQueue { // retries of one topic stay together, apart from most others
		put.Queue = int(message.KeyHash(string(originOf(&m.Message, m.topic))) % uint64(max(info.Count, 1)))
	}
	low := int64(0)
	g.mu.Lock()
	if e := t.find(m.Offset); e != nil {
		low = t.lowWithout(e)
	}
	if low >= t.committed { // the same again makes the group known in the log
		put.Then = mark{t, t.epoch, low}.command(g)
	}
	g.mu.Unlock()
	r.cmds = append(r.cmds, &put)
	if err := b.queue.finish(ctx, r); err != nil {
		return engine.Answer{}, 0, err
	}
	a := r.answers[len(r.answers)-1]
	if a.Err != nil {
		return a, 0, fmt.Errorf("broker: copy of message %d in queue %d of topic %q: %w", m.Offset, m.queue, m.topic, a.Err)
	}
	if len(r.cmds) > 1 { // the group's pulls have to listen to a topic that is new
		g.mu.Lock()
		g.kick()
		g.mu.Unlock()
	}
	return a, low, nil
}

// readOne reads the message of a lease. One that cannot be read has its Err.
func (b *Broker) readOne(m *leasedMessage, topic uint32, into *engine.Pulled) error {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	err := b.e.Pull(engine.PullRequest{Topic: m.topic, Queue: m.queue, Offset: m.Offset, MaxCount: 1}, into)
	switch info, _, _ := b.e.Topic(m.topic); {
	case err != nil:
		return fmt.Errorf("broker: %w", err)
	case info.ID != topic: // it was read from a new topic of the name
		return ErrReceipt
	case len(into.Messages) == 0:
		return fmt.Errorf("broker: %w: offset %d in queue %d of topic %q", engine.ErrNoMessage, m.Offset, m.queue, m.topic)
	}
	m.Message = into.Messages[0]
	if errors.Is(m.Err, engine.ErrTrimmed) {
		return fmt.Errorf("broker: %w", m.Err)
	}
	return nil
}

// lookUp is what is known of a topic now, durable or not.
func (b *Broker) lookUp(topic string) (engine.TopicInfo, bool, error) {
	if err := b.enter(); err != nil {
		return engine.TopicInfo{}, false, err
	}
	defer b.leave()
	info, ok, _ := b.e.Topic(topic)
	return info, ok, nil
}

// queues is how many a topic has that is made on first use.
func (b *Broker) queues() int {
	if b.opts.Engine.Queues != 0 {
		return b.opts.Engine.Queues
	}
	return defaultQueues
}

// defaultQueues is the engine's.
const defaultQueues = 4

func (m *leasedMessage) size() int {
	return len(m.Body) + len(m.Key) + len(m.Tag) + len(m.Properties) + 2*maxReason
}

// copyTo is the message as it goes to another topic, visible at once, with what is to be known of its past.
func (m *leasedMessage) copyTo(b *Broker, topic, reason string, more ...property) engine.Put {
	return engine.Put{
		Topic: topic, Key: m.Key, Tag: m.Tag, Body: m.Body, Properties: m.history(b, append(more, property{PropReason, tidyReason(reason)})),
		BornMs: m.BornMs, BornHost: m.BornHost, UserFlag: m.UserFlag, SysFlag: m.SysFlag,
		Attempts: uint16(min(m.attempt, 1<<16-1)),
	}
}

// history is the message's properties, with those of its past in place of older ones.
func (m *leasedMessage) history(b *Broker, newest []property) message.Properties {
	first := []property{
		{PropOriginTopic, m.topic},
		{PropOriginID, b.firstID(&m.Message)},
		{PropOriginQueue, strconv.Itoa(m.queue)},
		{PropOriginOffset, strconv.FormatInt(m.Offset, 10)},
		{PropFirstFailed, strconv.FormatInt(b.env.Wall(), 10)},
	}
	return withPast(&m.Message.Message, first, newest)
}

// property is one that the broker writes.
type property struct{ name, value string }

func (p property) isRouted() bool { return p.name == PropRouted }

// withPast is a message's own properties, and behind them those that tell its past: of first, what an older copy says counts.
// Its own last ones are left out if there is no room, which takes more than 31 KiB of them.
func withPast(m *message.Message, first, newest []property) message.Properties {
	var past message.Properties
	for _, p := range newest {
		past = message.AppendProperty(past, p.name, p.value)
	}
	if routed, ok := m.Properties.Lookup(PropRouted); ok && !slices.ContainsFunc(newest, property.isRouted) {
		first = append(first, property{PropRouted, string(routed)})
	}
	for _, p := range first {
		if older, ok := m.Properties.Lookup(p.name); ok {
			p.value = string(older) // what the first copy says
		}
		past = message.AppendProperty(past, p.name, p.value)
	}
	cut, _ := m.Properties.Lookup(PropCut)
	left, _ := strconv.Atoi(string(cut))
	room := message.MaxProperties - len(past) - len(message.AppendProperty(nil, PropCut, "99999"))
	all, full := message.Properties(nil), false
	_, properties := m.IdempotencyKey() // the copy was put by nobody
	for name, value := range properties.All() {
		if ownProperty(string(name)) {
			continue
		}
		longer := message.AppendProperty(all, string(name), string(value))
		if full = full || len(longer) > room; full {
			left++
			continue
		}
		all = longer
	}
	if all = append(all, past...); left > 0 {
		all = message.AppendProperty(all, PropCut, strconv.Itoa(left))
	}
	return all
}

// tidyReason makes a property of what a consumer says.
func tidyReason(reason string) string {
	reason = strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(reason, "?"))
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "")
	}
	return reason
}

// originOf is the topic that a message of the group's retries comes from; of another message, the topic it stands in.
func originOf(m *engine.Message, topic string) string {
	if origin, ok := m.Properties.Lookup(PropOriginTopic); ok {
		return string(origin)
	}
	return topic
}

// firstID is the id of a message at its first delivery.
func (b *Broker) firstID(m *engine.Message) string {
	if id, ok := m.Properties.Lookup(PropOriginID); ok {
		return string(id)
	}
	if m.Err != nil {
		return b.ID(m.Position)
	}
	return b.ID(m.First)
}
