package broker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
	"github.com/tidewheel/tidewheel/host/broker"
)

// TestIdempotencyInABubble repeats puts for a day, with a power cut between.
func TestIdempotencyInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := crashfs.New(crashfs.Options{})
		b := open(t, disk, broker.Options{})
		ctx := t.Context()
		order := broker.Message{
			Topic: "orders", IdempotencyKey: "order-42", Key: "k", Tag: "unpaid", Body: []byte("42"),
			Properties: map[string]string{"b": "2", "a": "1"}, At: broker.In(30 * time.Minute),
		}
		first := mustPut(t, b, order)
		if first.Replayed {
			t.Errorf("the first put: %+v", first)
		}
		want := first
		want.Replayed = true
		again := func() {
			t.Helper()
			if got := mustPut(t, b, order); got != want {
				t.Errorf("repeated: %+v, want %+v", got, want)
			}
		}
		again()
		time.Sleep(time.Minute) // the delay is counted from the first put
		again()
		for name, other := range map[string]func(m *broker.Message){
			"body":       func(m *broker.Message) { m.Body = []byte("43") },
			"key":        func(m *broker.Message) { m.Key = "l" },
			"tag":        func(m *broker.Message) { m.Tag = "" },
			"properties": func(m *broker.Message) { m.Properties = map[string]string{"a": "1"} },
		} {
			m := order
			other(&m)
			if r, err := b.Put(ctx, m); !errors.Is(err, broker.ErrIdempotencyMismatch) {
				t.Errorf("another %s: %+v, %v", name, r, err)
			}
		}
		elsewhere := order
		elsewhere.Topic = "others"
		if r := mustPut(t, b, elsewhere); r.Replayed || r.ID == first.ID {
			t.Errorf("in another topic: %+v", r)
		}
		b = open(t, disk.Crash(rand.New(rand.NewPCG(1, 0)), crashfs.Policy{}), broker.Options{})
		again()
		if outcome, err := b.Cancel(ctx, mustPut(t, b, order).Handle); err != nil || outcome != engine.Cancelled {
			t.Errorf("cancel by the repeated put's handle: %v, %v", outcome, err)
		}
		now := broker.Message{Topic: "orders", IdempotencyKey: "now", Body: []byte("now")}
		batch, err := b.PutBatch(ctx, []broker.Message{now, {Topic: "orders", Body: []byte("x")}, now, order})
		if err != nil || batch[0].Replayed || batch[1].Replayed || !batch[2].Replayed || !batch[3].Replayed ||
			batch[2].ID != batch[0].ID || batch[2].Offset != batch[0].Offset || batch[3].ID != first.ID {
			t.Errorf("batch: %+v, %v", batch, err)
		}
		time.Sleep(24*time.Hour + time.Minute)
		if r := mustPut(t, b, order); r.Replayed || r.ID == first.ID {
			t.Errorf("after the window: %+v", r)
		}
	})
}

// TestIdempotencyInFlight holds the fsync back: a second put waits, too, and gets the answer of the first.
func TestIdempotencyInFlight(t *testing.T) {
	for _, durability := range []broker.Durability{broker.Always, broker.Interval} {
		synctest.Test(t, func(t *testing.T) {
			fsys := newSyncFS()
			b := open(t, fsys, broker.Options{Durability: durability})
			mustPut(t, b, broker.Message{Topic: "orders", Body: []byte("before")})
			time.Sleep(2 * time.Second)
			hold := make(chan struct{})
			fsys.onSync(func() error { <-hold; return nil })
			receipts := make(chan broker.Receipt, 8)
			for range 8 {
				go func() {
					r, err := b.Put(t.Context(), broker.Message{Topic: "orders", IdempotencyKey: "k", Body: []byte("x")})
					if err != nil {
						t.Error(err)
					}
					receipts <- r
				}()
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			early := 0 // with Interval the first put is answered; one that is told of it waits until it is durable
			if durability == broker.Interval {
				early = 1
			}
			if len(receipts) != early {
				t.Errorf("%v: %d puts are answered before the fsync, want %d", durability, len(receipts), early)
			}
			close(hold)
			replayed, ids := 0, map[string]bool{}
			for range 8 {
				r := <-receipts
				ids[r.ID] = true
				if r.Replayed {
					replayed++
				}
			}
			if replayed != 7 || len(ids) != 1 {
				t.Errorf("%v: %d of 8 are replayed, ids %v", durability, replayed, ids)
			}
		})
	}
}

// TestIdempotencyHammer has many producers put the same keys, and repeat what is in doubt after a kill: each message is
// there once.
func TestIdempotencyHammer(t *testing.T) {
	disk := crashfs.New(crashfs.Options{})
	b := open(t, disk, broker.Options{Engine: engine.Options{Queues: 1, CheckpointEvery: 64 << 10, SegmentSize: 128 << 10}})
	const producers, keys = 8, 60
	round := func(b *broker.Broker, ctx context.Context) {
		var all sync.WaitGroup
		for p := range producers {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(p), 1))
				for _, k := range rng.Perm(keys) {
					body := fmt.Append(make([]byte, 0, 2000), k)
					m := broker.Message{Topic: "orders", IdempotencyKey: fmt.Sprint(k), Body: body[:cap(body)]}
					if _, err := b.Put(ctx, m); err != nil && ctx.Err() == nil {
						t.Errorf("put %d: %v", k, err)
					}
				}
			})
		}
		all.Wait()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	round(b, ctx)
	disk = disk.Kill()
	_ = b.Close()
	b = open(t, disk, broker.Options{Engine: engine.Options{Queues: 1, CheckpointEvery: 64 << 10, SegmentSize: 128 << 10}})
	round(b, t.Context())
	got := bodies(t, b, broker.PullRequest{Topic: "orders", MaxCount: broker.MaxPull})
	if len(got) != keys {
		t.Errorf("%d messages are there, want %d", len(got), keys)
	}
}

// TestIdempotencyOff refuses keys where the window is off, and those that are too long.
func TestIdempotencyOff(t *testing.T) {
	b := open(t, crashfs.New(crashfs.Options{}), broker.Options{Engine: engine.Options{IdempotencyWindow: -1}})
	if _, err := b.Put(t.Context(), broker.Message{Topic: "orders", IdempotencyKey: "k"}); !errors.Is(err, engine.ErrBadCommand) {
		t.Errorf("a key where keys are off: %v", err)
	}
	b = open(t, crashfs.New(crashfs.Options{}), broker.Options{})
	if _, err := b.Put(t.Context(), broker.Message{Topic: "orders", IdempotencyKey: string(make([]byte, 256))}); !errors.Is(err, engine.ErrTooLarge) {
		t.Errorf("a key of 256 bytes: %v", err)
	}
}

// TestIdempotencyKeyIsNotCopied retries a message that was put with a key and moved: the copy is delivered, without the key.
func TestIdempotencyKeyIsNotCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, crashfs.New(crashfs.Options{}), broker.Options{})
		ctx := t.Context()
		r := mustPut(t, b, broker.Message{Topic: "orders", IdempotencyKey: "k", Body: []byte("x"), At: broker.In(time.Hour)})
		if _, err := b.Fire(ctx, r.Handle); err != nil {
			t.Fatal(err)
		}
		tries := 0
		ctx, cancel := context.WithCancel(ctx)
		err := b.Consume(ctx, "orders", "billing", func(_ context.Context, d *broker.Delivery) error {
			if tries++; tries == 1 {
				return errors.New("again")
			}
			if key, ok := d.Properties.Lookup("TIDEWHEEL_IDEMPOTENCY_KEY"); ok {
				t.Errorf("the copy has the key %q", key)
			}
			cancel()
			return nil
		}, broker.ConsumeOptions{})
		if tries != 2 {
			t.Errorf("%d tries: %v", tries, err)
		}
	})
}

// TestIdempotencyInDoubt lets the time of a batch run out when a part of it is stored: the error may not say that nothing
// happened.
func TestIdempotencyInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newSyncFS()
		b := open(t, fsys, broker.Options{Durability: broker.Interval})
		mustPut(t, b, broker.Message{Topic: "orders", Body: []byte("before")})
		time.Sleep(2 * time.Second)
		hold := make(chan struct{})
		fsys.onSync(func() error { <-hold; return nil })
		m := broker.Message{Topic: "orders", IdempotencyKey: "k", Body: []byte("x")}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		receipts, err := b.PutBatch(ctx, []broker.Message{m, m}) // the second waits until the first is durable
		if !errors.Is(err, broker.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%+v, %v; want that it is unknown", receipts, err)
		}
		close(hold)
		if r := mustPut(t, b, m); !r.Replayed {
			t.Errorf("repeated: %+v", r)
		}
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		if _, err := b.PutBatch(ctx, []broker.Message{{Topic: "orders", IdempotencyKey: "l"}}); errors.Is(err, broker.ErrUnknown) {
			t.Errorf("a put that was withdrawn: %v", err)
		}
	})
}

// TestIdempotencyUnreadable makes a file of keys unreadable: a message whose key cannot be looked for is refused on its own.
func TestIdempotencyUnreadable(t *testing.T) {
	disk := faultfs.New(crashfs.New(crashfs.Options{}))
	b := open(t, disk, broker.Options{Engine: engine.Options{Queues: 1, CheckpointEvery: 64 << 10, SegmentSize: 128 << 10}})
	for i := 0; ; i++ {
		size := 0
		if i < 10 { // then a checkpoint is due, and what comes until it is made shall not be a backlog
			size = 8 << 10
		}
		mustPut(t, b, broker.Message{Topic: "orders", IdempotencyKey: fmt.Sprint(i), Body: make([]byte, size)})
		s, err := b.Stats()
		if err != nil {
			t.Fatal(err)
		}
		if s.Checkpoints > 0 { // what came before it is looked for in a file
			break
		}
	}
	disk.Add(faultfs.Rule{Op: faultfs.Read, Path: "idempotency/*", Err: syscall.EIO, Sticky: true})
	batch := []broker.Message{{Topic: "orders", Body: []byte("x")}, {Topic: "orders", IdempotencyKey: "k", Body: []byte("y")}}
	receipts, err := b.PutBatch(t.Context(), batch)
	if err != nil || receipts[0].Err != nil || receipts[0].ID == "" || !errors.Is(receipts[1].Err, syscall.EIO) {
		t.Errorf("%+v, %v; want the first stored and the second refused", receipts, err)
	}
}
