//go:build unix && !solaris && !aix

package osfs

import (
	"syscall"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// canLock says whether the platform has locks.
const canLock = true

// lock takes an exclusive lock without waiting. The lock belongs to the open file, not to the process as one of fcntl
// does, so a second one in the same process is refused too.
func lock(fd uintptr) error {
	err := syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return vfs.ErrLocked
	}
	return err
}
