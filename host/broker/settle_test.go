package broker_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/broker/brokertest"
)

// settleAll ends leases, each as its body says, and wants no error.
func settleAll(t *testing.T, b *brokertest.Broker, list []broker.Delivery) {
	t.Helper()
	var all []broker.Settlement
	for _, d := range list {
		all = append(all, broker.Settlement{Receipt: d.Receipt, Decision: byBody(string(d.Body))})
	}
	for i, err := range b.Settle(t.Context(), all) {
		if err != nil {
			t.Errorf("settle of %s: %v", list[i].Body, err)
		}
	}
}

// What a reader settles above a gap is done with, also after power cuts; what it acks there is not. A seek brings both again.
func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.OpenCrash(t, 11, broker.Options{Engine: engine.Options{Queues: 1}, AckTimeout: time.Hour})
		for _, body := range []string{"keep 1", "keep 2", "keep 3", "drop 4", "dead_letter 5", "route other", "retry 7", "keep 8", "keep 9"} {
			b.MustPut("t", body, 0)
		}
		byName := map[string]broker.Delivery{}
		for _, d := range lease(t, b.Broker, broker.PullRequest{}) {
			byName[string(d.Body)] = d
		}
		settleAll(t, b, []broker.Delivery{byName["keep 3"], byName["drop 4"], byName["route other"], byName["dead_letter 5"], byName["retry 7"]})
		ack(t, b.Broker, byName["keep 9"], broker.Acked)
		ack(t, b.Broker, byName["keep 1"], broker.Acked)
		for i, err := range b.Settle(t.Context(), []broker.Settlement{
			{Receipt: byName["keep 3"].Receipt, Decision: byBody("keep")},
			{Receipt: "twr1.x", Decision: byBody("keep")},
			{Receipt: byName["keep 2"].Receipt, Decision: byBody("replace x")},
		}) {
			if want := []error{broker.ErrExpired, broker.ErrReceipt, broker.ErrRequest}[i]; !errors.Is(err, want) {
				t.Errorf("settlement %d: %v, want %v", i, err, want)
			}
		}
		brokertest.WantDelivered(t, b, "other", "route other")
		letters, err := b.DeadLettersPage(t.Context(), "g", broker.DeadFilter{}, "", 0)
		if err != nil || len(letters.Letters) != 1 || letters.Letters[0].Hook != "deliver" || letters.Letters[0].Attempts != 1 {
			t.Errorf("dead letters: %+v, %v", letters, err)
		}
		if q := committed(t, b.Broker, "t", 0); q.Committed != 1 {
			t.Errorf("the group stands at %+v", q)
		}

		for range 2 {
			brokertest.Crash(b)
			wantSaid(t, "after a power cut", lease(t, b.Broker, broker.PullRequest{}), "[keep 2/1 keep 8/1 keep 9/1]")
		}
		time.Sleep(time.Minute)
		wantSaid(t, "what was put off", lease(t, b.Broker, broker.PullRequest{Wait: time.Second}), "[retry 7/2]")
		if err := b.Seek(t.Context(), "g", "t", []broker.QueueOffset{{Queue: 0, Offset: 1}}); err != nil {
			t.Fatal(err)
		}
		wantSaid(t, "after a seek", lease(t, b.Broker, broker.PullRequest{}),
			"[dead_letter 5/1 drop 4/1 keep 2/1 keep 3/1 keep 8/1 keep 9/1 retry 7/1 route other/1]")
		brokertest.Crash(b)
		wantSaid(t, "and a power cut", lease(t, b.Broker, broker.PullRequest{}),
			"[dead_letter 5/1 drop 4/1 keep 2/1 keep 3/1 keep 8/1 keep 9/1 retry 7/2 retry 7/1 route other/1]")
	})
}

// The group reads no further above a gap than MaxUnacked, whatever is settled there, also when it is opened again; and what is settled
// from the gap on is committed with it.
func TestSettleMaxUnacked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.OpenCrash(t, 2, broker.Options{Engine: engine.Options{Queues: 1}, MaxUnacked: 10, AckTimeout: time.Hour})
		for i := range 30 {
			b.MustPut("t", fmt.Sprintf("keep %02d", i), 0)
		}
		list := lease(t, b.Broker, broker.PullRequest{})
		settleAll(t, b, list[1:])
		wantSaid(t, "above the gap", lease(t, b.Broker, broker.PullRequest{}), "[]")
		brokertest.Crash(b)
		list = lease(t, b.Broker, broker.PullRequest{})
		wantSaid(t, "after a kill", list, "[keep 00/1]")
		wantSaid(t, "and then", lease(t, b.Broker, broker.PullRequest{}), "[]")
		settleAll(t, b, list)
		if q := committed(t, b.Broker, "t", 0); q.Committed != 10 {
			t.Errorf("the group stands at %+v", q)
		}
		if n := len(lease(t, b.Broker, broker.PullRequest{})); n != 10 {
			t.Errorf("%d more", n)
		}
	})
}

// A reader may say how often a message is delivered, and a retry by Settle does not count against it.
func TestSettleAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{Engine: engine.Options{Queues: 1}, MaxAttempts: 2, AckTimeout: time.Second})
		b.MustPut("t", "retry", 0)
		req := broker.PullRequest{MaxAttempts: 5, Wait: time.Minute}
		for i := 1; i <= 4; i++ {
			time.Sleep(time.Minute)
			got := lease(t, b.Broker, req)
			wantSaid(t, "it comes", got, fmt.Sprintf("[retry/%d]", i))
			settleAll(t, b, got)
		}
		time.Sleep(time.Minute)
		wantSaid(t, "the fifth time", lease(t, b.Broker, req), "[retry/5]")
		wantSaid(t, "a lease that ended", lease(t, b.Broker, req), "[]")
		if n, err := b.CountDeadLetters(t.Context(), "g", broker.DeadFilter{}); err != nil || n.Count != 1 {
			t.Errorf("%+v dead letters, %v", n, err)
		}
	})
}
