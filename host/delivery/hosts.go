package delivery

import (
	"sync"
	"time"
)

// When a host is left alone, and for how long.
const (
	downAfter   = 5 // requests in a row without an answer
	firstDown   = time.Second
	longestDown = 30 * time.Second
	knownHosts  = 4096 // that did not answer; beyond it some are forgotten, and tried
)

// hosts remembers which hosts did not answer the last time. A host that is down is tried by one request after each pause; an
// answer, whatever it says, makes it a host like any other. Safe for concurrent use.
type hosts struct {
	mu   sync.Mutex
	down map[string]*host // guarded by mu
}

type host struct {
	failures int
	pause    time.Duration
	until    time.Time
	probing  bool
}

// admits says whether a request may be made now. If so its end must be told to answered or silent; if not, wait is how long the
// host is left alone at least.
func (h *hosts) admits(name string, now time.Time) (ok bool, wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.down[name]
	switch {
	case x == nil || x.failures < downAfter:
		return true, 0
	case x.probing:
		return false, x.pause
	case now.Before(x.until):
		return false, x.until.Sub(now)
	}
	x.probing = true
	return true, 0
}

func (h *hosts) answered(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.down, name)
}

// silent notes a request that got no answer. One that was stopped says nothing: known is false then.
func (h *hosts) silent(name string, now time.Time, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.down[name]
	if x == nil {
		if !known {
			return
		}
		x = &host{}
		if h.down == nil {
			h.down = map[string]*host{}
		}
		for other := range h.down {
			if len(h.down) < knownHosts {
				break
			}
			delete(h.down, other)
		}
		h.down[name] = x
	}
	x.probing = false
	if !known {
		return
	}
	if x.failures++; x.failures >= downAfter && !now.Before(x.until) {
		x.pause = min(max(2*x.pause, firstDown), longestDown)
		x.until = now.Add(x.pause)
	}
}

// count is how many hosts are down.
func (h *hosts) count() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range h.down {
		if x.failures >= downAfter {
			n++
		}
	}
	return n
}
