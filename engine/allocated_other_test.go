//go:build !linux && !darwin

package engine_test

import "io/fs"

func allocated(info fs.FileInfo) int64 { return info.Size() }
