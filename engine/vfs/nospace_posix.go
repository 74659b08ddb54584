//go:build !windows && !plan9

package vfs

import "syscall"

// noSpaceCodes are the system's errors for a full disk and for a used-up quota. It never changes.
var noSpaceCodes = [...]error{syscall.ENOSPC, syscall.EDQUOT}
