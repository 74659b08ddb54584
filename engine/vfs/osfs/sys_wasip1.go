package osfs

import (
	"errors"
	"os"
	"syscall"
)

// syncDir asks the host to sync a directory. A host that has no such thing for directories says so in one of several ways.
func syncDir(dir *os.File) error {
	err := dir.Sync()
	for _, no := range []error{syscall.ENOSYS, syscall.ENOTSUP, syscall.EBADF, syscall.EINVAL, syscall.EISDIR} {
		if errors.Is(err, no) {
			return errors.ErrUnsupported
		}
	}
	return err
}
