//go:build linux || darwin

package engine_test

import (
	"io/fs"
	"syscall"
)

// allocated is what a file takes on disk, holes left out.
func allocated(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return info.Size()
}
