package httpapi

import (
	"errors"
	"strings"

	"github.com/tidewheel/tidewheel/host/pluginhost"
	"github.com/tidewheel/tidewheel/plugins"
)

var pluginParam = param{in: inPath, name: "plugin", text: "the plugin's name"}

var pluginRoutes = []route{
	{
		method: "GET", pattern: "/v1/plugins", id: "plugins", group: "Plugins", role: RoleRead,
		summary: "List the plugins, in the order in which they are asked", gives: jsonOf[Plugins](), handle: (*API).plugins,
	},
	{
		method: "GET", pattern: "/v1/plugins/{plugin}", id: "showPlugin", group: "Plugins", role: RoleRead,
		summary: "How a plugin stands: what runs, what it may, what it did, why it failed last",
		params:  []param{pluginParam}, gives: jsonOf[Plugin](), problems: []string{"unknown_plugin"}, handle: (*API).showPlugin,
	},
	{
		method: "GET", pattern: "/v1/plugins/{plugin}/logs", id: "pluginLogs", group: "Plugins", role: RoleRead,
		summary: "The last lines that a plugin wrote, oldest first",
		text:    "At most 100, of the generation that runs. Lines above its limit are counted in log_dropped and not kept.",
		params:  []param{pluginParam}, gives: jsonOf[PluginLogs](), problems: []string{"unknown_plugin"}, handle: (*API).pluginLogs,
	},
	{
		method: "POST", pattern: "/v1/plugins/{plugin}/reload", id: "reloadPlugin", group: "Plugins", role: RoleOperate,
		summary: "Load a plugin's file now, and wait for it",
		text: "A file that runs already changes nothing. One that cannot be loaded is refused with the reason, and what ran goes on. " +
			"After a rollback it makes the file count again. The configuration is not read: SIGHUP does that.",
		params: []param{pluginParam}, gives: jsonOf[Plugin](), problems: []string{"unknown_plugin", "plugin_not_loaded"}, handle: (*API).reloadPlugin,
	},
	{
		method: "POST", pattern: "/v1/plugins/{plugin}/rollback", id: "rollbackPlugin", group: "Plugins", role: RoleOperate,
		summary: "Let a plugin's generation before the one that runs decide again",
		text:    "It stays until the file changes, is reloaded, or the server is started again. A second rollback takes the first one back.",
		params:  []param{pluginParam}, gives: jsonOf[Plugin](), problems: []string{"unknown_plugin", "no_previous_plugin"}, handle: (*API).rollbackPlugin,
	},
	verifyRoute,
}

// plugins lists them.
func (a *API) plugins(c *call) error {
	out := Plugins{Plugins: []Plugin{}}
	if h := a.opts.Plugins; h != nil {
		out.Enabled = true
		out.MemoryReserved, out.MemoryTotal = h.Memory()
		for _, v := range h.Plugins() {
			p := wirePlugin(&v)
			a.delivering(&p)
			out.Plugins = append(out.Plugins, p)
		}
	}
	return c.answer(out)
}

// withPlugin does something with the plugin that the path names.
func (a *API) withPlugin(c *call, do func(h *pluginhost.Host, name string) error) error {
	name, err := c.path("plugin"), pluginhost.ErrNoPlugin
	if a.opts.Plugins != nil {
		err = do(a.opts.Plugins, name)
	}
	return pluginProblem(err, name)
}

func (a *API) showPlugin(c *call) error {
	return a.withPlugin(c, func(h *pluginhost.Host, name string) error {
		v, err := h.Plugin(name)
		if err != nil {
			return err
		}
		p := wirePlugin(&v)
		a.delivering(&p)
		return c.answer(p)
	})
}

func (a *API) reloadPlugin(c *call) error {
	err := a.withPlugin(c, func(h *pluginhost.Host, name string) error { return h.Reload(c.ctx(), name) })
	if err != nil {
		return err
	}
	return a.showPlugin(c)
}

func (a *API) rollbackPlugin(c *call) error {
	err := a.withPlugin(c, func(h *pluginhost.Host, name string) error { return h.Rollback(name) })
	if err != nil {
		return err
	}
	return a.showPlugin(c)
}

func (a *API) pluginLogs(c *call) error {
	return a.withPlugin(c, func(h *pluginhost.Host, name string) error {
		lines, err := h.Logs(name)
		if err != nil {
			return err
		}
		out := PluginLogs{Lines: []PluginLine{}}
		for _, l := range lines {
			out.Lines = append(out.Lines, PluginLine{l.TimeMs, strings.ToLower(l.Level.String()), l.Text})
		}
		return c.answer(out)
	})
}

// pluginProblem says an error about a plugin in the words of the wire.
func pluginProblem(err error, name string) error {
	var load *plugins.LoadError
	var p *Problem
	switch {
	case errors.Is(err, pluginhost.ErrNoPlugin):
		p = problem("unknown_plugin")
		p.Field, p.Got, p.Fix = "plugin", shorten(name), "GET /v1/plugins lists them"
	case errors.Is(err, plugins.ErrNoPrevious), errors.Is(err, pluginhost.ErrFailed):
		p = problem("no_previous_plugin")
	case errors.As(err, &load):
		p = problem("plugin_not_loaded")
		p.Detail, p.Fix = pluginhost.Cause(err), "mend the file, or the plugin's table in the configuration; what ran goes on"
	default:
		return err
	}
	return p
}
