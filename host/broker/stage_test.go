package broker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/broker/brokertest"
)

// dueHooks decide about due messages of the topic orders by their bodies.
func dueHooks() *brokertest.Hooks {
	return &brokertest.Hooks{Topics: []string{"orders"}, OnDue: func(_ string, m *engine.Message) broker.Decision { return byBody(string(m.Body)) }}
}

// properties are those of a message, as a map.
func properties(m *engine.Message) map[string]string {
	all := map[string]string{}
	for name, value := range m.Properties.All() {
		all[string(name)] = string(value)
	}
	return all
}

// messagesOf reads all that is visible in a topic.
func messagesOf(t *testing.T, b *brokertest.Broker, topic string) (list []engine.Message) {
	t.Helper()
	var p broker.Pulled
	info, err := b.Topic(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	for q := range info.Queues {
		req := broker.PullRequest{Topic: topic, From: []broker.QueueOffset{{Queue: q, Offset: info.Queues[q].Min}}, MaxCount: broker.MaxPull}
		var into broker.Pulled
		if err := b.Pull(t.Context(), req, &into); err != nil {
			t.Fatal(err)
		}
		p.Queues = append(p.Queues, into.Queues...)
	}
	for i := range p.Queues {
		list = append(list, p.Queues[i].Messages...)
	}
	return list
}

// Each decision about a message that is due: nothing is visible before it is decided, and each goes where it is sent.
func TestStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{Hooks: dueHooks(), Engine: engine.Options{Queues: 1}})
		bodies := []string{"keep 1", "drop 2", "dead_letter 3", "route other", "replace 5", "retry 6", "keep 7", "replace 8", "keep 9"}
		ids := map[string]string{}
		for i, body := range bodies {
			ids[body] = b.MustPut("orders", body, time.Duration(i%2)*time.Hour).ID // with and without a delay
		}
		synctest.Wait()
		if got := fmt.Sprint(brokertest.Delivered(t, b, "orders")); got != "[keep 1 replaced 5 keep 7 keep 9]" {
			t.Errorf("at once are visible %s", got)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := fmt.Sprint(brokertest.Delivered(t, b, "orders")); got != "[keep 1 replaced 5 keep 7 keep 9 replaced 8]" {
			t.Errorf("later are visible %s", got)
		}
		brokertest.WantDelivered(t, b, "other", "route other")
		letters, err := b.DeadLettersPage(t.Context(), "plugin-p", broker.DeadFilter{}, "", 0)
		if err != nil || len(letters.Letters) != 1 || string(letters.Letters[0].Body) != "dead_letter 3" || letters.Letters[0].ID != ids["dead_letter 3"] ||
			letters.Letters[0].Hook != "due" || letters.Letters[0].Reason != "because" {
			t.Errorf("dead letters: %+v, %v", letters, err)
		}
		routed := messagesOf(t, b, "other")[0]
		if p := properties(&routed); p[broker.PropOriginID] != ids["route other"] || p[broker.PropRouted] != "1" || len(p) != 2 {
			t.Errorf("the routed message has properties %v", p)
		}
		changed := messagesOf(t, b, "orders")[1]
		if p := properties(&changed); p[broker.PropOriginID] != ids["replace 5"] || p["a"] != "b" || len(p) != 2 ||
			string(changed.Key) != "new" || string(changed.Tag) != "t" {
			t.Errorf("the changed message: key %q, tag %q, properties %v", changed.Key, changed.Tag, p)
		}
		info, err := b.Topic(t.Context(), "orders")
		if err != nil || !info.Staged || info.StageLag != 0 || info.Pending != 1 { // the retry waits
			t.Errorf("topic: %+v, %v", info, err)
		}
		due := b.Measures().Due
		if due[broker.ActionRetry] != 1 || due[broker.ActionKeep] != 3 || due[broker.ActionReplace] != 2 || due[broker.ActionDrop] != 1 ||
			due[broker.ActionRoute] != 1 || due[broker.ActionDeadLetter] != 1 || due[broker.Undecided] != 0 {
			t.Errorf("counted are %v", due)
		}
	})
}

// A message that is put off meets the hook again with one more attempt, its first id and its own properties.
func TestStageRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		hooks := &brokertest.Hooks{OnDue: func(_ string, m *engine.Message) broker.Decision {
			seen = append(seen, fmt.Sprintf("%d %s %s", m.Attempts, properties(m)["own"], properties(m)[broker.PropOriginID]))
			if m.Attempts < 20 {
				return byBody("retry")
			}
			return byBody("keep")
		}}
		b := brokertest.Open(t, broker.Options{Hooks: hooks})
		m := broker.Message{Topic: "orders", Key: "k", Body: []byte("x"), Properties: map[string]string{"own": "p"}}
		r, err := b.Put(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(21 * time.Minute)
		synctest.Wait()
		if len(seen) != 21 || seen[0] != "0 p " || seen[20] != "20 p "+r.ID {
			t.Errorf("the hook saw %d: %q", len(seen), seen)
		}
		var p broker.Pulled
		if err := b.Pull(t.Context(), broker.PullRequest{Topic: "orders", Group: "g"}, &p); err != nil || p.Count() != 1 {
			t.Fatalf("%d messages, %v", p.Count(), err)
		}
		for d := range p.Deliveries() {
			if d.Attempt != 1 || d.ID != r.ID {
				t.Errorf("delivered as attempt %d of %s, want 1 of %s", d.Attempt, d.ID, r.ID)
			}
		}
	})
}

// What is not decided is asked about again, less and less often, and holds up nothing in front of it; the order stays.
func TestStageUndecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Bool
		var asked atomic.Int64
		hooks := dueHooks()
		hooks.OnDue = func(_ string, m *engine.Message) broker.Decision {
			asked.Add(1)
			if open.Load() {
				return byBody("keep")
			}
			return byBody(string(m.Body))
		}
		b := brokertest.Open(t, broker.Options{Hooks: hooks, Engine: engine.Options{Queues: 1}})
		for _, body := range []string{"keep 1", "wait 2", "keep 3"} {
			b.MustPut("orders", body, 0)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := fmt.Sprint(brokertest.Delivered(t, b, "orders")); got != "[keep 1]" {
			t.Errorf("visible are %s", got)
		}
		if n := asked.Load(); n < 12 || n > 30 {
			t.Errorf("asked %d times in a minute", n)
		}
		if info, err := b.Topic(t.Context(), "orders"); err != nil || info.StageLag != 2 {
			t.Errorf("topic: %+v, %v", info, err)
		}
		open.Store(true)
		if err := b.Rehook(t.Context()); err != nil { // asks at once
			t.Error(err)
		}
		synctest.Wait()
		if got := fmt.Sprint(brokertest.Delivered(t, b, "orders")); got != "[keep 1 wait 2 keep 3]" {
			t.Errorf("then visible are %s", got)
		}
	})
}

// Rehook stages topics and stages them no more: then what is in the stage becomes visible without being asked about. A topic whose
// hook has gone while the broker was closed is drained, too, and one that has got one is staged before anything falls due.
func TestRehook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := &switchHooks{Hooks: *dueHooks()}
		hooks.Topics = nil
		b := brokertest.Open(t, broker.Options{Hooks: hooks, Engine: engine.Options{Queues: 1}})
		b.MustPut("orders", "drop before", 0)
		brokertest.WantDelivered(t, b, "orders", "drop before")
		hooks.on.Store(true)
		if err := b.Rehook(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, body := range []string{"drop 1", "keep 2", "wait 3", "drop 4"} {
			b.MustPut("orders", body, 0)
		}
		synctest.Wait()
		brokertest.WantDelivered(t, b, "orders", "drop before", "keep 2")
		hooks.on.Store(false)
		if err := b.Rehook(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.MustPut("orders", "drop 5", 0)
		brokertest.WantDelivered(t, b, "orders", "drop before", "keep 2", "wait 3", "drop 4", "drop 5")
		if info, err := b.Topic(t.Context(), "orders"); err != nil || info.Staged || info.StageLag != 0 {
			t.Errorf("topic: %+v, %v", info, err)
		}

		b.MustPut("orders", "drop later", time.Hour)
		hooks.on.Store(true)
		time.Sleep(30 * time.Minute)
		brokertest.Crash(b) // opens it: the topic is staged from now on
		time.Sleep(time.Hour)
		b.MustPut("orders", "wait 6", 0)
		synctest.Wait()
		hooks.on.Store(false)
		brokertest.Crash(b)
		brokertest.WantDelivered(t, b, "orders", "drop before", "keep 2", "wait 3", "drop 4", "drop 5", "wait 6")

		long := strings.Repeat("x", 125)
		b.MustPut(long, "x", 0)
		hooks.on.Store(true)
		if err := b.Rehook(t.Context()); !errors.Is(err, engine.ErrTopicName) {
			t.Errorf("a name that is too long for a stage: %v", err)
		}
		if info, err := b.Topic(t.Context(), "orders"); err != nil || !info.Staged {
			t.Errorf("topic: %+v, %v", info, err)
		}
	})
}

// switchHooks can be turned on and off.
type switchHooks struct {
	brokertest.Hooks
	on atomic.Bool
}

func (h *switchHooks) Stages(topic string) bool { return h.on.Load() && h.Hooks.Stages(topic) }

// A hook that is stuck in one topic holds up no other, and Close ends it.
func TestStageStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := &stuckHooks{begun: make(chan string, 10)}
		b := brokertest.Open(t, broker.Options{Hooks: hooks})
		b.MustPut("stuck", "x", 0)
		<-hooks.begun
		for i := range 100 {
			b.MustPut("staged", fmt.Sprint(i), 0)
			b.MustPut("free", fmt.Sprint(i), 0)
		}
		synctest.Wait()
		for _, topic := range []string{"staged", "free"} {
			if n := len(brokertest.Delivered(t, b, topic)); n != 100 {
				t.Errorf("%d messages in %s", n, topic)
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := b.Rehook(t.Context()); !errors.Is(err, broker.ErrClosed) {
			t.Errorf("Rehook after Close: %v", err)
		}
	})
}

// stuckHooks never decide about the topic stuck, and keep all of the topic staged.
type stuckHooks struct {
	brokertest.Hooks
	begun chan string
}

func (h *stuckHooks) Stages(topic string) bool { return topic == "staged" || topic == "stuck" }

func (h *stuckHooks) Due(ctx context.Context, topic string, messages []engine.Message) ([]broker.Decision, error) {
	if topic == "stuck" {
		h.begun <- topic
		<-ctx.Done()
		return nil, ctx.Err()
	}
	decisions := make([]broker.Decision, len(messages))
	for i := range decisions {
		decisions[i] = verdict(broker.ActionKeep)
	}
	return decisions, nil
}

// Two topics that send a message to each other do not do so for ever, and what cannot be done becomes a dead letter that says why.
func TestStageImpossible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := &brokertest.Hooks{OnDue: func(topic string, m *engine.Message) broker.Decision {
			d := verdict(broker.ActionRoute)
			switch topic {
			case "a":
				d.Topic = "b"
			case "b":
				d.Topic = "a"
			case "bad name":
				d.Topic = "not a topic!"
			case "reserved":
				d.Topic = "%RETRY%g"
			case "large":
				d = verdict(broker.ActionReplace)
				d.Message = &broker.Content{Body: make([]byte, 5<<20)}
				if string(m.Body) != "x" {
					d = verdict(broker.ActionKeep)
				}
			default:
				d = verdict(broker.ActionKeep)
			}
			return d
		}}
		b := brokertest.Open(t, broker.Options{Hooks: hooks, Engine: engine.Options{Queues: 1}})
		b.MustPut("a", "ring", 0)
		b.MustPut("reserved", "r", 0)
		batch := []broker.Message{}
		for _, body := range []string{"1", "2", "x", "3", "x", "4"} {
			batch = append(batch, broker.Message{Topic: "large", Body: []byte(body)})
		}
		if _, err := b.PutBatch(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := fmt.Sprint(brokertest.Delivered(t, b, "large")); got != "[1 2 3 4]" {
			t.Errorf("beside what is too large are visible %s", got)
		}
		var got []string
		for d, err := range b.DeadLetters(t.Context(), "plugin-p", broker.DeadFilter{}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%s in %s: %s", d.Body, d.Topic, d.Reason))
		}
		slices.Sort(got)
		for i, want := range []string{"r in reserved: route, ", "ring in a: route, ", "x in large: replace, ", "x in large: replace, "} {
			if i >= len(got) || !strings.HasPrefix(got[i], want) {
				t.Errorf("dead letters are %q, want %q as number %d", got, want, i)
			}
		}
		if !strings.Contains(strings.Join(got, "\n"), "routed 17 times") {
			t.Errorf("nothing is said of the ring: %q", got)
		}
	})
}

// A burst through a stage: each message is decided once, in the order of its queue.
func TestStageBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		asked := map[string]int{}
		hooks := &brokertest.Hooks{OnDue: func(_ string, m *engine.Message) broker.Decision {
			mu.Lock()
			defer mu.Unlock()
			asked[string(m.Body)]++
			if asked[string(m.Body)]%3 == 2 || len(m.Body)%2 == 0 {
				return verdict(broker.ActionKeep)
			}
			return byBody("replace " + string(m.Body))
		}}
		b := brokertest.Open(t, broker.Options{Hooks: hooks, Engine: engine.Options{Queues: 2}})
		const n = 5000
		batch := make([]broker.Message, n)
		for i := range batch {
			batch[i] = broker.Message{Topic: "orders", Pin: true, Queue: i % 2, Body: []byte(fmt.Sprint(i)), At: broker.In(time.Second)}
		}
		if _, err := b.PutBatch(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		bodies := brokertest.Delivered(t, b, "orders")
		if len(bodies) != n || len(asked) != n {
			t.Fatalf("%d visible, %d asked about", len(bodies), len(asked))
		}
		last := -1
		for i, body := range bodies {
			var number int
			if _, err := fmt.Sscan(strings.TrimPrefix(body, "replaced "), &number); err != nil {
				t.Fatal(err)
			}
			if i == n/2 {
				last = -1
			}
			if number <= last || asked[fmt.Sprint(number)] != 1 {
				t.Fatalf("message %d behind %d, asked about %d times", number, last, asked[fmt.Sprint(number)])
			}
			last = number
		}
	})
}
