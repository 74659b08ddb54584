package vfs

import "errors"

// ErrNoSpace is the kind of every error of an FS that means a full disk or a used-up quota.
var ErrNoSpace = errors.New("vfs: no space left on device")

// IsNoSpace reports whether err means a full disk or a used-up quota: that it is of kind ErrNoSpace, or that it has
// the system's own error for it inside. An FS that keeps the contract needs only the former; IsNoSpace is for errors
// that did not come through one.
func IsNoSpace(err error) bool {
	if errors.Is(err, ErrNoSpace) {
		return true
	}
	for _, code := range noSpaceCodes {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// noSpaceError gives a system's error the kind ErrNoSpace and keeps its text.
type noSpaceError struct{ cause error }

func (e noSpaceError) Error() string        { return e.cause.Error() }
func (e noSpaceError) Unwrap() error        { return e.cause }
func (e noSpaceError) Is(target error) bool { return target == ErrNoSpace }
