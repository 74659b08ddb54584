//go:build linux || darwin || freebsd

package osfs

import "syscall"

// free is the space for unprivileged users. (The types of the fields differ from system to system.)
func free(fd uintptr, _ string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Fstatfs(int(fd), &s); err != nil {
		return 0, err
	}
	if int64(s.Bavail) < 0 { // FreeBSD: more than is left is kept for root
		return 0, nil
	}
	return uint64(s.Bavail) * uint64(s.Bsize), nil
}
