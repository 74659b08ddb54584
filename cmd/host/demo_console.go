package main

import (
	"os"

	"golang.org/x/term"

	"github.com/tidewheel/tidewheel/host/demo"
)

// demoView shows the demo on the terminal that standard error is; nil: it is none.
func (a *app) demoView() *demo.View {
	if !isTerminal(a.stderr) {
		return nil
	}
	f := a.stderr.(*os.File) // a terminal is a file
	screen := demo.Screen{
		W:       f,
		Size:    func() (columns, rows int) { return consoleSize(f) },
		NoColor: os.Getenv("NO_COLOR") != "", // no-color.org: any value
		Plain:   os.Getenv("TERM") == "dumb" || !controlSequences(f),
	}
	return demo.NewView(screen)
}

// consoleSize is the size of a terminal; 0 when it doesn't say.
func consoleSize(f *os.File) (columns, rows int) {
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0
	}
	return columns, rows
}
