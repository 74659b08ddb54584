package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/author"
)

// checkedPlugin is what plugin check says of one plugin.
type checkedPlugin struct {
	Name     string   `json:"name"`
	File     string   `json:"file"`
	SHA256   string   `json:"sha256,omitempty"`
	OK       bool     `json:"ok"`
	Reason   string   `json:"reason,omitempty"` // why a server would not run it
	Warnings []string `json:"warnings,omitempty"`
}

func (a *app) pluginCheck() *cobra.Command {
	var set setting
	configFile := ""
	cmd := &cobra.Command{
		Use:   "check [FILE...]",
		Short: "Say whether a server would run plugins: files, or those of a configuration",
		Long: `Say whether a server would run plugins: each is checked, compiled and started. Files are given what they ask for. With --config
the plugins are those of a configuration, with their limits, capabilities, pins and settings; nothing is changed, and a server
may be running. FILE may be the directory of a project; without one the project is here. The exit code is 1 when a server would
refuse one.`,
		Example: "  tidewheel plugin check spam-filter.wasm\n  tidewheel plugin check --config tidewheel.toml",
		RunE: func(cmd *cobra.Command, args []string) error {
			if configFile != "" {
				if len(args) > 0 {
					return fmt.Errorf("%w: with --config no FILE is given: the configuration names them", errUsage)
				}
				cfg, err := loadConfig(configFile)
				if err != nil {
					return err
				}
				all, err := author.CheckConfig(cmd.Context(), cfg, pluginCache())
				if err != nil {
					return err
				}
				if len(all) == 0 {
					fmt.Fprintf(a.stderr, "%s has no plugins\n", configFile)
				}
				return a.showChecked(all)
			}
			if len(args) == 0 {
				args = []string{"."}
			}
			var all []author.Checked
			for _, arg := range args {
				m, err := a.authored([]string{arg})
				if err != nil {
					return err
				}
				s, err := set.setting(m)
				if err != nil {
					return err
				}
				all = append(all, author.Check(cmd.Context(), m.file, s))
			}
			return a.showChecked(all)
		},
	}
	cmd.Flags().StringVar(&configFile, "config", "", "a server's configuration, whose plugins are meant")
	cmd.Flags().StringSliceVar(&a.columns, "columns", nil, "the columns of the table or csv, in this order")
	set.flags(cmd)
	return cmd
}

func (a *app) showChecked(all []author.Checked) error {
	out := a.list("NAME", "FILE", "RESULT", "REASON").cut("REASON", 0)
	refused := false
	for _, c := range all {
		row := checkedPlugin{Name: c.Name, File: c.File, OK: c.Err == nil, Warnings: c.Warnings}
		if c.Info.Bytes > 0 {
			row.SHA256 = c.Info.Digest.String()
		}
		result := "ok"
		if c.Err != nil {
			refused, result, row.Reason = true, "refused", c.Err.Error()
		}
		if err := out.add(row, c.Name, c.File, result, row.Reason); err != nil {
			return err
		}
	}
	if err := out.close(); err != nil {
		return err
	}
	for _, c := range all {
		for i, w := range c.Warnings {
			c.Warnings[i] = c.File + ": " + w
		}
		a.warn(c.Warnings)
	}
	if refused {
		return errReported
	}
	return nil
}
