package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/tidewheel/tidewheel/host/httpapi"
)

// PreviewBulk counts what a change of many waiting messages means, and changes nothing. Confirm of the answer starts it. It
// takes as long as counting does.
func (c *Client) PreviewBulk(ctx context.Context, req httpapi.BulkRequest) (httpapi.Bulk, error) {
	req.Confirm = ""
	return c.postBulk(ctx, req)
}

// StartBulk starts the change that was previewed; it goes on by itself.
func (c *Client) StartBulk(ctx context.Context, confirm string) (httpapi.Bulk, error) {
	return c.postBulk(ctx, httpapi.BulkRequest{Confirm: confirm})
}

func (c *Client) postBulk(ctx context.Context, req httpapi.BulkRequest) (httpapi.Bulk, error) {
	var out httpapi.Bulk
	b, err := json.Marshal(req)
	if err != nil {
		return out, fmt.Errorf("client: %w", err)
	}
	err = c.call(ctx, "POST", "/v1/bulk", nil, b, &out)
	return out, err
}

// Bulk says how far a change is. One that the server has forgotten is a problem with status 404.
func (c *Client) Bulk(ctx context.Context, id string) (httpapi.Bulk, error) {
	return get[httpapi.Bulk](ctx, c, "/v1/bulk/"+url.PathEscape(id))
}

// StopBulk stops a change where it is: what it has done stays done.
func (c *Client) StopBulk(ctx context.Context, id string) (httpapi.Bulk, error) {
	var out httpapi.Bulk
	err := c.call(ctx, "DELETE", "/v1/bulk/"+url.PathEscape(id), nil, nil, &out)
	return out, err
}

// Bulks lists the changes that run, and those that ran lately.
func (c *Client) Bulks(ctx context.Context) (httpapi.Bulks, error) {
	return get[httpapi.Bulks](ctx, c, "/v1/bulk")
}

// Time is the server's clock.
func (c *Client) Time(ctx context.Context) (httpapi.ServerTime, error) {
	return get[httpapi.ServerTime](ctx, c, "/v1/time")
}
