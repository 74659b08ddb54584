package client

import (
	"context"
	"net/url"

	"github.com/tidewheel/tidewheel/host/httpapi"
)

// Plugins lists the plugins of the server, in the order in which they are asked.
func (c *Client) Plugins(ctx context.Context) (httpapi.Plugins, error) {
	return get[httpapi.Plugins](ctx, c, "/v1/plugins")
}

// Plugin shows how a plugin stands.
func (c *Client) Plugin(ctx context.Context, name string) (httpapi.Plugin, error) {
	return get[httpapi.Plugin](ctx, c, pluginPath(name, ""))
}

// PluginLogs are the last lines that a plugin wrote, oldest first.
func (c *Client) PluginLogs(ctx context.Context, name string) (httpapi.PluginLogs, error) {
	return get[httpapi.PluginLogs](ctx, c, pluginPath(name, "/logs"))
}

// ReloadPlugin loads a plugin's file now, and waits for it.
func (c *Client) ReloadPlugin(ctx context.Context, name string) (httpapi.Plugin, error) {
	return c.pluginCall(ctx, name, "/reload")
}

// RollbackPlugin lets a plugin's generation before the one that runs decide again.
func (c *Client) RollbackPlugin(ctx context.Context, name string) (httpapi.Plugin, error) {
	return c.pluginCall(ctx, name, "/rollback")
}

func (c *Client) pluginCall(ctx context.Context, name, verb string) (httpapi.Plugin, error) {
	var out httpapi.Plugin
	err := c.call(ctx, "POST", pluginPath(name, verb), nil, nil, &out)
	return out, err
}

func pluginPath(name, rest string) string { return "/v1/plugins/" + url.PathEscape(name) + rest }
