package broker

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
)

// DeadTarget says where a dead letter goes that is tried again.
type DeadTarget uint8

// The targets.
const (
	ToTopic DeadTarget = iota // the topic that it was put into, for all its groups
	ToGroup                   // its group alone, through its retry topic
)

// RetryDeadLetters has a group's dead letters that match delivered again, at once and as if for the first time, and says
// how many it were. Each goes in one step: it is there again, and no dead letter any more. One that cannot be read stays.
// What a plugin gave up before it was visible, as it was put or when it was due, goes to its topic in any case, and is asked about
// again: one that is refused again stays, too. After an error some may be gone.
func (b *Broker) RetryDeadLetters(ctx context.Context, name string, f DeadFilter, to DeadTarget) (int64, error) {
	return b.eachDead(ctx, name, f, func(g *group, letters []DeadLetter) (n int64, err error) {
		for len(letters) > 0 && err == nil {
			size, bytes := 0, 0
			for size < len(letters) && (size == 0 || bytes < batchBytes) {
				bytes += len(letters[size].Body)
				size++
			}
			var some int64
			some, err = b.retryDead(ctx, g, letters[:size], to)
			n, letters = n+some, letters[size:]
		}
		return n, err
	})
}

// retryDead puts dead letters back.
func (b *Broker) retryDead(ctx context.Context, g *group, letters []DeadLetter, to DeadTarget) (int64, error) {
	r := &request{}
	puts, err := b.againAll(ctx, g, letters, to)
	if err != nil && ctx.Err() != nil {
		return 0, err
	}
	for i := range letters {
		d, put := &letters[i], puts[i]
		if put == nil {
			continue
		}
		// Not a commit: that would remove those before it, too, which may be refused.
		put.Then = &engine.Put{Topic: DeadLetterTopic(g.name), Queue: removedQueue, Body: removedBody(d.Offset)}
		if strings.HasPrefix(put.Topic, retryPrefix) {
			info, ok, err := b.lookUp(put.Topic)
			if err != nil {
				return 0, err
			}
			if !ok {
				r.cmds = append(r.cmds, &engine.DefineTopic{Topic: put.Topic, Queues: b.queues()})
			} else {
				put.Queue = int(message.KeyHash(d.Topic) % uint64(info.Count))
			}
		}
		r.cmds = append(r.cmds, put)
		r.size += requestOverhead*2 + len(put.Body) + len(put.Properties)
	}
	if len(r.cmds) == 0 {
		return 0, err
	}
	if err := b.queue.finish(ctx, r); err != nil {
		return 0, err
	}
	g.mu.Lock()
	g.kick() // pulls have to listen to a retry topic that is new
	g.mu.Unlock()
	n, errs := int64(0), []error{err}
	for i := range r.answers {
		if _, ok := r.cmds[i].(*engine.Put); ok && r.answers[i].Err == nil {
			n++
		}
		errs = append(errs, r.answers[i].Err)
	}
	return n, errors.Join(errs...)
}

// againAll makes the puts of dead letters, nil for those that stay. The error says why some stay that could be read.
func (b *Broker) againAll(ctx context.Context, g *group, letters []DeadLetter, to DeadTarget) ([]*engine.Put, error) {
	puts, ask := make([]*engine.Put, len(letters)), map[string][]int{}
	for i := range letters {
		d := &letters[i]
		if d.Err != nil {
			continue
		}
		where := to
		if d.Hook == hookPublish || d.Hook == hookDue {
			where = ToTopic
		}
		put := d.again(g.name, where)
		puts[i] = &put
		if d.Hook == hookPublish && b.opts.Hooks != nil && b.opts.Hooks.Publishes(d.Topic) {
			ask[d.Topic] = append(ask[d.Topic], i)
		}
	}
	var errs []error
	for topic, which := range ask {
		p := batchPut{b: b, messages: make([]Message, len(which)), puts: make([]engine.Put, len(which)), receipts: make([]Receipt, len(which))}
		all := make([]int, len(which))
		for n, i := range which {
			p.messages[n], p.puts[n], all[n] = letters[i].message(), *puts[i], n
		}
		_, err := p.ask(ctx, topic, all)
		errs = append(errs, err)
		for n, i := range which {
			puts[i] = nil
			if refusal := p.receipts[n].Err; refusal != nil || p.dropped[n] != nil {
				errs = append(errs, refusal, p.dropped[n])
			} else if err == nil {
				puts[i] = &p.puts[n]
			}
		}
	}
	return puts, errors.Join(errs...)
}

// message is the dead letter as its producer put it.
func (d *DeadLetter) message() Message {
	return Message{Topic: d.Topic, Key: d.Key, Tag: d.Tag, Properties: d.Properties, Body: d.Body, BornMs: d.BornMs}
}

// again is the message as it was put, or as the group's retry topic has it.
func (d *DeadLetter) again(group string, to DeadTarget) engine.Put {
	var properties message.Properties
	for name, value := range d.Properties {
		properties = message.AppendProperty(properties, name, value)
	}
	put := engine.Put{
		Topic: d.Topic, Queue: engine.AnyQueue, Key: []byte(d.Key), Tag: []byte(d.Tag), Body: d.Body, BornMs: d.BornMs,
	}
	if to == ToGroup {
		put.Topic, put.Queue = RetryTopic(group), 0
		properties = message.AppendProperty(properties, PropOriginTopic, d.Topic)
		properties = message.AppendProperty(properties, PropOriginID, d.ID)
		properties = message.AppendProperty(properties, PropOriginQueue, strconv.Itoa(d.Queue))
		properties = message.AppendProperty(properties, PropOriginOffset, strconv.FormatInt(d.TopicOffset, 10))
	}
	put.Properties = properties
	return put
}
