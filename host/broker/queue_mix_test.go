package broker_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tidewheel/tidewheel/host/broker"
)

// A batch that the writer takes in several steps keeps its answers, whatever is put beside it.
func TestAnswersOfALargeBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newSyncFS()
		b := open(t, fsys, broker.Options{})
		hold := make(chan struct{})
		fsys.onSync(func() error { <-hold; return nil })
		var all sync.WaitGroup
		receipts := make([][]broker.Receipt, 4)
		for n := range receipts {
			all.Go(func() {
				batch := make([]broker.Message, 40)
				for i := range batch {
					batch[i] = broker.Message{Topic: "t", Key: fmt.Sprint(n, i), Body: make([]byte, 20<<10)}
				}
				var err error
				if receipts[n], err = b.PutBatch(t.Context(), batch); err != nil {
					t.Error(err)
				}
			})
		}
		for n := range 40 {
			all.Go(func() {
				if r, err := b.Put(t.Context(), broker.Message{Topic: "u", Key: fmt.Sprint(n)}); err != nil {
					t.Error(err)
				} else if m, err := b.View(r.ID); err != nil || string(m.Key) != fmt.Sprint(n) {
					t.Errorf("put %d is answered with message %q, %v", n, m.Key, err)
				}
			})
		}
		synctest.Wait()
		close(hold)
		all.Wait()
		for n := range receipts {
			for i, r := range receipts[n] {
				if m, err := b.View(r.ID); err != nil || string(m.Key) != fmt.Sprint(n, i) {
					t.Fatalf("message %d of batch %d is answered with message %q, %v", i, n, m.Key, err)
				}
			}
		}
	})
}
