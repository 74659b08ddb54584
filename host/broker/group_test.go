package broker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/broker/brokertest"
)

// lease pulls as a group and returns the deliveries, in the order of their bodies.
func lease(t *testing.T, b *broker.Broker, req broker.PullRequest) []broker.Delivery {
	t.Helper()
	var p broker.Pulled
	if req.Topic == "" {
		req.Topic = "t"
	}
	if req.Group == "" {
		req.Group = "g"
	}
	if err := b.Pull(t.Context(), req, &p); err != nil {
		t.Fatal(err)
	}
	list := slices.Collect(p.Deliveries())
	slices.SortFunc(list, func(x, y broker.Delivery) int { return slices.Compare(x.Body, y.Body) })
	return list
}

// said is deliveries as "body/attempt".
func said(list []broker.Delivery) string {
	var all []string
	for _, d := range list {
		all = append(all, fmt.Sprintf("%s/%d", d.Body, d.Attempt))
	}
	return fmt.Sprint(all)
}

func wantSaid(t *testing.T, what string, list []broker.Delivery, want string) {
	t.Helper()
	if got := said(list); got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// ack acks a delivery and checks the outcome.
func ack(t *testing.T, b *broker.Broker, d broker.Delivery, want broker.AckOutcome) {
	t.Helper()
	outcomes, err := b.Ack(t.Context(), d.Receipt)
	if err != nil || outcomes[0] != want {
		t.Errorf("ack of %s: %v, %v; want %v", d.Body, outcomes, err, want)
	}
}

func committed(t *testing.T, b *broker.Broker, topic string, queue int) broker.GroupQueue {
	t.Helper()
	info, err := b.Group(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range info.Topics {
		if g.Topic == topic {
			return g.Queues[queue]
		}
	}
	t.Fatalf("group g does not stand in %s: %+v", topic, info)
	return broker.GroupQueue{}
}

// A message is one reader's until its lease is over, and is gone when it is acked; what is acked above one that is not
// comes again after a restart, and nothing else does.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{Engine: engine.Options{Queues: 1}})
		for _, body := range []string{"a", "b", "c"} {
			b.MustPut("t", body, 0)
		}
		first := lease(t, b.Broker, broker.PullRequest{MaxCount: 2})
		wantSaid(t, "the first pull", first, "[a/1 b/1]")
		second := lease(t, b.Broker, broker.PullRequest{})
		wantSaid(t, "the second pull", second, "[c/1]")
		wantSaid(t, "the third pull", lease(t, b.Broker, broker.PullRequest{}), "[]")
		if want := time.Now().Add(30 * time.Second).UnixMilli(); first[0].EndsMs != want || first[0].Topic != "t" || first[0].Retried {
			t.Errorf("the lease: %+v", first[0].Lease)
		}
		ack(t, b.Broker, first[1], broker.Acked)
		if at := committed(t, b.Broker, "t", 0); at.Committed != -1 || at.Lag != 3 || at.Leased != 2 || at.Next != 3 {
			t.Errorf("after an ack above the lowest: %+v", at)
		}
		ack(t, b.Broker, second[0], broker.Acked)
		time.Sleep(30 * time.Second)
		ack(t, b.Broker, first[0], broker.AckExpired)
		again := lease(t, b.Broker, broker.PullRequest{})
		wantSaid(t, "after the lease", again, "[a/2]")
		ack(t, b.Broker, first[0], broker.AckExpired)
		if again[0].ID != first[0].ID {
			t.Errorf("its id is %s, was %s", again[0].ID, first[0].ID)
		}

		brokertest.Crash(b)
		ack(t, b.Broker, again[0], broker.AckExpired)
		again = lease(t, b.Broker, broker.PullRequest{})
		wantSaid(t, "after a restart with nothing committed", again, "[a/1 b/1 c/1]")
		ack(t, b.Broker, again[0], broker.Acked)
		ack(t, b.Broker, again[0], broker.Acked)
		ack(t, b.Broker, again[2], broker.Acked)
		brokertest.Crash(b)
		again = lease(t, b.Broker, broker.PullRequest{})
		wantSaid(t, "after a restart with one committed", again, "[b/1 c/1]")
		ack(t, b.Broker, again[0], broker.Acked)
		ack(t, b.Broker, again[1], broker.Acked)
		ack(t, b.Broker, broker.Delivery{Lease: broker.Lease{Receipt: "twr1.forged"}}, broker.AckNotFound)
		brokertest.Crash(b)
		wantSaid(t, "after all were acked", lease(t, b.Broker, broker.PullRequest{}), "[]")
		if at := committed(t, b.Broker, "t", 0); at.Committed != 3 || at.Lag != 0 || at.Leased != 0 {
			t.Errorf("after all were acked: %+v", at)
		}
	})
}

// A pull that waits gets a message in the millisecond in which its lease ends, or is given back; extended, later.
func TestLeaseWakesPulls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{AckTimeout: 10 * time.Second})
		b.MustPut("t", "a", 0)
		d := lease(t, b.Broker, broker.PullRequest{})
		start := time.Now()
		time.Sleep(5 * time.Second)
		if err := b.Extend(t.Context(), d[0].Receipt, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		next := lease(t, b.Broker, broker.PullRequest{Wait: time.Minute, AckTimeout: time.Hour})
		wantSaid(t, "the pull that waited", next, "[a/2]")
		if took := time.Since(start); took < 15*time.Second || took > 15*time.Second+2*time.Millisecond {
			t.Errorf("it waited %v, want 15 s", took)
		}
		if err := b.Extend(t.Context(), d[0].Receipt, time.Second); !errors.Is(err, broker.ErrExpired) {
			t.Errorf("extend of a lease that is over: %v", err)
		}
		if err := b.Extend(t.Context(), "twr1.forged", time.Second); !errors.Is(err, broker.ErrReceipt) {
			t.Errorf("extend of a forged receipt: %v", err)
		}
		start = time.Now()
		go func() {
			time.Sleep(3 * time.Second)
			if err := b.Extend(t.Context(), next[0].Receipt, 0); err != nil {
				t.Error(err)
			}
		}()
		wantSaid(t, "after it was given back", lease(t, b.Broker, broker.PullRequest{Wait: time.Minute}), "[a/3]")
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("it waited %v, want 3 s", took)
		}
	})
}

// Retries wait as RocketMQ's do, keep what the message is, and end among the dead letters after 16 deliveries.
func TestRetryUntilDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t)
		put := b.MustPut("t", "x", 0)
		waits := []time.Duration{ // of the levels 3, 4, …
			10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute, 5 * time.Minute,
			6 * time.Minute, 7 * time.Minute, 8 * time.Minute, 9 * time.Minute, 10 * time.Minute, 20 * time.Minute,
			30 * time.Minute, time.Hour,
		}
		start := time.Now()
		for n, wait := range waits {
			d := lease(t, b.Broker, broker.PullRequest{Wait: time.Minute})
			for len(d) == 0 {
				d = lease(t, b.Broker, broker.PullRequest{Wait: time.Minute})
			}
			wantSaid(t, "delivery", d, fmt.Sprintf("[x/%d]", n+1))
			if d[0].ID != put.ID || d[0].Topic != "t" || d[0].Retried != (n > 0) {
				t.Errorf("delivery %d: %+v", n+1, d[0].Lease)
			}
			r, err := b.Retry(t.Context(), d[0].Receipt, broker.RetryOptions{Reason: fmt.Sprintf("no. %d", n+1)})
			if err != nil || r.DeadLetter || r.Attempt != n+1 || r.Level != n+3 || r.DueMs != time.Now().Add(wait).UnixMilli() {
				t.Fatalf("retry %d: %+v, %v", n+1, r, err)
			}
			if _, err := b.Retry(t.Context(), d[0].Receipt, broker.RetryOptions{}); !errors.Is(err, broker.ErrExpired) {
				t.Errorf("retry of what was retried: %v", err)
			}
			if n == 5 {
				brokertest.Crash(b)
			}
			if info, err := b.Group(t.Context(), "g"); err != nil || info.Retrying != 1 || info.Lag() != 0 {
				t.Errorf("after retry %d: %+v, %v", n+1, info, err)
			}
		}
		time.Sleep(time.Hour)
		d := lease(t, b.Broker, broker.PullRequest{Wait: time.Minute})
		wantSaid(t, "the last delivery", d, "[x/16]")
		r, err := b.Retry(t.Context(), d[0].Receipt, broker.RetryOptions{Reason: "the\nend"})
		if err != nil || !r.DeadLetter || r.DueMs != 0 {
			t.Fatalf("the last retry: %+v, %v", r, err)
		}
		letters, err := b.DeadLettersPage(t.Context(), "g", broker.DeadFilter{}, "", 0)
		if err != nil || len(letters.Letters) != 1 {
			t.Fatalf("dead letters: %+v, %v", letters, err)
		}
		l := letters.Letters[0]
		if l.Topic != "t" || l.Queue != put.Queue || l.TopicOffset != put.Offset || l.ID != put.ID || l.Attempts != 16 ||
			l.Reason != "the end" || string(l.Body) != "x" || l.Properties != nil || l.FirstMs < start.UnixMilli() ||
			l.FirstMs > start.Add(time.Second).UnixMilli() || l.DiedMs != time.Now().UnixMilli() {
			t.Errorf("dead letter: %+v", l)
		}
		wantSaid(t, "after its death", lease(t, b.Broker, broker.PullRequest{Wait: time.Minute}), "[]")
	})
}

// A consumer that dies each time leaves a dead letter, too.
func TestLeaseEndsUntilDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{MaxAttempts: 3, AckTimeout: time.Second})
		b.MustPut("t", "x", 0)
		for n := range 3 {
			wantSaid(t, "delivery", lease(t, b.Broker, broker.PullRequest{Wait: time.Minute}), fmt.Sprintf("[x/%d]", n+1))
		}
		wantSaid(t, "after the last", lease(t, b.Broker, broker.PullRequest{Wait: time.Minute}), "[]")
		l, err := b.DeadLetter(t.Context(), "g", 0)
		if err != nil || l.Attempts != 3 || string(l.Body) != "x" {
			t.Errorf("dead letter: %+v, %v", l, err)
		}
	})
}

// Consume acks, retries, gives up and survives panics; when its context ends, handlers end first and nothing is lost.
func TestConsume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t)
		ctx, stop := context.WithCancel(t.Context())
		counts := map[string]int{}
		ended := make(chan error)
		go func() {
			ended <- b.Consume(ctx, "t", "g", func(_ context.Context, d *broker.Delivery) error {
				counts[string(d.Body)]++
				switch n := counts[string(d.Body)]; {
				case string(d.Body) == "never":
					return fmt.Errorf("handler: %w", broker.Reject(errors.New("bad input")))
				case string(d.Body) == "later" && n == 1:
					return broker.RetryIn(5*time.Minute, nil)
				case string(d.Body) == "panics" && n == 1:
					panic("oh")
				case string(d.Body) == "fails" && n < 3:
					return errors.New("not now")
				case string(d.Body) == "slow":
					time.Sleep(2 * time.Minute) // four leases long
				}
				return nil
			}, broker.ConsumeOptions{})
		}()
		synctest.Wait()
		for _, body := range []string{"fine", "never", "later", "panics", "fails", "slow"} {
			b.MustPut("t", body, 0)
		}
		time.Sleep(10 * time.Minute)
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("consume ended with %v", err)
		}
		if fmt.Sprint(counts) != "map[fails:3 fine:1 later:2 never:1 panics:2 slow:1]" {
			t.Errorf("deliveries: %v", counts)
		}
		info, err := b.Group(t.Context(), "g")
		if err != nil || info.Lag() != 0 || info.Retrying != 0 || info.DeadLetters != 1 || info.Leased() != 0 {
			t.Errorf("group: %+v, %v", info, err)
		}
	})
}

// Broadcast and delays do not go together, from either side.
func TestBroadcast(t *testing.T) {
	b := open(t, crashfs.New(crashfs.Options{}), broker.Options{})
	ctx := t.Context()
	mustPut(t, b, broker.Message{Topic: "delayed", At: broker.In(time.Hour)})
	mustPut(t, b, broker.Message{Topic: "plain", Body: []byte("x")})
	if err := b.DefineGroup(ctx, "all", broker.Broadcast); err != nil {
		t.Fatal(err)
	}
	from := []broker.QueueOffset{{Queue: 0}, {Queue: 1}, {Queue: 2}, {Queue: 3}}
	var p broker.Pulled
	if err := b.Pull(ctx, broker.PullRequest{Topic: "delayed", Group: "all", From: from}, &p); !errors.Is(err, broker.ErrBroadcast) {
		t.Errorf("broadcast of delayed messages: %v", err)
	}
	if err := b.Pull(ctx, broker.PullRequest{Topic: "plain", Group: "all"}, &p); !errors.Is(err, broker.ErrBroadcast) {
		t.Errorf("a lease of a broadcast group: %v", err)
	}
	for range 2 { // nothing is taken away
		if got := bodies(t, b, broker.PullRequest{Topic: "plain", Group: "all", From: from}); len(got) != 1 {
			t.Errorf("broadcast: %q", got)
		}
	}
	if _, err := b.Put(ctx, broker.Message{Topic: "plain", At: broker.In(time.Hour)}); !errors.Is(err, broker.ErrBroadcast) {
		t.Errorf("a delay in a topic that is broadcast: %v", err)
	}
	lease(t, b, broker.PullRequest{Topic: "delayed"})
	info, err := b.Group(ctx, "all")
	if err != nil || info.Mode != broker.Broadcast {
		t.Errorf("group: %+v, %v", info, err)
	}
	if err := b.DeleteGroup(ctx, "all"); err != nil {
		t.Fatal(err)
	}
	mustPut(t, b, broker.Message{Topic: "plain", At: broker.In(time.Hour)})
	if _, err := b.Group(ctx, "all"); !errors.Is(err, engine.ErrNoGroup) {
		t.Errorf("group after its end: %v", err)
	}
}
