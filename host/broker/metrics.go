package broker

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidewheel/tidewheel/engine"
)

// Counts are of requests that were answered, or are about to be, since the broker was opened.
type Counts struct {
	Visible   int64 // messages that were put and visible at once
	Scheduled int64 // messages that were put and wait
	Cancelled int64
	Moved     int64 // fired ones, too
	Restored  int64 // cancels that were undone
	TooLate   int64 // cancels and moves of what was delivered
	Refused   int64 // requests that were not allowed
}

// Histogram counts values by size. Its Bounds are shared and must not be changed.
type Histogram struct {
	Bounds []float64 // Counts[i] are values up to Bounds[i] and above the one before; the last count has no bound
	Counts []int64
	Sum    float64 // of the values
}

// Measures are what a broker counts of itself since it was opened.
type Measures struct {
	Counts
	Delivered int64     // messages that became visible at their due time
	Lateness  Histogram // seconds from the due time until a message was durable and visible
	Syncs     Histogram // seconds of each fsync of the log
	Batches   Histogram // requests that were appended with one write
	Turns     int64     // of the writer: how often it looked at what there is to do

	Published Decisions // of hooks, about messages that were being put
	Due       Decisions // about messages that were due, as they were settled
	Consumed  Decisions // about messages that a group was about to get, and of Settle
	// StageLateness are seconds from the due time of a message until the decision about it was durable.
	StageLateness Histogram
}

// Decisions counts what hooks have decided, by Action. Undecided ones are counted each time they are asked about.
type Decisions [len(actions)]int64

// decisions is Decisions that grow. It is safe for concurrent use.
type decisions [len(actions)]atomic.Int64

func (d *decisions) add(a Action) {
	if int(a) >= len(d) {
		a = Undecided // a hook that is of another time than the broker
	}
	d[a].Add(1)
}

func (d *decisions) read() (out Decisions) {
	for a := range d {
		out[a] = d[a].Load()
	}
	return out
}

// measures is where a broker counts. It is safe for concurrent use.
type measures struct {
	outcomes [engine.Restored + 1]atomic.Int64 // of requests, by engine.Outcome

	lateness, syncs, batches histogram
	staged                   histogram
	turns                    atomic.Int64

	published, due, consumed decisions

	dir  string // of the data; set by newMeasures, then read-only
	disk diskUsage

	// owned by the writer
	fired []firing // what was delivered and is not released
	dues  []int64  // of all of those, one after the other
}

// firing is what one Tick delivered.
type firing struct {
	end   engine.Offset // released up to here, they are visible
	count int           // of dues
}

// Bounds of the histograms: seconds, seconds, requests.
var (
	latenessBounds = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 60, 600, 3600, 86400}
	syncBounds     = []float64{.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 5}
	batchBounds    = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000}
)

func newMeasures(dir string) *measures {
	m := &measures{dir: dir}
	m.lateness.begin(latenessBounds)
	m.syncs.begin(syncBounds)
	m.batches.begin(batchBounds)
	m.staged.begin(latenessBounds)
	return m
}

// Measures says what was counted. It never waits.
func (b *Broker) Measures() Measures {
	m := b.measures
	lateness := m.lateness.read()
	count := func(o engine.Outcome) int64 { return m.outcomes[o].Load() }
	out := Measures{
		Counts: Counts{
			Visible: count(engine.Stored), Scheduled: count(engine.Scheduled), Cancelled: count(engine.Cancelled),
			Moved: count(engine.Moved), Restored: count(engine.Restored), TooLate: count(engine.Delivered),
			Refused: count(engine.Refused),
		},
		Lateness: lateness, Syncs: m.syncs.read(), Batches: m.batches.read(), Turns: m.turns.Load(),
		Published: m.published.read(), Due: m.due.read(), Consumed: m.consumed.read(), StageLateness: m.staged.read(),
	}
	for _, n := range lateness.Counts {
		out.Delivered += n
	}
	return out
}

// answered counts what became of a batch of requests. The writer calls it.
func (m *measures) answered(answers []engine.Answer) {
	for i := range answers {
		if o := answers[i].Outcome; int(o) < len(m.outcomes) {
			m.outcomes[o].Add(1)
		}
	}
	m.batches.add(float64(len(answers)), 1)
}

// ticked notes what a Tick delivered. The writer calls it.
func (m *measures) ticked(s *engine.Status) {
	if s.Fired > 0 {
		m.fired = append(m.fired, firing{s.Position, s.Fired})
		m.dues = append(m.dues, s.Dues...)
	}
}

// released counts how late those messages are that are visible from now on. The writer calls it.
func (m *measures) released(pos engine.Offset, nowMs int64) {
	gone, dues := 0, m.dues
	for gone < len(m.fired) && m.fired[gone].end <= pos {
		m.late(dues[:m.fired[gone].count], nowMs)
		dues = dues[m.fired[gone].count:]
		gone++
	}
	if gone > 0 {
		m.fired = slices.Delete(m.fired, 0, gone)
		m.dues = m.dues[:copy(m.dues, dues)]
	}
}

// late counts messages; many are due at the same moment.
func (m *measures) late(dues []int64, nowMs int64) {
	for len(dues) > 0 {
		same := 1
		for same < len(dues) && dues[same] == dues[0] {
			same++
		}
		m.lateness.add(float64(max(nowMs-dues[0], 0))/1000, int64(same))
		dues = dues[same:]
	}
}

// settled counts what was decided about messages in a stage.
func (m *measures) settled(s *settling, nowMs int64) {
	for i := range s.Items {
		item := &s.Items[i]
		if item.Plugin == engine.Nobody {
			continue
		}
		m.due.add(Action(item.Action))
		m.staged.add(float64(max(nowMs-item.DueMs, 0))/1000, 1)
	}
}

// synced counts an fsync. The syncer calls it.
func (m *measures) synced(took time.Duration) { m.syncs.add(took.Seconds(), 1) }

// histogram is a Histogram that grows. It is safe for concurrent use.
type histogram struct {
	bounds []float64 // set by begin, then read-only

	mu     sync.Mutex
	counts []int64
	sum    float64
}

func (h *histogram) begin(bounds []float64) {
	h.bounds, h.counts = bounds, make([]int64, len(bounds)+1)
}

// add counts a value some times.
func (h *histogram) add(value float64, times int64) {
	at, _ := slices.BinarySearch(h.bounds, value)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[at] += times
	h.sum += value * float64(times)
}

// read copies it.
func (h *histogram) read() Histogram {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Histogram{Bounds: h.bounds, Counts: slices.Clone(h.counts), Sum: h.sum}
}

// LevelInfos tells of the delay levels; see engine.Engine.Levels.
func (b *Broker) LevelInfos() ([]engine.LevelInfo, error) {
	if err := b.enter(); err != nil {
		return nil, err
	}
	defer b.leave()
	return b.e.Levels()
}

// TopicsNow is Topics without waiting until what it tells is durable: for counts, not for decisions. It is empty when the
// broker is closed.
func (b *Broker) TopicsNow() []engine.TopicInfo {
	if b.enter() != nil {
		return nil
	}
	defer b.leave()
	topics, _ := b.e.Topics()
	return withoutStages(topics)
}

// FirstDue is the due time of the message that waits and is due first, ms since 1970; 0 when none waits, or it cannot be
// found at once.
func (b *Broker) FirstDue() int64 {
	if b.enter() != nil {
		return 0
	}
	defer b.leave()
	page, err := b.e.Pending(engine.Filter{}, "", 1)
	if err != nil || len(page.Messages) == 0 {
		return 0
	}
	return page.Messages[0].DueMs
}
