package delivery

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidewheel/tidewheel/host/pluginhost"
)

// metric is a row of the table of metrics: a number for each worker, or for each word of it.
type metric struct {
	pluginhost.Metric
	number func(s *Stats) int
	words  func(s *Stats) map[string]int64
}

// rows are every metric of workers. The histogram is the one without a reading.
var rows = [...]metric{
	{Metric: pluginhost.Metric{Name: "tidewheel_delivery_requests_total", Kind: "counter", Labels: []string{"plugin", "result"},
		Help: "Requests of a delivery plugin, by what came of them: 2xx, 3xx, 4xx, 5xx; no answer: dns, address, connect, tls, timeout, broken, stopped; not made: refused (it may not be), down (the host has not answered for a while)."},
		words: func(s *Stats) map[string]int64 { return s.Requests }},
	{Metric: pluginhost.Metric{Name: "tidewheel_delivery_messages_total", Kind: "counter", Labels: []string{"plugin", "result"},
		Help: "Messages of a delivery plugin that were settled: acked, retried, dead_letter, dropped; expired are those that were sent and come again."},
		words: func(s *Stats) map[string]int64 { return s.Messages }},
	{Metric: pluginhost.Metric{Name: "tidewheel_delivery_seconds", Kind: "histogram", Labels: []string{"plugin"},
		Help: "Time of each request that was made, answered or not."}},
	{Metric: pluginhost.Metric{Name: "tidewheel_delivery_in_flight", Kind: "gauge", Labels: []string{"plugin"},
		Help: "Requests that are on their way; concurrency of [plugin.delivery] bounds it."},
		number: func(s *Stats) int { return s.InFlight }},
	{Metric: pluginhost.Metric{Name: "tidewheel_delivery_leased_messages", Kind: "gauge", Labels: []string{"plugin"},
		Help: "Messages in hand: on their way, waiting for a request to end, or for the plugin. What waits behind them is the group's lag."},
		number: func(s *Stats) int { return s.Leased }},
	{Metric: pluginhost.Metric{Name: "tidewheel_delivery_hosts_down", Kind: "gauge", Labels: []string{"plugin"},
		Help: "Hosts that have not answered several times in a row and are tried now and then."},
		number: func(s *Stats) int { return s.HostsDown }},
}

// Metrics is what Collector gives, for documentation.
func Metrics() []pluginhost.Metric {
	all := make([]pluginhost.Metric, len(rows))
	for i := range rows {
		all[i] = rows[i].Metric
	}
	return all
}

// Collector is what Prometheus takes the metrics of a fleet from. It is safe for concurrent use.
func Collector(f *Fleet) prometheus.Collector {
	c := &collector{f: f}
	for i := range rows {
		c.descs = append(c.descs, prometheus.NewDesc(rows[i].Name, rows[i].Help, rows[i].Labels, nil))
	}
	return c
}

type collector struct {
	f     *Fleet
	descs []*prometheus.Desc // of rows
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	all := c.f.Stats()
	for i := range rows {
		m, desc := &rows[i], c.descs[i]
		for j := range all {
			s := &all[j]
			switch {
			case m.words != nil:
				counts := m.words(s)
				for _, word := range slices.Sorted(maps.Keys(counts)) {
					to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(counts[word]), s.Plugin, word)
				}
			case m.number != nil:
				to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(m.number(s)), s.Plugin)
			default:
				to <- seconds(desc, s)
			}
		}
	}
}

// seconds is the histogram as Prometheus has it.
func seconds(desc *prometheus.Desc, s *Stats) prometheus.Metric {
	buckets, total := map[float64]uint64{}, uint64(0)
	for i, n := range s.Seconds.Counts {
		total += uint64(n)
		if i < len(s.Seconds.Bounds) {
			buckets[s.Seconds.Bounds[i]] = total
		}
	}
	return prometheus.MustNewConstHistogram(desc, total, s.Seconds.Sum, buckets, s.Plugin)
}
