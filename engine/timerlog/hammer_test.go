package timerlog_test

import (
	"sync"
	"testing"

	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// Readers, two jobs that write, and one that deletes work at the same time.
func TestHammer(t *testing.T) {
	l := open(t, newFS(), timerlog.Options{FileSize: 20_000, Handles: 2}, timerlog.State{})
	type group struct {
		ref timerlog.Ref
		es  []timerlog.Entry
	}
	groups := make(chan group, 8)
	var mu sync.Mutex
	pinned := make(map[int64]int) // files that a reader needs
	pin := func(file int64, n int) {
		mu.Lock()
		defer mu.Unlock()
		pinned[file] += n
	}

	var jobs, readers sync.WaitGroup
	for job := range uint64(2) {
		jobs.Go(func() {
			for i := range uint64(150) {
				g := group{es: run(int64(i), 10_000*i+job, 1+int(i*7%600))}
				var err error
				mu.Lock() // so that a new group is pinned before the other job deletes
				if job == 0 {
					g.ref, err = l.WriteGroup(0, timerlog.NoSlot, timerlog.Ref{}, g.es)
				} else {
					g.ref, err = l.WriteSpill(g.es)
				}
				pinned[g.ref.File]++
				mu.Unlock()
				if err != nil {
					t.Error(err)
					return
				}
				groups <- g
				if i%5 == 0 {
					if err := l.Sync(); err != nil {
						t.Error(err)
					}
				}
				if i%9 == 0 {
					err := l.Delete(func(file int64) bool {
						mu.Lock()
						defer mu.Unlock()
						return pinned[file] > 0
					})
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for range 3 {
		readers.Go(func() {
			for g := range groups {
				if g.ref.Kind == timerlog.KindGroup {
					checkRead(t, l, g.ref, g.es)
				}
				if err := l.Verify([]timerlog.Ref{g.ref}); err != nil {
					t.Error(err)
				}
				if got, err := each(l, g.ref); err != nil || len(got) != len(g.es) {
					t.Errorf("each: %d entries, %v", len(got), err)
				}
				_ = l.State()
				pin(g.ref.File, -1)
			}
		})
	}
	jobs.Wait()
	close(groups)
	readers.Wait()
}

func checkRead(t *testing.T, l *timerlog.Log, ref timerlog.Ref, want []timerlog.Entry) {
	for _, i := range []int{0, len(want) / 2, len(want) - 1} {
		got, err := above(l, ref, want[i].Key)
		if err != nil || len(got) != len(want)-i-1 {
			t.Errorf("cursor: %d entries, %v; want %d", len(got), err, len(want)-i-1)
		}
	}
}
