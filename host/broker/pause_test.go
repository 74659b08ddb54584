package broker_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
)

// TestPauseInABubble pauses a topic under readers that wait, lets messages come and fall due, and lets it be read again.
func TestPauseInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, crashfs.New(crashfs.Options{}), broker.Options{Engine: engine.Options{Queues: 1}})
		ctx := t.Context()
		if err := b.PauseTopic(ctx, "orders", true); !errors.Is(err, engine.ErrNoTopic) {
			t.Errorf("pause of a topic that is not there: %v", err)
		}
		if err := b.DefineTopic(ctx, "orders", 1); err != nil {
			t.Fatal(err)
		}
		type read struct {
			count int
			at    time.Time
		}
		reads := make(chan read, 2)
		start := time.Now()
		for _, from := range [][]broker.QueueOffset{nil, {{Queue: 0, Offset: broker.Committed}}} {
			go func() {
				var p broker.Pulled
				req := broker.PullRequest{Topic: "orders", Group: "billing", From: from, Wait: time.Minute}
				if err := b.Pull(ctx, req, &p); err != nil {
					t.Errorf("pull of a group: %v", err)
				}
				reads <- read{p.Count(), time.Now()}
			}()
		}
		synctest.Wait()
		if err := b.PauseTopic(ctx, "orders", true); err != nil {
			t.Fatal(err)
		}
		mustPut(t, b, broker.Message{Topic: "orders", Body: []byte("now")})
		mustPut(t, b, broker.Message{Topic: "orders", Body: []byte("later"), At: broker.In(time.Second)})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if err := b.DefineTopic(ctx, "orders", 1); err != nil { // defined again it stays paused
			t.Fatal(err)
		}
		if info, err := b.Topic(ctx, "orders"); err != nil || !info.Paused || info.Attrs != 0 || info.Queues[0].Visible != 2 {
			t.Fatalf("topic %+v: %v", info, err)
		}
		if len(reads) > 0 {
			t.Fatal("a group read a paused topic")
		}
		explicit := broker.PullRequest{Topic: "orders", Group: "billing", From: []broker.QueueOffset{{Queue: 0, Offset: 0}}}
		if got := bodies(t, b, explicit); !slices.Equal(got, []string{"now", "later"}) {
			t.Errorf("a pull that says from where: %q", got)
		}
		if got := bodies(t, b, broker.PullRequest{Topic: "orders"}); !slices.Equal(got, []string{"now", "later"}) {
			t.Errorf("a pull of no group: %q", got)
		}
		if err := b.PauseTopic(ctx, "orders", false); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			r := <-reads
			if took := r.at.Sub(start); r.count == 0 || took < 10*time.Second || took > 11*time.Second {
				t.Errorf("%d messages after %v", r.count, took)
			}
		}
	})
}

// TestPauseSurvives pauses a topic and cuts the power: it is paused, and when its wait is over a group has nothing.
func TestPauseSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := crashfs.New(crashfs.Options{})
		b := open(t, disk, broker.Options{})
		ctx := t.Context()
		mustPut(t, b, broker.Message{Topic: "orders", Body: []byte("x")})
		if err := b.PauseTopic(ctx, "orders", true); err != nil {
			t.Fatal(err)
		}
		b = open(t, disk.Crash(rand.New(rand.NewPCG(1, 0)), crashfs.Policy{}), broker.Options{})
		start := time.Now()
		var p broker.Pulled
		err := b.Pull(ctx, broker.PullRequest{Topic: "orders", Group: "billing", Wait: 20 * time.Second}, &p)
		if took := time.Since(start); err != nil || p.Count() > 0 || took != 20*time.Second {
			t.Errorf("%d messages after %v: %v", p.Count(), took, err)
		}
		if err := b.PauseTopic(ctx, "orders", false); err != nil {
			t.Fatal(err)
		}
		if got := bodies(t, b, broker.PullRequest{Topic: "orders", Group: "billing"}); !slices.Equal(got, []string{"x"}) {
			t.Errorf("after the pause: %q", got)
		}
	})
}

// TestPauseIsDurable holds the fsync of a pause back: that the topic is paused is not told before.
func TestPauseIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newSyncFS()
		b := open(t, fsys, broker.Options{Engine: engine.Options{Queues: 1}})
		mustPut(t, b, broker.Message{Topic: "orders", Body: []byte("x")})
		time.Sleep(2 * time.Second)
		hold := make(chan struct{})
		fsys.onSync(func() error { <-hold; return nil })
		go func() {
			if err := b.PauseTopic(t.Context(), "orders", true); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		var answered atomic.Int32
		for _, from := range [][]broker.QueueOffset{nil, {{Queue: 0, Offset: broker.Committed}}} {
			go func() {
				var p broker.Pulled
				err := b.Pull(t.Context(), broker.PullRequest{Topic: "orders", Group: "billing", From: from}, &p)
				if err != nil || p.Count() > 0 {
					t.Errorf("%d messages, %v", p.Count(), err)
				}
				answered.Add(1)
			}()
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := answered.Load(); n != 0 {
			t.Errorf("%d readers were told of a pause that is not durable", n)
		}
		close(hold)
		synctest.Wait()
		if n := answered.Load(); n != 2 {
			t.Errorf("%d of 2 readers are answered", n)
		}
	})
}
