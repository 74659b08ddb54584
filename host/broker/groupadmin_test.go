package broker_test

import (
	"context"
	"errors"
	"fmt"
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

// A seek makes leases void, wakes who waits, and survives; also one to a time.
func TestSeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{Engine: engine.Options{Queues: 1}})
		ctx := t.Context()
		var times []int64
		for _, body := range []string{"a", "b", "c"} {
			times = append(times, time.Now().UnixMilli())
			b.MustPut("t", body, 0)
			time.Sleep(time.Minute)
		}
		d := lease(t, b.Broker, broker.PullRequest{})
		wantSaid(t, "first", d, "[a/1 b/1 c/1]")
		ack(t, b.Broker, d[0], broker.Acked)
		ack(t, b.Broker, d[1], broker.Acked)
		go func() {
			time.Sleep(time.Second)
			if at, err := b.SeekTime(ctx, "g", "t", times[1]); err != nil || at[0].Offset != 1 {
				t.Errorf("seek: %v, %v", at, err)
			}
		}()
		again := lease(t, b.Broker, broker.PullRequest{Wait: 10 * time.Second})
		wantSaid(t, "after a seek to a time", again, "[b/1 c/1]")
		ack(t, b.Broker, d[2], broker.AckExpired)
		brokertest.Crash(b)
		wantSaid(t, "after a seek and a restart", lease(t, b.Broker, broker.PullRequest{}), "[b/1 c/1]")
		if err := b.Seek(ctx, "g", "t", []broker.QueueOffset{{Queue: 0, Offset: 4}}); !errors.Is(err, engine.ErrOffset) {
			t.Errorf("seek beyond the end: %v", err)
		}
		if err := b.CommitOffset(ctx, "g", "t", []broker.QueueOffset{{Queue: 0, Offset: 2}}, false); err != nil {
			t.Fatal(err)
		}
		if at := committed(t, b.Broker, "t", 0); at.Committed != 2 || at.Lag != 1 || at.Leased != 1 {
			t.Errorf("after a commit over a lease: %+v", at)
		}
		if at, err := b.SeekTime(ctx, "g", "t", time.Now().UnixMilli()); err != nil || at[0].Offset != 3 {
			t.Errorf("seek to the end: %v, %v", at, err)
		}
		wantSaid(t, "at the end", lease(t, b.Broker, broker.PullRequest{}), "[]")
	})
}

// A group far above a message that is not acked stops there, gets what it had again, and goes on when that is done.
func TestMaxUnacked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{Engine: engine.Options{Queues: 1}, MaxUnacked: 4})
		for i := range 10 {
			b.MustPut("t", fmt.Sprint(i), 0)
		}
		d := lease(t, b.Broker, broker.PullRequest{})
		wantSaid(t, "first", d, "[0/1 1/1 2/1 3/1]")
		for _, x := range d[1:] {
			ack(t, b.Broker, x, broker.Acked)
		}
		wantSaid(t, "with the lowest not acked", lease(t, b.Broker, broker.PullRequest{}), "[]")
		time.Sleep(31 * time.Second)
		again := lease(t, b.Broker, broker.PullRequest{})
		wantSaid(t, "after its lease", again, "[0/2]")
		acked := make(chan struct{})
		go func() {
			time.Sleep(time.Second)
			ack(t, b.Broker, again[0], broker.Acked)
			close(acked)
		}()
		start := time.Now()
		wantSaid(t, "when it is acked", lease(t, b.Broker, broker.PullRequest{Wait: time.Minute}), "[4/1 5/1 6/1 7/1]")
		if took := time.Since(start); took != time.Second {
			t.Errorf("the pull that waited took %v", took)
		}
		<-acked
	})
}

// Two topics share a group's retries: each reader gets its own, and those of a topic that is gone hold up nobody.
func TestRetriesOfTwoTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{Engine: engine.Options{Queues: 1}})
		for _, topic := range []string{"t", "u", "gone"} {
			b.MustPut(topic, "of "+topic, 0)
			d := lease(t, b.Broker, broker.PullRequest{Topic: topic})
			if _, err := b.Retry(t.Context(), d[0].Receipt, broker.RetryOptions{Delay: time.Second}); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.DeleteTopic(t.Context(), "gone"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		first := lease(t, b.Broker, broker.PullRequest{Topic: "t", Wait: time.Second})
		wantSaid(t, "retries of t", first, "[of t/2]")
		wantSaid(t, "other retries of t", lease(t, b.Broker, broker.PullRequest{Topic: "t"}), "[]")
		ack(t, b.Broker, first[0], broker.Acked)
		second := lease(t, b.Broker, broker.PullRequest{Topic: "u"})
		wantSaid(t, "retries of u", second, "[of u/2]")
		ack(t, b.Broker, second[0], broker.Acked)
		if info, err := b.Group(t.Context(), "g"); err != nil || info.Retrying != 0 {
			t.Errorf("group: %+v, %v", info, err)
		}
	})
}

// A topic that was deleted takes its leases along; one of the same name is another one.
func TestLeaseOfDeletedTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{Engine: engine.Options{Queues: 1}})
		b.MustPut("t", "old", 0)
		b.MustPut("t", "older", 0)
		d := lease(t, b.Broker, broker.PullRequest{})
		if err := b.DeleteTopic(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		b.MustPut("t", "new", 0)
		ack(t, b.Broker, d[0], broker.AckNotFound)
		if _, err := b.Retry(t.Context(), d[1].Receipt, broker.RetryOptions{}); !errors.Is(err, broker.ErrReceipt) {
			t.Errorf("retry: %v", err)
		}
		wantSaid(t, "the new topic", lease(t, b.Broker, broker.PullRequest{}), "[new/1]")
	})
}

// A group that is deleted is gone with its retries and dead letters; a reader that waits goes on as the new group.
func TestDeleteGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t)
		ctx := t.Context()
		if err := b.DeleteGroup(ctx, "g"); !errors.Is(err, engine.ErrNoGroup) {
			t.Errorf("delete of no group: %v", err)
		}
		bury(t, b.Broker, 2)
		b.MustPut("t", "x", 0)
		d := lease(t, b.Broker, broker.PullRequest{})
		if _, err := b.Retry(ctx, d[0].Receipt, broker.RetryOptions{}); err != nil {
			t.Fatal(err)
		}
		b.MustPut("t", "y", 0)
		d = lease(t, b.Broker, broker.PullRequest{})
		go func() {
			time.Sleep(time.Second)
			if err := b.DeleteGroup(ctx, "g"); err != nil {
				t.Error(err)
			}
		}()
		again := lease(t, b.Broker, broker.PullRequest{Wait: 10 * time.Second})
		wantSaid(t, "the new group", again, "[0/1 1/1 x/1 y/1]")
		ack(t, b.Broker, d[0], broker.AckNotFound)
		wantLetters(t, b.Broker, "of the new group", broker.DeadFilter{}, "")
		topics, err := b.Topics(ctx)
		if err != nil || len(topics) != 1 {
			t.Errorf("topics: %+v, %v", topics, err)
		}
	})
}

// Topics of groups are not for producers, nor are the properties of retried messages; and a list of properties that leaves
// no room for them loses its end in a retry, and says so.
func TestRetryProperties(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t)
		for name, m := range map[string]broker.Message{
			"retry topic": {Topic: broker.RetryTopic("g")}, "dead letters": {Topic: broker.DeadLetterTopic("g")},
		} {
			if _, err := b.Put(t.Context(), m); !errors.Is(err, engine.ErrTopicName) {
				t.Errorf("%s: %v", name, err)
			}
		}
		m := broker.Message{Topic: "t", Properties: map[string]string{broker.PropReason: "x"}}
		if _, err := b.Put(t.Context(), m); !errors.Is(err, engine.ErrProperties) {
			t.Errorf("a reserved property: %v", err)
		}
		m.Properties = map[string]string{"a": strings.Repeat("a", 32000), "b": strings.Repeat("b", 700), "c": "c"}
		mustPut(t, b.Broker, m)
		for n := range 3 {
			d := lease(t, b.Broker, broker.PullRequest{Wait: time.Minute})[0]
			a, _ := d.Properties.Lookup("a")
			_, hasB := d.Properties.Lookup("b")
			cut, _ := d.Properties.Lookup(broker.PropCut)
			if len(a) != 32000 || hasB != (n == 0) || string(cut) != []string{"", "2", "2"}[n] {
				t.Errorf("delivery %d: a of %d bytes, b there %v, cut %s", n+1, len(a), hasB, cut)
			}
			if _, err := b.Retry(t.Context(), d.Receipt, broker.RetryOptions{Reason: strings.Repeat("é\x01", 400)}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Consumers of a broadcast group each get what becomes visible after they have begun.
func TestConsumeBroadcast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t)
		ctx, stop := context.WithCancel(t.Context())
		if err := b.DefineGroup(ctx, "all", broker.Broadcast); err != nil {
			t.Fatal(err)
		}
		b.MustPut("t", "before", 0)
		ended := make(chan error)
		var seen atomic.Int64
		for range 3 {
			go func() {
				ended <- b.Consume(ctx, "t", "all", func(_ context.Context, d *broker.Delivery) error {
					if string(d.Body) == "before" {
						t.Error("a broadcast consumer got an old message")
					}
					seen.Add(1)
					return errors.New("nobody hears of it")
				}, broker.ConsumeOptions{Concurrency: 2})
			}()
		}
		synctest.Wait()
		for i := range 10 {
			b.MustPut("t", fmt.Sprint(i), 0)
		}
		time.Sleep(time.Minute)
		stop()
		for range 3 {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("ended with %v", err)
			}
		}
		if seen.Load() != 30 {
			t.Errorf("%d deliveries, want 30", seen.Load())
		}
	})
}

// A Consume that ends gives back what no handler has begun with, at once and with no attempt spent, and acks what a
// handler has finished.
func TestConsumeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{Engine: engine.Options{Queues: 1}})
		for i := range 5 {
			b.MustPut("t", fmt.Sprint(i), 0)
		}
		ctx, stop := context.WithCancel(t.Context())
		var handled []string
		ended := make(chan error)
		go func() {
			ended <- b.Consume(ctx, "t", "g", func(ctx context.Context, d *broker.Delivery) error {
				handled = append(handled, string(d.Body))
				<-ctx.Done()
				time.Sleep(time.Minute) // it takes its time, and is waited for
				return nil
			}, broker.ConsumeOptions{})
		}()
		time.Sleep(time.Second)
		start := time.Now()
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(start) != time.Minute {
			t.Errorf("it ended with %v after %v", err, time.Since(start))
		}
		if !slices.Equal(handled, []string{"0"}) {
			t.Errorf("handled were %q", handled)
		}
		wantSaid(t, "what is left", lease(t, b.Broker, broker.PullRequest{}), "[1/1 2/1 3/1 4/1]")
		if err := b.Consume(t.Context(), "t", "", nil, broker.ConsumeOptions{}); !errors.Is(err, broker.ErrRequest) {
			t.Errorf("consume of nothing: %v", err)
		}
	})
}

// A consumer stops when what it handles cannot be acked any more.
func TestConsumeStopsWithTheBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t)
		b.MustPut("t", "x", 0)
		ended := make(chan error)
		go func() {
			ended <- b.Consume(t.Context(), "t", "g", func(context.Context, *broker.Delivery) error { return nil }, broker.ConsumeOptions{})
		}()
		synctest.Wait()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, broker.ErrClosed) {
			t.Errorf("it ended with %v", err)
		}
	})
}
