package broker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
)

// Many readers of a group pull, ack, put off and give back at once, beside producers and an operator that looks on. No
// message is held by two at a time, and each is acked once.
func TestLeaseHammer(t *testing.T) {
	const messages, readers = 600, 8
	b, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{})}, ".", broker.Options{
		Engine: engine.Options{Levels: "1ms 2ms 3ms", Queues: 3}, MaxAttempts: 1000, MaxUnacked: 40,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var held, acked sync.Map
	var left atomic.Int64
	left.Store(messages)
	var all sync.WaitGroup
	all.Go(func() {
		for i := range messages {
			m := broker.Message{Topic: "t", Body: fmt.Append(nil, i)}
			if i%4 == 0 {
				m.At = broker.Level(1 + i%3)
			}
			if _, err := b.Put(ctx, m); err != nil {
				t.Errorf("put: %v", err)
			}
		}
	})
	all.Go(func() {
		for ctx.Err() == nil {
			if _, err := b.Groups(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("groups: %v", err)
			}
		}
	})
	for r := range readers {
		all.Go(func() {
			var p broker.Pulled
			for n := r; ctx.Err() == nil; n++ {
				req := broker.PullRequest{Topic: "t", Group: "g", MaxCount: 1 + n%7, Wait: time.Second, AckTimeout: time.Hour}
				if err := b.Pull(ctx, req, &p); err != nil {
					if ctx.Err() == nil && !errors.Is(err, engine.ErrNoTopic) {
						t.Errorf("pull: %v", err)
					}
					continue
				}
				var done []string
				for d := range p.Deliveries() {
					body := string(d.Body)
					if who, twice := held.LoadOrStore(body, r); twice {
						t.Errorf("%s is held by %v and %d", body, who, r)
					}
					switch n++; n % 5 {
					case 0:
						held.Delete(body)
						if _, err := b.Retry(t.Context(), d.Receipt, broker.RetryOptions{Reason: "again"}); err != nil {
							t.Errorf("retry: %v", err)
						}
					case 1:
						held.Delete(body)
						if err := b.Extend(t.Context(), d.Receipt, 0); err != nil {
							t.Errorf("extend: %v", err)
						}
					default:
						if _, twice := acked.LoadOrStore(body, r); twice {
							t.Errorf("%s comes after it was acked", body)
						}
						done = append(done, d.Receipt)
					}
				}
				outcomes, err := b.Ack(t.Context(), done...)
				for _, o := range outcomes {
					if o != broker.Acked {
						t.Errorf("ack: %v", o)
					}
				}
				if err != nil {
					t.Errorf("ack: %v", err)
				}
				if len(done) > 0 && left.Add(-int64(len(done))) == 0 {
					stop()
				}
			}
		})
	}
	all.Wait()
	info, err := b.Group(t.Context(), "g")
	if err != nil || info.Lag() != 0 || info.Retrying != 0 || info.Leased() != 0 || left.Load() != 0 {
		t.Errorf("in the end: %+v, %v, %d left", info, err, left.Load())
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}
