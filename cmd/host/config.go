package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/config"
)

func (a *app) config() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Make, check and show a server's configuration",
		Args:  cobra.NoArgs, // an unknown verb below
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.configInit(), a.configCheck(), a.configShow(), a.configDocs())
	return cmd
}

func (a *app) configInit() *cobra.Command {
	return &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a configuration file with every key and its default",
		Long: `Write a configuration file with every key, what it does, and its default, commented out. FILE must not be there;
without it the file goes to standard output.`,
		Example: "  tidewheel config init tidewheel.toml",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				_, err := fmt.Fprint(a.stdout, config.Template())
				return err
			}
			f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s is there already; it was not changed", args[0])
			}
			if err != nil {
				return err
			}
			_, err = f.WriteString(config.Template())
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
			fmt.Fprintf(a.stderr, "wrote %s\n", args[0])
			return nil
		},
	}
}

// loadConfig reads a file, or none, and the variables.
func loadConfig(file string) (*config.Config, error) {
	cfg, err := config.Load(config.Source{File: file, Environ: os.Environ()})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", errNotFound, err)
	}
	var report *config.Report
	if errors.As(err, &report) {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	return cfg, err
}

func (a *app) configCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Say everything that is wrong with a configuration",
		Long: `Say everything that is wrong with a configuration file, each problem with its line, and with the TIDEWHEEL_
variables of the environment. The exit code is 0 when a server would take it.`,
		Example: "  tidewheel config check tidewheel.toml -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			_, err := loadConfig(args[0])
			var report *config.Report
			if err != nil && !errors.As(err, &report) {
				return err
			}
			if report == nil {
				fmt.Fprintf(a.stderr, "%s is good\n", args[0])
				return a.list("WHERE", "KEY", "PROBLEM").cut("PROBLEM", 0).close()
			}
			out := a.list("WHERE", "KEY", "PROBLEM").cut("PROBLEM", 0)
			for _, p := range report.Problems {
				if err := out.add(p, p.Where(), p.Key, p.Text); err != nil {
					return err
				}
			}
			if err := out.close(); err != nil {
				return err
			}
			return errReported
		},
	}
}

func (a *app) configShow() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show every value and where it comes from",
		Long: `Show every value that a server would have, and where it comes from: the default, a line of the file, or a
variable of the environment. Of a secret it shows whether it is set.`,
		Example: "  tidewheel config show\n  tidewheel config show -c tidewheel.toml -o ndjson",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := loadConfig(file)
			if err != nil {
				return err
			}
			out := a.list("KEY", "VALUE", "ORIGIN").cut("VALUE", 0)
			for _, s := range cfg.Settings() {
				if err := out.add(s, s.Key, s.Value, s.Origin); err != nil {
					return err
				}
			}
			return out.close()
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "the configuration file; none: defaults and variables")
	return a.reads(cmd)
}

func (a *app) configDocs() *cobra.Command {
	return &cobra.Command{
		Use:     "docs",
		Short:   "Print the reference of all keys, in Markdown",
		Example: "  tidewheel config docs > docs/configuration.md",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(a.stdout, config.Reference())
			return err
		},
	}
}
