package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/engine"
)

// kinds are what dump can print.
var kinds = strings.Join(engine.DumpKinds(), ", ")

func (a *app) dataDump() *cobra.Command {
	var kind string
	cmd := &cobra.Command{
		Use:     "dump DIR",
		Short:   "Print what the files hold, in words",
		Long:    "Print what the files of one kind hold, in words or as JSON, one line a record. The kinds are:\n" + kinds + ".",
		Example: "  tidewheel data dump ./data --kind commitlog\n  tidewheel data dump ./data --kind timerlog -o ndjson",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if a.format == formatCSV || a.format == formatName {
				return fmt.Errorf("%w: what is dumped has no columns: -o is table, json or ndjson", errUsage)
			}
			if !slices.Contains(engine.DumpKinds(), kind) {
				return fmt.Errorf("%w: --kind is %q, allowed are %s", errUsage, kind, kinds)
			}
			env, err := a.dataEnv(args[0])
			if err != nil {
				return err
			}
			return explain(args[0], engine.Dump(env, ".", kind, a.stdout, a.format != formatTable))
		},
	}
	cmd.Flags().StringVar(&kind, "kind", "commitlog", "what to print: "+kinds)
	return cmd
}
