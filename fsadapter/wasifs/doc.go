// Package wasifs lends a vfs.FS to a WASM guest as its file system: what the guest does through WASI ends in that FS.
//
//	root, err := fsadapter.OpenRoot(dir)                         // or afero.NewMemMapFs(), or a crashfs.FS
//	…
//	config := wazero.NewModuleConfig().WithFSConfig(wasifs.Mount(fsadapter.New(root), "/data"))
//
// # No way out
//
// The runtime's own mount of a directory (WithDirMount) resolves paths with the operating system: a guest makes a symbolic
// link to "../secret" and reads it. Here it can't:
//
//   - A name is resolved by its text alone, and one that leads above the mount, or holds a backslash, a colon or a zero byte,
//     is EPERM before any file system sees it.
//   - There are no links. Symlink, Link and Readlink are ENOSYS, and so are modes and times of files: what a guest can't set
//     it can't misuse.
//   - A link that is on the disk already leads where the FS below lets it. fsadapter.OpenRoot and osfs let none out of
//     their directory; an afero.BasePathFs follows all. Mount one of the first two for a guest that is not trusted.
//
// # What a guest finds
//
//	open               | O_RDONLY, O_WRONLY, O_RDWR with O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_DIRECTORY; O_SYNC and O_DSYNC
//	                   | sync each write
//	files              | read, write, seek, pread, pwrite, truncate, sync, datasync, stat
//	directories        | made, removed when empty, listed; sync of one is vfs.SyncDir: new names are durable
//	rename             | of a file, over another file too; of a directory EINVAL, as package vfs has it
//	stat               | type and size; times are 0, the inode is a hash of the name, the mode is 0600 or 0700
//	a full disk        | EIO: the runtime knows no other number for it
//
// Like the runtime's own interface for file systems, which is experimental, this package may change with it. It is the only
// place that knows it.
package wasifs
