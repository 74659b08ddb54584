package client

import (
	"context"
	"net/url"
	"strconv"

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

// VerifyPlugin asks a plugin again about what the log says it decided, from a place in the log on and until another; 0 for all
// that there is. The limit is of verdicts, 0 for the server's. The answer may take 20 s, and has a Next when there is more.
func (c *Client) VerifyPlugin(ctx context.Context, name string, from, until int64, limit int) (httpapi.PluginVerified, error) {
	q := url.Values{}
	for key, n := range map[string]int64{"from": from, "until": until, "limit": int64(limit)} {
		if n > 0 {
			q.Set(key, strconv.FormatInt(n, 10))
		}
	}
	var out httpapi.PluginVerified
	err := c.call(ctx, "POST", pluginPath(name, "/verify")+"?"+q.Encode(), nil, nil, &out)
	return out, err
}

func (c *Client) pluginCall(ctx context.Context, name, verb string) (httpapi.Plugin, error) {
	var out httpapi.Plugin
	err := c.call(ctx, "POST", pluginPath(name, verb), nil, nil, &out)
	return out, err
}

func pluginPath(name, rest string) string { return "/v1/plugins/" + url.PathEscape(name) + rest }
