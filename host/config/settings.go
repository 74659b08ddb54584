package config

import (
	"reflect"
	"slices"
	"strings"
)

// OriginDefault is the origin of a value that nobody gave.
const OriginDefault = "default"

// Setting is one key with its value.
type Setting struct {
	Key      string `json:"key"`                // "timer.max_delay"; of a topic "topic.orders.queues"
	Value    string `json:"value"`              // as a variable would have it; of a secret whether it is set
	Origin   string `json:"origin"`             // OriginDefault, "file:line", or the name of a variable or flag
	Default  string `json:"default,omitempty"`  // as Value
	Variable string `json:"variable,omitempty"` // that sets it; empty: none does
	Live     bool   `json:"live"`               // can change while a server runs

	raw  string // the value, also of a secret
	item string // "plugin.NAME", for a key of a plugin: they change together
}

// Settings lists every key in the order of the reference, then the topics and the plugins. The list is the caller's.
func (c *Config) Settings() []Setting {
	var list []Setting
	root := reflect.ValueOf(c).Elem()
	schema().each(root, func(k *key, in reflect.Value) {
		list = append(list, k.setting(in, k.name(), c.origins[k.name()]))
		list[len(list)-1].Variable = k.variable()
	})
	for _, t := range schema().tables {
		if t.list {
			list = append(list, c.listed(t, root.Field(t.field))...)
		}
	}
	return list
}

// listed are the keys of tables that repeat. They are named by the first key, which is the name.
func (c *Config) listed(t *table, tables reflect.Value) []Setting {
	var list []Setting
	for i := range tables.Len() {
		in := tables.Index(i)
		at, name := item(t.name, i), child(t.name, t.keys[0].text(in))
		t.each(in, func(k *key, in reflect.Value) {
			if k == t.keys[0] {
				return
			}
			below := strings.TrimPrefix(join(k.table, k.word), t.name+".")
			origin := c.origins[join(at, below)]
			if origin == "" && t.name == "topic" { // it counts because the table is there
				origin = c.origins[child(at, t.keys[0].word)]
			}
			s := k.setting(in, join(name, below), origin)
			if t.name == "plugin" {
				s.item = name
			}
			list = append(list, s)
		})
	}
	return list
}

func (k *key) setting(in reflect.Value, name, origin string) Setting {
	s := Setting{Key: name, Value: k.text(in), Origin: origin, Default: k.def, Live: k.live}
	s.raw = s.Value
	switch v := in.Field(k.field).Interface().(type) {
	case Secret:
		s.raw = v.Reveal()
	case Object:
		s.raw = string(v.Reveal())
	}
	if origin == "" {
		s.Origin = OriginDefault
	}
	return s
}

// Changed compares a running configuration with the next one, as after SIGHUP: live are the keys that the caller can put
// into force while the server runs, restart those for which it has to start again. Both are in the order of Settings. A
// topic that is new is live; one that is gone is in neither, since nothing happens to it. Of a plugin that is new, other or
// gone there is "plugin.NAME".
func (c *Config) Changed(next *Config) (live, restart []string) {
	before := map[string]string{}
	for _, s := range c.Settings() {
		before[s.Key] = s.raw
	}
	for _, s := range next.Settings() {
		old, known := before[s.Key]
		switch {
		case known && old == s.raw:
		case s.item != "":
			if !slices.Contains(live, s.item) {
				live = append(live, s.item)
			}
		case s.Live:
			live = append(live, s.Key)
		default:
			restart = append(restart, s.Key)
		}
	}
	for i := range c.Plugins {
		name := c.Plugins[i].Name
		if !slices.ContainsFunc(next.Plugins, func(p PluginTable) bool { return p.Name == name }) {
			live = append(live, child("plugin", name))
		}
	}
	return live, restart
}

// ChangedTopics are the topics of next that are new or have another number of queues: the ones to define when
// Changed says that something is live.
func (c *Config) ChangedTopics(next *Config) []TopicTable {
	before := map[string]int{}
	for _, t := range c.Topics {
		before[t.Name] = t.Queues
	}
	var list []TopicTable
	for _, t := range next.Topics {
		if before[t.Name] != t.Queues {
			list = append(list, t)
		}
	}
	return list
}

// With is the configuration that a running server has after a reload: the live keys of next, and the others of c. Both
// stay as they are.
func (c *Config) With(next *Config) *Config {
	sum := *c
	sum.Topics, sum.Plugins = slices.Clone(next.Topics), slices.Clone(next.Plugins)
	sum.origins = map[string]string{}
	from, into := reflect.ValueOf(next).Elem(), reflect.ValueOf(&sum).Elem()
	for key, origin := range next.origins {
		if strings.HasPrefix(key, "topic[") || strings.HasPrefix(key, "plugin[") {
			sum.origins[key] = origin
		}
	}
	schema().each(into, func(k *key, in reflect.Value) {
		origins := c.origins
		if k.live {
			origins = next.origins
			in.Field(k.field).Set(k.holder(from).Field(k.field))
		}
		if origin := origins[k.name()]; origin != "" {
			sum.origins[k.name()] = origin
		}
	})
	return &sum
}

// holder is the struct in a Config that has the key.
func (k *key) holder(root reflect.Value) reflect.Value {
	if k.table == "" {
		return root
	}
	return root.Field(schema().sub(k.table).field)
}
