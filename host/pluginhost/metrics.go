package pluginhost

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// Metric is what is told about one metric of plugins.
type Metric struct {
	Name   string
	Kind   string // counter, gauge or histogram
	Labels []string
	Help   string
}

// metric is a row of the table of metrics.
type metric struct {
	Metric
	read func(s *scraped, emit func(v float64, labels ...string))
	// of a histogram; bounds are the upper ones
	measures func(x *hookMeter) *histogram
	bounds   []float64
}

// scraped is what the metrics of one scrape are read off.
type scraped struct {
	h      *Host
	views  []View
	meters []*meter // of views
}

// each reads a number off each plugin that runs.
func each(of func(s *plugins.Stats) int64) func(*scraped, func(float64, ...string)) {
	return func(s *scraped, emit func(float64, ...string)) {
		for i := range s.views {
			if v := &s.views[i]; v.State != StateFailed {
				emit(float64(of(&v.Stats)), v.Table.Name)
			}
		}
	}
}

// eachOf reads a number for each word off each plugin.
func eachOf(of func(v *View) map[string]int64) func(*scraped, func(float64, ...string)) {
	return func(s *scraped, emit func(float64, ...string)) {
		for i := range s.views {
			counts := of(&s.views[i])
			for _, word := range slices.Sorted(maps.Keys(counts)) {
				emit(float64(counts[word]), s.views[i].Table.Name, word)
			}
		}
	}
}

// cached reads a number off the cache of compiled code.
func cached(of func(c plugins.CacheStats) int64) func(*scraped, func(float64, ...string)) {
	return func(s *scraped, emit func(float64, ...string)) {
		var c plugins.CacheStats
		if r := s.h.caches.Load(); r != nil {
			c = r.r.CacheStats()
		}
		emit(float64(of(c)))
	}
}

func row(name, kind, help string, labels ...string) Metric {
	return Metric{"tidewheel_plugin_" + name, kind, labels, help}
}

// table is every metric of plugins. Counters count since a plugin was loaded first.
var table = []metric{
	{Metric: row("calls_total", "counter", "Batches that a plugin was asked about, by hook, and by result: ok, failed (on one or more messages), undecided (it was not asked, or blocks).", "plugin", "hook", "result"),
		read: readCalls},
	{Metric: row("messages_total", "counter", "Messages by what was decided about them, the failure policy included; unset is undecided.", "plugin", "verdict"),
		read: eachOf(func(v *View) map[string]int64 { return v.Stats.Verdicts })},
	{Metric: row("call_seconds", "histogram", "Time of a batch, with the wait for an instance.", "plugin", "hook"),
		measures: func(x *hookMeter) *histogram { return &x.times }, bounds: callBounds},
	{Metric: row("fuel_used_total", "counter", "Steps that a plugin took; one is about a turn of a loop, or eight instructions.", "plugin"),
		read: each(func(s *plugins.Stats) int64 { return s.Fuel })},
	{Metric: row("fuel_per_message", "histogram", "Steps for each message, over a batch.", "plugin", "hook"),
		measures: func(x *hookMeter) *histogram { return &x.fuel }, bounds: fuelBounds},
	{Metric: row("traps_total", "counter", "Messages that a plugin has failed on, by class: error, status, trap, fuel, memory, exit, protocol, too_large, start, and quarantined for those that passed or waited because of it.", "plugin", "class"),
		read: eachOf(func(v *View) map[string]int64 { return v.Stats.Failures })},
	{Metric: row("nondeterminism_total", "counter", "Verdicts in the log that the plugin did not give again when it was verified (POST /v1/plugins/{plugin}/verify).", "plugin"),
		read: func(s *scraped, emit func(float64, ...string)) {
			for i, m := range s.meters {
				emit(float64(m.differ.Load()), s.views[i].Table.Name)
			}
		}},
	{Metric: row("restarts_total", "counter", "Instances that died and were replaced.", "plugin"),
		read: each(func(s *plugins.Stats) int64 { return s.Deaths })},
	{Metric: row("instances", "gauge", "Instances that are open, busy with a batch or idle.", "plugin", "state"),
		read: eachOf(readInstances)},
	{Metric: row("memory_bytes", "gauge", "Memory of the open instances.", "plugin"),
		read: each(func(s *plugins.Stats) int64 { return s.Memory })},
	{Metric: row("memory_high_water_bytes", "gauge", "The most memory that one instance of the generation that runs has had.", "plugin"),
		read: each(func(s *plugins.Stats) int64 { return s.MemoryHigh })},
	{Metric: row("memory_reserved_bytes", "gauge", "Memory that is set aside for the instances of all plugins; [plugins] memory_total bounds it."),
		read: func(s *scraped, emit func(float64, ...string)) { used, _ := s.h.Memory(); emit(float64(used)) }},
	{Metric: row("compile_seconds", "gauge", "Time that checking, compiling and starting the generation that runs took.", "plugin"),
		read: func(s *scraped, emit func(float64, ...string)) {
			for i := range s.views {
				if v := &s.views[i]; v.State != StateFailed {
					emit(float64(v.Stats.LoadNs)/1e9, v.Table.Name)
				}
			}
		}},
	{Metric: row("cache_hit_total", "counter", "Loads that found compiled code."), read: cached(func(c plugins.CacheStats) int64 { return c.Hits })},
	{Metric: row("cache_miss_total", "counter", "Loads that compiled."), read: cached(func(c plugins.CacheStats) int64 { return c.Misses })},
	{Metric: row("cache_heal_total", "counter", "Loads that found damaged code, and compiled."), read: cached(func(c plugins.CacheStats) int64 { return c.Healed })},
	{Metric: row("generation_info", "gauge", "1 for the module that runs.", "plugin", "sha256", "abi"),
		read: func(s *scraped, emit func(float64, ...string)) {
			for i := range s.views {
				if v := &s.views[i]; v.State != StateFailed {
					emit(1, v.Table.Name, v.Stats.Digest.String(), abi.Marker)
				}
			}
		}},
	{Metric: row("state", "gauge", "1 for the state of a plugin, 0 for the others: active, probing, quarantined, failed (no file of it could be loaded).", "plugin", "state"),
		read: func(s *scraped, emit func(float64, ...string)) {
			for i := range s.views {
				for _, state := range States {
					one := 0.
					if s.views[i].State == state {
						one = 1
					}
					emit(one, s.views[i].Table.Name, state)
				}
			}
		}},
	{Metric: row("quarantines_total", "counter", "Quarantines.", "plugin"), read: each(func(s *plugins.Stats) int64 { return s.Quarantines })},
	{Metric: row("reloads_total", "counter", "New generations that took over.", "plugin"), read: each(func(s *plugins.Stats) int64 { return s.Reloads })},
	{Metric: row("reload_failures_total", "counter", "Files that could not be loaded.", "plugin"),
		read: func(s *scraped, emit func(float64, ...string)) {
			for i := range s.views {
				emit(float64(s.views[i].File.Failed), s.views[i].Table.Name)
			}
		}},
	{Metric: row("rollbacks_total", "counter", "Rollbacks, by hand or because a new generation was quarantined.", "plugin"),
		read: each(func(s *plugins.Stats) int64 { return s.Rollbacks })},
	{Metric: row("log_dropped_total", "counter", "Lines that a plugin wrote above its limit.", "plugin"),
		read: each(func(s *plugins.Stats) int64 { return s.LogDropped })},
}

// Metrics are what Collector collects.
func Metrics() []Metric {
	list := make([]Metric, len(table))
	for i := range table {
		list[i] = table[i].Metric
	}
	return list
}

func readInstances(v *View) map[string]int64 {
	if v.State == StateFailed {
		return nil
	}
	busy := min(v.Stats.Busy, v.Stats.Instances)
	return map[string]int64{"busy": busy, "idle": v.Stats.Instances - busy}
}

func readCalls(s *scraped, emit func(float64, ...string)) {
	s.hooks(func(plugin, hook string, x *hookMeter) {
		for _, result := range slices.Sorted(maps.Keys(x.calls)) {
			emit(float64(x.calls[result]), plugin, hook, result)
		}
	})
}

// hooks calls fn for the hooks that were asked.
func (s *scraped) hooks(fn func(plugin, hook string, x *hookMeter)) {
	for i, m := range s.meters {
		for h, x := range m.copy() {
			if x.calls != nil {
				fn(s.views[i].Table.Name, abi.Hook(h).String(), &x)
			}
		}
	}
}

// Collector is what Prometheus takes the metrics of a host's plugins from. It is safe for concurrent use.
func Collector(h *Host) prometheus.Collector {
	c := &collector{h: h}
	for i := range table {
		m := &table[i]
		c.descs = append(c.descs, prometheus.NewDesc(m.Name, m.Help, m.Labels, nil))
	}
	return c
}

type collector struct {
	h     *Host
	descs []*prometheus.Desc // of table
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := &scraped{h: c.h}
	var files []plugins.FileStatus
	for i, m := range *c.h.members.Load() {
		if i == 0 {
			files = m.loader.Status()
		}
		s.views, s.meters = append(s.views, m.view(files)), append(s.meters, m.meter)
	}
	for i := range table {
		m, desc := &table[i], c.descs[i]
		if m.measures != nil {
			s.hooks(func(plugin, hook string, x *hookMeter) {
				to <- m.measures(x).metric(desc, m.bounds, plugin, hook)
			})
			continue
		}
		kind := prometheus.GaugeValue
		if m.Kind == "counter" {
			kind = prometheus.CounterValue
		}
		m.read(s, func(v float64, labels ...string) { to <- prometheus.MustNewConstMetric(desc, kind, v, labels...) })
	}
}

// metric is the histogram as Prometheus has it.
func (h *histogram) metric(desc *prometheus.Desc, bounds []float64, labels ...string) prometheus.Metric {
	buckets, total := map[float64]uint64{}, uint64(0)
	for i, n := range h.counts {
		total += n
		if i < len(bounds) {
			buckets[bounds[i]] = total
		}
	}
	return prometheus.MustNewConstHistogram(desc, total, h.sum, buckets, labels...)
}
