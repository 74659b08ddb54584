package httpapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/bulk"
	"github.com/tidewheel/tidewheel/host/config"
	"github.com/tidewheel/tidewheel/host/delivery"
	"github.com/tidewheel/tidewheel/host/pluginhost"
)

// Options tune an API. The zero value is right for most.
type Options struct {
	// Prefix is what all paths begin with, as "/tidewheel". None.
	Prefix string
	// ReadOnly refuses whatever changes something.
	ReadOnly bool
	// Tokens are who may do what. Nil: everybody may do everything, and a request must name this machine in its Host
	// header; Listen takes addresses of this machine only.
	Tokens *Tokens
	// Certificate makes Listen speak TLS. Nil: plain TCP.
	Certificate *Certificate
	// AnyHost takes requests whatever their Host header names, also without Tokens: for a handler within another program
	// that knows by itself who asks.
	AnyHost bool
	// Settings are the keys and values that /v1/config shows, with no secret in them. Nil: none.
	Settings func() []config.Setting
	// Plugins are those that decide about the broker's messages, which stay the caller's. Nil: there are none.
	Plugins *pluginhost.Host
	// Deliveries are the workers of those that deliver, which stay the caller's. Nil: there are none.
	Deliveries *delivery.Fleet
	// Clock is what /v1/dev/clock moves, which should be the broker's. Nil: the clock is real, and nobody may.
	Clock *broker.ManualClock
}

// API is an http.Handler. It is safe for concurrent use.
type API struct {
	b        *broker.Broker
	opts     Options
	mux      *http.ServeMux
	origin   *http.CrossOriginProtection
	drained  context.Context
	drain    context.CancelFunc
	meter    *meter
	bulkJobs *bulk.Manager
	pulled   sync.Pool // of *broker.Pulled

	document func() ([]byte, error) // /openapi.json
}

// Handler serves a broker. Close the API after the last request has ended, and then the broker, which stays the caller's.
func Handler(b *broker.Broker, opts Options) *API {
	a := &API{b: b, opts: opts, mux: http.NewServeMux(), origin: http.NewCrossOriginProtection(), meter: newMeter(b, &opts), bulkJobs: bulk.New(b)}
	a.drained, a.drain = context.WithCancel(context.Background())
	context.AfterFunc(a.drained, a.bulkJobs.Close)
	a.document = sync.OnceValues(func() ([]byte, error) { return makeDocument(opts) })
	a.pulled.New = func() any { return new(broker.Pulled) }
	for i := range routes {
		r := &routes[i]
		a.mux.HandleFunc(r.method+" "+opts.Prefix+r.pattern, a.serve(r))
	}
	a.mux.HandleFunc("/", a.unknown)
	return a
}

// Drain lets waiting readers go, so that a server can end, and makes /readyz say so.
func (a *API) Drain() { a.drain() }

// Close drains, stops bulk changes, and waits until they have ended. Call it before the broker is closed. Closing twice is
// no error.
func (a *API) Close() {
	a.drain()
	a.bulkJobs.Close()
}

// bodyTime and answerTime bound how long a peer may take to send a body and to take an answer.
const (
	bodyTime   = 30 * time.Second
	answerTime = 30 * time.Second
)

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p := a.refuse(r); p != nil {
		p.write(w)
		return
	}
	if path.Clean(r.URL.Path) != r.URL.Path {
		unknownPath(r).write(w) // the mux would redirect, and a put that follows becomes a GET
		return
	}
	a.mux.ServeHTTP(w, r)
}

// refuse looks at where a request comes from.
func (a *API) refuse(r *http.Request) *Problem {
	if a.opts.Tokens == nil && !a.opts.AnyHost && !loopbackHost(r.Host) {
		p := problem("host_not_allowed")
		p.Field, p.Got, p.Limit = "Host", shorten(r.Host), "localhost or a loopback address"
		return p
	}
	if err := a.origin.Check(r); err != nil {
		p := problem("cross_origin")
		p.Detail = err.Error()
		return p
	}
	return nil
}

// loopbackHost says whether a Host header, with a port or without, means this machine.
func loopbackHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// serve wraps a route's handler: what it returns is answered as a problem.
func (a *API) serve(rt *route) http.HandlerFunc {
	count := a.meter.of(rt)
	return func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		sent := &recorder{ResponseWriter: w}
		c := &call{w: sent, r: r, route: rt}
		deadline(http.NewResponseController(w).SetWriteDeadline, answerTime)
		if a.admit(c) {
			if err := rt.handle(a, c); err != nil {
				asProblem(err).write(sent)
			}
		}
		count.answered(sent.code(), time.Since(began))
	}
}

// deadline sets a deadline from now, where the connection has such a thing.
func deadline(set func(time.Time) error, d time.Duration) {
	if err := set(time.Now().Add(d)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return // the connection is gone: reading or writing will say so
	}
}

// unknown answers what no route takes, and tells a wrong method from a wrong path.
func (a *API) unknown(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		probe := r.Clone(r.Context())
		probe.Method = method
		if _, pattern := a.mux.Handler(probe); pattern != "/" && pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		p := problem("method_not_allowed")
		p.Field, p.Got, p.Limit = "method", shorten(r.Method), strings.Join(allowed, ", ")
		p.write(w)
		return
	}
	unknownPath(r).write(w)
}

func unknownPath(r *http.Request) *Problem {
	p := problem("unknown_path")
	p.Field, p.Got, p.Fix = "path", shorten(r.URL.Path), "GET /openapi.json lists all paths"
	return p
}
