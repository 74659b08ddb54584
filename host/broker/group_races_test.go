package broker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/broker/brokertest"
)

// putMany stores messages with a tag in one batch: the bodies are their numbers.
func putMany(t *testing.T, b *broker.Broker, topic, tag string, n int) {
	t.Helper()
	batch := make([]broker.Message, n)
	for i := range batch {
		batch[i] = broker.Message{Topic: topic, Tag: tag, Body: fmt.Append(nil, i)}
	}
	receipts, err := b.PutBatch(t.Context(), batch)
	if err != nil {
		t.Error(err)
	}
	for _, r := range receipts {
		if r.Err != nil {
			t.Error(r.Err)
		}
	}
}

// holdSync makes the next fsync last until the returned function is called.
func holdSync(fsys *syncFS) (free func()) {
	held := make(chan struct{})
	fsys.onSync(func() error { <-held; return nil })
	return func() { close(held) }
}

// An ack, a delete of the topic and puts into a new topic of its name can come so close together that they are one batch in
// the log: then the ack says nothing about the new messages.
func TestAckBesideDeletedTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newSyncFS()
		b := open(t, fsys, broker.Options{Engine: engine.Options{Queues: 1}})
		putMany(t, b, "t", "", 6)
		old := lease(t, b, broker.PullRequest{})
		free := holdSync(fsys)
		go putMany(t, b, "other", "", 1)
		synctest.Wait()
		go func() {
			if err := b.DeleteTopic(t.Context(), "t"); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		go putMany(t, b, "t", "", 6)
		synctest.Wait()
		go func() {
			if _, err := b.Ack(t.Context(), old[0].Receipt, old[1].Receipt); err != nil {
				t.Error(err)
			}
			if _, err := b.Retry(t.Context(), old[2].Receipt, broker.RetryOptions{}); err == nil {
				t.Error("a message of a topic that is gone was put off")
			}
		}()
		synctest.Wait()
		free()
		synctest.Wait()
		wantSaid(t, "of the new topic", lease(t, b, broker.PullRequest{}), "[0/1 1/1 2/1 3/1 4/1 5/1]")
	})
}

// Retries that another topic's reader came across are done with when their topic is deleted.
func TestRetriesOfDeletedTopicThatWereSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{Engine: engine.Options{Queues: 1}})
		for _, topic := range []string{"gone", "t"} {
			b.MustPut(topic, "of "+topic, 0)
			d := lease(t, b.Broker, broker.PullRequest{Topic: topic})
			if _, err := b.Retry(t.Context(), d[0].Receipt, broker.RetryOptions{Delay: time.Second}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		d := lease(t, b.Broker, broker.PullRequest{Wait: time.Second})
		wantSaid(t, "retries of t", d, "[of t/2]")
		if err := b.DeleteTopic(t.Context(), "gone"); err != nil {
			t.Fatal(err)
		}
		ack(t, b.Broker, d[0], broker.Acked)
		if info, err := b.Group(t.Context(), "g"); err != nil || info.Retrying != 0 {
			t.Errorf("group: %+v, %v", info, err)
		}
	})
}

// A pull that waits gets a dead letter that is tried again, also when the group had no retries before.
func TestRetryOfDeadLetterWakesPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t)
		bury(t, b.Broker, 1)
		go func() {
			time.Sleep(time.Second)
			if n, err := b.RetryDeadLetters(t.Context(), "g", broker.DeadFilter{}, broker.ToGroup); n != 1 || err != nil {
				t.Errorf("tried %d again, %v", n, err)
			}
		}()
		start := time.Now()
		wantSaid(t, "the pull that waited", lease(t, b.Broker, broker.PullRequest{Wait: time.Minute}), "[0/1]")
		if took := time.Since(start); took != time.Second {
			t.Errorf("it waited %v, want 1 s", took)
		}
	})
}

// A pull with tags that waits goes on past any number of messages with others, whether it leases or not.
func TestTagsFarApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{Engine: engine.Options{Queues: 1}})
		putMany(t, b.Broker, "t", "other", 70_000)
		putMany(t, b.Broker, "t", "wanted", 1)
		for _, from := range [][]broker.QueueOffset{nil, {{Queue: 0}}} {
			start := time.Now()
			req := broker.PullRequest{Topic: "t", Group: "g", Tags: []string{"wanted"}, Wait: time.Minute, From: from}
			if got := bodies(t, b.Broker, req); len(got) != 1 || time.Since(start) != 0 {
				t.Errorf("from %v: %d messages after %v", from, len(got), time.Since(start))
			}
		}
	})
}

// Retries of a topic that nobody reads do not hold up those of another one behind them.
func TestRetriesBehindThoseOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{Engine: engine.Options{Queues: 1}})
		for _, topic := range []string{"unread", "t"} {
			putMany(t, b.Broker, topic, "", 100)
			for _, d := range lease(t, b.Broker, broker.PullRequest{Topic: topic, MaxCount: 100}) {
				if _, err := b.Retry(t.Context(), d.Receipt, broker.RetryOptions{Delay: time.Second}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
		}
		start := time.Now()
		for range 100 {
			if d := lease(t, b.Broker, broker.PullRequest{MaxCount: 1, Wait: time.Minute}); len(d) != 1 || d[0].Attempt != 2 {
				t.Fatalf("retries of t: %s", said(d))
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// When several leases end at once and one pull comes before the writer saw that, those that wait get the others.
func TestLeasesEndForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := broker.NewManualClock(time.Now().UnixMilli())
		env := broker.Env{FS: newSyncFS(), Wall: clock.Wall, Mono: clock.Mono}
		b, err := broker.Open(env, ".", broker.Options{Engine: engine.Options{Queues: 1}})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		putMany(t, b, "t", "", 2)
		lease(t, b, broker.PullRequest{})
		start := time.Now()
		waited := make(chan []broker.Delivery)
		go func() { waited <- lease(t, b, broker.PullRequest{MaxCount: 1, Wait: time.Minute}) }()
		synctest.Wait()
		if _, err := clock.Advance(time.Minute); err != nil {
			t.Fatal(err)
		}
		wantSaid(t, "the pull that came", lease(t, b, broker.PullRequest{MaxCount: 1}), "[0/2]")
		wantSaid(t, "the pull that waited", <-waited, "[1/2]")
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("it waited %v more", took)
		}
	})
}

// What is committed while a pull reads is not delivered by that pull, nor after it: it reads on behind.
func TestCommitBesidePull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newSyncFS()
		b := open(t, fsys, broker.Options{Engine: engine.Options{Queues: 1}})
		putMany(t, b, "t", "", 8)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		b = open(t, fsys, broker.Options{}) // the log is read from its file now
		wantSaid(t, "first", lease(t, b, broker.PullRequest{MaxCount: 1}), "[0/1]")
		read := make(chan struct{})
		goOn := make(chan struct{})
		fsys.onRead(func() { close(read); <-goOn })
		pulled := make(chan []broker.Delivery)
		go func() { pulled <- lease(t, b, broker.PullRequest{MaxCount: 3}) }()
		<-read
		if err := b.CommitOffset(t.Context(), "g", "t", []broker.QueueOffset{{Queue: 0, Offset: 6}}, false); err != nil {
			t.Fatal(err)
		}
		close(goOn)
		wantSaid(t, "instead of what was read", <-pulled, "[6/1 7/1]")
	})
}

// A caller that goes away in the middle of its Retry leaves one message behind, not two.
func TestRetryOfCallerThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newSyncFS()
		b := open(t, fsys, broker.Options{Engine: engine.Options{Queues: 1}, AckTimeout: 5 * time.Second})
		mustPut(t, b, broker.Message{Topic: "t", Body: []byte("x")})
		d := lease(t, b, broker.PullRequest{})
		free := holdSync(fsys)
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := b.Retry(ctx, d[0].Receipt, broker.RetryOptions{Delay: time.Second})
			ended <- err
		}()
		synctest.Wait()
		leave()
		synctest.Wait()
		free()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		time.Sleep(6 * time.Second)
		wantSaid(t, "deliveries", lease(t, b, broker.PullRequest{}), "[x/2]")
	})
}

// A Seek and a delete whose caller went away are done whole: in the log and for who reads.
func TestSeekOfCallerThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newSyncFS()
		b := open(t, fsys, broker.Options{Engine: engine.Options{Queues: 1}})
		putMany(t, b, "t", "", 4)
		wantSaid(t, "first", lease(t, b, broker.PullRequest{}), "[0/1 1/1 2/1 3/1]")
		left := func(call func(ctx context.Context) error) {
			t.Helper()
			free := holdSync(fsys)
			ctx, leave := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- call(ctx) }()
			synctest.Wait()
			leave()
			synctest.Wait()
			free()
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			synctest.Wait()
		}
		left(func(ctx context.Context) error {
			return b.Seek(ctx, "g", "t", []broker.QueueOffset{{Queue: 0, Offset: 2}})
		})
		wantSaid(t, "after the seek", lease(t, b, broker.PullRequest{}), "[2/1 3/1]")
		left(func(ctx context.Context) error { return b.PauseTopic(ctx, "t", true) })
		left(func(ctx context.Context) error { return b.DefineGroup(ctx, "all", broker.Broadcast) })
		var p broker.Pulled
		req := broker.PullRequest{Topic: "t", Group: "all", From: []broker.QueueOffset{{Queue: 0}}}
		if err := b.Pull(t.Context(), req, &p); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Put(t.Context(), broker.Message{Topic: "t", At: broker.In(time.Hour)}); !errors.Is(err, broker.ErrBroadcast) {
			t.Errorf("a delay in a topic that is broadcast: %v", err)
		}
		left(func(ctx context.Context) error { return b.DeleteTopic(ctx, "t") })
		mustPut(t, b, broker.Message{Topic: "t", At: broker.In(time.Hour)})
	})
}

// A seek makes leases void also of what lies before the place that it goes to.
func TestAckOfBeforeSeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{Engine: engine.Options{Queues: 1}})
		putMany(t, b.Broker, "t", "", 3)
		old := lease(t, b.Broker, broker.PullRequest{MaxCount: 2})
		if err := b.Seek(t.Context(), "g", "t", []broker.QueueOffset{{Queue: 0, Offset: 2}}); err != nil {
			t.Fatal(err)
		}
		ack(t, b.Broker, old[0], broker.AckExpired)
		d := lease(t, b.Broker, broker.PullRequest{})
		wantSaid(t, "after the seek", d, "[2/1]")
		ack(t, b.Broker, d[0], broker.Acked)
		ack(t, b.Broker, d[0], broker.Acked)
		ack(t, b.Broker, old[1], broker.AckExpired)
	})
}

// A reader that takes turns between topics, one message at a time, gets all queues of each.
func TestTurnsOfTwoTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{Engine: engine.Options{Queues: 2}})
		for _, topic := range []string{"t", "u"} {
			putMany(t, b.Broker, topic, "", 200)
		}
		queues := map[string]int{}
		for range 80 {
			for _, topic := range []string{"t", "u"} {
				for _, d := range lease(t, b.Broker, broker.PullRequest{Topic: topic, MaxCount: 1}) {
					queues[fmt.Sprint(topic, d.Queue)]++
				}
			}
		}
		if len(queues) != 4 {
			t.Errorf("deliveries by queue: %v", queues)
		}
	})
}

// Many messages whose last delivery ended are given up with fewer fsyncs than there are of them.
func TestManyGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newSyncFS()
		b := open(t, fsys, broker.Options{Engine: engine.Options{Queues: 1}, MaxAttempts: 1, AckTimeout: time.Second})
		putMany(t, b, "t", "", 200)
		lease(t, b, broker.PullRequest{MaxCount: 200})
		time.Sleep(time.Second)
		fsys.onSync(func() error { time.Sleep(10 * time.Millisecond); return nil })
		start := time.Now()
		wantSaid(t, "after the last delivery", lease(t, b, broker.PullRequest{MaxCount: 200}), "[]")
		if took := time.Since(start); took > time.Second {
			t.Errorf("200 messages were given up in %v, with fsyncs of 10 ms", took)
		}
		count, err := b.CountDeadLetters(t.Context(), "g", broker.DeadFilter{})
		if err != nil || count.Count != 200 {
			t.Errorf("dead letters: %+v, %v", count, err)
		}
	})
}

// A broadcast consumer reads queues that are added while it runs.
func TestBroadcastOfAddedQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{Engine: engine.Options{Queues: 1}})
		ctx, stop := context.WithCancel(t.Context())
		if err := b.DefineGroup(ctx, "all", broker.Broadcast); err != nil {
			t.Fatal(err)
		}
		seen := make(chan string, 10)
		ended := make(chan error)
		go func() {
			ended <- b.Consume(ctx, "t", "all", func(_ context.Context, d *broker.Delivery) error {
				seen <- string(d.Body)
				return nil
			}, broker.ConsumeOptions{})
		}()
		synctest.Wait()
		if err := b.DefineTopic(ctx, "t", 3); err != nil {
			t.Fatal(err)
		}
		for q := range 3 {
			mustPut(t, b.Broker, broker.Message{Topic: "t", Pin: true, Queue: q, Body: fmt.Append(nil, q)})
		}
		time.Sleep(2 * time.Minute)
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		if len(seen) != 3 {
			t.Errorf("%d messages of 3 were seen", len(seen))
		}
	})
}

// A group of which the log has only retries and dead letters, since nothing could be committed, is there after a restart,
// and can be deleted.
func TestGroupWithoutCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.OpenCrash(t, 5, broker.Options{Engine: engine.Options{Queues: 1}})
		putMany(t, b.Broker, "t", "", 3)
		d := lease(t, b.Broker, broker.PullRequest{})
		if _, err := b.Reject(t.Context(), d[1].Receipt, "no"); err != nil {
			t.Fatal(err)
		}
		brokertest.Crash(b)
		if info, err := b.Group(t.Context(), "g"); err != nil || info.DeadLetters != 1 {
			t.Errorf("group: %+v, %v", info, err)
		}
		if err := b.DeleteGroup(t.Context(), "g"); err != nil {
			t.Error(err)
		}
		wantLetters(t, b.Broker, "of a group that is gone", broker.DeadFilter{}, "")
	})
}

// Nothing is acked, extended or looked for in the name of a broker that is closed.
func TestLeaseOfClosedBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{Engine: engine.Options{Queues: 1}})
		putMany(t, b.Broker, "t", "", 2)
		d := lease(t, b.Broker, broker.PullRequest{})
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if outcomes, err := b.Ack(t.Context(), d[1].Receipt); !errors.Is(err, broker.ErrClosed) {
			t.Errorf("ack: %v, %v", outcomes, err)
		}
		if err := b.Extend(t.Context(), d[0].Receipt, time.Second); !errors.Is(err, broker.ErrClosed) {
			t.Errorf("extend: %v", err)
		}
	})
}

// A name that no group can have is refused, and not remembered.
func TestDeadLettersOfBadName(t *testing.T) {
	b := brokertest.Open(t)
	for _, name := range []string{"", "a/b", strings.Repeat("x", 1<<20)} {
		if _, err := b.DeadLettersPage(t.Context(), name, broker.DeadFilter{}, "", 0); !errors.Is(err, engine.ErrGroupName) {
			t.Errorf("dead letters of %.10q: %v", name, err)
		}
	}
}
