package segment

import "errors"

// Returned by Read.
var (
	// ErrTrimmed says that the cell was given up by Trim.
	ErrTrimmed = errors.New("segment: cell was trimmed")
	// ErrClosed says that the array is closed.
	ErrClosed = errors.New("segment: array is closed")
)

// ErrSync is the kind of an error from Flush, Delete or RemoveAll whose cause is a failed sync of a file or directory.
// It is final: what the disk holds is not known, and no later sync can be believed.
var ErrSync = errors.New("segment: sync failed")

// ErrNewerFormat is the kind of an error about a file that a newer version wrote. The message has both versions.
var ErrNewerFormat = errors.New("segment: newer format")
