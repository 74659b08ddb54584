package pluginhost

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
)

// The states of a plugin, beside those of plugins.State.
const (
	StateActive      = "active"
	StateQuarantined = "quarantined"
	StateProbing     = "probing"
	StateFailed      = "failed" // no file of it could be loaded
)

// States are all of them.
var States = []string{StateActive, StateProbing, StateQuarantined, StateFailed}

// View is how a plugin stands.
type View struct {
	Table config.PluginTable // as it is configured
	State string             // of States
	File  plugins.FileStatus
	Stats plugins.Stats // zero while it is failed
	Spec  plugins.Spec  // of what runs; zero while it is failed

	m *member
}

// Delivers says whether the plugin has the hook deliver.
func (v *View) Delivers() bool { return v.m.delivers() }

// WhenDue says whether the plugin is asked about messages at their due time.
func (v *View) WhenDue() bool {
	return slices.ContainsFunc(v.m.hooks, func(h abi.Hook) bool { return step{v.m, h}.in(atDue) })
}

// Wants says whether the plugin's patterns cover a topic.
func (v *View) Wants(topic string) bool { return v.m.wants(topic) }

// Plugins is how the plugins stand, in the order in which they are asked.
func (h *Host) Plugins() []View {
	members := *h.members.Load()
	if len(members) == 0 {
		return nil
	}
	files := members[0].loader.Status()
	views := make([]View, 0, len(members))
	for _, m := range members {
		views = append(views, m.view(files))
	}
	return views
}

// Plugin is how one plugin stands; ErrNoPlugin when there is none of the name.
func (h *Host) Plugin(name string) (View, error) {
	m := h.member(name)
	if m == nil {
		return View{}, ErrNoPlugin
	}
	return m.view(m.loader.Status()), nil
}

func (m *member) view(files []plugins.FileStatus) View {
	v := View{Table: m.table, State: StateFailed, m: m}
	if i := slices.IndexFunc(files, func(f plugins.FileStatus) bool { return f.Plugin == m.table.Name }); i >= 0 {
		v.File = files[i]
	}
	if p := m.plugin(); p != nil {
		v.Stats, v.Spec = p.Stats(), p.Module().Spec()
		v.State = v.Stats.State.String()
	}
	return v
}

// Logs are the last lines that a plugin wrote, oldest first; none while it is failed. The error is ErrNoPlugin.
func (h *Host) Logs(name string) ([]plugins.LogLine, error) {
	m := h.member(name)
	if m == nil {
		return nil, ErrNoPlugin
	}
	if p := m.plugin(); p != nil {
		return p.Logs(), nil
	}
	return nil, nil
}

// Memory is what is set aside for the instances of all plugins, and what there is, in bytes.
func (h *Host) Memory() (used, total int64) {
	if c := h.caches.Load(); c != nil {
		return c.r.Reserved()
	}
	return 0, int64(h.cfg.PluginHost.MemoryTotal)
}

// Attention is what an operator has to know, a sentence for each plugin that does not do what its file says.
func (h *Host) Attention() []string {
	var all []string
	for _, v := range h.Plugins() {
		if text := v.Attention(); text != "" {
			all = append(all, "plugin "+v.Table.Name+" "+text)
		}
	}
	return all
}

// Attention is what an operator has to know of the plugin, without its name; empty when all is well.
func (v *View) Attention() string {
	waits := "messages wait"
	switch {
	case v.Table.FailOpen():
		waits = "messages pass without it"
	case slices.Equal(v.Table.Hooks, []string{"publish"}):
		waits = "puts are refused"
	}
	switch {
	case v.State == StateFailed:
		return fmt.Sprintf("is not loaded (%s): %s", Cause(v.File.Err), waits)
	case v.State != StateActive:
		return fmt.Sprintf("is quarantined until %s (%s): %s", time.UnixMilli(v.Stats.UntilMs).UTC().Format(time.RFC3339), last(&v.Stats), waits)
	case v.File.Err != nil:
		return fmt.Sprintf("goes on with %s, since what is configured cannot be loaded (%s)", short(v.Stats.Digest), Cause(v.File.Err))
	case v.File.Digest != v.Stats.Digest && !v.File.Loading:
		return fmt.Sprintf("was rolled back to %s from %s, which is in the file", short(v.Stats.Digest), short(v.File.Digest))
	}
	return ""
}

// Cause is an error of loading a plugin in one line, without the names that its reader knows.
func Cause(err error) string {
	if err == nil {
		return "it is being loaded"
	}
	text := err.Error()
	if load := new(plugins.LoadError); errors.As(err, &load) {
		text = load.Err.Error()
	}
	if path := new(fs.PathError); errors.As(err, &path) { // whether it was opened or looked at says nothing
		text = path.Path + ": " + path.Err.Error()
	}
	return strings.Join(strings.Fields(strings.TrimPrefix(text, "plugins: ")), " ")
}

func last(s *plugins.Stats) string {
	if s.LastFailure == nil {
		return "no failure is known"
	}
	return brief(s.LastFailure)
}

// short is a digest as people tell one from another.
func short(d plugins.Digest) string { return d.String()[:12] }
