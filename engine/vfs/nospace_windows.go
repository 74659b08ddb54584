package vfs

import "syscall"

// noSpaceCodes are the system's errors for a full disk and for a used-up quota: ERROR_DISK_FULL,
// ERROR_HANDLE_DISK_FULL, ERROR_DISK_QUOTA_EXCEEDED, and the one that package syscall made up. It never changes.
var noSpaceCodes = [...]error{syscall.Errno(112), syscall.Errno(39), syscall.Errno(1295), syscall.ENOSPC}
