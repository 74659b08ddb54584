package delivery

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidewheel/tidewheel/host/broker"
)

// Stats are a moment of a worker, for metrics and for people. Counts begin with Start.
type Stats struct {
	Plugin, Group string
	Topics        []string // that are read, by name

	InFlight  int // requests on their way
	Leased    int // messages in hand, with those that wait for a slot or for the plugin
	HostsDown int // hosts that are left alone for the moment

	// Requests by what came of them: 2xx, 3xx, 4xx, 5xx, refused (may not be made), down (the host is left alone), or the
	// name of an egress.Kind.
	Requests map[string]int64
	// Messages by what became of them: acked, dropped, retried, dead_letter, and expired: the lease was over before the
	// message was settled, so that it comes again.
	Messages map[string]int64
	// Seconds of requests, answered or not.
	Seconds broker.Histogram

	LastTrouble   string // empty when there was none
	LastTroubleMs int64  // ms since 1970
}

// secondsBounds are those of the histogram.
var secondsBounds = []float64{.005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 60}

// stats count. Safe for concurrent use.
type stats struct {
	mu       sync.Mutex
	requests map[string]int64 // guarded by mu
	messages map[string]int64 // guarded by mu
	counts   []int64          // of seconds, guarded by mu
	sum      float64          // of seconds, guarded by mu
	last     string           // guarded by mu
	lastMs   int64            // guarded by mu
}

func (s *stats) begin() {
	s.requests, s.messages = map[string]int64{}, map[string]int64{}
	s.counts = make([]int64, len(secondsBounds)+1)
}

// request counts a request that was made, or was not for the reason that result is.
func (s *stats) request(result string, took time.Duration, made bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[result]++
	if made {
		at, _ := slices.BinarySearch(secondsBounds, took.Seconds())
		s.counts[at]++
		s.sum += took.Seconds()
	}
}

func (s *stats) message(became string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages[became]++
}

func (s *stats) trouble(text string, nowMs int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.lastMs = text, nowMs
}

// Stats returns the moment.
func (w *Worker) Stats() Stats {
	out := Stats{Plugin: w.c.Name, Group: w.c.Group, InFlight: len(w.slots), HostsDown: w.hosts.count()}
	w.mu.Lock()
	out.Topics, out.Leased = slices.Sorted(maps.Keys(w.readers)), len(w.held)
	w.mu.Unlock()
	s := &w.stats
	s.mu.Lock()
	defer s.mu.Unlock()
	out.Requests, out.Messages = maps.Clone(s.requests), maps.Clone(s.messages)
	out.Seconds = broker.Histogram{Bounds: secondsBounds, Counts: slices.Clone(s.counts), Sum: s.sum}
	out.LastTrouble, out.LastTroubleMs = s.last, s.lastMs
	return out
}
