package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// controlSequences asks a console to understand them. It says no where it is too old for that.
func controlSequences(f *os.File) bool {
	var mode uint32
	console := windows.Handle(f.Fd())
	if err := windows.GetConsoleMode(console, &mode); err != nil {
		return false
	}
	return windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
