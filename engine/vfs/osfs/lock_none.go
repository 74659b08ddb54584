//go:build solaris || aix

package osfs

import "errors"

func lock(uintptr) error { return errors.ErrUnsupported }
