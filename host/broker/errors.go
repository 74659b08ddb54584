package broker

import (
	"errors"

	"github.com/tidewheel/tidewheel/engine"
)

// ErrClosed is returned by every call after Close, and by one that Close found waiting: nothing was stored.
var ErrClosed = errors.New("broker: closed")

// ErrUnknown is the kind of an error that leaves open whether the request was done: the context ended after the writer
// had taken it, or a sync failed. Any other error of a request means that nothing happened.
var ErrUnknown = errors.New("broker: outcome unknown")

// ErrFailed is the kind of every error after a write of the log or a sync failed: reads go on, nothing more is stored
// until the directory is opened again.
var ErrFailed = engine.ErrFailed

// ErrRequest is the kind of an error about the arguments of a call that the engine never saw.
var ErrRequest = errors.New("broker: bad request")

// Returned for a receipt.
var (
	// ErrExpired: the lease is over, or the broker was opened again since. The message comes again, or has come.
	ErrExpired = errors.New("broker: lease is over")
	// ErrReceipt: there is no such receipt, or its group or topic is gone.
	ErrReceipt = errors.New("broker: unknown receipt")
)

// ErrBroadcast is the kind of an error about a broadcast group: messages with a delay are not for one, and it has no
// place of its own to go on from.
var ErrBroadcast = engine.ErrBroadcast
