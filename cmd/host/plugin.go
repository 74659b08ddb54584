package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/client"
)

// plugin has the verbs about the plugins of a running server, and those for their authors.
func (a *app) plugin() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "See, reload and roll back the plugins of a server; make and test plugins",
		Args:  cobra.NoArgs, // an unknown verb below
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		a.pluginLs(),
	)
	cmd.AddCommand(a.authorVerbs()...)
	return cmd
}

func (a *app) pluginLs() *cobra.Command {
	return a.reads(a.withURL(&cobra.Command{
		Use:     "ls",
		Short:   "List the plugins of a server",
		Example: "  tidewheel plugin ls",
		Args:    cobra.NoArgs,
		RunE: a.served(func(ctx context.Context, c *client.Client, _ []string) error {
			got, err := c.Plugins(ctx)
			if err != nil {
				return err
			}
			out := a.list("NAME")
			for _, name := range got.Plugins {
				if err := out.add(map[string]string{"name": name}, name); err != nil {
					return err
				}
			}
			return out.close()
		}),
	}))
}
