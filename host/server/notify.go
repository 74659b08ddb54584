package server

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// notifier tells a service manager how the server is, in the protocol of sd_notify. The zero value tells nobody. It is
// safe for concurrent use.
type notifier struct{ socket string }

// tell sends lines of the form NAME=value. Nobody waits for it long, and nobody fails because of it.
func (n notifier) tell(state string) error {
	if n.socket == "" {
		return nil
	}
	// A leading @ stands for NUL, an abstract name; package net knows that.
	conn, err := net.DialTimeout("unixgram", n.socket, time.Second)
	if err != nil {
		return fmt.Errorf("server: notify: %w", err)
	}
	err = conn.SetWriteDeadline(time.Now().Add(time.Second))
	if err == nil {
		_, err = conn.Write([]byte(state))
	}
	if err := errors.Join(err, conn.Close()); err != nil {
		return fmt.Errorf("server: notify: %w", err)
	}
	return nil
}
