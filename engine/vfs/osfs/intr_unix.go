//go:build unix

package osfs

import "syscall"

// interrupted reports whether a system call is to be made again.
func interrupted(err error) bool { return err == syscall.EINTR }
