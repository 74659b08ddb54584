package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

func (a *app) data() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "data",
		Short: "Look at the files of a server that is stopped",
		Args:  cobra.NoArgs, // an unknown verb below
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.dataCheck(), a.dataDump(), a.dataSize(), a.dataExport(), a.dataImport(), a.dataRebuild(), a.dataRepair())
	return cmd
}

// dataEnv opens a directory that must be there. Nothing else may have it open.
func (a *app) dataEnv(dir string) (engine.Env, error) {
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return engine.Env{}, fmt.Errorf("%w: there is no directory %s", errNotFound, dir)
	case err != nil:
		return engine.Env{}, err
	case !info.IsDir():
		return engine.Env{}, fmt.Errorf("%w: %s is not a directory", errNotFound, dir)
	}
	files, err := fsadapter.OpenRoot(dir)
	if err != nil {
		return engine.Env{}, err
	}
	began := time.Now()
	return engine.Env{
		FS:   fsadapter.New(files),
		Wall: func() int64 { return time.Now().UnixMilli() },
		Mono: func() int64 { return int64(time.Since(began)) },
		Log:  slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}, nil
}

// explain adds what to do about an error of the files.
func explain(dir string, err error) error {
	switch {
	case errors.Is(err, engine.ErrLocked):
		return fmt.Errorf("%s is open in another process: stop that first: %w", dir, err)
	case errors.Is(err, engine.ErrCorrupt):
		return fmt.Errorf("%w: %w", errDamage, err)
	}
	return err
}

func (a *app) dataCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check DIR",
		Short: "Check every invariant across the files; changes nothing",
		Long: `Check every invariant across the files, and change nothing. The exit code is 6 when damage was found; it says
file and byte. What can be made again from the log is said to be so: data rebuild does it. While a server has the directory
open its files change, and what is half written may look damaged: it says so.`,
		Example: "  tidewheel data check ./data -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			env, err := a.dataEnv(args[0])
			if err != nil {
				return err
			}
			live := inUse(env.FS)
			if live {
				fmt.Fprintf(a.stderr, "a server has %s open: this looks at files that change; stop it for a check that is certain\n", args[0])
			}
			report, err := engine.Check(env, ".", engine.Options{})
			if err != nil && live {
				return fmt.Errorf("%w (a server has the directory open: this may be what it was just writing)", explain(args[0], err))
			}
			if err != nil {
				return explain(args[0], err)
			}
			return a.one(asChecked(report), func(w io.Writer) { checkTable(w, report) })
		},
	}
}

// inUse says whether another process has a directory open. Nothing is made in one that has no lock file.
func inUse(fsys vfs.FS) bool {
	if _, err := fsys.Stat(lockFile); err != nil {
		return false
	}
	l, err := vfs.Lock(fsys, lockFile)
	if err == nil {
		_ = l.Close()
	}
	return errors.Is(err, vfs.ErrLocked)
}

// lockFile is what a server holds of its directory.
const lockFile = "lock"

// checked is engine.CheckReport in the words of the wire.
type checked struct {
	Segments int   `json:"segments"`
	Batches  int   `json:"batches"`
	Records  int   `json:"records"`
	LogBytes int64 `json:"log_bytes"`
	Topics   int   `json:"topics"`
	Visible  int64 `json:"visible"` // messages
	Waiting  int64 `json:"waiting"`
	Lost     int   `json:"lost"` // ranges of the log
}

func asChecked(r engine.CheckReport) checked {
	return checked{r.Segments, r.Batches, r.Records, r.LogBytes, r.Topics, r.Units, r.Pending, r.Lost}
}

func checkTable(w io.Writer, r engine.CheckReport) {
	fmt.Fprintln(w, "clean")
	fmt.Fprintf(w, "log\t%d bytes in %s, %s, %s\n", r.LogBytes, count(int64(r.Segments), "segment", "segments"),
		count(int64(r.Batches), "batch", "batches"), count(int64(r.Records), "record", "records"))
	fmt.Fprintf(w, "topics\t%d\n", r.Topics)
	fmt.Fprintf(w, "visible\t%s\n", count(r.Units, "message", "messages"))
	fmt.Fprintf(w, "waiting\t%s\n", count(r.Pending, "message", "messages"))
	if r.Lost > 0 {
		fmt.Fprintf(w, "lost\t%d ranges of the log, given up by a repair\n", r.Lost)
	}
}

func (a *app) dataRebuild() *cobra.Command {
	return &cobra.Command{
		Use:   "rebuild DIR",
		Short: "Make all files but the log again, from the log",
		Long: `Make all files but the CommitLog again, from the CommitLog: queues, timers, state bits and checkpoints are caches
of it. Nothing can be lost by this; it takes as long as reading the log does.`,
		Example: "  tidewheel data rebuild ./data",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			env, err := a.dataEnv(args[0])
			if err != nil {
				return err
			}
			if err := engine.Rebuild(env, ".", engine.Options{}); err != nil {
				return explain(args[0], err)
			}
			fmt.Fprintln(a.stderr, "rebuilt")
			return nil
		},
	}
}

// lost is a range of the log that was given up.
type lost struct {
	From   httpapi.Int64 `json:"from"`
	To     httpapi.Int64 `json:"to"`
	File   string        `json:"file"`
	Reason string        `json:"reason"`
}

func (a *app) dataRepair() *cobra.Command {
	var skip bool
	cmd := &cobra.Command{
		Use:   "repair DIR --skip-damaged",
		Short: "Give up what cannot be read, so that the rest can be opened",
		Long: `Give up what cannot be read of the CommitLog, so that the rest can be opened. This loses the messages in the
damaged ranges, which it lists, for good; it never runs by itself. Keep a copy of the directory.`,
		Example: "  tidewheel data repair ./data --skip-damaged",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if !skip {
				return fmt.Errorf("%w: repair loses what is damaged; say --skip-damaged when that is wanted", errUsage)
			}
			env, err := a.dataEnv(args[0])
			if err != nil {
				return err
			}
			ranges, err := engine.Repair(env, ".", engine.Options{})
			if err != nil {
				return explain(args[0], err)
			}
			out := a.list("FROM", "TO", "FILE", "REASON").cut("REASON", 0)
			for _, l := range ranges {
				line := lost{httpapi.Int64(l.From), httpapi.Int64(l.To), l.File, l.Reason}
				if err := out.add(line, whole(l.From), whole(l.To), l.File, l.Reason); err != nil {
					return err
				}
			}
			return out.close()
		},
	}
	cmd.Flags().BoolVar(&skip, "skip-damaged", false, "yes, lose what is damaged")
	return cmd
}
