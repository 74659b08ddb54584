package timerlog

import "errors"

var (
	// ErrNewerFormat is returned by everything that opens a file: it was written by a later version of the format.
	ErrNewerFormat = errors.New("timerlog: newer format")

	// ErrFailed is returned by everything that writes, after a sync failed, for as long as the Log is open: nobody knows
	// what the disk holds, and a later sync would not tell.
	ErrFailed = errors.New("timerlog: a sync failed")

	// ErrClosed is returned by every method of a Log that was closed.
	ErrClosed = errors.New("timerlog: closed")

	// ErrOrder is returned by WriteGroup: the entries do not ascend.
	ErrOrder = errors.New("timerlog: entries out of order")
)
