//go:build unix && !linux

package osfs

import (
	"errors"
	"os"
)

func preallocate(uintptr, int64) error { return errors.ErrUnsupported }

func syncData(uintptr) error { return errors.ErrUnsupported }

func syncDir(dir *os.File) error { return dir.Sync() }
