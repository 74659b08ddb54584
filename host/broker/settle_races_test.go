package broker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
)

// A seek that begins while several leases are being settled waits for all of them, and none of them for the seek.
func TestSettleBesideSeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newSyncFS()
		b := open(t, fsys, broker.Options{Engine: engine.Options{Queues: 1}})
		putMany(t, b, "t", "", 3)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		b = open(t, fsys, broker.Options{AckTimeout: time.Hour}) // the log is read from its file now
		var all []broker.Settlement
		for _, d := range lease(t, b, broker.PullRequest{}) {
			all = append(all, broker.Settlement{Receipt: d.Receipt, Decision: verdict(broker.ActionKeep)})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		read, goOn := make(chan struct{}), make(chan struct{})
		fsys.onRead(func() { close(read); <-goOn })
		settled, sought := make(chan []error, 1), make(chan error, 1)
		go func() { settled <- b.Settle(ctx, all) }()
		<-read
		go func() { sought <- b.Seek(ctx, "g", "t", []broker.QueueOffset{{Queue: 0, Offset: 0}}) }()
		synctest.Wait()
		close(goOn)
		for i, err := range <-settled {
			if err != nil {
				t.Errorf("settlement %d: %v", i, err)
			}
		}
		if err := <-sought; err != nil {
			t.Errorf("seek: %v", err)
		}
		wantSaid(t, "after the seek", lease(t, b, broker.PullRequest{}), "[0/1 1/1 2/1]")
	})
}
