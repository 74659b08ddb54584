package broker

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
)

// PropPut is a property of a message with an idempotency key that a publish hook has changed: what the producer put, as a
// digest, so that a repetition is known as one. A producer may not use it.
const PropPut = "PUT_DIGEST"

// publish asks the hooks about the messages whose topics have one, and returns those that are still to be stored.
func (p *batchPut) publish(ctx context.Context, todo []int) (rest []int, err error) {
	hooks := p.b.opts.Hooks
	if hooks == nil {
		return todo, nil
	}
	asked := map[string][]int{}
	var order []string // of topics, as they come
	rest = todo[:0]
	for _, i := range todo {
		topic := p.messages[i].Topic
		if _, seen := asked[topic]; !seen {
			asked[topic] = nil
			if hooks.Publishes(topic) {
				asked[topic], order = make([]int, 0, len(todo)), append(order, topic)
			}
		}
		if asked[topic] == nil {
			rest = append(rest, i)
			continue
		}
		found := false
		if p.messages[i].IdempotencyKey != "" { // what was stored before was decided before
			if found, err = p.find(ctx, i); err != nil {
				return nil, err
			}
		}
		if !found {
			asked[topic] = append(asked[topic], i)
		}
	}
	for _, topic := range order {
		decided, err := p.ask(ctx, topic, asked[topic])
		if err != nil {
			return nil, err
		}
		rest = append(rest, decided...)
	}
	slices.Sort(rest) // the order of the batch is that of the log
	return rest, nil
}

// ask has messages of one topic decided, and returns those that are to be stored.
func (p *batchPut) ask(ctx context.Context, topic string, which []int) (rest []int, err error) {
	if len(which) == 0 {
		return nil, nil
	}
	messages := make([]*Message, len(which))
	for n, i := range which {
		messages[n] = &p.messages[i]
	}
	decisions, err := p.b.askHooks(ctx, len(which), func(ctx context.Context, h Hooks) ([]Decision, error) {
		return h.Publish(ctx, topic, messages)
	})
	switch {
	case errors.Is(err, ErrClosed):
		return nil, err
	case ctx.Err() != nil:
		return nil, withdrawn(ctx)
	}
	undecided := ErrPlugin
	if err != nil {
		undecided = fmt.Errorf("%w: %w", ErrPlugin, err)
	}
	for n, i := range which {
		d := &Decision{}
		if n < len(decisions) {
			d = &decisions[n]
		}
		p.b.measures.published.add(d.Action)
		if p.receipts[i].Err = p.apply(ctx, i, d, undecided); p.receipts[i].Err == nil {
			rest = append(rest, i)
		}
	}
	return rest, nil
}

// apply changes a put as it was decided; an error is its refusal.
func (p *batchPut) apply(ctx context.Context, i int, d *Decision, undecided error) error {
	put, m := &p.puts[i], &p.messages[i]
	switch d.Action {
	case ActionKeep:
		return nil
	case ActionDrop:
		return d.dropped("")
	case ActionRoute:
		if reservedTopic(d.Topic) {
			return fmt.Errorf("broker: plugin %q routes to it: %w: %q is no topic of a producer", d.Plugin, engine.ErrTopicName, d.Topic)
		}
		put.Topic, put.Queue = d.Topic, engine.AnyQueue
		if d.Message != nil {
			d.Message.fill(put, m)
		}
		return nil
	case ActionReplace:
		if d.Message == nil {
			return undecided
		}
		d.Message.fill(put, m)
		return nil
	case ActionDeadLetter:
		return p.bury(ctx, i, d)
	}
	return undecided
}

// bury makes the put one of a dead letter of the plugin.
func (p *batchPut) bury(ctx context.Context, i int, d *Decision) error {
	group := d.deadGroup()
	topic := DeadLetterTopic(group)
	if err := p.b.needDead(ctx, group); err != nil {
		return err
	}
	put := &p.puts[i]
	newest := append(d.properties(hookPublish), property{PropReason, tidyReason(d.Reason)})
	first := []property{
		{PropOriginTopic, put.Topic}, {PropOriginQueue, strconv.Itoa(put.Queue)}, {PropOriginOffset, "-1"},
		{PropFirstFailed, strconv.FormatInt(p.b.env.Wall(), 10)},
	}
	own := message.Message{Properties: put.Properties}
	*put = engine.Put{
		Topic: topic, Queue: deadQueue, Key: put.Key, Tag: put.Tag, Body: put.Body, BornMs: put.BornMs,
		Properties: withPast(&own, first, newest),
	}
	if p.dropped == nil {
		p.dropped = map[int]error{}
	}
	p.dropped[i] = d.dropped("the dead letters of group " + group)
	return nil
}

// needDead makes the dead letters of a plugin, which belong to a group, if they are not there.
func (b *Broker) needDead(ctx context.Context, group string) error {
	info, ok, err := b.lookUp(DeadLetterTopic(group))
	if err != nil || ok && info.Count >= deadQueues {
		return err
	}
	return b.command(ctx, deadDefinition(group)...)
}

// reservedTopic says whether producers may not put into a topic.
func reservedTopic(topic string) bool {
	return strings.HasPrefix(topic, retryPrefix) || strings.HasPrefix(topic, deadPrefix) || strings.HasPrefix(topic, stagePrefix)
}

// properties are those of a content, without what the broker uses itself.
func (c *Content) properties() (all message.Properties) {
	for _, name := range slices.Sorted(maps.Keys(c.Properties)) {
		if !ownProperty(name) && name != message.PropertyKey {
			all = message.AppendProperty(all, name, c.Properties[name])
		}
	}
	return all
}

// fill gives a put this content in place of what the producer's message has.
func (c *Content) fill(put *engine.Put, m *Message) {
	all := c.properties()
	if m.IdempotencyKey != "" {
		all = message.AppendProperty(all, PropPut, contentDigest(put))
	}
	put.Key, put.Tag, put.Properties, put.Body = []byte(c.Key), []byte(c.Tag), all, c.Body
}

// contentDigest names what a put stores, for PropPut.
func contentDigest(p *engine.Put) string {
	h := sha256.New()
	for _, part := range [][]byte{p.Key, p.Tag, p.Properties, p.Body} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// hookCalls are the calls of hooks that run. It is safe for concurrent use.
type hookCalls struct {
	ctx  context.Context // of all of them; it ends with the broker
	stop context.CancelFunc

	mu     sync.Mutex
	n      int
	closed bool
	idle   chan struct{} // closed when no call is left after the end
}

func newHookCalls() *hookCalls {
	c := &hookCalls{idle: make(chan struct{})}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

func (c *hookCalls) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.n++
	return nil
}

func (c *hookCalls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n == 0 && c.closed {
		close(c.idle)
	}
}

// close ends the calls that run, and waits until none is left.
func (c *hookCalls) close() {
	c.stop()
	c.mu.Lock()
	c.closed = true
	if c.n == 0 {
		close(c.idle)
	}
	c.mu.Unlock()
	<-c.idle
}

// askHooks calls the hooks about n messages. The answer has at most n decisions. ErrClosed: the broker was closed meanwhile.
func (b *Broker) askHooks(ctx context.Context, n int, call func(context.Context, Hooks) ([]Decision, error)) ([]Decision, error) {
	if err := b.hookCalls.begin(); err != nil {
		return nil, err
	}
	defer b.hookCalls.end()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.hookCalls.ctx, cancel)()
	decisions, err := call(ctx, b.opts.Hooks)
	if b.hookCalls.ctx.Err() != nil {
		return nil, ErrClosed
	}
	return decisions[:min(len(decisions), n)], err
}
