//go:build !windows

package main

import "os"

// controlSequences says that a terminal understands them.
func controlSequences(*os.File) bool { return true }
