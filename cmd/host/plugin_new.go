package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/author"
)

// madePlugin is what plugin new made.
type madePlugin struct {
	Name string `json:"name"`
	Dir  string `json:"dir"`
	Lang string `json:"lang"`
}

func (a *app) pluginNew() *cobra.Command {
	lang := string(author.Go)
	cmd := &cobra.Command{
		Use:   "new DIR",
		Short: "Make a directory with a new plugin, its test and all it is written with",
		Long: `Make a directory with a new plugin: a filter that works, a test, and a copy of the kit it is written with. Nothing is
fetched, and the directory needs no other one; AssemblyScript's compiler comes with the first build. DIR must not be there, or
be empty; its last element is the plugin's name: 1 to 100 of A-Z a-z 0-9 _ -.`,
		Example: "  tidewheel plugin new spam-filter\n  tidewheel plugin new spam-filter --lang c",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := author.ParseLang(lang)
			if err != nil {
				return fmt.Errorf("%w: --lang: %w", errUsage, err)
			}
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			if err := author.CheckName(filepath.Base(dir)); err != nil {
				return errors.Join(errUsage, err)
			}
			p, err := author.New(author.Wanted{Dir: args[0], Lang: l})
			if err != nil {
				return err
			}
			if err := a.one(madePlugin{p.Manifest.Name, p.Dir, lang}, func(w io.Writer) {
				fmt.Fprintf(w, "%s\ta filter in %s\n", p.Dir, p.Lang)
			}); err != nil {
				return err
			}
			next := ""
			if wd, err := os.Getwd(); err == nil && wd != dir {
				next = "cd " + args[0] + " && "
			}
			fmt.Fprintf(a.stderr, "next: %stidewheel plugin build && tidewheel plugin test\n", next)
			return nil
		},
	}
	cmd.Flags().StringVar(&lang, "lang", lang, "the language: go, as (AssemblyScript) or c")
	_ = cmd.RegisterFlagCompletionFunc("lang", cobra.FixedCompletions([]string{"go", "as", "c"}, noFiles)) // it is there
	return cmd
}
