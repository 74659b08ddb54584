package broker_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/broker/brokertest"
)

// fickleHooks decide otherwise each time they are asked, take their time, and now and then decide nothing.
type fickleHooks struct {
	brokertest.Hooks
	mu     sync.Mutex
	random *rand.Rand
	asked  map[string]int
}

func newFickleHooks(seed uint64) *fickleHooks {
	h := &fickleHooks{random: rand.New(rand.NewPCG(seed, 1)), asked: map[string]int{}}
	h.Topics = []string{"orders"}
	h.OnDue = func(_ string, m *engine.Message) broker.Decision {
		h.mu.Lock()
		n, pause := h.random.IntN(12), h.random.IntN(20)
		h.asked[string(m.Body)]++
		h.mu.Unlock()
		<-time.After(time.Duration(pause) * time.Millisecond) // of the bubble
		words := []string{"wait", "drop", "dead_letter", "route other", "replace " + string(m.Body)}
		if n < len(words) {
			return byBody(words[n])
		}
		return byBody("keep")
	}
	return h
}

// verdicts are the events of the log that say what was decided about messages of a topic by plugins, by the id of the message.
func verdicts(t *testing.T, b *brokertest.Broker, topic string) map[string][]broker.Event {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	all := map[string][]broker.Event{}
	for ev, err := range b.Events(ctx, broker.EventFilter{Topic: topic, From: broker.EventsFromFirst}) {
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if ev.Verdict != nil && ev.Verdict.Asked {
			all[ev.MessageID] = append(all[ev.MessageID], ev)
		}
	}
	return all
}

// Each message of a staged topic is decided once, whatever was killed meanwhile and however often the hook was asked: it is where the
// verdict in the log says, once, and nowhere else. What was kept is in the order of the stage.
func TestStageCrash(t *testing.T) {
	for seed := range uint64(enginetest.ReadVolume(t).Pick(6, 60, 5000)) {
		synctest.Test(t, func(t *testing.T) {
			hooks := newFickleHooks(seed)
			b := brokertest.OpenCrash(t, seed, broker.Options{Hooks: hooks, Engine: engine.Options{Queues: 2}})
			random := rand.New(rand.NewPCG(seed, 2))
			put := map[string]string{} // bodies by id
			for life := range 5 {
				for i := range 25 {
					m := broker.Message{Topic: "orders", Pin: true, Queue: i % 2, Body: fmt.Appendf(nil, "%d.%d", life, i)}
					if i%3 == 0 {
						m.At = broker.In(time.Duration(random.IntN(900)) * time.Millisecond)
					}
					r, err := b.Put(t.Context(), m)
					if err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					put[r.ID] = string(m.Body)
				}
				time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
				brokertest.Crash(b)
			}
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			if info, err := b.Topic(t.Context(), "orders"); err != nil || info.Pending != 0 || info.StageLag != 0 {
				t.Fatalf("seed %d: topic %+v, %v", seed, info, err)
			}
			places := map[string]string{}
			for _, topic := range []string{"orders", "other", "%DLQ%plugin-p"} {
				for _, body := range brokertest.Delivered(t, b, topic) {
					places[strings.TrimPrefix(body, "replaced ")] += topic + " " + body + ";"
				}
			}
			more := 0
			order := map[uint32][]broker.Event{}
			log := verdicts(t, b, "orders")
			for id, body := range put {
				if hooks.asked[body] > 1 {
					more++
				}
				if len(log[id]) != 1 {
					t.Errorf("seed %d: message %s has %d verdicts in the log: %+v", seed, body, len(log[id]), log[id])
					continue
				}
				ev := log[id][0]
				want := map[broker.Action]string{
					broker.ActionKeep: "orders " + body + ";", broker.ActionReplace: "orders replaced " + body + ";", broker.ActionDrop: "",
					broker.ActionRoute: "other " + body + ";", broker.ActionDeadLetter: "%DLQ%plugin-p " + body + ";",
				}[broker.Action(ev.Verdict.Action)]
				if places[body] != want || ev.Verdict.Digest != verdict(0).Digest || ev.Verdict.Code != 7 {
					t.Errorf("seed %d: message %s stands in %q, want %q: %+v", seed, body, places[body], want, ev.Verdict)
				}
				if ev.Kind == engine.EventDelivered {
					order[ev.Queue] = append(order[ev.Queue], ev)
				}
			}
			for queue, list := range order {
				slices.SortFunc(list, func(x, y broker.Event) int { return int(x.Offset - y.Offset) })
				if !slices.IsSortedFunc(list, func(x, y broker.Event) int { return int(x.Verdict.Offset - y.Verdict.Offset) }) {
					t.Errorf("seed %d: queue %d is out of order", seed, queue)
				}
			}
			if len(log) != len(put) || more == 0 {
				t.Errorf("seed %d: %d verdicts about %d messages, of which %d were asked about more than once", seed, len(log), len(put), more)
			}
		})
	}
}

// What was settled for a group never comes again, over kills and power cuts, and what was not comes until it is: to a reader that
// settles, puts off or does nothing, behind a filter that decides otherwise each time. Nothing is lost on the way.
func TestSettleCrash(t *testing.T) {
	for seed := range uint64(enginetest.ReadVolume(t).Pick(6, 60, 5000)) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 3))
			hooks := &brokertest.Hooks{OnConsume: func(_, _ string, m *engine.Message) broker.Decision {
				switch n := random.IntN(12); {
				case n == 0:
					return broker.Decision{}
				case n == 1:
					return byBody("drop")
				case n == 2:
					return byBody("retry")
				}
				return byBody("keep")
			}}
			b := brokertest.OpenCrash(t, seed, broker.Options{Hooks: hooks, Engine: engine.Options{Queues: 2}, MaxAttempts: 1000})
			const messages = 40
			for i := range messages {
				b.MustPut("t", fmt.Sprint(i), 0)
			}
			settled := map[string]bool{} // by body
			for range 8 {
				for range 4 {
					var p broker.Pulled
					if err := b.Pull(t.Context(), broker.PullRequest{Topic: "t", Group: "g", MaxCount: 6, AckTimeout: time.Second}, &p); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					for d := range p.Deliveries() {
						if settled[string(d.Body)] {
							t.Errorf("seed %d: message %s comes again", seed, d.Body)
						}
						decision := byBody("keep")
						switch random.IntN(5) {
						case 0:
							continue // the lease ends
						case 1:
							decision = byBody("retry")
						}
						if err := b.Settle(t.Context(), []broker.Settlement{{Receipt: d.Receipt, Decision: decision}})[0]; err != nil {
							t.Errorf("seed %d: %v", seed, err)
						}
						settled[string(d.Body)] = decision.Action == broker.ActionKeep
					}
					time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
				}
				brokertest.Crash(b)
			}
			dropped := 0
			for _, topic := range []string{"t", "%RETRY%g"} {
				for _, list := range verdicts(t, b, topic) {
					for _, ev := range list {
						if broker.Action(ev.Verdict.Action) == broker.ActionDrop {
							dropped++
						}
					}
				}
			}
			done := 0
			for _, is := range settled {
				if is {
					done++
				}
			}
			hooks.OnConsume = nil // what is left comes, each once
			time.Sleep(2 * time.Minute)
			for {
				var p broker.Pulled
				if err := b.Pull(t.Context(), broker.PullRequest{Topic: "t", Group: "g", MaxCount: 100, AckTimeout: time.Hour}, &p); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if p.Count() == 0 {
					break
				}
				for d := range p.Deliveries() {
					if settled[string(d.Body)] {
						t.Errorf("seed %d: message %s comes again at the end", seed, d.Body)
					}
					settled[string(d.Body)] = true
					done++
				}
			}
			if done+dropped != messages {
				t.Errorf("seed %d: %d of %d are done, and %d dropped", seed, done, messages, dropped)
			}
		})
	}
}
