// Package corrupt holds the one error for bytes on disk that are not what was written.
package corrupt

import (
	"errors"
	"fmt"
)

// ErrCorrupt is the kind of every Error.
var ErrCorrupt = errors.New("corrupt")

// Error says which file is damaged, where, and how that was seen.
type Error struct {
	File   string // name within the data directory
	Offset int64  // byte in the file
	Reason string
}

// Errorf makes an Error.
func Errorf(file string, offset int64, format string, args ...any) *Error {
	return &Error{File: file, Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string {
	return fmt.Sprintf("corrupt: %s at byte %d: %s", e.File, e.Offset, e.Reason)
}

// Is makes errors.Is(err, ErrCorrupt) hold.
func (e *Error) Is(target error) bool { return target == ErrCorrupt }
