package broker_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/host/broker"
)

// Messages with a delay and the first read of a broadcast group meet in a topic: one of the two is refused, whoever comes
// first, and never both are there.
func TestBroadcastHammer(t *testing.T) {
	b := open(t, crashfs.New(crashfs.Options{}), broker.Options{})
	if err := b.DefineGroup(t.Context(), "all", broker.Broadcast); err != nil {
		t.Fatal(err)
	}
	var waiting, read atomic.Int64
	for i := range 200 {
		topic := fmt.Sprint("t-", i)
		if err := b.DefineTopic(t.Context(), topic, 1); err != nil {
			t.Fatal(err)
		}
		var put, pulled atomic.Bool
		var wg sync.WaitGroup
		calls := []func(){
			func() {
				_, err := b.Put(t.Context(), broker.Message{Topic: topic, At: broker.In(time.Hour)})
				put.CompareAndSwap(false, err == nil)
				if err != nil && !errors.Is(err, broker.ErrBroadcast) {
					t.Error(err)
				}
			},
			func() {
				var p broker.Pulled
				err := b.Pull(t.Context(), broker.PullRequest{Topic: topic, Group: "all", From: []broker.QueueOffset{{}}}, &p)
				pulled.CompareAndSwap(false, err == nil)
				if err != nil && !errors.Is(err, broker.ErrBroadcast) {
					t.Error(err)
				}
			},
		}
		for n := range 6 {
			wg.Go(calls[(i+n)%2])
		}
		wg.Wait()
		if put.Load() == pulled.Load() {
			t.Fatalf("topic %s: a put with a delay was stored: %v; a broadcast group read it: %v", topic, put.Load(), pulled.Load())
		}
		if put.Load() {
			waiting.Add(1)
		} else {
			read.Add(1)
		}
	}
	t.Logf("%d topics have messages with a delay, %d a broadcast group", waiting.Load(), read.Load())
}
