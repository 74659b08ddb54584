package client

import (
	"context"

	"github.com/tidewheel/tidewheel/host/httpapi"
)

// Plugins lists the plugins of the server.
func (c *Client) Plugins(ctx context.Context) (httpapi.Plugins, error) {
	return get[httpapi.Plugins](ctx, c, "/v1/plugins")
}
