package httpapi

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Listen opens a TCP address, "127.0.0.1:7070" for one. Only loopback addresses are allowed: there is no authentication
// yet. Port 0 takes any free one.
func Listen(addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("httpapi: listen on %q: %w", addr, err)
	}
	if !loopbackHost(addr) {
		return nil, fmt.Errorf("httpapi: listen on %q: %q is not a loopback address; "+
			"this version has no authentication and listens on this machine only", addr, host)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("httpapi: %w", err)
	}
	return l, nil
}

// Drainer is a handler whose waiting readers can be let go. API is one, and Startup.
type Drainer interface {
	http.Handler
	Drain()
}

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
		MaxHeaderBytes:    64 << 10, // properties may be 32 KiB
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	s.RegisterOnShutdown(a.Drain)
	return s
}
