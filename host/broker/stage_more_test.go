package broker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/broker/brokertest"
)

// A topic that is paused is not read by groups; its stage goes on, so nothing is late when it is read again.
func TestStageOfPausedTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{Hooks: dueHooks(), Engine: engine.Options{Queues: 1}})
		b.MustPut("orders", "keep 1", 0)
		synctest.Wait()
		if err := b.PauseTopic(t.Context(), "orders", true); err != nil {
			t.Fatal(err)
		}
		b.MustPut("orders", "keep 2", time.Second)
		b.MustPut("orders", "drop 3", 0)
		time.Sleep(2 * time.Second)
		wantSaid(t, "while it is paused", lease(t, b.Broker, broker.PullRequest{Topic: "orders", Wait: time.Second}), "[]")
		if info, err := b.Topic(t.Context(), "orders"); err != nil || info.StageLag != 0 || !info.Paused || !info.Staged {
			t.Errorf("topic: %+v, %v", info, err)
		}
		if err := b.PauseTopic(t.Context(), "orders", false); err != nil {
			t.Fatal(err)
		}
		wantSaid(t, "afterwards", lease(t, b.Broker, broker.PullRequest{Topic: "orders"}), "[keep 1/1 keep 2/1]")
	})
}

// A topic that is deleted takes what is in its stage along; one that is made later under the name begins anew.
func TestStageOfDeletedTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{Hooks: dueHooks(), Engine: engine.Options{Queues: 1}})
		for range 5 {
			b.MustPut("orders", "wait", 0)
			b.MustPut("orders", "keep old", 0)
			synctest.Wait()
			if err := b.DeleteTopic(t.Context(), "orders"); err != nil {
				t.Fatal(err)
			}
			b.MustPut("orders", "keep new", 0)
			brokertest.WantDelivered(t, b, "orders", "keep new")
		}
		synctest.Wait()
		if n := b.Measures().Due[broker.ActionKeep]; n != 5 {
			t.Errorf("%d were kept", n)
		}
	})
}

// Stages belong to the broker: they are in no list, and whatever would change them is refused. They can be looked at.
func TestStageIsReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{Hooks: dueHooks(), Engine: engine.Options{Queues: 1}})
		b.MustPut("orders", "keep", 0)
		b.MustPut("orders", "wait", 0)
		synctest.Wait()
		ctx, stage := t.Context(), "%STAGE%orders"
		var into broker.Pulled
		seek := []broker.QueueOffset{{Queue: 0, Offset: 0}}
		for what, err := range map[string]error{
			"pull of the stage":             b.Pull(ctx, broker.PullRequest{Topic: stage, Group: "g"}, &into),
			"pull as its group":             b.Pull(ctx, broker.PullRequest{Topic: "orders", Group: "%STAGE%"}, &into),
			"consume":                       b.Consume(ctx, stage, "g", func(context.Context, *broker.Delivery) error { return nil }, broker.ConsumeOptions{}),
			"seek of its group":             b.Seek(ctx, "%STAGE%", stage, seek),
			"seek in the stage":             b.Seek(ctx, "g", stage, seek),
			"commit":                        b.CommitOffset(ctx, "g", stage, seek, false),
			"commit of its group elsewhere": b.CommitOffset(ctx, "%STAGE%", "orders", seek, false),
			"delete of the stage":           b.DeleteTopic(ctx, stage),
			"delete of its group":           b.DeleteGroup(ctx, "%STAGE%"),
			"pause":                         b.PauseTopic(ctx, stage, true),
			"definition":                    b.DefineTopic(ctx, stage, 3),
			"definition of the group":       b.DefineGroup(ctx, "%STAGE%", broker.Clustering),
			"broadcast":                     b.DefineGroup(ctx, "%STAGE%", broker.Broadcast),
		} {
			if !errors.Is(err, engine.ErrReserved) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := b.SeekTime(ctx, "g", stage, 0); !errors.Is(err, engine.ErrReserved) {
			t.Errorf("seek by time: %v", err)
		}
		topics, err := b.Topics(ctx)
		if err != nil || len(topics) != 1 || len(b.TopicsNow()) != 1 || topics[0].StageLag != 1 {
			t.Errorf("topics: %+v, %v", topics, err)
		}
		groups, err := b.Groups(ctx)
		if err != nil || len(groups) != 0 {
			t.Errorf("groups: %+v, %v", groups, err)
		}
		if stats, err := b.Stats(); err != nil || stats.Topics != 1 || stats.Groups != 0 {
			t.Errorf("counted are %d topics and %d groups, %v", stats.Topics, stats.Groups, err)
		}
		if bodies := brokertest.Delivered(t, b, stage); fmt.Sprint(bodies) != "[keep wait]" { // whoever asks for it sees it
			t.Errorf("in the stage are %q", bodies)
		}
	})
}

// A route to a topic that is not made on first use makes a dead letter, and holds up nobody.
func TestStageRouteToNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokertest.Open(t, broker.Options{Hooks: dueHooks(), Engine: engine.Options{Queues: 1, NoAutoTopics: true}})
		if err := b.DefineTopic(t.Context(), "orders", 1); err != nil {
			t.Fatal(err)
		}
		for _, body := range []string{"keep 1", "route nowhere", "keep 2", "dead_letter 3", "keep 4"} {
			b.MustPut("orders", body, 0)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := fmt.Sprint(brokertest.Delivered(t, b, "orders")); got != "[keep 1 keep 2 keep 4]" {
			t.Errorf("visible are %s", got)
		}
		var got []string
		for d, err := range b.DeadLetters(t.Context(), "plugin-p", broker.DeadFilter{}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, d.Reason)
		}
		if len(got) != 2 || !strings.Contains(got[0], "nowhere") || got[1] != "because" {
			t.Errorf("the dead letters say %q", got)
		}
		if groups, err := b.Groups(t.Context()); err != nil || len(groups) != 1 || groups[0].Name != "plugin-p" || groups[0].DeadLetters != 2 {
			t.Errorf("groups: %+v, %v", groups, err)
		}
	})
}

// A topic with very many queues: none is passed over, and a message that is not decided in one holds up no other queue.
func TestStageManyQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const queues = 300
		b := brokertest.Open(t, broker.Options{Hooks: dueHooks(), Engine: engine.Options{Queues: queues}})
		var batch []broker.Message
		for n := range 3 * queues {
			body := make([]byte, 20<<10) // more together than one round reads
			copy(body, "keep ")
			if n == 7 {
				copy(body, "wait ")
			}
			batch = append(batch, broker.Message{Topic: "orders", Pin: true, Queue: n % queues, Body: body})
		}
		if _, err := b.PutBatch(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		info, err := b.Topic(t.Context(), "orders")
		if err != nil || info.StageLag != 3 {
			st, _ := b.Stats()
			t.Errorf("%d are left in the stage, %d wait, %v %+v", info.StageLag, info.Pending, err, st)
		}
		for q := range info.Queues {
			if n := info.Queues[q].Visible; (n == 3) != (q != 7) {
				t.Errorf("%d visible in queue %d", n, q)
			}
		}
	})
}

// Without any hooks a broker empties the stages that another life has left.
func TestStageWithoutHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newSyncFS()
		b := open(t, fsys, broker.Options{Hooks: dueHooks()})
		for _, body := range []string{"drop 1", "wait 2", "drop 3"} {
			mustPut(t, b, broker.Message{Topic: "orders", Pin: true, Body: []byte(body)})
		}
		synctest.Wait()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		b = open(t, fsys, broker.Options{})
		synctest.Wait()
		var p broker.Pulled
		if err := b.Pull(t.Context(), broker.PullRequest{Topic: "orders"}, &p); err != nil {
			t.Fatal(err)
		}
		var bodies []string
		for _, q := range p.Queues {
			for _, m := range q.Messages {
				bodies = append(bodies, string(m.Body))
			}
		}
		if !slices.Equal(bodies, []string{"wait 2", "drop 3"}) {
			t.Errorf("visible are %q", bodies)
		}
		if n := b.Measures().Due; n != (broker.Decisions{}) {
			t.Errorf("counted are %v", n)
		}
	})
}
