package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
)

// ErrRefused is the kind of an error about a request that may not be made. Nothing was sent.
var ErrRefused = errors.New("egress: refused")

// Kind says why no whole answer came.
type Kind uint8

// The kinds.
const (
	NameNotFound   Kind = 1 + iota // the host has no address
	AddressRefused                 // the host has an address, and it is none that requests may go to
	CannotConnect                  // nothing listens there, or nothing gets there
	TLSFailed                      // the certificate is not valid for the host, or the handshake failed
	TimedOut                       // no whole answer within the time
	Broken                         // the connection ended too soon, or what came is no HTTP
	Stopped                        // the caller's context ended
)

var kinds = [...]struct{ name, reason string }{
	NameNotFound:   {"dns", "the host has no address"},
	AddressRefused: {"address", "the host's address is not allowed"},
	CannotConnect:  {"connect", "cannot connect"},
	TLSFailed:      {"tls", "TLS failed"},
	TimedOut:       {"timeout", "timed out"},
	Broken:         {"broken", "the answer is broken"},
	Stopped:        {"stopped", "stopped"},
}

// String is the kind's name in metrics: dns, address, connect, tls, timeout, broken, stopped.
func (k Kind) String() string {
	if k == 0 || int(k) >= len(kinds) {
		return "unknown"
	}
	return kinds[k].name
}

// Reason is the sentence that a plugin may know.
func (k Kind) Reason() string {
	if k == 0 || int(k) >= len(kinds) {
		return "unknown"
	}
	return kinds[k].reason
}

// Error says that no whole answer came. The request may have arrived all the same, unless the kind is one of the first four.
type Error struct {
	Kind Kind
	Host string // of the URL, with its port
	Err  error  // for operators: it may name addresses
}

// Error names the host, the kind and the cause.
func (e *Error) Error() string {
	return fmt.Sprintf("egress: %s: %s: %v", e.Host, e.Kind.Reason(), e.Err)
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// addressError is what the gate of a connection returns.
type addressError struct{ address string }

func (e *addressError) Error() string { return "requests may not go to " + e.address }

// failure makes an Error of what the transport returned. parent is the caller's context.
func failure(parent context.Context, host string, err error) *Error {
	e := &Error{Kind: Broken, Host: host, Err: err}
	var (
		gate  *addressError
		dns   *net.DNSError
		op    *net.OpError
		cert  *tls.CertificateVerificationError
		alert tls.AlertError
		frame tls.RecordHeaderError
	)
	switch {
	case parent.Err() != nil:
		e.Kind = Stopped
	case errors.As(err, &gate):
		e.Kind = AddressRefused
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		e.Kind = TimedOut
	case errors.As(err, &dns):
		e.Kind = NameNotFound
	case errors.As(err, &cert), errors.As(err, &alert), errors.As(err, &frame), strings.Contains(err.Error(), "tls: "):
		e.Kind = TLSFailed // other faults of a handshake have no type
	case errors.As(err, &op) && op.Op == "dial", errors.Is(err, syscall.ECONNREFUSED):
		e.Kind = CannotConnect
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		e.Err = io.ErrUnexpectedEOF
	}
	return e
}
