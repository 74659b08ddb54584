package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/host/transfer"
)

func (a *app) dataExport() *cobra.Command {
	var opts transfer.ExportOptions
	cmd := &cobra.Command{
		Use:   "export DIR",
		Short: "Write what a store holds as lines of JSON",
		Long: `Write what a store holds to standard output, as lines of JSON: topics, visible messages, messages that wait with their due
times and levels, and groups with how far they have come. data import makes a store of it. No server may have the
directory; what a crash left is put in order, and nothing is delivered. A message that is damaged is left out, listed, and
the exit code is 6. So is a range of the log: then what is left is made readable in a temporary directory, which takes space
there, and the directory stays as it is.`,
		Example: `  tidewheel data export ./data > all.ndjson
  tidewheel data export ./data --topic orders --waiting | gzip > orders.ndjson.gz`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if a.format != formatTable && a.format != formatNDJSON {
				return fmt.Errorf("%w: an export is NDJSON", errUsage)
			}
			env, err := a.dataEnv(args[0])
			if err != nil {
				return err
			}
			m := a.meter("exported")
			opts.Progress = m.at
			opts.Damaged = func(err error) {
				m.end()
				fmt.Fprintln(a.stderr, "left out:", err)
			}
			temporary := ""
			defer func() { _ = os.RemoveAll(temporary) }() // "" is nothing
			opts.Scratch = func() (_ vfs.FS, err error) {
				if temporary, err = os.MkdirTemp("", "tidewheel-export-"); err != nil {
					return nil, err
				}
				files, err := fsadapter.OpenRoot(temporary)
				if err != nil {
					return nil, err
				}
				fmt.Fprintf(a.stderr, "the log of %s is damaged: what can be read is made readable in %s\n", args[0], temporary)
				return fsadapter.New(files), nil
			}
			n, err := transfer.Export(env, ".", a.stdout, opts)
			m.end()
			if errors.Is(err, engine.ErrNoTopic) {
				return fmt.Errorf("%w: %w", errNotFound, err)
			}
			if err != nil {
				return explain(args[0], err)
			}
			fmt.Fprintf(a.stderr, "exported %s, %s waiting and %s visible\n", count(int64(n.Topics), "topic", "topics"),
				count(n.Waiting, "message", "messages"), thousands(n.Visible))
			if n.Orphans > 0 {
				fmt.Fprintf(a.stderr, "left out %s waiting for topics that were deleted\n", count(n.Orphans, "message", "messages"))
			}
			switch {
			case n.Lost > 0:
				return fmt.Errorf("%w: %s of the log and %s could not be read", errDamage, count(int64(n.Lost), "range", "ranges"),
					count(n.Damaged, "message", "messages"))
			case n.Damaged > 0:
				return fmt.Errorf("%w: %s could not be read", errDamage, count(n.Damaged, "message", "messages"))
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&opts.Topics, "topic", nil, "only this topic, or these")
	cmd.Flags().BoolVar(&opts.Waiting, "waiting", false, "only messages that wait")
	return cmd
}
