// Package osfs is the file system of the operating system, below one directory: a vfs.FS over package os.
//
// It is for programs that don't want package afero, guests compiled to WASM among them. All names are resolved by an
// os.Root, so neither "..", nor a symbolic link in the directory, nor one that is swapped in meanwhile leads out of it.
//
// What each platform can do:
//
//	             | linux            | darwin      | other unix | windows            | wasip1, js
//	Sync         | fsync            | F_FULLFSYNC | fsync      | FlushFileBuffers   | the host's
//	SyncData     | fdatasync        | -           | -          | -                  | -
//	SyncDir      | fsync            | F_FULLFSYNC | fsync      | -                  | the host's; js: -
//	Preallocate  | fallocate        | -           | -          | -                  | -
//	Lock         | flock            | flock       | flock *    | LockFileEx         | -
//	Free         | statfs           | statfs      | - *        | GetDiskFreeSpaceEx | -
//
// A dash is errors.ErrUnsupported. Of the other unixes, solaris and aix have no lock, and freebsd says what is free.
// Linux answers errors.ErrUnsupported for Preallocate too where the file system below has no such call.
//
// New makes the directory with mode 0700. Files and directories get the mode they are created with, less the umask.
package osfs
