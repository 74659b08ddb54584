package httpapi

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Listen opens a TCP address of this machine, "127.0.0.1:7070" for one. It is Options{}.Listen.
func Listen(addr string) (net.Listener, error) { return Options{}.Listen(addr) }

// Listen opens a TCP address. One that other machines can reach takes tokens and a certificate; without both it is an
// error that says which keys to set. With a certificate all connections are TLS. Port 0 takes any free one. Connections
// beyond a limit are closed at once: 8,192 in all, and 512 of one address that is not this machine.
func (o Options) Listen(addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("httpapi: listen on %q: %w", addr, err)
	}
	if missing := o.missing(); !loopbackHost(addr) && missing != "" {
		return nil, fmt.Errorf("httpapi: listen on %q: %q can be reached from other machines, and %s: "+
			"set them, or listen on 127.0.0.1", addr, host, missing)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("httpapi: %w", err)
	}
	l = newCrowd(l, maxConnections, maxPerHost)
	if o.Certificate != nil {
		l = tls.NewListener(l, o.Certificate.config())
	}
	return l, nil
}

// missing says what is not there to let other machines in; empty: nothing.
func (o Options) missing() string {
	const tokens, cert = "[auth] tokens_file", "[listen] tls_cert and tls_key"
	switch {
	case o.Tokens == nil && o.Certificate == nil:
		return tokens + " as well as " + cert + " are not set"
	case o.Tokens == nil:
		return tokens + " is not set"
	case o.Certificate == nil:
		return cert + " are not set"
	}
	return ""
}

// Drainer is a handler whose waiting readers can be let go: an API, or a Startup.
type Drainer interface {
	http.Handler
	// Drain lets them go, and makes /readyz say that the server ends.
	Drain()
}

// maxHeader bounds what is read of a request before it is known whose it is, bytes. Properties may be 32 KiB; package
// http adds 4 KiB, and what it keeps of it is less than 64 KiB.
const maxHeader = 48 << 10

// NewServer is an http.Server for an API, with limits against peers that send or take slowly. Its Shutdown lets
// waiting readers go. A nil log is silence.
func NewServer(a Drainer, log *slog.Logger) *http.Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &http.Server{
		Handler:           a,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	s.RegisterOnShutdown(a.Drain)
	return s
}
