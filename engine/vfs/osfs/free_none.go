//go:build unix && !linux && !darwin && !freebsd

package osfs

import "errors"

func free(uintptr, string) (uint64, error) { return 0, errors.ErrUnsupported }
