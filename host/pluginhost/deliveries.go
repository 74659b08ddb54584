package pluginhost

import (
	"context"
	"slices"
	"strings"

	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// Delivery is a plugin with the hook deliver, for who sends its requests. It is safe for concurrent use.
type Delivery struct {
	Name  string
	Table config.PluginTable // as it is configured; read-only

	m *member
}

// Deliveries are the plugins that deliver, by name, whether they could be loaded or not. After Reconfigure there are others.
func (h *Host) Deliveries() []*Delivery {
	var all []*Delivery
	for _, m := range *h.members.Load() {
		if m.delivers() {
			all = append(all, &Delivery{Name: m.table.Name, Table: m.table, m: m})
		}
	}
	slices.SortFunc(all, func(a, b *Delivery) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Wants says whether the plugin's patterns cover a topic. The topics of the broker itself are never meant.
func (d *Delivery) Wants(topic string) bool { return d.m.wants(topic) }

// Decide asks the plugin, as plugins.Plugin.Decide does, and counts it in the metrics. While its file can't be loaded the error
// is ErrFailed; when it was removed, plugins.ErrClosed or ErrFailed.
func (d *Delivery) Decide(ctx context.Context, call plugins.Call, records []abi.Record, a *plugins.Answer) error {
	p := d.m.plugin()
	if p == nil {
		return ErrFailed
	}
	return d.m.meter.decide(ctx, p, call, records, a)
}
