package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build is what the program knows of itself.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  tidewheel version -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := build{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				b.Version = info.Main.Version
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						b.Revision = s.Value
					}
				}
			}
			return a.one(b, func(w io.Writer) {
				fmt.Fprintf(w, "tidewheel %s %s %s %s\n", b.Version, b.Revision, b.Go, b.Platform)
			})
		},
	}
}
