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
	return &cobra.Command{
		Use:     "dump KIND DIR",
		Short:   "Print what the files hold, in words",
		Long:    "Print what the files of one kind hold, in words or as JSON, one line a record. The kinds are:\n" + kinds + ".",
		Example: "  tidewheel data dump commitlog ./data\n  tidewheel data dump timerlog ./data -o ndjson",
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			if a.format == formatCSV || a.format == formatName {
				return fmt.Errorf("%w: what is dumped has no columns: -o is table, json or ndjson", errUsage)
			}
			kind, dir := args[0], args[1]
			if !slices.Contains(engine.DumpKinds(), kind) {
				return fmt.Errorf("%w: the kind is %q, allowed are %s", errUsage, kind, kinds)
			}
			env, err := a.dataEnv(dir)
			if err != nil {
				return err
			}
			return explain(dir, engine.Dump(env, ".", kind, a.stdout, a.format != formatTable))
		},
	}
}
