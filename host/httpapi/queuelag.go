package httpapi

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/pluginhost"
)

// queueLag is what waits for a plugin. It is a metric of both the broker, which has the messages, and the plugins.
var queueLag = pluginhost.Metric{
	Name: "tidewheel_plugin_queue_lag", Kind: "gauge", Labels: []string{"plugin"},
	Help: "Messages that wait for a plugin: with at = \"due\" those in the stages of its topics, with hooks = [\"deliver\"] those that its group is not done with.",
}

// lagCollector is what Prometheus takes queueLag from. It is safe for concurrent use.
type lagCollector struct {
	b    *broker.Broker
	h    *pluginhost.Host
	desc *prometheus.Desc
}

func newLagCollector(b *broker.Broker, h *pluginhost.Host) *lagCollector {
	return &lagCollector{b, h, prometheus.NewDesc(queueLag.Name, queueLag.Help, queueLag.Labels, nil)}
}

// Describe implements prometheus.Collector.
func (c *lagCollector) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect implements prometheus.Collector.
func (c *lagCollector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	topics := c.b.TopicsNow()
	groups, _ := c.b.Groups(ctx)
	for _, v := range c.h.Plugins() {
		if lag, ok := lagOf(&v, topics, groups); ok {
			to <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(lag), v.Table.Name)
		}
	}
}

// lagOf counts what waits for a plugin; false for one that nothing waits for, since whoever asks it waits for the answer.
func lagOf(v *pluginhost.View, topics []engine.TopicInfo, groups []broker.GroupInfo) (lag int64, ok bool) {
	if v.Delivers() {
		for i := range groups {
			if groups[i].Name == v.Table.Group() {
				lag = groups[i].Lag()
			}
		}
		return lag, true
	}
	if !v.WhenDue() {
		return 0, false
	}
	for i := range topics {
		if v.Wants(topics[i].Name) {
			lag += topics[i].StageLag
		}
	}
	return lag, true
}
