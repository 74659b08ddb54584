package wasm

import (
	"errors"
	"fmt"
)

// The kinds of error that Parse returns.
var (
	// ErrMalformed: the bytes are not a WebAssembly module.
	ErrMalformed = errors.New("malformed module")
	// ErrUnsupported: a valid module may hold this, Tidewheel does not run it.
	ErrUnsupported = errors.New("unsupported by the plugin host")
	// ErrLimit: a size or a count is above its limit.
	ErrLimit = errors.New("above a limit")
)

// Error is one reason to refuse a module.
type Error struct {
	Kind   error  // ErrMalformed, ErrUnsupported or ErrLimit
	Offset int    // in the file
	Where  string // the section, or "function 12"
	Reason string // what was found and, for a limit, what is allowed
}

// Error says where and why.
func (e *Error) Error() string {
	return fmt.Sprintf("wasm: %s at offset %d: %s: %v", e.Where, e.Offset, e.Reason, e.Kind)
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }
