package commitlog

import (
	"errors"
	"fmt"
	"io/fs"
)

// Opening.
var (
	// ErrNewerFormat says that the files were written by a later version of this package.
	ErrNewerFormat = errors.New("commitlog: newer format")

	// ErrReadOnly is returned by what writes when Options.ReadOnly is set.
	ErrReadOnly = errors.New("commitlog: opened read-only")

	// ErrInterrupted is returned by a read-only Recover when one that wrote was interrupted: it must be done again first.
	ErrInterrupted = errors.New("commitlog: recovery was interrupted, open for writing")

	// ErrNotRecovered is returned by what needs the end of the log before Recover has found it.
	ErrNotRecovered = errors.New("commitlog: not recovered")
)

// Writing.
var (
	// ErrFailed wraps the first failed write or fsync. It is final: nothing is known of what was written since the
	// last successful Sync, so the log must be opened again.
	ErrFailed = errors.New("commitlog: failed, open it again")

	// ErrNotReady is returned by Begin between a seal batch and the moment when the next segment exists and Sync has
	// confirmed the old one.
	ErrNotReady = errors.New("commitlog: next segment not ready")

	// ErrNeedsSeal is returned by Begin when the batch does not fit into the segment.
	ErrNeedsSeal = errors.New("commitlog: segment must be sealed first")

	// ErrNeedsState is returned by Begin and Seal when the segment's state record is not complete, and by Begin for a
	// batch of a state record when it is.
	ErrNeedsState = errors.New("commitlog: state record out of place")

	// ErrTooLarge is returned for a batch longer than MaxBatch.
	ErrTooLarge = errors.New("commitlog: batch too large")

	// ErrBatchOpen is returned by Begin and Seal while a Writer is in use.
	ErrBatchOpen = errors.New("commitlog: a batch is open")
)

// Reading.
var (
	// ErrOutOfLog is returned for a position that the log does not have: not yet, or no longer.
	ErrOutOfLog = errors.New("commitlog: position outside the log")

	// ErrClosed is returned by every method after Close. It is of kind fs.ErrClosed.
	ErrClosed = fmt.Errorf("commitlog: log: %w", fs.ErrClosed)
)
