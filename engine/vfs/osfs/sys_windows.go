package osfs

import (
	"errors"
	"os"
	"syscall"
	"unsafe"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Package syscall has neither of these. They are looked up on first use.
var (
	kernel32            = syscall.NewLazyDLL("kernel32.dll")
	lockFileEx          = kernel32.NewProc("LockFileEx")
	getDiskFreeSpaceExW = kernel32.NewProc("GetDiskFreeSpaceExW")
)

func preallocate(uintptr, int64) error { return errors.ErrUnsupported }

func syncData(uintptr) error { return errors.ErrUnsupported }

func syncDir(*os.File) error { return errors.ErrUnsupported }

// canLock says whether the platform has locks.
const canLock = true

// lock takes an exclusive lock of the first byte without waiting.
func lock(fd uintptr) error {
	const (
		failImmediately = 1
		exclusive       = 2
		lockViolation   = syscall.Errno(33)
	)
	var where syscall.Overlapped
	ok, _, err := lockFileEx.Call(fd, failImmediately|exclusive, 0, 1, 0, uintptr(unsafe.Pointer(&where)))
	switch {
	case ok != 0:
		return nil
	case err == lockViolation, err == syscall.ERROR_IO_PENDING:
		return vfs.ErrLocked
	}
	return err
}

// free is the space that the user of this process may write, at the path of a directory.
func free(_ uintptr, dir string) (uint64, error) {
	path, err := syscall.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var available uint64
	ok, _, err := getDiskFreeSpaceExW.Call(uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&available)), 0, 0)
	if ok == 0 {
		return 0, err
	}
	return available, nil
}

func interrupted(error) bool { return false }
