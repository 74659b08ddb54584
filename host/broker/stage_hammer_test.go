package broker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/broker/brokertest"
)

// hammerHooks decide at random about everything, and whether they do at all.
type hammerHooks struct{ brokertest.Hooks }

func (*hammerHooks) Stages(string) bool           { return rand.IntN(2) == 0 }
func (*hammerHooks) Publishes(string) bool        { return rand.IntN(2) == 0 }
func (*hammerHooks) Consumes(string, string) bool { return rand.IntN(2) == 0 }

func newHammerHooks() *hammerHooks {
	words := []string{"wait", "drop", "dead_letter", "route b", "route c", "replace x", "retry", "keep", "keep", "keep"}
	decide := func() broker.Decision {
		d := byBody(words[rand.IntN(len(words))])
		d.Delay = time.Duration(rand.IntN(20)) * time.Millisecond
		return d
	}
	h := &hammerHooks{}
	h.OnPublish = func(string, *broker.Message) broker.Decision { return decide() }
	h.OnDue = func(string, *engine.Message) broker.Decision { return decide() }
	h.OnConsume = func(string, string, *engine.Message) broker.Decision { return decide() }
	return h
}

// Everything at once: puts, readers that ack, settle, seek and leave, topics that are deleted, paused, staged and not staged any more,
// and Close in the middle. Nothing is to hang, race or be left behind, and the files are whole (brokertest checks them).
func TestHooksHammer(t *testing.T) {
	for range 4 {
		b := brokertest.Open(t, broker.Options{Hooks: newHammerHooks(), Engine: engine.Options{Queues: 2}, AckTimeout: 20 * time.Millisecond})
		ctx, stop := context.WithCancel(t.Context())
		topics := []string{"a", "b", "c"}
		any := func() string { return topics[rand.IntN(len(topics))] }
		var all sync.WaitGroup
		run := func(times int, step func(i int) error) {
			all.Go(func() {
				for i := 0; i < times && ctx.Err() == nil; i++ {
					if err := step(i); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
			})
		}
		run(400, func(i int) error {
			m := broker.Message{Topic: any(), Body: []byte(fmt.Sprint(i)), IdempotencyKey: fmt.Sprint(rand.IntN(300))}
			if i%3 == 0 {
				m.At = broker.In(time.Duration(rand.IntN(30)) * time.Millisecond)
			}
			_, err := b.Put(ctx, m)
			return allow(err, broker.ErrDropped, broker.ErrPlugin, broker.ErrIdempotencyMismatch, engine.ErrKey)
		})
		for r := range 4 {
			run(120, func(i int) error { return hammerReader(ctx, b, any(), fmt.Sprint("g", r%2), i) })
		}
		run(60, func(int) error { return b.Rehook(ctx) })
		run(20, func(int) error { return allow(b.DeleteTopic(ctx, any()), engine.ErrNoTopic) })
		run(20, func(i int) error { return allow(b.PauseTopic(ctx, any(), i%2 == 0), engine.ErrNoTopic) })
		run(20, func(int) error { return allow(b.DeleteGroup(ctx, "g0"), engine.ErrNoGroup) })
		run(20, func(int) error {
			_, err := b.SeekTime(ctx, "g1", any(), 0)
			return allow(err, engine.ErrNoTopic, engine.ErrQueue, engine.ErrOffset)
		})
		run(20, func(i int) error {
			_, err := b.RetryDeadLetters(ctx, "plugin-p", broker.DeadFilter{}, broker.DeadTarget(i%2))
			return allow(err, broker.ErrDropped, broker.ErrPlugin, engine.ErrTrimmed)
		})
		end := time.AfterFunc(time.Duration(rand.IntN(400))*time.Millisecond, stop)
		all.Go(func() { // in the middle of the others, or when they are done
			<-ctx.Done()
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		end.Stop()
	}
}

// hammerReader pulls once, and does something with what it got.
func hammerReader(ctx context.Context, b *brokertest.Broker, topic, group string, i int) error {
	var p broker.Pulled
	err := b.Pull(ctx, broker.PullRequest{Topic: topic, Group: group, MaxCount: 1 + i%9, Wait: 5 * time.Millisecond}, &p)
	if err != nil {
		return allow(err, engine.ErrNoTopic, engine.ErrQueue, engine.ErrTrimmed, engine.ErrOffset)
	}
	var settle []broker.Settlement
	for d := range p.Deliveries() {
		switch i % 4 {
		case 0:
			_, err = b.Ack(ctx, d.Receipt)
		case 1:
			_, err = b.Retry(ctx, d.Receipt, broker.RetryOptions{Delay: time.Millisecond})
		case 2:
			settle = append(settle, broker.Settlement{Receipt: d.Receipt, Decision: verdict(broker.Action(1 + i%4))})
		}
		if err := allow(err, broker.ErrExpired, broker.ErrReceipt, engine.ErrNoTopic, engine.ErrNoMessage, engine.ErrQueue); err != nil {
			return err
		}
	}
	for _, err := range b.Settle(ctx, settle) {
		if err := allow(err, broker.ErrExpired, broker.ErrReceipt, engine.ErrNoTopic, engine.ErrNoMessage, engine.ErrSettled, engine.ErrQueue); err != nil {
			return err
		}
	}
	return nil
}

// allow passes over errors of kinds that may come.
func allow(err error, kinds ...error) error {
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			return nil
		}
	}
	return err
}
