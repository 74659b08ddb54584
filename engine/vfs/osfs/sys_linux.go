package osfs

import (
	"os"
	"syscall"
)

// preallocate makes the file at least size bytes long, all of them backed by the disk. A system that has no fallocate
// for this kind of file answers EOPNOTSUPP or ENOSYS, which are errors.ErrUnsupported.
func preallocate(fd uintptr, size int64) error { return syscall.Fallocate(int(fd), 0, 0, size) }

func syncData(fd uintptr) error { return syscall.Fdatasync(int(fd)) }

func syncDir(dir *os.File) error { return dir.Sync() }
