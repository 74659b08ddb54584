package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/author"
)

// madePlugin is what plugin new made.
type madePlugin struct {
	Name string `json:"name"`
	Dir  string `json:"dir"`
	Lang string `json:"lang"`
	Kind string `json:"kind"`
}

// made says what a kind is.
var made = map[string]string{"filter": "a filter", "transform": "a transform", "publish": "a filter of what is put", "deliver": "a delivery over HTTP"}

func (a *app) pluginNew() *cobra.Command {
	lang, kind := string(author.Go), author.Kinds[0]
	cmd := &cobra.Command{
		Use:   "new DIR",
		Short: "Make a directory with a new plugin, its test and all it is written with",
		Long: `Make a directory with a new plugin that works, a test, and a copy of the kit it is written with. --kind is when it is
asked: filter, when a message is due or a group is about to get it; transform, then too, and it may change the message; publish,
before a message is stored; deliver, to send messages as HTTP requests and to judge the responses. Nothing is fetched, and the
directory needs no other one; AssemblyScript's compiler comes with the first build. DIR must not be there, or be empty; its last
element is the plugin's name: 1 to 100 of A-Z a-z 0-9 _ -.`,
		Example: "  tidewheel plugin new spam-filter\n  tidewheel plugin new spam-filter --lang c\n  tidewheel plugin new webhook --kind deliver --lang as",
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
			if !slices.Contains(author.Kinds, kind) {
				return fmt.Errorf("%w: --kind is %q, allowed is %s", errUsage, kind, strings.Join(author.Kinds, ", "))
			}
			p, err := author.New(author.Wanted{Dir: args[0], Lang: l, Kind: kind})
			if err != nil {
				return err
			}
			if err := a.one(madePlugin{p.Manifest.Name, p.Dir, lang, kind}, func(w io.Writer) {
				fmt.Fprintf(w, "%s\t%s in %s\n", p.Dir, made[kind], p.Lang)
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
	cmd.Flags().StringVar(&kind, "kind", kind, "when it is asked: "+strings.Join(author.Kinds, ", "))
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(author.Kinds, noFiles))              // it is there
	_ = cmd.RegisterFlagCompletionFunc("lang", cobra.FixedCompletions([]string{"go", "as", "c"}, noFiles)) // it is there
	return cmd
}
