//go:build unix

package server

import (
	"io/fs"
	"syscall"
)

// ownerOf is the id of the user who has a file.
func ownerOf(info fs.FileInfo) (id int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
