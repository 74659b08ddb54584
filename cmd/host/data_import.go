package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/transfer"
)

func (a *app) dataImport() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "import DIR FILE|-",
		Short: "Make a store of what data export wrote",
		Long: `Make a store of what data export wrote, in a directory that is missing or empty; - is standard input. Due times stay what
they are, also beyond max_delay; those that have passed make messages visible at once. Ids, handles and offsets are new,
and groups go on as many messages from the end as they were. A message that waited for a level waits for its due time.
Lines that cannot be taken are listed, the rest is imported, and the exit code is 1.`,
		Example: `  tidewheel data import ./new all.ndjson
  tidewheel data export ./old | tidewheel data import ./new -`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			cfg, err := loadConfig(file)
			if err != nil {
				return err
			}
			in := a.stdin
			if args[1] != "-" {
				f, err := os.Open(args[1])
				if errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("%w: %w", errNotFound, err)
				}
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
			}
			n, err := a.importInto(args[0], in, transfer.ImportOptions{Engine: cfg.Engine()})
			if err != nil {
				return err
			}
			if err := a.one(n, func(w io.Writer) { importTable(w, &n) }); err != nil {
				return err
			}
			if n.Refused > 0 {
				return fmt.Errorf("%s refused", count(n.Refused, "line was", "lines were"))
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "the configuration file of the server to be; none: defaults and variables")
	return cmd
}

// importInto makes the directory if it is missing, and takes it away again if nothing came into it.
func (a *app) importInto(dir string, in io.Reader, opts transfer.ImportOptions) (n transfer.Imported, err error) {
	_, statErr := os.Stat(dir)
	if errors.Is(statErr, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return n, err
		}
	}
	env, err := a.dataEnv(dir)
	if err != nil {
		return n, err
	}
	m := a.meter("imported")
	opts.Progress = func(done int64) { m.at(done, 0) }
	opts.Refused = func(line int, err error) {
		m.end()
		fmt.Fprintf(a.stderr, "line %d: %v\n", line, err)
	}
	n, err = transfer.Import(env, ".", in, opts)
	m.end()
	switch {
	case errors.Is(err, transfer.ErrNotEmpty):
		return n, fmt.Errorf("%s is not empty: an import makes a store of its own: %w", dir, err)
	case errors.Is(err, transfer.ErrFormat) && statErr != nil:
		_ = os.Remove(dir) // it is empty, or it stays
	}
	if err != nil {
		return n, explain(dir, err)
	}
	return n, nil
}

func importTable(w io.Writer, n *transfer.Imported) {
	fmt.Fprintf(w, "topics\t%d\n", n.Topics)
	fmt.Fprintf(w, "waiting\t%d\n", n.Waiting)
	fmt.Fprintf(w, "visible\t%d\n", n.Visible)
	if n.Past > 0 {
		fmt.Fprintf(w, "past\t%d of the visible, whose due time has passed\n", n.Past)
	}
	fmt.Fprintf(w, "groups\t%d\n", n.Groups)
	fmt.Fprintf(w, "refused\t%d\n", n.Refused)
}
