package httpapi

import (
	"fmt"
	"net/http"
	"sync/atomic"
)

// Startup is the http.Handler of a server that listens before its store is open: it answers /healthz with 200, and
// everything else with 503 and a problem of code "recovering" that says how far the recovery is. From Ready on it is the
// API. It is safe for concurrent use.
type Startup struct {
	prefix    string
	done, all atomic.Int64
	draining  atomic.Bool
	api       atomic.Pointer[API]
}

// NewStartup is for the Options that the API will have.
func NewStartup(opts Options) *Startup { return &Startup{prefix: opts.Prefix} }

// Progress says how much of the log is read, and how much there is to read, in bytes. It fits engine.Options.Progress.
func (s *Startup) Progress(done, all int64) {
	s.done.Store(done)
	s.all.Store(all)
}

// Ready hands over to the API.
func (s *Startup) Ready(a *API) {
	s.api.Store(a)
	if s.draining.Load() {
		a.Drain()
	}
}

// Drain is the API's, also of one that is not there yet.
func (s *Startup) Drain() {
	s.draining.Store(true)
	if a := s.api.Load(); a != nil {
		a.Drain()
	}
}

// ServeHTTP answers one request.
func (s *Startup) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a := s.api.Load(); a != nil {
		a.ServeHTTP(w, r)
		return
	}
	if r.URL.Path == s.prefix+"/healthz" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n")) // the peer may be gone
		return
	}
	p := problem("recovering")
	p.DoneBytes, p.AllBytes = s.done.Load(), s.all.Load()
	p.Detail, p.Fix = "it opens its files", "try again"
	if p.AllBytes > 0 {
		p.Detail = fmt.Sprintf("it has read %d of %d bytes of its log", p.DoneBytes, p.AllBytes)
	}
	w.Header().Set("Retry-After", startRetry)
	p.write(w)
}

// startRetry is when to ask again, s.
const startRetry = "1"
