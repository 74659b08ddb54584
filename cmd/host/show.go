package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/httpapi"
)

func (a *app) show() *cobra.Command {
	var f timeFlags
	cmd := &cobra.Command{
		Use:   "show HANDLE",
		Short: "Show a delayed message: its state, when it is due, its properties and body",
		Long: `Show a delayed message: its state, when it is due, and while it waits its properties and body. A cancelled one has
its body as long as it is in the log; explain tells where a delivered one is.`,
		Example: "  tidewheel show tw1.AQAAAAAB...\n  tidewheel show tw1.AQAAAAAB... -o json | jq -r .body",
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
			t, err := c.Timer(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.one(t, func(w io.Writer) { timerTable(w, &t, &f) })
		},
	}
	f.addZone(cmd)
	return a.reads(a.withURL(cmd))
}

func timerTable(w io.Writer, t *httpapi.Timer, f *timeFlags) {
	in := ""
	if t.DueIn != "" {
		in = ", in " + t.DueIn
	}
	fmt.Fprintf(w, "%s\tdue %s%s\n", t.State, f.due(t.DueMs), in)
	fmt.Fprintf(w, "topic\t%s\n", dash(t.Topic, 0))
	if t.Queue == nil {
		return // only the handle is known
	}
	fmt.Fprintf(w, "queue\t%d\n", *t.Queue)
	fmt.Fprintf(w, "key\t%s\n", dash(t.Key, 0))
	fmt.Fprintf(w, "tag\t%s\n", dash(t.Tag, 0))
	fmt.Fprintf(w, "stored\t%s\n", f.due(t.StoredMs))
	if t.DelayLevel > 0 {
		fmt.Fprintf(w, "level\t%d\n", t.DelayLevel)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Properties)) {
		fmt.Fprintf(w, "property\t%s=%s\n", cell(name, 80), cell(t.Properties[name], 200))
	}
	body := t.Bytes()
	if !utf8.Valid(body) {
		fmt.Fprintf(w, "body\t(%d bytes)\n", len(body))
		return
	}
	fmt.Fprintf(w, "body\t%s\n", cell(string(body), 1000))
}
