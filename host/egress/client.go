package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// maxAnswerHeader is how long the headers of a response may be, in bytes.
const maxAnswerHeader = 64 << 10

// idempotencyKey is a header whose presence, without a value, tells net/http that a request may be made again on a new connection
// when a kept one turns out to be closed. Nothing is sent of it. Receivers tell a repeated message by its id anyway.
const idempotencyKey = "Idempotency-Key"

// NoBody as Options.MaxResponse means that nothing is wanted of a response's body.
const NoBody = -1

// methods are those that a plugin may use.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}

// Options say where a Client may go. The zero Options allow nothing.
type Options struct {
	// Allow is the list of hosts.
	Allow []Rule
	// Private are the addresses that hosts may have beside public ones.
	Private []netip.Prefix
	// Roots are the certificates that servers are verified against; nil: those of the system. See Roots.
	Roots *x509.CertPool
	// Timeout is for a request from its first to its last byte, with looking up and connecting. 10 s.
	Timeout time.Duration
	// MaxRequest and MaxResponse bound bodies, in bytes. 1 MiB. A longer response is cut off. MaxResponse may be NoBody.
	MaxRequest, MaxResponse int
	// Conns is how many connections to one host are kept open for the next request. 2.
	Conns int
	// UserAgent is sent when the plugin sets none.
	UserAgent string
	// Resolver looks names up; nil: net.DefaultResolver.
	Resolver *net.Resolver
}

// Client makes requests. Safe for concurrent use. Close it when no request is on its way.
type Client struct {
	o         Options
	transport *http.Transport
}

// New returns a client.
func New(o Options) *Client {
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.MaxRequest == 0 {
		o.MaxRequest = 1 << 20
	}
	switch {
	case o.MaxResponse == 0:
		o.MaxResponse = 1 << 20
	case o.MaxResponse < 0:
		o.MaxResponse = 0
	}
	if o.Conns == 0 {
		o.Conns = 2
	}
	c := &Client{o: o}
	dialer := &net.Dialer{Resolver: o.Resolver, ControlContext: c.gate}
	var only1 http.Protocols
	only1.SetHTTP1(true) // a request has its connection to itself, so that none waits for another one's flow control
	c.transport = &http.Transport{
		Proxy:                  nil, // none from the environment: it would connect in our place, past the gate
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.Roots},
		Protocols:              &only1,
		DisableCompression:     true, // a small body could become a large one
		MaxIdleConnsPerHost:    o.Conns,
		MaxIdleConns:           256,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: maxAnswerHeader,
	}
	return c
}

// Roots are the system's certificates and those of a file in PEM.
func Roots(pem []byte) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("egress: there is no certificate in PEM")
	}
	return pool, nil
}

// gate is called with the address that a connection is about to be made to, after all looking up.
func (c *Client) gate(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !reaches(to.Addr(), c.o.Private) {
		return &addressError{address}
	}
	return nil
}

// Close ends the connections that are kept.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Request is what a plugin wants to send, and what the host adds.
type Request struct {
	URL     string
	Method  string // POST when empty
	Headers []Header
	Body    []byte // only read

	ID      string // of the message; empty: the headers of Standard Webhooks are not sent
	NowMs   int64  // ms since 1970, for the timestamp
	Secrets []Secret
}

// Response is what came back.
type Response struct {
	Status  int
	Headers []Header // names in small letters, in order
	Body    []byte
	Cut     bool // the body was longer than MaxResponse
}

// Target checks a URL, and that a rule of the list names its host. The error is of kind ErrRefused.
func (c *Client) Target(url string) (*Target, error) {
	t, err := ParseTarget(url)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(c.o.Allow, func(r Rule) bool { return r.allows(t) }) {
		return nil, fmt.Errorf("%w: %s://%s is not in the list of allowed hosts", ErrRefused, t.URL.Scheme, t.Authority())
	}
	return t, nil
}

// Do makes one request and returns the whole answer, whatever its status. The error is of kind ErrRefused when the request may
// not be made, else an *Error.
func (c *Client) Do(ctx context.Context, r *Request) (*Response, error) {
	t, err := c.Target(r.URL)
	if err != nil {
		return nil, err
	}
	timed, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	req, err := c.request(timed, r, t)
	if err != nil {
		return nil, err
	}
	answer, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, failure(ctx, t.Authority(), err)
	}
	defer answer.Body.Close()
	if answer.StatusCode < 200 { // 101: nobody asked to speak something else
		return nil, failure(ctx, t.Authority(), fmt.Errorf("status %d", answer.StatusCode))
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, int64(c.o.MaxResponse)+1))
	if err != nil {
		return nil, failure(ctx, t.Authority(), err)
	}
	got := &Response{Status: answer.StatusCode, Headers: lines(answer.Header), Body: body}
	if len(body) > c.o.MaxResponse {
		got.Body, got.Cut = body[:c.o.MaxResponse], true
	}
	return got, nil
}

// request checks all but the URL, and puts the request together.
func (c *Client) request(ctx context.Context, r *Request, t *Target) (*http.Request, error) {
	method := r.Method
	if method == "" {
		method = "POST"
	}
	if !slices.Contains(methods, method) {
		return nil, fmt.Errorf("%w: method %q is not one of %v", ErrRefused, cut(method), methods)
	}
	if len(r.Body) > c.o.MaxRequest {
		return nil, fmt.Errorf("%w: a body of %d bytes, at most %d", ErrRefused, len(r.Body), c.o.MaxRequest)
	}
	all, err := header(r.Headers)
	if err != nil {
		return nil, err
	}
	if all.Get("User-Agent") == "" {
		all.Set("User-Agent", c.o.UserAgent)
	}
	if r.ID != "" {
		seconds := r.NowMs / 1000
		all.Set(HeaderID, r.ID)
		all.Set(HeaderTimestamp, fmt.Sprint(seconds))
		if len(r.Secrets) > 0 {
			all.Set(HeaderSignature, Signature(r.Secrets, r.ID, seconds, r.Body))
		}
		if _, ok := all[idempotencyKey]; !ok {
			all[idempotencyKey] = nil
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, t.URL.String(), bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if req.URL.Host != t.URL.Host {
		return nil, fmt.Errorf("%w: the host of %q is not the one that was checked", ErrRefused, cut(r.URL))
	}
	req.Header = all
	return req, nil
}
