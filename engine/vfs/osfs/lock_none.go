//go:build solaris || aix

package osfs

import "errors"

// canLock says whether the platform has locks.
const canLock = false

func lock(uintptr) error { return errors.ErrUnsupported }
