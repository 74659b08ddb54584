package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

func (a *app) explain() *cobra.Command {
	var f timeFlags
	cmd := &cobra.Command{
		Use:   "explain HANDLE",
		Short: "Tell the life of a delayed message, and why it is where it is",
		Long: `Tell the life of a delayed message from the log, and the one reason why it has not come yet. It reads the log from
the message on, which can take a while.`,
		Example: "  tidewheel explain tw1.AQAAAAAB...",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.CloseIdle()
			if _, err := f.zone(); err != nil {
				return err
			}
			x, err := c.Explain(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.one(x, func(w io.Writer) { explainTable(w, &x, &f) })
		},
	}
	f.addZone(cmd)
	return a.reads(a.withURL(cmd))
}

func explainTable(w io.Writer, x *httpapi.Explanation, f *timeFlags) {
	fmt.Fprintf(w, "%s\t%s\n", x.State, x.Reason)
	for _, e := range x.Events {
		fmt.Fprintf(w, "%s\t%s", e.Kind, f.due(e.AtMs))
		where := "in"
		if e.Kind == engine.EventStaged {
			where = "in the stage of"
		}
		switch {
		case e.Offset != nil:
			fmt.Fprintf(w, " %s %s, queue %d, offset %d", where, dash(e.Topic, 0), e.Queue, *e.Offset)
		case e.NewDueMs != 0:
			fmt.Fprintf(w, " from %s to %s", f.due(e.DueMs), f.due(e.NewDueMs))
		case e.DueMs != 0:
			fmt.Fprintf(w, " due %s", f.due(e.DueMs))
		}
		if e.Action != "" {
			fmt.Fprintf(w, ", %s", e.Action)
			if e.Code != 0 {
				fmt.Fprintf(w, " (code %d)", e.Code)
			}
		}
		if len(e.Plugin) > 12 {
			fmt.Fprintf(w, " by plugin %s", e.Plugin[:12])
		}
		fmt.Fprintf(w, ", log position %d\n", e.Position)
	}
	if x.NewHandle != "" {
		fmt.Fprintf(w, "new handle\t%s\n", x.NewHandle)
	}
	if !x.Complete {
		fmt.Fprintln(w, "…\tthe log is longer than was read: there may be more")
	}
}
