//go:build !unix && !windows

package osfs

import "errors"

func preallocate(uintptr, int64) error { return errors.ErrUnsupported }

func syncData(uintptr) error { return errors.ErrUnsupported }

// canLock says whether the platform has locks.
const canLock = false

func lock(uintptr) error { return errors.ErrUnsupported }

func free(uintptr, string) (uint64, error) { return 0, errors.ErrUnsupported }

func interrupted(error) bool { return false }
