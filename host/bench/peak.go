package bench

import (
	"sync"
	"sync/atomic"
	"time"
)

// peak is the most memory that this process had while it was watched. It is safe for concurrent use; nil knows nothing.
type peak struct{ most atomic.Int64 }

// watch looks five times a second until the returned function is called.
func (p *peak) watch() (stop func()) {
	if p == nil {
		return func() {}
	}
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for {
			p.look()
			select {
			case <-ticker.C:
			case <-end:
				return
			}
		}
	})
	return func() {
		close(end)
		wg.Wait()
	}
}

// look looks once.
func (p *peak) look() {
	if p != nil {
		p.most.Store(max(p.most.Load(), residentBytes()))
	}
}

func (p *peak) bytes() int64 {
	if p == nil {
		return 0
	}
	return p.most.Load()
}
