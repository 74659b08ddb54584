package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/delivery"
	"github.com/tidewheel/tidewheel/host/pluginhost"
)

// metric is one row of the table of what a broker measures.
type metric struct {
	name   string
	kind   string // counter, gauge or histogram
	labels []string
	help   string
	// read gives the values there are, each with its labels; of a histogram measures gives the one there is.
	read     func(s *snapshot, emit func(value float64, labels ...string))
	measures func(s *snapshot) broker.Histogram
}

// snapshot is what the metrics of one scrape are read off.
type snapshot struct {
	b      *broker.Broker
	nowMs  int64
	stats  broker.Stats
	counts broker.Measures
	topics []engine.TopicInfo
	levels []engine.LevelInfo
	groups []broker.GroupInfo
	disk   map[string]int64
	oldest int64 // due time of the message that waits and is due first, ms; 0: none waits
}

// value makes a reading of one number.
func value(of func(s *snapshot) float64) func(*snapshot, func(float64, ...string)) {
	return func(s *snapshot, emit func(float64, ...string)) { emit(of(s)) }
}

// truth is 1 or 0.
func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// brokerMetrics is every metric of a broker. Counters and histograms count since the broker was opened.
var brokerMetrics = [...]metric{
	{name: "tidewheel_messages_put_total", kind: "counter", labels: []string{"state"},
		help: "Messages that were stored: visible at once, or scheduled.",
		read: func(s *snapshot, emit func(float64, ...string)) {
			emit(float64(s.counts.Visible), StateVisible)
			emit(float64(s.counts.Scheduled), StateScheduled)
		}},
	{name: "tidewheel_messages_delivered_total", kind: "counter", help: "Messages that became visible at their due time.",
		read: value(func(s *snapshot) float64 { return float64(s.counts.Delivered) })},
	{name: "tidewheel_messages_cancelled_total", kind: "counter", help: "Messages that were cancelled.",
		read: value(func(s *snapshot) float64 { return float64(s.counts.Cancelled) })},
	{name: "tidewheel_messages_moved_total", kind: "counter", help: "Messages that were given another due time, or fired.",
		read: value(func(s *snapshot) float64 { return float64(s.counts.Moved) })},
	{name: "tidewheel_messages_restored_total", kind: "counter", help: "Cancels that were undone.",
		read: value(func(s *snapshot) float64 { return float64(s.counts.Restored) })},
	{name: "tidewheel_changes_too_late_total", kind: "counter", help: "Cancels and moves of messages that were delivered before.",
		read: value(func(s *snapshot) float64 { return float64(s.counts.TooLate) })},
	{name: "tidewheel_requests_refused_total", kind: "counter", help: "Requests that the store refused.",
		read: value(func(s *snapshot) float64 { return float64(s.counts.Refused) })},
	{name: "tidewheel_messages_dropped_total", kind: "counter",
		help: "Messages that fell due after their topic was deleted, since the store was made.",
		read: value(func(s *snapshot) float64 { return float64(s.stats.Dropped) })},
	{name: "tidewheel_messages_pending", kind: "gauge", help: "Messages that wait for their time.",
		read: value(func(s *snapshot) float64 { return float64(s.stats.Pending) })},
	{name: "tidewheel_topic_messages_pending", kind: "gauge", labels: []string{"topic"},
		help: "Messages that wait for their time, by topic.",
		read: func(s *snapshot, emit func(float64, ...string)) {
			for i := range s.topics {
				emit(float64(s.topics[i].Pending), s.topics[i].Name)
			}
		}},
	{name: "tidewheel_level_messages_pending", kind: "gauge", labels: []string{"level"},
		help: "Messages that wait for their time, by delay level; cancelled ones count until then.",
		read: func(s *snapshot, emit func(float64, ...string)) {
			for i := range s.levels {
				emit(float64(s.levels[i].Waiting), strconv.Itoa(s.levels[i].Level))
			}
		}},
	{name: "tidewheel_lateness_seconds", kind: "histogram",
		help:     "Time from a message's due time until it was durable and visible.",
		measures: func(s *snapshot) broker.Histogram { return s.counts.Lateness }},
	{name: "tidewheel_hook_decisions_total", kind: "counter", labels: []string{"hook", "verdict"},
		help: "What plugins decided about messages: that were being put (publish), were due (due, when it was in the log), were about to be read or were delivered (consume). Undecided ones count each time they are asked about.",
		read: func(s *snapshot, emit func(float64, ...string)) {
			for i, counts := range []broker.Decisions{s.counts.Published, s.counts.Due, s.counts.Consumed} {
				for action, n := range counts {
					if n > 0 {
						emit(float64(n), [...]string{"publish", "due", "consume"}[i], broker.Action(action).String())
					}
				}
			}
		}},
	{name: "tidewheel_topic_messages_staged", kind: "gauge", labels: []string{"topic"},
		help: "Messages that are due and wait for a plugin's decision, by topic.",
		read: func(s *snapshot, emit func(float64, ...string)) {
			for i := range s.topics {
				if t := &s.topics[i]; t.Staged || t.StageLag > 0 {
					emit(float64(t.StageLag), t.Name)
				}
			}
		}},
	{name: "tidewheel_stage_lateness_seconds", kind: "histogram",
		help:     "Time from a message's due time until a plugin's decision about it was durable.",
		measures: func(s *snapshot) broker.Histogram { return s.counts.StageLateness }},
	{name: "tidewheel_oldest_overdue_seconds", kind: "gauge",
		help: "How long the message that is due and not delivered has been due; 0 when there is none.",
		read: value(func(s *snapshot) float64 {
			if s.oldest == 0 {
				return 0
			}
			return float64(max(s.nowMs-s.oldest, 0)) / 1000
		})},
	{name: "tidewheel_fsync_seconds", kind: "histogram", help: "Time of each fsync of the log.",
		measures: func(s *snapshot) broker.Histogram { return s.counts.Syncs }},
	{name: "tidewheel_batch_requests", kind: "histogram", help: "Requests that were appended to the log with one write.",
		measures: func(s *snapshot) broker.Histogram { return s.counts.Batches }},
	{name: "tidewheel_queued_requests", kind: "gauge", help: "Requests that wait for the writer.",
		read: value(func(s *snapshot) float64 { return float64(s.stats.QueuedRequests) })},
	{name: "tidewheel_queued_bytes", kind: "gauge", help: "Bytes of the requests that wait for the writer.",
		read: value(func(s *snapshot) float64 { return float64(s.stats.QueuedBytes) })},
	{name: "tidewheel_waiting_readers", kind: "gauge", help: "Reads that wait for a message.",
		read: value(func(s *snapshot) float64 { return float64(s.stats.WaitingReaders) })},
	{name: "tidewheel_topics", kind: "gauge", help: "Topics.",
		read: value(func(s *snapshot) float64 { return float64(s.stats.Topics) })},
	{name: "tidewheel_groups", kind: "gauge", help: "Consumer groups.",
		read: value(func(s *snapshot) float64 { return float64(s.stats.Groups) })},
	{name: "tidewheel_group_lag_messages", kind: "gauge", labels: []string{"group"},
		help: "Messages that a consumer group is not done with, over all its topics.",
		read: func(s *snapshot, emit func(float64, ...string)) {
			for i := range s.groups {
				emit(float64(s.groups[i].Lag()), s.groups[i].Name)
			}
		}},
	{name: "tidewheel_group_leased_messages", kind: "gauge", labels: []string{"group"},
		help: "Messages that readers of a consumer group have and have not acked.",
		read: func(s *snapshot, emit func(float64, ...string)) {
			for i := range s.groups {
				emit(float64(s.groups[i].Leased()), s.groups[i].Name)
			}
		}},
	{name: "tidewheel_group_retrying_messages", kind: "gauge", labels: []string{"group"},
		help: "Messages that come again to a consumer group.",
		read: func(s *snapshot, emit func(float64, ...string)) {
			for i := range s.groups {
				emit(float64(s.groups[i].Retrying), s.groups[i].Name)
			}
		}},
	{name: "tidewheel_group_dead_letters", kind: "gauge", labels: []string{"group"},
		help: "Messages that a consumer group gave up.",
		read: func(s *snapshot, emit func(float64, ...string)) {
			for i := range s.groups {
				emit(float64(s.groups[i].DeadLetters), s.groups[i].Name)
			}
		}},
	{name: "tidewheel_replayed_bytes", kind: "gauge", help: "Bytes of log that the last start read.",
		read: value(func(s *snapshot) float64 { return float64(s.stats.Replayed) })},
	{name: "tidewheel_log_end_bytes", kind: "counter", help: "Bytes that were ever appended to the log.",
		read: value(func(s *snapshot) float64 { return float64(s.stats.End) })},
	{name: "tidewheel_log_unchecked_bytes", kind: "gauge", help: "Bytes of log that a start would read now, behind the last checkpoint.",
		read: value(func(s *snapshot) float64 { return float64(s.stats.End - s.stats.Checkpoint) })},
	{name: "tidewheel_messages_rolled_total", kind: "counter", help: "Messages that wait and were copied to the log's end, so that its head can go.",
		read: value(func(s *snapshot) float64 { return float64(s.stats.RolledMessages) })},
	{name: "tidewheel_checkpoints_total", kind: "counter", help: "Checkpoints that were written.",
		read: value(func(s *snapshot) float64 { return float64(s.stats.Checkpoints) })},
	{name: "tidewheel_job_failures_total", kind: "counter", help: "Jobs in the background that failed and are tried again.",
		read: value(func(s *snapshot) float64 { return float64(s.stats.JobFailures) })},
	{name: "tidewheel_disk_bytes", kind: "gauge", labels: []string{"kind"},
		help: "Length of the store's files by kind; looked at twice a minute.",
		read: func(s *snapshot, emit func(float64, ...string)) {
			for kind, size := range s.disk {
				emit(float64(size), kind)
			}
		}},
	{name: "tidewheel_ready", kind: "gauge", help: "1 while messages are taken and nothing is final.",
		read: value(func(s *snapshot) float64 { return truth(s.b.Err() == nil) })},
	{name: "tidewheel_storing", kind: "gauge", help: "0 while new messages are refused, as on a full disk.",
		read: value(func(s *snapshot) float64 { return truth(s.stats.Full == "" && s.b.Err() == nil) })},
	{name: "tidewheel_delivering", kind: "gauge", help: "0 while something keeps due messages back, as damage in a timer's file.",
		read: value(func(s *snapshot) float64 { return truth(s.stats.NotDelivering == "" && s.b.Err() == nil) })},
}

// The metrics of the API itself.
const (
	requestsName = "tidewheel_http_requests_total"
	requestsHelp = "Requests that were answered, by operation (as in /openapi.json) and status."
	timesName    = "tidewheel_http_request_seconds"
	timesHelp    = "Time of requests, by operation; of reads that wait with the wait."
)

// Collector is what Prometheus takes the metrics of a broker from: prometheus.Registerer.MustRegister(Collector(b)). It is
// safe for concurrent use. When the broker is closed it has none.
func Collector(b *broker.Broker) prometheus.Collector {
	c := &collector{b: b}
	for i := range brokerMetrics {
		m := &brokerMetrics[i]
		c.descs = append(c.descs, prometheus.NewDesc(m.name, m.help, m.labels, nil))
	}
	return c
}

type collector struct {
	b     *broker.Broker
	descs []*prometheus.Desc // of brokerMetrics
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s, ok := c.snapshot()
	if !ok {
		return
	}
	for i := range brokerMetrics {
		m, desc := &brokerMetrics[i], c.descs[i]
		if m.measures != nil {
			to <- constHistogram(desc, m.measures(s))
			continue
		}
		kind := prometheus.GaugeValue
		if m.kind == "counter" {
			kind = prometheus.CounterValue
		}
		m.read(s, func(value float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
		})
	}
}

// scrapeTime is how long a scrape waits for what has to be durable before it is told.
const scrapeTime = time.Second

// snapshot asks the broker; false when it is closed. What cannot be read at the moment is left out.
func (c *collector) snapshot() (*snapshot, bool) {
	stats, err := c.b.Stats()
	if err != nil {
		return nil, false
	}
	s := &snapshot{b: c.b, nowMs: c.b.NowMs(), stats: stats, counts: c.b.Measures()}
	s.topics = c.b.TopicsNow()
	s.levels, _ = c.b.LevelInfos()
	s.disk, _ = c.b.DiskUsage()
	s.oldest = c.b.FirstDue()
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	s.groups, _ = c.b.Groups(ctx)
	return s, true
}

func constHistogram(desc *prometheus.Desc, h broker.Histogram) prometheus.Metric {
	buckets, total := make(map[float64]uint64, len(h.Bounds)), uint64(0)
	for i, n := range h.Counts {
		total += uint64(n)
		if i < len(h.Bounds) {
			buckets[h.Bounds[i]] = total
		}
	}
	return prometheus.MustNewConstHistogram(desc, total, h.Sum, buckets)
}

// meter counts the requests of an API. It is safe for concurrent use.
type meter struct {
	requests *prometheus.CounterVec
	times    *prometheus.HistogramVec
	handler  http.Handler // /metrics
}

func newMeter(b *broker.Broker, opts *Options) *meter {
	m := &meter{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: requestsName, Help: requestsHelp}, []string{"operation", "status"}),
		times: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: timesName, Help: timesHelp, Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .5, 1, 5, 30, 60},
		}, []string{"operation"}),
	}
	r := prometheus.NewRegistry()
	r.MustRegister(m.requests, m.times, Collector(b), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if opts.Plugins != nil {
		r.MustRegister(pluginhost.Collector(opts.Plugins), newLagCollector(b, opts.Plugins))
	}
	if opts.Deliveries != nil {
		r.MustRegister(delivery.Collector(opts.Deliveries))
	}
	m.handler = promhttp.HandlerFor(r, promhttp.HandlerOpts{})
	return m
}

// routeMeter is where the requests of one route are counted; that of most answers is looked up once.
type routeMeter struct {
	m     *meter
	rt    *route
	done  prometheus.Counter // of the success
	times prometheus.Observer
}

func (m *meter) of(rt *route) routeMeter {
	return routeMeter{m, rt, m.requests.WithLabelValues(rt.id, strconv.Itoa(rt.code())), m.times.WithLabelValues(rt.id)}
}

// answered counts a request.
func (r *routeMeter) answered(status int, took time.Duration) {
	if status == r.rt.code() {
		r.done.Inc()
	} else {
		r.m.requests.WithLabelValues(r.rt.id, strconv.Itoa(status)).Inc()
	}
	r.times.Observe(took.Seconds())
}

// metrics answers a scrape.
func (a *API) metrics(c *call) error {
	a.meter.handler.ServeHTTP(c.w, c.r)
	return nil
}

// recorder notes the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// code is the status that was sent.
func (r *recorder) code() int {
	if r.status == 0 {
		return http.StatusOK
	}
	return r.status
}
