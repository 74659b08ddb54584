// Package fsadapter turns a file system of package afero into the one the engine needs, a vfs.FS.
//
// In production: OpenRoot gives the data directory as an afero.Fs, and New adapts it.
//
//	root, err := fsadapter.OpenRoot("/var/lib/tidewheel")
//	…
//	fsys := fsadapter.New(root)
//
// In tests: New(afero.NewMemMapFs()). Any other back end serves too; names are passed on relative, so give an afero.OsFs
// a place with afero.NewBasePathFs.
//
// # What it evens out
//
// The back ends of afero differ from each other and from what afero.File promises; package vfs says what the engine
// relies on. Below is each difference that was found in afero 1.15.0, and what becomes of it.
//
//	MemMapFs, and others that are not *os.File           | here
//	-----------------------------------------------------+--------------------------------------------------
//	 1 Sync of a file is a no-op                          | so it is; nothing survives the process anyway
//	 2 a short ReadAt has no error, or ErrUnexpectedEOF   | io.EOF
//	 3 WriteAt moves the cursor                           | nothing uses the cursor
//	 4 ReadAt races with ReadAt on one handle             | one at a time for each handle
//	 5 a negative offset panics                           | fs.ErrInvalid
//	 6 O_APPEND seeks once                                | refused, as the contract says
//	 7 O_EXCL is not atomic                               | one OpenFile at a time
//	 8 the access mode is not kept                        | kept: fs.ErrPermission
//	 9 Create makes a new file in place of the old one    | Create is not used
//	10 a missing parent is made silently                  | fs.ErrNotExist
//	11 Remove takes a directory with its files            | fs.ErrExist
//	12 FileInfo is alive, a directory has 42 bytes        | a vfs.Info is a copy; 0
//	13 Close twice is no error; "File is closed"          | fs.ErrClosed
//	14 concurrent Rename ends the process                 | one change of the tree at a time
//	15 a write costs all the bytes behind it              | stays: keep files there small, some MiB
//	16 BasePathFs lets "../base-evil" out                 | such names are refused; symbolic links are not
//	17 no way to sync a directory, preallocate, lock, …   | see below
//
// Only OpenRoot keeps symbolic links from leading out of the directory.
//
// # Capabilities
//
// The capabilities of package vfs are looked for in the back end: first as methods of the afero.Fs and of its files, by
// the interfaces of package vfs; then in the *os.File, which may be wrapped in afero.BasePathFiles. What is found nowhere is
// errors.ErrUnsupported. So an afero.Fs of your own can have them all, and what OpenRoot returns has those that the table
// in package osfs lists.
package fsadapter
