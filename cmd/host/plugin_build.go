package main

import (
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/author"
)

// builtPlugin is what plugin build made.
type builtPlugin struct {
	Name     string   `json:"name"`
	File     string   `json:"file"`
	SHA256   string   `json:"sha256"`
	Bytes    int      `json:"bytes"`
	Hooks    []string `json:"hooks"` // as a configuration calls them
	Seconds  float64  `json:"seconds"`
	Warnings []string `json:"warnings,omitempty"`
}

// patience is how long a person is left without a word.
const patience = 3 * time.Second

func (a *app) pluginBuild() *cobra.Command {
	kit := false
	cmd := &cobra.Command{
		Use:   "build [DIR]",
		Short: "Compile a plugin and put its manifest into the module",
		Long: `Compile the plugin in DIR, or in the current directory, with the compiler of its language: Go 1.24 or later with
GOOS=wasip1 and -buildmode=c-shared; clang with lld; for AssemblyScript asc, which npm fetches into node_modules the first time
(this alone needs the network). Then manifest.json is put into the module, and the module is compared with the ABI as a server
would do. The same sources and compiler give the same file and digest.`,
		Example: "  tidewheel plugin build\n  tidewheel plugin build spam-filter -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			p, err := author.Load(dir)
			if err != nil {
				return notProject(err)
			}
			if err := a.checkKit(p, kit); err != nil {
				return err
			}
			began := time.Now()
			if isTerminal(a.stderr) {
				defer time.AfterFunc(patience, func() {
					fmt.Fprintln(a.stderr, "still compiling: the first build on a machine also compiles the language's library")
				}).Stop()
			}
			b, err := p.Build(cmd.Context(), a.stderr)
			if err != nil {
				return err
			}
			out := builtPlugin{
				Name: p.Manifest.Name, File: b.File, SHA256: b.Info.Digest.String(), Bytes: b.Info.Bytes,
				Hooks: author.ConfiguredHooks(author.Hooks(b.Info)), Seconds: time.Since(began).Round(time.Millisecond).Seconds(), Warnings: author.Warnings(b.Info),
			}
			if err := a.one(out, func(w io.Writer) {
				fmt.Fprintf(w, "%s\t%s\thooks %s\tsha256 %s\n", out.File, bytesText(int64(out.Bytes)), listText(out.Hooks), out.SHA256)
			}); err != nil {
				return err
			}
			a.warn(out.Warnings)
			return nil
		},
	}
	cmd.Flags().BoolVar(&kit, "kit", false, "first write the kit of this tidewheel over the one in the directory")
	return cmd
}

// checkKit says when a project's kit is not that of this program, and writes it anew if that was asked for.
func (a *app) checkKit(p *author.Project, renew bool) error {
	same, err := p.SameKit()
	switch {
	case err != nil, same:
		return err
	case renew:
		return author.WriteKit(filepath.Join(p.Dir, author.KitDir), p.Lang)
	}
	fmt.Fprintln(a.stderr, "the kit in tidewheel/ is not the one of this tidewheel; --kit writes that one")
	return nil
}

// warn says what is odd, for people.
func (a *app) warn(warnings []string) {
	if a.format == formatJSON || a.format == formatNDJSON {
		return // they are in the result
	}
	for _, w := range warnings {
		fmt.Fprintln(a.stderr, "warning:", w)
	}
}
