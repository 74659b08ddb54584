package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

func (a *app) bulkLs() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List the changes that run, and those that ran lately",
		Example: "  tidewheel bulk ls --watch",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.CloseIdle()
			got, err := c.Bulks(cmd.Context())
			if err != nil {
				return err
			}
			out := a.list("ID", "ACTION", "STATE", "MATCHED", "CHANGED", "PASSED", "REFUSED", "BEGAN", "ENDED").extra("ENDED")
			for _, b := range got.Bulk {
				if err := out.add(b, b.ID, b.Action, b.State, whole(b.Matched), whole(b.Changed), whole(b.Passed), whole(b.Refused),
					b.Began, b.Ended); err != nil {
					return err
				}
			}
			return out.close()
		},
	}
	return a.reads(a.withURL(cmd))
}

func (a *app) bulkShow() *cobra.Command {
	return a.reads(a.bulkByID("show ID", "Show how far a change is", (*client.Client).Bulk))
}

func (a *app) bulkStop() *cobra.Command {
	return a.bulkByID("stop ID", "Stop a change where it is; what it has done stays done", (*client.Client).StopBulk)
}

// bulkCall asks a server about one change.
type bulkCall func(*client.Client, context.Context, string) (httpapi.Bulk, error)

// bulkByID is a verb about one change.
func (a *app) bulkByID(use, short string, call bulkCall) *cobra.Command {
	cmd := &cobra.Command{
		Use:     use,
		Short:   short,
		Example: "  tidewheel bulk " + use[:4] + " bk_12",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.CloseIdle()
			b, err := call(c, cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.one(b, func(w io.Writer) { bulkTable(w, &b) })
		},
	}
	return a.withURL(cmd)
}
