package delivery

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/broker/brokertest"
	"github.com/tidewheel/tidewheel/host/egress"
)

// ledger notes, over the lives of a broker, what was sent and what a Settle has answered to be acked.
type ledger struct {
	t *testing.T

	mu    sync.Mutex
	ids   map[string]string // by receipt
	sent  map[string]int    // by id
	acked map[string]bool   // by id
}

// life is a broker that a ledger looks at.
type life struct {
	*broker.Broker
	l *ledger
}

func (b life) Pull(ctx context.Context, req broker.PullRequest, into *broker.Pulled) error {
	err := b.Broker.Pull(ctx, req, into)
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	for d := range into.Deliveries() {
		b.l.ids[d.Receipt] = d.ID
	}
	return err
}

func (b life) Settle(ctx context.Context, all []broker.Settlement) []error {
	errs := b.Broker.Settle(ctx, all)
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	for i, s := range all {
		if errs[i] == nil && s.Action == broker.ActionKeep {
			b.l.acked[b.l.ids[s.Receipt]] = true
		}
	}
	return errs
}

func (l *ledger) send(random *rand.Rand) sender {
	return func(ctx context.Context, r *egress.Request) (*egress.Response, error) {
		l.mu.Lock()
		if l.sent[r.ID]++; l.acked[r.ID] {
			l.t.Errorf("message %s was acked and is sent again", r.ID)
		}
		took, fails := time.Duration(random.IntN(300))*time.Millisecond, random.IntN(10) == 0
		l.mu.Unlock()
		select {
		case <-time.After(took):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if fails {
			return status(500)
		}
		return status(200)
	}
}

// TestAckedIsNotSentAgain: over power cuts at random moments every message is sent, and none that was acked is sent again,
// whatever before it in its queue was not.
func TestAckedIsNotSentAgain(t *testing.T) {
	for seed := range uint64(enginetest.ReadVolume(t).Pick(4, 12, 200)) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 6))
			b := brokertest.OpenCrash(t, seed, broker.Options{})
			l := &ledger{t: t, ids: map[string]string{}, sent: map[string]int{}, acked: map[string]bool{}}
			var ids []string
			for i := range 150 {
				ids = append(ids, put(b, fmt.Sprintf("orders-%d", i%3), "https://a.test/")...)
			}
			run := func(lives int, d time.Duration) {
				c := settings(t, life{b.Broker, l})
				c.Plugin, c.Client, c.Concurrency = poster(ack2xx), l.send(random), 8
				w := Start(c)
				<-time.After(d)
				if lives > 0 {
					brokertest.Crash(b)
				}
				end(w, 0)
			}
			for lives := range 8 {
				run(8-lives, time.Duration(50+random.IntN(600))*time.Millisecond)
			}
			l.mu.Lock()
			before := len(l.acked)
			l.mu.Unlock()
			run(0, 5*time.Minute)
			if n := lag(t, b, "plugin-hooks"); n != 0 {
				t.Errorf("seed %d: %d of %d are acked, lag %d", seed, len(l.acked), len(ids), n)
			}
			if before == 0 || before == len(ids) {
				t.Errorf("seed %d: %d were acked before the last life: the test tests nothing", seed, before)
			}
			for _, id := range ids {
				if l.sent[id] == 0 { // an ack may be durable whose answer was cut off, so that it is not in acked
					t.Errorf("seed %d: message %s was never sent", seed, id)
				}
			}
		})
	}
}
