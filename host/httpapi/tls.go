package httpapi

import (
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrCertificate is the kind of every error about the files of TLS.
var ErrCertificate = errors.New("certificate")

// Certificate is what a server shows in TLS, from two files in PEM: the certificate with those of the authorities
// between, and its key. It is safe for concurrent use.
type Certificate struct {
	certFile, keyFile string
	pair              atomic.Pointer[tls.Certificate]
}

// OpenCertificate reads the files. The error is of kind ErrCertificate.
func OpenCertificate(certFile, keyFile string) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile}
	if err := c.Reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// Reload reads the files again: new connections get what is in them then. After an error what was before stays.
func (c *Certificate) Reload() error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("httpapi: %w: %s with key %s: %w", ErrCertificate, c.certFile, c.keyFile, err)
	}
	c.pair.Store(&pair)
	return nil
}

// config is for a listener.
func (c *Certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.pair.Load(), nil
		},
	}
}
