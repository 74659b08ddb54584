// Package vfstest proves that a file system keeps the contract of package vfs: one case for each guarantee.
//
// Call Run from a test with a function that makes an empty file system:
//
//	func TestConformance(t *testing.T) {
//		vfstest.Run(t, func(t *testing.T) vfs.FS { return newFS(t) })
//	}
//
// A case that differs between the back ends of afero 1.15.0 carries the number of its row in the table of package
// fsadapter. Durability can't be seen from inside: what survives a power cut is what the tests of package crashfs, and
// those on real disks, are about. The capabilities of package vfs are tested where the file system has them; one that
// answers errors.ErrUnsupported shows as a skipped case.
//
// The cases with many goroutines are worth most under the race detector.
package vfstest
