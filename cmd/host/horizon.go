package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

func (a *app) horizon() *cobra.Command {
	var h client.Horizon
	var f timeFlags
	cmd := &cobra.Command{
		Use:   "horizon",
		Short: "Show how many messages fall due when",
		Long: `Show how many messages fall due when; by default the 24 hours from now on. Over all topics and in whole hours it
is exact and costs nothing; finer, or for one topic, messages are counted one by one, and it says how far it came.
In a terminal it draws; in a pipe it prints plain numbers.

` + timeHelp,
		Example: `  tidewheel horizon --to +7d --step 1d
  tidewheel horizon --topic orders --from "tomorrow 09:00" --to "tomorrow 10:00" --step 1m --tz Europe/Berlin`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			h := h // --watch comes again
			if h.From, err = f.border("--from", h.From); err != nil {
				return err
			}
			if h.To, err = f.border("--to", h.To); err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.CloseIdle()
			got, err := c.Horizon(cmd.Context(), h)
			if err != nil {
				return err
			}
			return a.one(got, func(w io.Writer) { horizonTable(w, &got, &f, a.terminal()) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&h.Topic, "topic", "", "only of this topic")
	flags.StringVar(&h.From, "from", "", "from this TIME on (default: now)")
	flags.StringVar(&h.To, "to", "", "until this TIME (default: 24 steps)")
	flags.StringVar(&h.Step, "step", "", "how long a step is (default: 1h)")
	f.addZone(cmd)
	return a.reads(a.withURL(cmd))
}

// horizonTable prints one row a step, with a bar if it is to be drawn.
func horizonTable(w io.Writer, h *httpapi.Horizon, f *timeFlags, draw bool) {
	most := slices.Max(h.Counts)
	fmt.Fprintln(w, "FROM\tCOUNT")
	for i, n := range h.Counts {
		from := h.FromMs + int64(i)*h.StepMs
		if from >= h.ScannedToMs && !h.Complete {
			break
		}
		fmt.Fprintf(w, "%s\t%d", f.due(from), n)
		if draw {
			fmt.Fprintf(w, "\t%s", bar(n, most))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "total\t%d\n", h.Total)
	if !h.Complete {
		fmt.Fprintf(w, "…\tcounted until %s; go on with --from %s\n", f.due(h.ScannedToMs), time.UnixMilli(h.ScannedToMs).UTC().Format(time.RFC3339Nano))
	}
}

// barWidth is how long the longest bar is.
const barWidth = 40

// bar draws a count in eighths of a block. What is there is seen, however small its part is.
func bar(n, most int64) string {
	if n <= 0 {
		return ""
	}
	eighths := max(int(float64(n)/float64(most)*barWidth*8), 1)
	last := []string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}
	return strings.Repeat("█", eighths/8) + last[eighths%8]
}
