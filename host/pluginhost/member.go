package pluginhost

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// member is a plugin as it is configured. It does not change: another configuration makes another one.
type member struct {
	table  config.PluginTable
	hooks  []abi.Hook // in the order in which they are asked
	loader *plugins.Loader
	meter  *meter
}

func newMember(t config.PluginTable, l *plugins.Loader, m *meter) *member {
	return &member{table: t, hooks: Spec(&t).Hooks, loader: l, meter: m}
}

// plugin is nil while its file can't be loaded.
func (m *member) plugin() *plugins.Plugin { return m.loader.Plugin(m.table.Name) }

// wants says whether the plugin is asked about a topic. The topics of the broker itself are never meant.
func (m *member) wants(topic string) bool {
	return !strings.HasPrefix(topic, "%") && anyMatches(m.table.Match, topic)
}

// delivers says whether the plugin makes requests of messages.
func (m *member) delivers() bool { return slices.Contains(m.table.Hooks, hookDeliver) }

// consumes says whether the plugin is asked before a group reads.
func (m *member) consumes() bool { return m.table.At == "consume" }

// step is one question of a chain.
type step struct {
	*member
	hook abi.Hook
}

// chain is who is asked, in order.
type chain []step

// byOrder sorts members.
func byOrder(a, b *member) int {
	return cmp.Or(cmp.Compare(a.table.Order, b.table.Order), strings.Compare(a.table.Name, b.table.Name))
}

// The places in which a chain is asked.
type place uint8

const (
	atPublish place = iota
	atDue
	atConsume
)

// in says whether the hook is asked in a place.
func (s step) in(where place) bool {
	switch s.hook {
	case abi.Publish:
		return where == atPublish
	case abi.Filter, abi.Transform:
		return where == atDue && !s.consumes() || where == atConsume && s.consumes()
	}
	return false
}

// each calls fn for the steps of a place, until it returns false. The group counts at consumption only.
func (h *Host) each(where place, group, topic string, fn func(step) bool) {
	for _, m := range *h.members.Load() {
		if !m.wants(topic) || where == atConsume && !anyMatches(m.table.Groups, group) {
			continue
		}
		for _, hook := range m.hooks {
			if s := (step{m, hook}); s.in(where) && !fn(s) {
				return
			}
		}
	}
}

// has says whether somebody is asked.
func (h *Host) has(where place, group, topic string) (yes bool) {
	h.each(where, group, topic, func(step) bool { yes = true; return false })
	return yes
}

// chain is who is asked in a place.
func (h *Host) chain(where place, group, topic string) (c chain) {
	h.each(where, group, topic, func(s step) bool { c = append(c, s); return true })
	return c
}

// member finds a plugin by its name; nil when there is none.
func (h *Host) member(name string) *member {
	members := *h.members.Load()
	if i := slices.IndexFunc(members, func(m *member) bool { return m.table.Name == name }); i >= 0 {
		return members[i]
	}
	return nil
}
