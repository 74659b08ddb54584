package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tidewheel/tidewheel/host/httpapi"
)

// Topic shows a topic.
func (c *Client) Topic(ctx context.Context, topic string) (httpapi.Topic, error) {
	return get[httpapi.Topic](ctx, c, topicPath(topic, ""))
}

// DeleteTopic removes a topic with its queues and committed offsets.
func (c *Client) DeleteTopic(ctx context.Context, topic string) error {
	return c.call(ctx, "DELETE", topicPath(topic, ""), nil, nil, nil)
}

// PauseTopic keeps groups from reading a topic, or lets them again.
func (c *Client) PauseTopic(ctx context.Context, topic string, paused bool) (httpapi.Topic, error) {
	var out httpapi.Topic
	verb := "/resume"
	if paused {
		verb = "/pause"
	}
	err := c.call(ctx, "POST", topicPath(topic, verb), nil, nil, &out)
	return out, err
}

// Message reads a message by its id.
func (c *Client) Message(ctx context.Context, id string) (httpapi.StoredMessage, error) {
	return get[httpapi.StoredMessage](ctx, c, "/v1/messages/"+url.PathEscape(id))
}

// Levels says what waits in each delay level.
func (c *Client) Levels(ctx context.Context) (httpapi.Levels, error) {
	return get[httpapi.Levels](ctx, c, "/v1/levels")
}

// Limits says what is refused.
func (c *Client) Limits(ctx context.Context) (httpapi.Limits, error) {
	return get[httpapi.Limits](ctx, c, "/v1/limits")
}

// Config is every key of the server's configuration with its value.
func (c *Client) Config(ctx context.Context) (httpapi.Configuration, error) {
	return get[httpapi.Configuration](ctx, c, "/v1/config")
}

// AdvanceClock moves the clock of a server that was started with one to be moved by hand, and waits until what is due then
// is delivered.
func (c *Client) AdvanceClock(ctx context.Context, d time.Duration) (httpapi.ServerTime, error) {
	var out httpapi.ServerTime
	err := c.send(ctx, "POST", "/v1/dev/clock", httpapi.Advance{Advance: milliseconds(d)}, &out)
	return out, err
}

// Events asks for what happens.
type Events struct {
	Topic string // "": all
	// From is where to begin: "now", "first" or a position; "" is now.
	From string
	// After, if it is above 0, is the Position of the last event that was seen; it counts before From.
	After int64
}

// maxEvent is the longest line of a stream, bytes.
const maxEvent = 1 << 20

// ErrStreamEnded is the kind of an error when a stream of events ended without a problem, as when the server stops. Ask
// again After the last event.
var ErrStreamEnded = errors.New("client: the stream of events ended")

// Events goes over what happens, in the order of the log, until the context ends, which is no error. After an error the
// loop ends: a *httpapi.Problem, or of kind ErrUnreachable or ErrStreamEnded.
func (c *Client) Events(ctx context.Context, e Events) iter.Seq2[httpapi.LogEvent, error] {
	return func(yield func(httpapi.LogEvent, error) bool) {
		err := c.stream(ctx, e, func(ev httpapi.LogEvent) bool { return yield(ev, nil) })
		if err != nil && ctx.Err() == nil {
			yield(httpapi.LogEvent{}, err)
		}
	}
}

// stream reads events until yield says no, which is no error.
func (c *Client) stream(ctx context.Context, e Events, yield func(httpapi.LogEvent) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	header := http.Header{}
	if e.After > 0 {
		header.Set("Last-Event-ID", strconv.FormatInt(e.After, 10))
	}
	req, err := c.request(ctx, "GET", "/v1/events?"+query("topic", e.Topic, "from", e.From).Encode(), header, nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return unreachable(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxEvent)) // what is there of it
		return asError(resp, answer)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEvent)
	name := ""
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "event":
			name = value
		case "data":
			if name == "problem" {
				p := new(httpapi.Problem)
				if err := json.Unmarshal([]byte(value), p); err != nil {
					return fmt.Errorf("%w: the answer makes no sense: %w", ErrUnreachable, err)
				}
				return p
			}
			var ev httpapi.LogEvent
			if err := json.Unmarshal([]byte(value), &ev); err != nil {
				return fmt.Errorf("%w: the answer makes no sense: %w", ErrUnreachable, err)
			}
			if !yield(ev) {
				return nil
			}
		}
	}
	if err := lines.Err(); err != nil {
		return unreachable(err)
	}
	return ErrStreamEnded
}
