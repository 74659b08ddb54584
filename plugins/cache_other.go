//go:build !unix

package plugins

import "io/fs"

// private says why others than this user can write to a directory: not known here.
func private(fs.FileInfo) error { return nil }
