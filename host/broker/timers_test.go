package broker_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
)

// TestTimersInABubble lets two days pass: a timer is moved, one is cancelled and restored, one fires at once.
func TestTimersInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, crashfs.New(crashfs.Options{}), broker.Options{})
		ctx := t.Context()
		put := func(body string, at broker.When) string {
			t.Helper()
			r, err := b.Put(ctx, broker.Message{Topic: "orders", Pin: true, Body: []byte(body), At: at})
			if err != nil || r.Outcome != engine.Scheduled {
				t.Fatalf("put %s: %v, %v", body, r, err)
			}
			return r.Handle
		}
		start := b.NowMs()
		later := put("later", broker.In(time.Hour))
		back := put("back", broker.At(start+2*3600_000))
		now := put("now", broker.In(24*time.Hour))

		moved, err := b.Move(ctx, later, start+48*3600_000)
		if err != nil || moved.Outcome != engine.Moved || moved.DueMs != start+48*3600_000 {
			t.Fatalf("move: %+v, %v", moved, err)
		}
		if again, err := b.Move(ctx, later, start); err != nil || again.Outcome != engine.Superseded {
			t.Errorf("move by the old handle: %+v, %v", again, err)
		}
		if outcome, err := b.Cancel(ctx, back); err != nil || outcome != engine.Cancelled {
			t.Fatalf("cancel: %v, %v", outcome, err)
		}
		if c, err := b.Move(ctx, back, start); err != nil || c.Outcome != engine.AlreadyCancelled {
			t.Errorf("move what is cancelled: %+v, %v", c, err)
		}
		if m, err := b.Read(ctx, back); err != nil || string(m.Body) != "back" {
			t.Errorf("read what is cancelled: %q, %v", m.Body, err)
		}
		restored, err := b.Undo(ctx, back)
		if err != nil || restored.Outcome != engine.Restored || restored.DueMs != start+2*3600_000 {
			t.Fatalf("undo: %+v, %v", restored, err)
		}
		if c, err := b.Fire(ctx, now); err != nil || c.Outcome != engine.Moved {
			t.Fatalf("fire: %+v, %v", c, err)
		}
		if c, err := b.Undo(ctx, "tw1.forged"); err != nil || c.Outcome != engine.NotFound {
			t.Errorf("undo of a forged handle: %+v, %v", c, err)
		}

		var listed []int64
		for w, err := range b.Timers(ctx, engine.Filter{Topic: "orders"}) {
			if err != nil {
				t.Fatal(err)
			}
			listed = append(listed, w.DueMs-start)
		}
		if len(listed) < 2 || listed[len(listed)-1] != 48*3600_000 || listed[len(listed)-2] != 2*3600_000 {
			t.Errorf("listed: %v", listed)
		}
		time.Sleep(3 * time.Hour)
		want(t, b, "now", "back")
		for _, h := range []string{later, restored.Handle, "tw1.forged"} {
			if m, err := b.Read(ctx, h); !errors.Is(err, engine.ErrNoMessage) {
				t.Errorf("read what does not wait: %q, %v", m.Body, err)
			}
		}
		if m, err := b.Read(ctx, moved.Handle); err != nil || string(m.Body) != "later" {
			t.Errorf("read what was moved: %q, %v", m.Body, err)
		}
		if c, err := b.Fire(ctx, restored.Handle); err != nil || c.Outcome != engine.Delivered {
			t.Errorf("fire what was delivered: %+v, %v", c, err)
		}
		time.Sleep(45*time.Hour + time.Second) // the writer wakes at the due time, too
		want(t, b, "now", "back", "later")
		x, err := b.Explain(ctx, moved.Handle)
		if err != nil || len(x.Events) != 2 || x.Events[0].Kind != "scheduled" || x.Events[1].Kind != "delivered" {
			t.Errorf("explain: %+v, %v", x, err)
		}
		if r, err := b.Put(ctx, broker.Message{Topic: "orders", At: broker.In(b.MaxDelay())}); err != nil || r.Past {
			t.Errorf("max delay: %v, %v", r, err)
		}
		if _, err := b.Put(ctx, broker.Message{Topic: "orders", At: broker.In(b.MaxDelay() + time.Millisecond)}); !errors.Is(err, engine.ErrDelay) {
			t.Errorf("beyond max delay: %v", err)
		}
		if r, err := b.Put(ctx, broker.Message{Topic: "past", At: broker.At(b.NowMs() - 1)}); err != nil || !r.Past || r.Outcome != engine.Stored {
			t.Errorf("in the past: %+v, %v", r, err)
		}
	})
}

// want checks the bodies in "orders", from the first on.
func want(t *testing.T, b *broker.Broker, want ...string) {
	t.Helper()
	from := []broker.QueueOffset{{Queue: 0, Offset: 0}}
	if got := bodies(t, b, broker.PullRequest{Topic: "orders", From: from, MaxCount: 100}); !slices.Equal(got, want) {
		t.Fatalf("%q are in the queue, want %q", got, want)
	}
}
