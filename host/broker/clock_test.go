package broker_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
)

const clockStart = 1_796_036_523_123

func openManual(t *testing.T, opts crashfs.Options) (*broker.Broker, *broker.ManualClock, *crashfs.FS) {
	t.Helper()
	c, disk := broker.NewManualClock(clockStart), crashfs.New(opts)
	b, err := broker.Open(broker.Env{FS: disk, Wall: c.Wall, Mono: c.Mono}, ".", broker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b, c, disk
}

// Two days pass without waiting, message by message, and nothing is early by the clock.
func TestManualClockTwoDays(t *testing.T) {
	b, c, _ := openManual(t, crashfs.Options{})
	defer b.Close()
	ctx := t.Context()
	const hours = 48
	for h := range hours {
		if _, err := b.Put(ctx, broker.Message{Topic: "orders", At: broker.In(time.Duration(h+1) * time.Hour), Body: []byte{byte(h)}}); err != nil {
			t.Fatal(err)
		}
	}
	for h := range hours {
		for _, step := range []struct {
			d    time.Duration
			want int
		}{{time.Hour - time.Millisecond, h}, {time.Millisecond, h + 1}} {
			if _, err := c.Advance(step.d); err != nil {
				t.Fatal(err)
			}
			if err := b.CatchUp(ctx); err != nil {
				t.Fatal(err)
			}
			s, err := b.Stats()
			if err != nil {
				t.Fatal(err)
			}
			info, err := b.Topic(ctx, "orders")
			if err != nil {
				t.Fatal(err)
			}
			visible := 0 // only what is durable is
			for _, q := range info.Queues {
				visible += int(q.Visible - q.Min)
			}
			if int(s.Fired) != step.want || visible != step.want {
				t.Fatalf("hour %d: %d delivered, %d of them durable, %d wanted", h, s.Fired, visible, step.want)
			}
		}
	}
}

// A burst of many chunks at once, and messages that were due while the clock passed them.
func TestManualClockBurst(t *testing.T) {
	b, c, _ := openManual(t, crashfs.Options{})
	defer b.Close()
	var many []broker.Message
	for i := range 5000 {
		many = append(many, broker.Message{Topic: "orders", At: broker.In(time.Second + time.Duration(i%3)*time.Millisecond)})
	}
	if _, err := b.PutBatch(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Advance(24 * time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := b.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, err := b.Stats(); err != nil || s.Fired != 5000 || s.Pending != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// CatchUp ends with the broker, and with the context.
func TestCatchUpEnds(t *testing.T) {
	b, _, _ := openManual(t, crashfs.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.CatchUp(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("context: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.CatchUp(t.Context()); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// With a clock that runs it needs no help, and costs nothing in a bubble.
func TestCatchUpInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{})}, ".", broker.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if _, err := b.Put(t.Context(), broker.Message{Topic: "orders", At: broker.In(time.Minute)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := b.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s, err := b.Stats(); err != nil || s.Fired != 1 {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

func TestManualClockRange(t *testing.T) {
	c := broker.NewManualClock(clockStart)
	for _, d := range []time.Duration{-1, math.MinInt64, math.MaxInt64} {
		if d == math.MaxInt64 {
			if _, err := c.Advance(d); err != nil { // 292 years, and no more
				t.Errorf("292 years: %v", err)
			}
			d = 1
		}
		if _, err := c.Advance(d); !errors.Is(err, broker.ErrRequest) {
			t.Errorf("%d: %v", d, err)
		}
	}
	last := broker.NewManualClock(253402300799999 - 1000)
	if _, err := last.Advance(time.Second + time.Millisecond); !errors.Is(err, broker.ErrRequest) {
		t.Errorf("beyond 9999: %v", err)
	}
	if ms, err := last.Advance(time.Second); err != nil || ms != 253402300799999 || last.Wall() != ms || last.Mono() != 1e9 {
		t.Errorf("to the end of 9999: %d, %v", ms, err)
	}
}
