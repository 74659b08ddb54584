package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"
	"time"

	"github.com/tidewheel/tidewheel/host/httpapi"
)

func topicPath(topic, rest string) string { return "/v1/topics/" + url.PathEscape(topic) + rest }
func groupPath(group, rest string) string { return "/v1/groups/" + url.PathEscape(group) + rest }
func deadPath(group, rest string) string  { return "/v1/dlq/" + url.PathEscape(group) + rest }

// AckReceipts says that a group is done with the messages that the receipts came with. The outcomes stand in their order.
func (c *Client) AckReceipts(ctx context.Context, topic string, receipts ...string) ([]httpapi.AckResult, error) {
	var out httpapi.Acked
	err := c.send(ctx, "POST", topicPath(topic, "/ack"), httpapi.Ack{Receipts: receipts}, &out)
	return out.Results, err
}

// Retry puts a message off that a group has, or rejects it. A lease that is over is a problem with status 409.
func (c *Client) Retry(ctx context.Context, topic string, r httpapi.Retry) (httpapi.Retried, error) {
	var out httpapi.Retried
	err := c.send(ctx, "POST", topicPath(topic, "/retry"), r, &out)
	return out, err
}

// Extend makes the lease of a message end that long from now; with 0 at once.
func (c *Client) Extend(ctx context.Context, topic, receipt string, d time.Duration) error {
	return c.send(ctx, "POST", topicPath(topic, "/extend"), httpapi.Extend{Receipt: receipt, AckTimeout: milliseconds(d)}, nil)
}

// Groups lists the consumer groups.
func (c *Client) Groups(ctx context.Context) (httpapi.Groups, error) {
	return get[httpapi.Groups](ctx, c, "/v1/groups")
}

// Group is how a group stands; one that is not there is a problem with status 404.
func (c *Client) Group(ctx context.Context, group string) (httpapi.Group, error) {
	return get[httpapi.Group](ctx, c, groupPath(group, ""))
}

// DefineGroup makes a group of mode clustering or broadcast, or changes its mode.
func (c *Client) DefineGroup(ctx context.Context, group, mode string) (httpapi.Group, error) {
	var out httpapi.Group
	err := c.send(ctx, "PUT", groupPath(group, ""), httpapi.GroupSpec{Mode: mode}, &out)
	return out, err
}

// DeleteGroup removes a group with its offsets, retries and dead letters.
func (c *Client) DeleteGroup(ctx context.Context, group string) error {
	return c.call(ctx, "DELETE", groupPath(group, ""), nil, nil, nil)
}

// Seek sets where a group goes on.
func (c *Client) Seek(ctx context.Context, group string, to httpapi.Seek) (httpapi.Sought, error) {
	var out httpapi.Sought
	err := c.send(ctx, "POST", groupPath(group, "/seek"), to, &out)
	return out, err
}

// DeadGroups says how many dead letters each group has.
func (c *Client) DeadGroups(ctx context.Context) (httpapi.DeadGroups, error) {
	return get[httpapi.DeadGroups](ctx, c, "/v1/dlq")
}

// Dead asks for dead letters; what is empty leaves all. Times are as in List.
type Dead struct {
	Topic, Key, Tag, Reason string
	From, To                string
	Limit                   int    // of a page; 0: the server's choice
	Page                    string // "" is the first
}

// DeadLettersPage reads one page of a group's dead letters; Next of it is the Page that follows.
func (c *Client) DeadLettersPage(ctx context.Context, group string, d Dead) (httpapi.DeadLetters, error) {
	q := query("topic", d.Topic, "key", d.Key, "tag", d.Tag, "reason", d.Reason, "from", d.From, "to", d.To, "page", d.Page)
	if d.Limit > 0 {
		q.Set("limit", strconv.Itoa(d.Limit))
	}
	var out httpapi.DeadLetters
	err := c.call(ctx, "GET", deadPath(group, "?"+q.Encode()), nil, nil, &out)
	return out, err
}

// DeadLetters goes over a group's dead letters, from d.Page on. Pages are read as the loop comes to them. After an error
// the loop ends.
func (c *Client) DeadLetters(ctx context.Context, group string, d Dead) iter.Seq2[httpapi.DeadLetter, error] {
	return func(yield func(httpapi.DeadLetter, error) bool) {
		for {
			page, err := c.DeadLettersPage(ctx, group, d)
			if err != nil {
				yield(httpapi.DeadLetter{}, err)
				return
			}
			for _, l := range page.Letters {
				if !yield(l, nil) {
					return
				}
			}
			if d.Page = page.Next; d.Page == "" {
				return
			}
		}
	}
}

// DeadLetter shows a dead letter by its offset.
func (c *Client) DeadLetter(ctx context.Context, group string, offset int64) (httpapi.DeadLetter, error) {
	return get[httpapi.DeadLetter](ctx, c, deadPath(group, "/"+strconv.FormatInt(offset, 10)))
}

// RetryDeadLetters has dead letters delivered again, or with DryRun counts them.
func (c *Client) RetryDeadLetters(ctx context.Context, group string, s httpapi.DeadSelection) (httpapi.DeadDone, error) {
	var out httpapi.DeadDone
	err := c.send(ctx, "POST", deadPath(group, "/retry"), s, &out)
	return out, err
}

// DropDeadLetters removes dead letters, or with DryRun counts them.
func (c *Client) DropDeadLetters(ctx context.Context, group string, s httpapi.DeadSelection) (httpapi.DeadDone, error) {
	var out httpapi.DeadDone
	err := c.send(ctx, "POST", deadPath(group, "/drop"), s, &out)
	return out, err
}
