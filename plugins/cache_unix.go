//go:build unix

package plugins

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// private says why others than this user can write to a directory.
func private(info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return errors.New("it belongs to another user, who could put code there: remove it")
	}
	if info.Mode().Perm()&0o022 != 0 {
		return errors.New("others can write to it, and could put code there: chmod go-w")
	}
	return nil
}
