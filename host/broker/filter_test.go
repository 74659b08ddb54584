package broker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/broker/brokertest"
)

// consumeHooks decide for the group g about messages of the topic t, by their bodies, and note what they were asked.
type consumeHooks struct {
	brokertest.Hooks
	mu    sync.Mutex
	asked []string
	say   func(body string) broker.Decision
}

func newConsumeHooks() *consumeHooks { return &consumeHooks{say: byBody} }

func (h *consumeHooks) Consumes(group, topic string) bool { return group == "g" && topic == "t" }

func (h *consumeHooks) Consume(_ context.Context, _, _ string, messages []engine.Message) (list []broker.Decision, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range messages {
		h.asked = append(h.asked, string(messages[i].Body))
		d := h.say(string(messages[i].Body))
		if list = append(list, d); d.Action == broker.Undecided {
			break
		}
	}
	return list, nil
}

// was says what was asked since the last time.
func (h *consumeHooks) was() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.asked = nil }()
	return fmt.Sprint(h.asked)
}

// Each decision about a message that a group is about to get. What it does not get is in the log as done with: after a kill it does
// not come again and is not asked about. Another group gets everything.
func TestFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := newConsumeHooks()
		b := brokertest.OpenCrash(t, 5, broker.Options{Hooks: hooks, Engine: engine.Options{Queues: 1}, AckTimeout: time.Hour})
		bodies := []string{"keep 1", "drop 2", "dead_letter 3", "route other", "replace 5", "retry 6", "keep 7", "drop 8"}
		ids := map[string]string{}
		for _, body := range bodies {
			ids[body] = b.MustPut("t", body, 0).ID
		}
		got := lease(t, b.Broker, broker.PullRequest{})
		wantSaid(t, "the group gets", got, "[keep 1/1 keep 7/1 replaced 5/1]")
		if d := got[2]; string(d.Key) != "new" || string(d.Tag) != "t" || properties(&d.Message)["a"] != "b" || d.ID != ids["replace 5"] {
			t.Errorf("the changed message: %+v", d)
		}
		if asked := hooks.was(); asked != fmt.Sprint(bodies) {
			t.Errorf("asked about %s", asked)
		}
		brokertest.WantDelivered(t, b, "other", "route other")
		letters, err := b.DeadLettersPage(t.Context(), "g", broker.DeadFilter{}, "", 0)
		if err != nil || len(letters.Letters) != 1 || letters.Letters[0].ID != ids["dead_letter 3"] || letters.Letters[0].Hook != "consume" ||
			letters.Letters[0].Plugin != "p" || letters.Letters[0].TopicOffset != 2 {
			t.Errorf("dead letters: %+v, %v", letters, err)
		}
		ack(t, b.Broker, got[0], broker.Acked)
		if q := committed(t, b.Broker, "t", 0); q.Committed != 4 { // 1 was acked, 2 to 4 are settled
			t.Errorf("the group stands at %+v", q)
		}
		wantSaid(t, "another group gets", lease(t, b.Broker, broker.PullRequest{Group: "h"}),
			"[dead_letter 3/1 drop 2/1 drop 8/1 keep 1/1 keep 7/1 replace 5/1 retry 6/1 route other/1]")

		brokertest.Crash(b)
		wantSaid(t, "after a kill the group gets", lease(t, b.Broker, broker.PullRequest{}), "[keep 7/1 replaced 5/1]")
		if asked := hooks.was(); asked != "[replace 5 keep 7]" {
			t.Errorf("asked after a kill about %s", asked)
		}
		time.Sleep(time.Minute)
		hooks.say = func(string) broker.Decision { return verdict(broker.ActionKeep) }
		wantSaid(t, "what was put off comes", lease(t, b.Broker, broker.PullRequest{Wait: time.Second}), "[retry 6/2]")
		if asked := hooks.was(); asked != "[retry 6]" {
			t.Errorf("asked of the retries about %s", asked)
		}
		if got := b.Measures().Consumed; got[broker.ActionKeep] != 2 || got[broker.ActionReplace] != 1 {
			t.Errorf("counted are %v", got)
		}
	})
}

// A lease that ended brings the message again without a question, unless the hook had changed it; one that the consumer put off
// meets the hook again.
func TestFilterAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := newConsumeHooks()
		b := brokertest.Open(t, broker.Options{Hooks: hooks, Engine: engine.Options{Queues: 1}})
		for _, body := range []string{"keep 1", "replace 2", "keep 3"} {
			b.MustPut("t", body, 0)
		}
		wantSaid(t, "first", lease(t, b.Broker, broker.PullRequest{}), "[keep 1/1 keep 3/1 replaced 2/1]")
		hooks.was()
		time.Sleep(31 * time.Second)
		got := lease(t, b.Broker, broker.PullRequest{})
		wantSaid(t, "again", got, "[keep 1/2 keep 3/2 replaced 2/2]")
		if asked := hooks.was(); asked != "[replace 2]" {
			t.Errorf("asked again about %s", asked)
		}
		if _, err := b.Retry(t.Context(), got[2].Receipt, broker.RetryOptions{Delay: time.Second}); err != nil {
			t.Fatal(err)
		}
		hooks.say = func(string) broker.Decision { return verdict(broker.ActionDrop) }
		wantSaid(t, "put off", lease(t, b.Broker, broker.PullRequest{Wait: 2 * time.Second}), "[]")
		if asked := hooks.was(); asked != "[replace 2]" { // the copy is what was put
			t.Errorf("asked of the retries about %s", asked)
		}
		if info, err := b.Group(t.Context(), "g"); err != nil || info.Retrying != 0 {
			t.Errorf("group: %+v, %v", info, err)
		}
	})
}

// While a hook decides nothing the group gets nothing new from there, is not asked about more and more, and gets it in order when
// the hook decides again. What it had before stays its own, and groups without the hook see nothing of it.
func TestFilterUndecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := newConsumeHooks()
		b := brokertest.Open(t, broker.Options{Hooks: hooks, Engine: engine.Options{Queues: 1}, AckTimeout: time.Hour})
		b.MustPut("t", "keep 1", 0)
		for i := 2; i < 40; i++ {
			b.MustPut("t", fmt.Sprintf("wait %02d", i), 0)
		}
		got := lease(t, b.Broker, broker.PullRequest{MaxCount: 3, Wait: time.Minute})
		wantSaid(t, "first", got, "[keep 1/1]")
		for range 5 {
			wantSaid(t, "then", lease(t, b.Broker, broker.PullRequest{MaxCount: 3, Wait: 3 * time.Second}), "[]")
		}
		asked := map[string]int{}
		hooks.mu.Lock()
		for _, body := range hooks.asked {
			asked[body]++
		}
		n := len(hooks.asked)
		hooks.mu.Unlock()
		if len(asked) != 2 || n < 6 || n > 15 {
			t.Errorf("asked %d times: %v", n, asked)
		}
		if g, err := b.Group(t.Context(), "g"); err != nil || g.Leased() != 1 {
			t.Errorf("group: %+v, %v", g, err)
		}
		if n := len(lease(t, b.Broker, broker.PullRequest{Group: "h", MaxCount: 100})); n != 39 {
			t.Errorf("another group gets %d", n)
		}
		hooks.say = func(string) broker.Decision { return verdict(broker.ActionKeep) }
		if err := b.Rehook(t.Context()); err != nil {
			t.Fatal(err)
		}
		var bodies []string
		for len(bodies) < 38 {
			got := lease(t, b.Broker, broker.PullRequest{MaxCount: 3})
			if len(got) == 0 {
				break
			}
			for _, d := range got {
				bodies = append(bodies, string(d.Body))
			}
		}
		if len(bodies) != 38 || !slices.IsSorted(bodies) {
			t.Errorf("the group gets %q", bodies)
		}
	})
}

// A pull that waits for a hook keeps no other pull of the group waiting longer than that said, and a caller that leaves takes
// nothing along.
func TestFilterStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := &stuckFilter{begun: make(chan struct{})}
		b := brokertest.Open(t, broker.Options{Hooks: hooks, Engine: engine.Options{Queues: 1}})
		b.MustPut("t", "x", 0)
		b.MustPut("u", "y", 0)
		ctx, leave := context.WithCancel(t.Context())
		result := make(chan error)
		go func() {
			result <- b.Pull(ctx, broker.PullRequest{Topic: "t", Group: "g", Wait: time.Minute}, new(broker.Pulled))
		}()
		<-hooks.begun
		began := time.Now()
		wantSaid(t, "another pull", lease(t, b.Broker, broker.PullRequest{Wait: 5 * time.Second}), "[]")
		wantSaid(t, "without waiting", lease(t, b.Broker, broker.PullRequest{}), "[]")
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("they took %v", took)
		}
		wantSaid(t, "of another topic", lease(t, b.Broker, broker.PullRequest{Topic: "u"}), "[y/1]")
		leave()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Errorf("the caller that left got %v", err)
		}
		hooks.free.Store(true)
		wantSaid(t, "then", lease(t, b.Broker, broker.PullRequest{}), "[x/1]")
	})
}

type stuckFilter struct {
	brokertest.Hooks
	begun chan struct{}
	free  atomic.Bool
}

func (h *stuckFilter) Consumes(_, topic string) bool { return topic == "t" }

func (h *stuckFilter) Consume(ctx context.Context, _, _ string, messages []engine.Message) ([]broker.Decision, error) {
	if h.free.Load() {
		return slices.Repeat([]broker.Decision{verdict(broker.ActionKeep)}, len(messages)), nil
	}
	h.begun <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

// Retries of two topics stand in one queue: a hook that is stuck about one holds up those of the other no more than before.
func TestFilterRetriesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := newConsumeHooks()
		hooks.say = func(string) broker.Decision { return verdict(broker.ActionKeep) }
		b := brokertest.Open(t, broker.Options{Hooks: hooks, Engine: engine.Options{Queues: 1}})
		for _, topic := range []string{"t", "u"} {
			b.MustPut(topic, topic, 0)
			d := lease(t, b.Broker, broker.PullRequest{Topic: topic})[0]
			if _, err := b.Retry(t.Context(), d.Receipt, broker.RetryOptions{Delay: time.Second}); err != nil {
				t.Fatal(err)
			}
		}
		hooks.say = func(string) broker.Decision { return broker.Decision{} }
		wantSaid(t, "of t", lease(t, b.Broker, broker.PullRequest{Wait: time.Minute}), "[]")
		wantSaid(t, "of u", lease(t, b.Broker, broker.PullRequest{Topic: "u", Wait: time.Minute}), "[u/2]")
		hooks.say = func(string) broker.Decision { return verdict(broker.ActionKeep) }
		wantSaid(t, "of t again", lease(t, b.Broker, broker.PullRequest{Wait: time.Minute}), "[t/2]")
	})
}

// What a hook changes of a message that was put off before is still the message of its first delivery.
func TestFilterReplacesRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{Hooks: newConsumeHooks(), Engine: engine.Options{Queues: 1}})
		id := b.MustPut("t", "replace 1", 0).ID
		got := lease(t, b.Broker, broker.PullRequest{})
		for i := range 2 {
			if len(got) != 1 || got[0].ID != id {
				t.Fatalf("delivery %d: %+v, want the id %s", i+1, got, id)
			}
			if _, err := b.Retry(t.Context(), got[0].Receipt, broker.RetryOptions{Delay: time.Second, Reason: "later"}); err != nil {
				t.Fatal(err)
			}
			got = lease(t, b.Broker, broker.PullRequest{Wait: time.Minute})
			if p := properties(&got[0].Message); p[broker.PropReason] != "later" || p[broker.PropOriginTopic] != "t" {
				t.Errorf("the past of delivery %d: %v", i+2, p)
			}
		}
	})
}
