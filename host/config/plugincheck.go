package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/host/egress"
)

// The forms of texts in the tables of plugins.
var (
	pluginName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)
	pattern    = regexp.MustCompile(`^[A-Za-z0-9_%*?-]{1,127}$`)
)

// checkPlugin says what is wrong with a text in a table of a plugin, by what its unit says it is.
func (k *key) checkPlugin(text string) error {
	switch k.unit {
	case "plugin name":
		if !pluginName.MatchString(text) {
			return errors.New("a name is 1 to 100 of A-Z a-z 0-9 _ -")
		}
	case "module":
		if text == "" {
			return errors.New("it is empty")
		}
	case "SHA-256":
		if b, err := hex.DecodeString(text); text != "" && (err != nil || len(b) != 32) {
			return errors.New("it must be 64 hexadecimal digits, as sha256sum prints them")
		}
	case "patterns of topics, with * and ?", "patterns of groups, with * and ?":
		if !pattern.MatchString(text) {
			return errors.New("a pattern is 1 to 127 of A-Z a-z 0-9 _ - and of * for any text and ? for one character")
		}
	case "group name":
		return trimmed(message.ValidGroup(text), "message: ")
	case "hosts":
		_, err := egress.ParseRule(text)
		return trimmed(err, fmt.Sprintf("egress: allowed host %q: ", text))
	case "networks":
		_, err := egress.ParsePrivate(text)
		return trimmed(err, fmt.Sprintf("egress: private address %q: ", text))
	case "secrets":
		_, err := egress.ParseSecrets(text)
		return err
	}
	return nil
}

// checkPlugins finds what is wrong with each plugin as a whole.
func (l *loader) checkPlugins() {
	first := map[string]string{}
	for i := range l.cfg.Plugins {
		p, at := &l.cfg.Plugins[i], item("plugin", i)
		switch before, twice := first[p.Name]; {
		case p.Name == "": // reported already
		case twice:
			l.bad(child(at, "name"), fmt.Sprintf("%q is there twice, first at %s", p.Name, before))
		default:
			first[p.Name] = l.place(child(at, "name"))
		}
		l.checkHooks(p, at)
		l.checkDelivery(p, at)
		l.checkFuel(p, at)
	}
}

// checkHooks finds keys that mean nothing with the hooks of a plugin.
func (l *loader) checkHooks(p *PluginTable, at string) {
	has := func(hooks ...string) bool {
		return slices.ContainsFunc(hooks, func(h string) bool { return slices.Contains(p.Hooks, h) })
	}
	if len(p.Hooks) == 0 {
		return // reported already
	}
	if has("deliver") && len(p.Hooks) > 1 {
		l.bad(join(at, "hooks"), "deliver stands alone: make a second [[plugin]] of the same file for the other hooks")
	}
	if has("publish") && p.Fail == "" {
		l.bad(at, `fail is missing: with the hook publish, say whether puts are refused ("closed") or pass ("open") while the plugin cannot be asked`)
	}
	if has("publish") && p.OnError == "retry" {
		l.bad(join(at, "on_error"), "nothing can be retried before it is stored: the hook publish allows dead_letter, skip, drop, block")
	}
	if p.At != "due" && !has("filter", "transform") {
		l.bad(join(at, "at"), "it is for the hooks filter and transform")
	}
	if !slices.Equal(p.Groups, []string{"*"}) && (p.At != "consume" || !has("filter", "transform")) {
		l.bad(join(at, "groups"), `it is for the hooks filter and transform with at = "consume"`)
	}
	if len(p.Targets) > 0 && has("deliver") {
		l.bad(join(at, "targets"), "a plugin that delivers routes nothing")
	}
}

// checkDelivery finds keys that are for a plugin that delivers, and are not of one, and what is wrong with one that does.
func (l *loader) checkDelivery(p *PluginTable, at string) {
	if len(p.Hooks) == 0 {
		return
	}
	if slices.Contains(p.Hooks, "deliver") {
		if where := join(at, "capabilities.egress"); len(p.Capabilities.Egress) == 0 &&
			!slices.ContainsFunc(l.problems, func(x Problem) bool { return strings.HasPrefix(x.Key, where) }) {
			l.bad(at, "capabilities.egress is missing: a plugin that delivers needs the hosts that its requests may go to")
		}
		if p.FailOpen() {
			l.bad(join(at, "fail"), `with the hook deliver it can only be "closed": messages wait; "open" would lose those that are not sent`)
		}
		if p.Limits.RecordBytes > 0 && p.Delivery.MaxResponse > p.Limits.RecordBytes {
			l.bad(join(at, "delivery.max_response"), fmt.Sprintf("%v is more than limits.record_bytes, which the plugin may be given", p.Delivery.MaxResponse))
		}
		return
	}
	plain := reflect.New(reflect.TypeFor[PluginDelivery]()).Elem()
	schema().sub("plugin").sub("delivery").defaults(plain)
	if p.Delivery != plain.Interface() {
		l.bad(join(at, "delivery"), `it is for hooks = ["deliver"]`)
	}
	for word, list := range map[string][]string{"egress": p.Capabilities.Egress, "private_addresses": p.Capabilities.PrivateAddresses} {
		if len(list) > 0 {
			l.bad(join(at, "capabilities."+word), `it is for hooks = ["deliver"]: no other hook sends requests`)
		}
	}
}

// checkFuel finds limits that do not fit together.
func (l *loader) checkFuel(p *PluginTable, at string) {
	m := &p.Limits
	if m.FuelCallMax < m.FuelBase+m.FuelPerRecord {
		l.bad(join(at, "limits"), fmt.Sprintf("fuel_call_max %d is less than a call with one message takes: fuel_base + fuel_per_record is %d",
			m.FuelCallMax, m.FuelBase+m.FuelPerRecord))
	}
	if m.MemoryMax%(64<<10) != 0 {
		l.bad(join(at, "limits.memory_max"), fmt.Sprintf("%v is not a multiple of 64KiB", m.MemoryMax))
	}
	if m.RecordBytes > m.MemoryMax/2 {
		l.bad(join(at, "limits.record_bytes"), fmt.Sprintf("%v is more than half of memory_max", m.RecordBytes))
	}
}

// checkPluginsTogether compares the plugins with [plugins], once variables are known.
func (l *loader) checkPluginsTogether() {
	var sum Size
	groups := map[string]string{}
	for i := range l.cfg.Plugins {
		p, at := &l.cfg.Plugins[i], item("plugin", i)
		if l.cfg.PluginHost.RequirePin && p.SHA256 == "" {
			l.bad(at, "sha256 is missing, and [plugins] require_pin wants it")
		}
		before := sum
		if sum += Size(p.memory()); before <= l.cfg.PluginHost.MemoryTotal && sum > l.cfg.PluginHost.MemoryTotal {
			l.bad(at, fmt.Sprintf("with %d instances of %v it needs %v, and of [plugins] memory_total = %v there are %v left: raise that, or lower instances or limits.memory_max",
				p.Instances, p.Limits.MemoryMax, Size(p.memory()), l.cfg.PluginHost.MemoryTotal, l.cfg.PluginHost.MemoryTotal-before))
		}
		if !slices.Contains(p.Hooks, "deliver") {
			continue
		}
		if other, twice := groups[p.Group()]; twice {
			l.bad(join(at, "delivery"), fmt.Sprintf("its group %q is that of plugin %q: each message would go to one of the two", p.Group(), other))
		}
		groups[p.Group()] = p.Name
	}
}
