package broker_test

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/broker/brokertest"
)

// turnsOf counts the writer's turns until what is put into a topic is visible: at once, after a delay, and leased by a group. Beside it
// the topic "a" has a hook, if there are hooks, about whose messages it never gets to an end.
func turnsOf(t *testing.T, hooks broker.Hooks) (counted []int64) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{Hooks: hooks, Engine: engine.Options{Queues: 1}, AckTimeout: time.Hour})
		for i := range 300 {
			b.MustPut("a", fmt.Sprint(i), 0)
		}
		b.MustPut("b", "first", 0)
		time.Sleep(1500 * time.Microsecond) // the writer sleeps for a second from now on
		synctest.Wait()
		count := func(step func()) {
			before := b.Measures().Turns
			step()
			synctest.Wait()
			counted = append(counted, b.Measures().Turns-before)
		}
		for i := range 20 {
			count(func() { b.MustPut("b", fmt.Sprint(i), 0) })
		}
		for range 20 {
			r := b.MustPut("b", "later", 10*time.Millisecond)
			synctest.Wait()
			count(func() { time.Sleep(time.Duration(r.DueMs-time.Now().UnixMilli()) * time.Millisecond) })
		}
		if n := len(lease(t, b.Broker, broker.PullRequest{Topic: "b", MaxCount: 100})); n != 41 {
			t.Errorf("the group gets %d", n)
		}
	})
	return counted
}

// A plugin that uses up all it may for each record of its topic costs no other topic anything: what is put there is visible after the
// same number of turns of the writer as without the plugin.
func TestSlowHookCostsOthersNoTurn(t *testing.T) {
	without := turnsOf(t, nil)
	hooks := &burningHooks{}
	with := turnsOf(t, hooks)
	if fmt.Sprint(with) != fmt.Sprint(without) {
		t.Errorf("turns beside a slow hook are\n%v, without it\n%v", with, without)
	}
	if hooks.burnt.Load() == 0 || slices.Min(with) < 1 {
		t.Error("the hook was never asked, or no turn was counted")
	}
}

// burningHooks decide about due messages of the topic a. Each takes them a time after which no test of these looks.
type burningHooks struct {
	brokertest.Hooks
	burnt atomic.Int64
}

func (h *burningHooks) Stages(topic string) bool { return topic == "a" }

func (h *burningHooks) Due(ctx context.Context, _ string, messages []engine.Message) (list []broker.Decision, err error) {
	for range messages {
		h.burnt.Add(1)
		select {
		case <-time.After(time.Hour):
		case <-ctx.Done():
			return list, ctx.Err()
		}
		list = append(list, verdict(broker.ActionKeep))
	}
	return list, nil
}

// No method that decides is called by the writer, nor by the syncer.
func TestHooksAreNotCalledByTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		look := func(body string) broker.Decision {
			calls.Add(1)
			stack := string(debug.Stack())
			for _, not := range []string{"broker.(*writer)", "broker.(*Broker).start"} {
				if strings.Contains(stack, not) {
					t.Errorf("a hook is called by %s:\n%s", not, stack)
				}
			}
			return byBody(body)
		}
		hooks := &brokertest.Hooks{
			OnPublish: func(_ string, m *broker.Message) broker.Decision { return look(string(m.Body)) },
			OnDue:     func(_ string, m *engine.Message) broker.Decision { return look(string(m.Body)) },
			OnConsume: func(_, _ string, m *engine.Message) broker.Decision { return look(string(m.Body)) },
		}
		b := brokertest.Open(t, broker.Options{Hooks: hooks})
		b.MustPut("t", "keep", 0)
		b.MustPut("t", "keep", time.Second)
		time.Sleep(2 * time.Second)
		if n := len(lease(t, b.Broker, broker.PullRequest{})); n != 2 || calls.Load() != 6 {
			t.Errorf("%d messages after %d calls", n, calls.Load())
		}
	})
}
