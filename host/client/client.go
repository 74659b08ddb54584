// Package client speaks to a Tidewheel server over HTTP, with the types of package httpapi.
//
//	c, err := client.New("http://127.0.0.1:7070")
//	s, err := c.Put(ctx, "orders", httpapi.Envelope{Body: &body, DelayLevel: 3})
//	got, err := c.Pull(ctx, client.Pull{Topic: "orders", Group: "billing", Wait: 20 * time.Second})
//
// An error is a *httpapi.Problem when the server answered, and of kind ErrUnreachable when it could not be asked or did
// not answer: then it is open whether a request was done.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tidewheel/tidewheel/host/httpapi"
)

// DefaultURL is where a server listens that was not told otherwise.
const DefaultURL = "http://127.0.0.1:7070"

// ErrUnreachable is the kind of an error when no answer came.
var ErrUnreachable = errors.New("client: the server does not answer")

// ErrNotSent is the kind of an ErrUnreachable when no connection was made: then nothing was done.
var ErrNotSent = errors.New("no connection")

// maxAnswer bounds what is read of an answer, bytes: a full pull of large messages, with room.
const maxAnswer = 64 << 20

// Client is a server's address with connections to it. It is safe for concurrent use. CloseIdle lets go of them.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// Options tune a client. The zero value is right for a server on this machine.
type Options struct {
	// Token is the bearer token that goes with each request. None.
	Token string
	// TLS is how a server behind https is trusted. Nil: as this machine trusts others.
	TLS *tls.Config
}

// New makes a client for the base URL of a server, without a token. It does not connect.
func New(base string) (*Client, error) { return NewWith(base, Options{}) }

// NewWith makes a client for the base URL of a server. It does not connect. A token is not sent over plain HTTP to
// another machine: that is an error.
func NewWith(base string, opts Options) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("client: %q is not a URL like %s", base, DefaultURL)
	}
	if opts.Token != "" && u.Scheme == "http" && !onThisMachine(u.Hostname()) {
		return nil, fmt.Errorf("client: %s is another machine: a token goes there over https only", base)
	}
	return &Client{
		base: strings.TrimSuffix(base, "/"), token: opts.Token,
		http: &http.Client{
			Transport: &http.Transport{
				DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
				MaxIdleConnsPerHost: 256,
				IdleConnTimeout:     time.Minute,
				TLSClientConfig:     opts.TLS.Clone(),
				ForceAttemptHTTP2:   true,
			},
			// The server never redirects; whoever does is not it, and a put that is followed becomes a GET.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// SetToken says the bearer token that each request from now on carries; "" is none. It is not safe for concurrent use with
// requests: call it first.
func (c *Client) SetToken(token string) { c.token = token }

// onThisMachine says whether a host is a loopback one.
func onThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// CloseIdle closes the connections that no request is using.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

// Put stores one message. The envelope's topic is not used.
func (c *Client) Put(ctx context.Context, topic string, e httpapi.Envelope) (httpapi.Stored, error) {
	var s httpapi.Stored
	e.Topic = ""
	b, err := json.Marshal(e)
	if err != nil {
		return s, fmt.Errorf("client: %w", err)
	}
	header := http.Header{"Content-Type": {httpapi.EnvelopeType}}
	err = c.call(ctx, "POST", "/v1/topics/"+url.PathEscape(topic)+"/messages", header, b, &s)
	return s, err
}

// PutRaw stores one message with its body as it is; header has the Tidewheel- headers of package httpapi, and may be
// nil.
func (c *Client) PutRaw(ctx context.Context, topic string, header http.Header, body []byte) (httpapi.Stored, error) {
	var s httpapi.Stored
	err := c.call(ctx, "POST", "/v1/topics/"+url.PathEscape(topic)+"/messages", header, body, &s)
	return s, err
}

// PutBatch stores the envelopes of NDJSON lines, a topic in each. There is a result for each line that is not empty.
func (c *Client) PutBatch(ctx context.Context, ndjson []byte) ([]httpapi.BatchResult, error) {
	var raw []byte
	header := http.Header{"Content-Type": {"application/x-ndjson"}}
	if err := c.call(ctx, "POST", "/v1/messages/batch", header, ndjson, &raw); err != nil {
		return nil, err
	}
	var results []httpapi.BatchResult
	dec := json.NewDecoder(bytes.NewReader(raw))
	for {
		var r httpapi.BatchResult
		if err := dec.Decode(&r); err == io.EOF {
			return results, nil
		} else if err != nil {
			return results, fmt.Errorf("%w: the answer makes no sense: %w", ErrUnreachable, err)
		}
		results = append(results, r)
	}
}

// Pull asks for messages of a topic.
type Pull struct {
	Topic string
	Group string
	// From says which queues to read and from where; a negative offset is where the group stands. Nil: all queues.
	From []httpapi.QueueOffset
	Tags []string
	Max  int // 0: the server's choice
	Wait time.Duration
	// AckTimeout is how long a group has what it is given, when From is nil; 0: as the server is set.
	AckTimeout time.Duration
}

// Pull reads messages.
func (c *Client) Pull(ctx context.Context, p Pull) (httpapi.Messages, error) {
	q := url.Values{}
	if p.Group != "" {
		q.Set("group", p.Group)
	}
	for _, f := range p.From {
		q.Add("queue", strconv.Itoa(f.Queue))
		q.Add("offset", strconv.FormatInt(max(int64(f.Offset), -1), 10))
	}
	for _, tag := range p.Tags {
		q.Add("tag", tag)
	}
	if p.Max > 0 {
		q.Set("max", strconv.Itoa(p.Max))
	}
	if p.Wait > 0 {
		q.Set("wait", p.Wait.String())
	}
	if p.AckTimeout > 0 {
		q.Set("ack_timeout", milliseconds(p.AckTimeout))
	}
	var m httpapi.Messages
	err := c.call(ctx, "GET", "/v1/topics/"+url.PathEscape(p.Topic)+"/messages?"+q.Encode(), nil, nil, &m)
	return m, err
}

// Ack commits how far a group has come. For receipts there is AckReceipts.
func (c *Client) Ack(ctx context.Context, topic string, ack httpapi.Ack) error {
	return c.send(ctx, "POST", "/v1/topics/"+url.PathEscape(topic)+"/ack", ack, nil)
}

// milliseconds writes a duration as the server reads it.
func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

// Cancel takes a waiting message back. Too late is a problem with status 409, an unknown handle one with 404.
func (c *Client) Cancel(ctx context.Context, handle string) (httpapi.Cancelled, error) {
	var out httpapi.Cancelled
	err := c.call(ctx, "DELETE", "/v1/timers/"+url.PathEscape(handle), nil, nil, &out)
	return out, err
}

// Timer says what became of a delayed message.
func (c *Client) Timer(ctx context.Context, handle string) (httpapi.Timer, error) {
	return get[httpapi.Timer](ctx, c, "/v1/timers/"+url.PathEscape(handle))
}

// Move gives a waiting message another due time. The refusals are those of Cancel, and an already cancelled one with 409.
func (c *Client) Move(ctx context.Context, handle string, to httpapi.Reschedule) (httpapi.Changed, error) {
	var out httpapi.Changed
	b, err := json.Marshal(to)
	if err != nil {
		return out, fmt.Errorf("client: %w", err)
	}
	err = c.call(ctx, "PATCH", "/v1/timers/"+url.PathEscape(handle), nil, b, &out)
	return out, err
}

// Fire delivers a waiting message now. The refusals are those of Move.
func (c *Client) Fire(ctx context.Context, handle string) (httpapi.Changed, error) {
	var out httpapi.Changed
	err := c.call(ctx, "POST", "/v1/timers/"+url.PathEscape(handle)+"/fire", nil, nil, &out)
	return out, err
}

// Undo takes a cancel back, until the message's due time.
func (c *Client) Undo(ctx context.Context, handle string) (httpapi.Changed, error) {
	var out httpapi.Changed
	err := c.call(ctx, "POST", "/v1/timers/"+url.PathEscape(handle)+"/undo", nil, nil, &out)
	return out, err
}

// Explain tells the life of a delayed message.
func (c *Client) Explain(ctx context.Context, handle string) (httpapi.Explanation, error) {
	return get[httpapi.Explanation](ctx, c, "/v1/timers/"+url.PathEscape(handle)+"/explain")
}

// List asks for waiting messages. Times are as package instant has them, by the server's clock; "" is none.
type List struct {
	Topic    string
	From, To string
	Tags     []string
	Key      string
	Limit    int    // of a page; 0: the server's choice
	Page     string // "" is the first
}

// List reads one page of waiting messages; Next of it is the Page that follows.
func (c *Client) List(ctx context.Context, l List) (httpapi.Timers, error) {
	q := query("topic", l.Topic, "from", l.From, "to", l.To, "key", l.Key, "page", l.Page)
	for _, tag := range l.Tags {
		q.Add("tag", tag)
	}
	if l.Limit > 0 {
		q.Set("limit", strconv.Itoa(l.Limit))
	}
	var out httpapi.Timers
	err := c.call(ctx, "GET", "/v1/timers?"+q.Encode(), nil, nil, &out)
	return out, err
}

// Timers goes over waiting messages in the order of their due times, from l.Page on. Pages are read as the loop comes to
// them. After an error the loop ends.
func (c *Client) Timers(ctx context.Context, l List) iter.Seq2[httpapi.Waiting, error] {
	return func(yield func(httpapi.Waiting, error) bool) {
		for {
			page, err := c.List(ctx, l)
			if err != nil {
				yield(httpapi.Waiting{}, err)
				return
			}
			for _, w := range page.Timers {
				if !yield(w, nil) {
					return
				}
			}
			if l.Page = page.Next; l.Page == "" {
				return
			}
		}
	}
}

// Horizon asks how many messages fall due when. Times are as in List, Step is a duration; "" is the server's choice.
type Horizon struct{ Topic, From, To, Step string }

// Horizon counts waiting messages by due time.
func (c *Client) Horizon(ctx context.Context, h Horizon) (httpapi.Horizon, error) {
	q := query("topic", h.Topic, "from", h.From, "to", h.To, "step", h.Step)
	var out httpapi.Horizon
	err := c.call(ctx, "GET", "/v1/horizon?"+q.Encode(), nil, nil, &out)
	return out, err
}

// query makes parameters of pairs; what is empty is left out.
func query(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}

// DefineTopic makes a topic, or changes its queues.
func (c *Client) DefineTopic(ctx context.Context, topic string, queues int) (httpapi.Topic, error) {
	var out httpapi.Topic
	b, err := json.Marshal(httpapi.TopicSpec{Queues: queues})
	if err != nil {
		return out, fmt.Errorf("client: %w", err)
	}
	err = c.call(ctx, "PUT", "/v1/topics/"+url.PathEscape(topic), nil, b, &out)
	return out, err
}

// Topics lists the topics.
func (c *Client) Topics(ctx context.Context) (httpapi.Topics, error) {
	return get[httpapi.Topics](ctx, c, "/v1/topics")
}

// Status counts.
func (c *Client) Status(ctx context.Context) (httpapi.Status, error) {
	return get[httpapi.Status](ctx, c, "/v1/status")
}

// Ready is nil when the server takes messages.
func (c *Client) Ready(ctx context.Context) error {
	return c.call(ctx, "GET", "/readyz", nil, nil, nil)
}

// send is call with a body in JSON.
func (c *Client) send(ctx context.Context, method, path string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	return c.call(ctx, method, path, nil, b, into)
}

// request makes one request.
func (c *Client) request(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if header != nil {
		req.Header = header.Clone()
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return req, nil
}

// get reads what stands at a path.
func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	var out T
	err := c.call(ctx, "GET", path, nil, nil, &out)
	return out, err
}

// call sends one request and reads its answer: a *[]byte gets it as it is, nil drops it, anything else is JSON.
func (c *Client) call(ctx context.Context, method, path string, header http.Header, body []byte, into any) error {
	req, err := c.request(ctx, method, path, header, body)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return unreachable(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if resp.StatusCode >= 300 {
		return asError(resp, answer)
	}
	switch into := into.(type) {
	case nil:
		return nil
	case *[]byte:
		*into = answer
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%w: the answer makes no sense: %w", ErrUnreachable, err)
	}
	return nil
}

// unreachable tells a request that never left from one that may have been done.
func unreachable(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return fmt.Errorf("%w: %w: %w", ErrUnreachable, ErrNotSent, op.Err)
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// asError makes a problem of an answer that is none of ours, too.
func asError(resp *http.Response, answer []byte) error {
	var p httpapi.Problem
	if resp.Header.Get("Content-Type") == httpapi.ProblemType && json.Unmarshal(answer, &p) == nil && p.Status != 0 {
		return &p
	}
	return &httpapi.Problem{
		Type: "about:blank", Title: "The server is not a Tidewheel, or something stands before it",
		Status: resp.StatusCode, Code: "foreign_answer", Detail: resp.Status,
	}
}
