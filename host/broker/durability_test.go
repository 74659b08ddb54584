package broker_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
)

// interval are options of a broker that answers before the fsync.
func interval() broker.Options {
	return broker.Options{Durability: broker.Interval, Engine: engine.Options{Queues: 1}}
}

func wallMs() int64 { return time.Now().UnixMilli() }
func wallNs() int64 { return time.Now().UnixNano() }

// TestIntervalAnswers holds the fsync back: a put is answered all the same, and nothing else is, nor does a reader see
// anything.
func TestIntervalAnswers(t *testing.T) {
	for _, durability := range []broker.Durability{broker.Always, broker.Interval} {
		synctest.Test(t, func(t *testing.T) {
			fsys := newSyncFS()
			opts := interval()
			opts.Durability = durability
			b := open(t, fsys, opts)
			waits := mustPut(t, b, broker.Message{Topic: "orders", Body: []byte("before"), At: broker.In(time.Hour)})
			time.Sleep(2 * time.Second)
			hold := make(chan struct{})
			fsys.onSync(func() error { <-hold; return nil })
			var answered, cancelled, seen atomic.Bool
			go func() {
				if _, err := b.Put(t.Context(), broker.Message{Topic: "orders", Body: []byte("x")}); err != nil {
					t.Error(err)
				}
				answered.Store(true)
			}()
			go func() {
				if outcome, err := b.Cancel(t.Context(), waits.Handle); err != nil || outcome != engine.Cancelled {
					t.Errorf("cancel: %v, %v", outcome, err)
				}
				cancelled.Store(true)
			}()
			go func() {
				var p broker.Pulled
				if err := b.Pull(t.Context(), broker.PullRequest{Topic: "orders", Wait: time.Minute}, &p); err != nil || p.Count() != 1 {
					t.Errorf("pull: %d messages, %v", p.Count(), err)
				}
				seen.Store(true)
			}()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if answered.Load() != (durability == broker.Interval) || cancelled.Load() || seen.Load() {
				t.Errorf("%v: before the fsync the put is answered: %v, the cancel: %v, a reader: %v",
					durability, answered.Load(), cancelled.Load(), seen.Load())
			}
			close(hold)
			synctest.Wait()
			if !answered.Load() || !cancelled.Load() || !seen.Load() {
				t.Errorf("%v: after the fsync the put is answered: %v, the cancel: %v, a reader: %v",
					durability, answered.Load(), cancelled.Load(), seen.Load())
			}
		})
	}
}

// TestIntervalSyncs counts fsyncs: one in each interval when nobody waits, and at once when somebody does.
func TestIntervalSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newSyncFS()
		b := open(t, fsys, interval())
		mustPut(t, b, broker.Message{Topic: "orders", Body: []byte("x")})
		time.Sleep(2 * time.Second)
		var syncs atomic.Int64
		fsys.onSync(func() error { syncs.Add(1); return nil })
		start := time.Now()
		for range 100 {
			mustPut(t, b, broker.Message{Topic: "orders", Body: []byte("x"), At: broker.In(time.Hour)})
			time.Sleep(40 * time.Millisecond)
		}
		if n := syncs.Load(); n < 3 || n > 6 {
			t.Errorf("%d fsyncs in %v", n, time.Since(start))
		}
		time.Sleep(2 * time.Second)
		quiet := syncs.Load()
		time.Sleep(time.Minute)
		if n := syncs.Load() - quiet; n > 1 { // the engine closes the window of the last batch
			t.Errorf("%d fsyncs of nothing", n)
		}
		mustPut(t, b, broker.Message{Topic: "orders", Body: []byte("y")})
		start = time.Now()
		if got := bodies(t, b, broker.PullRequest{Topic: "orders"}); len(got) != 2 {
			t.Errorf("a reader sees %q", got)
		}
		due := mustPut(t, b, broker.Message{Topic: "orders", Body: []byte("z"), At: broker.In(10 * time.Second)}).DueMs
		next := broker.PullRequest{Topic: "orders", From: []broker.QueueOffset{{Queue: 0, Offset: 2}}, Wait: 20 * time.Second}
		if got := bodies(t, b, next); len(got) != 1 || b.NowMs()-due > 5 {
			t.Errorf("a reader that waits sees %q %d ms after it was due", got, b.NowMs()-due)
		}
		if took := time.Since(start); took > 10*time.Second+20*time.Millisecond {
			t.Errorf("readers waited for %v", took)
		}
	})
}

// TestIntervalCrash cuts the power, or kills the process, while messages are put: a kill loses nothing that was answered,
// a power cut at most the newest, and never what a reader has seen; what is left is what was put first, in order.
func TestIntervalCrash(t *testing.T) {
	lost := 0
	for seed := range uint64(32) {
		power := seed%4 != 0
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			disk := crashfs.New(crashfs.Options{})
			b, err := broker.Open(broker.Env{FS: disk}, ".", interval())
			if err != nil {
				t.Fatal(err)
			}
			answered, seen := 0, 0
			for range 1 + rng.IntN(40) {
				for range 1 + rng.IntN(5) {
					mustPut(t, b, broker.Message{Topic: "orders", Body: fmt.Append(nil, answered)})
					answered++
				}
				switch rng.IntN(4) {
				case 0:
					time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
				case 1:
					if rng.IntN(3) == 0 {
						seen = len(bodies(t, b, broker.PullRequest{Topic: "orders", MaxCount: broker.MaxPull}))
					}
				}
			}
			dead := disk
			if power {
				disk = dead.Crash(rng, crashfs.Policies()[rng.IntN(len(crashfs.Policies()))])
			} else {
				disk = dead.Kill()
			}
			_ = b.Close() // its disk is off
			b = open(t, disk, interval())
			var got []string
			if _, err := b.Topic(t.Context(), "orders"); !errors.Is(err, engine.ErrNoTopic) { // the first put may be gone, too
				got = bodies(t, b, broker.PullRequest{Topic: "orders", MaxCount: broker.MaxPull})
			}
			for i, body := range got {
				if body != fmt.Sprint(i) {
					t.Fatalf("seed %d: message %d is %q", seed, i, body)
				}
			}
			if len(got) < seen || len(got) > answered || !power && len(got) != answered {
				t.Errorf("seed %d: %d messages are there, %d were answered, a reader had seen %d; power cut: %v",
					seed, len(got), answered, seen, power)
			}
			lost += answered - len(got)
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			if report, err := engine.Check(engine.Env{FS: disk, Wall: wallMs, Mono: wallNs}, ".", engine.Options{}); err != nil {
				t.Errorf("seed %d: check: %v, %v", seed, report, err)
			}
		})
	}
	if lost == 0 {
		t.Error("no power cut has taken anything: the test says nothing")
	}
}

// TestDurabilityWords reads and prints the words.
func TestDurabilityWords(t *testing.T) {
	for _, d := range []broker.Durability{broker.Always, broker.Interval} {
		if got, err := broker.ParseDurability(d.String()); err != nil || got != d {
			t.Errorf("%v: %v, %v", d, got, err)
		}
	}
	if _, err := broker.ParseDurability("never"); !errors.Is(err, broker.ErrRequest) {
		t.Errorf("never: %v", err)
	}
	for _, opts := range []broker.Options{{Durability: 2}, {SyncInterval: time.Microsecond}, {SyncInterval: time.Hour}} {
		if b, err := broker.Open(broker.Env{FS: crashfs.New(crashfs.Options{})}, ".", opts); err == nil {
			t.Errorf("options %+v were taken", opts)
			_ = b.Close()
		}
	}
}
