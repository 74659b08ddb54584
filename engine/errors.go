package engine

import (
	"errors"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// ErrCorrupt is the kind of every error about damaged bytes; errors.As finds file and offset in a *CorruptError.
var ErrCorrupt = corrupt.ErrCorrupt

// CorruptError says which file is damaged and where.
type CorruptError = corrupt.Error

// Returned by Open.
var (
	ErrLocked  = vfs.ErrLocked                                        // another process has the directory
	ErrForeign = errors.New("engine: not a Tidewheel data directory") // it holds something else
	ErrNewer   = errors.New("engine: written by a newer format")      // the message names both versions
)

// Returned by Append for the whole call: nothing was taken.
var (
	// ErrBusy: call again after Sync and Release, or after the jobs that Tick gave out are installed.
	ErrBusy = errors.New("engine: busy: a sync or a job has to end first")
	// ErrFailed: a write of the log or a sync failed. It is final: nothing more is stored until the store is opened
	// again, since no later sync can be believed.
	ErrFailed = errors.New("engine: failed until opened again")
	ErrClosed = errors.New("engine: closed")
)

// Found in Answer.Err.
var (
	ErrTopicName  = errors.New("engine: topic name")
	ErrNoTopic    = errors.New("engine: unknown topic")
	ErrQueue      = errors.New("engine: queue out of range")
	ErrLevel      = errors.New("engine: delay level")
	ErrTooLarge   = errors.New("engine: too large")
	ErrProperties = errors.New("engine: properties")
	ErrKey        = errors.New("engine: idempotency key") // a put with it may have come since it was looked for
	ErrDelay      = errors.New("engine: too far ahead")   // beyond Options.MaxDelay
	ErrTooLate    = errors.New("engine: too late")        // the due time has passed
	ErrDue        = errors.New("engine: due time out of range")
	ErrOffset     = errors.New("engine: offset")
	ErrGroupName  = errors.New("engine: group name")
	ErrNoGroup    = errors.New("engine: unknown group")
	ErrBroadcast  = errors.New("engine: broadcast group")        // messages with a delay are not for one
	ErrDiskFull   = errors.New("engine: disk full")              // messages are refused; delivering and cancelling go on
	ErrBacklog    = errors.New("engine: checkpoints lag behind") // messages are refused until one is written
	ErrReserved   = errors.New("engine: reserved")               // a topic or a group of the engine's own
	ErrSettled    = errors.New("engine: already settled")        // or too much would be, above what is not
	ErrBadCommand = errors.New("engine: bad command")
)

// Returned by reads.
var (
	ErrPending   = errors.New("engine: not due yet") // the message may not be seen
	ErrTrimmed   = errors.New("engine: offset was deleted")
	ErrHole      = errors.New("engine: the message is lost") // declared by a MarkHole or a repair
	ErrNoMessage = errors.New("engine: no such message")
)
