package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/author"
)

// deployedPlugin is what plugin deploy says in JSON.
type deployedPlugin struct {
	Name         string              `json:"name"`
	File         string              `json:"file"`
	SHA256       string              `json:"sha256"`
	Hooks        []string            `json:"hooks"`
	Capabilities []author.Capability `json:"capabilities"`
	TOML         string              `json:"toml"`
	Warnings     []string            `json:"warnings,omitempty"`
}

func (a *app) pluginDeploy() *cobra.Command {
	var match, targets, egress []string
	var set setting
	onError, fail, configFile := "dead_letter", "closed", ""
	cmd := &cobra.Command{
		Use:   "deploy [FILE]",
		Short: "Put a plugin into a server's configuration, with its digest and what it asks for",
		Long: `Print the table [[plugin]] that a server's configuration needs for a plugin: the digest of the file as its pin, the hooks of
the manifest, and the capabilities that it asks for, each with its reason. Read those before you grant them. With --config the
table goes into that file, which is made if it is not there, and the module into the directory of plugins that it names; a
plugin that has a table there keeps it, and gets the new digest. A configuration with mistakes is not written. FILE may be the
directory of a project; without it the project is here.`,
		Example: "  tidewheel plugin deploy --match 'orders-*'\n  tidewheel plugin deploy --config ../tidewheel.toml --match orders",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := a.usable(args)
			if err != nil {
				return err
			}
			d := author.Deployment{Match: match, Targets: targets, Egress: egress, OnError: onError, Fail: fail}
			if err := a.deployment(m, &d, &set, cmd.Flags().Changed); err != nil {
				return err
			}
			if configFile != "" {
				return a.installPlugin(configFile, d, m)
			}
			text, err := d.TOML()
			if err != nil {
				return err
			}
			out := deployedPlugin{d.Name, d.File, d.Info.Digest.String(), author.ConfiguredHooks(author.Hooks(d.Info)), author.Capabilities(d.Info), text, author.Warnings(d.Info)}
			if a.format == formatTable {
				_, err = io.WriteString(a.stdout, text)
			} else {
				err = a.one(out, nil)
			}
			if err != nil {
				return err
			}
			a.warn(out.Warnings)
			fmt.Fprintf(a.stderr, "next: copy %s into dir of [plugins], add this to the configuration, and reload it (SIGHUP)\n", m.file)
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&match, "match", []string{"*"}, "patterns of the topics whose messages it is asked about")
	cmd.Flags().StringSliceVar(&targets, "target", nil, "a topic that it routes to, once for each, in the order of their numbers")
	cmd.Flags().StringSliceVar(&egress, "egress", nil, "a host that its requests may go to, beside those of the manifest: host[:port] or *.suffix")
	cmd.Flags().StringVar(&onError, "on-error", onError, "what becomes of a message that it fails on: dead_letter, skip, drop, block or retry")
	cmd.Flags().StringVar(&fail, "fail", fail, "while it can't be asked messages wait (closed) or pass (open)")
	cmd.Flags().StringVar(&configFile, "config", "", "the server's configuration to write it into; without it the table is printed")
	set.flags(cmd)
	return cmd
}

// installedPlugin is what plugin deploy --config says.
type installedPlugin struct {
	Name     string   `json:"name"`
	Config   string   `json:"config"`
	File     string   `json:"file"`
	SHA256   string   `json:"sha256"`
	Updated  bool     `json:"updated"` // it had a table
	Asks     []string `json:"asks"`    // for what its table does not grant
	Warnings []string `json:"warnings,omitempty"`
}

// installPlugin puts a plugin into a configuration, and says what to do next.
func (a *app) installPlugin(configFile string, d author.Deployment, m *authored) error {
	done, err := author.Install(configFile, d, m.module)
	if err != nil {
		return err
	}
	out := installedPlugin{d.Name, done.Config, done.File, d.Info.Digest.String(), done.Updated, done.Asks, author.Warnings(d.Info)}
	what := "added to"
	if done.Updated {
		what = "updated in"
	}
	if err := a.one(out, func(w io.Writer) {
		fmt.Fprintf(w, "%s\t%s %s\n%s\tsha256 %s\n", d.Name, what, done.Config, done.File, out.SHA256)
	}); err != nil {
		return err
	}
	for _, c := range done.Asks {
		out.Warnings = append(out.Warnings, fmt.Sprintf("it asks for %s, which its table in %s does not grant", c, done.Config))
	}
	a.warn(out.Warnings)
	next := "a running server takes it over when it reads its configuration again: kill -HUP PID"
	if done.Made {
		next = "tidewheel serve --config " + done.Config
	}
	fmt.Fprintln(a.stderr, "next:", next)
	return nil
}

// deployment completes what the flags say about a plugin. changed says whether a flag was given.
func (a *app) deployment(m *authored, d *author.Deployment, set *setting, changed func(string) bool) error {
	d.File, d.Info = filepath.Base(m.file), m.info
	if d.Name = m.info.Manifest.Name; d.Name == "" {
		d.Name = d.File[:len(d.File)-len(filepath.Ext(d.File))]
	}
	if err := author.CheckName(d.Name); err != nil {
		return fmt.Errorf("%s: %w", m.file, err)
	}
	s, err := set.setting(m)
	if err != nil {
		return err
	}
	if d.Config, d.From = s.Config, set.configFile; d.From == "" {
		d.From = author.TestDir + "/config.json"
	}
	if changed("memory-max") {
		d.MemoryMax = s.MemoryMax
	}
	if changed("fuel-per-record") {
		d.FuelPerRecord = s.FuelPerRecord
	}
	routes, err := author.Targets(m.tests())
	if routes > len(d.Targets) {
		fmt.Fprintf(a.stderr, "warning: in its tests it routes to %s; --target names each\n", count(int64(routes), "target", "targets"))
	}
	return err
}
