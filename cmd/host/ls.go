package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/client"
)

func (a *app) ls() *cobra.Command {
	var l client.List
	var f timeFlags
	var limit int
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List messages that wait, in the order of their due times",
		Long: `List messages that wait, in the order of their due times. Tags and keys are compared by their hashes.

` + timeHelp,
		Example: `  tidewheel ls --topic orders --to +1h
  tidewheel ls --tag unpaid --tag overdue --limit 0 -o ndjson
  tidewheel ls --topic orders --from "tomorrow 09:00" --tz Europe/Berlin`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if limit < 0 {
				return fmt.Errorf("%w: --limit is 0 or more", errUsage)
			}
			l := l // --watch comes again
			if l.From, err = f.border("--from", l.From); err != nil {
				return err
			}
			if l.To, err = f.border("--to", l.To); err != nil {
				return err
			}
			return a.listTimers(cmd, l, f, limit)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&l.Topic, "topic", "", "only of this topic")
	flags.StringVar(&l.From, "from", "", "due at this TIME or later")
	flags.StringVar(&l.To, "to", "", "due before this TIME")
	flags.StringArrayVar(&l.Tags, "tag", nil, "with this tag, or one of these")
	flags.StringVar(&l.Key, "key", "", "with this key")
	flags.IntVar(&limit, "limit", 100, "at most so many; 0: all")
	flags.StringVar(&l.Page, "page", "", "go on where a list ended")
	f.addZone(cmd)
	return a.reads(a.withURL(cmd))
}

// lsPage is how many are asked for at once.
const lsPage = 1000

// listTimers prints one list. It says on standard error where to go on if it was cut off.
func (a *app) listTimers(cmd *cobra.Command, l client.List, f timeFlags, limit int) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.CloseIdle()
	out := a.list("DUE", "IN", "TOPIC", "QUEUE", "SIZE", "LEVEL", "HANDLE").named("HANDLE").cut("HANDLE", 0)
	for left := limit; ; {
		if l.Limit = lsPage; limit > 0 {
			l.Limit = min(left, lsPage)
		}
		page, err := c.List(cmd.Context(), l)
		if err != nil {
			return errors.Join(err, out.close())
		}
		for _, w := range page.Timers {
			level := ""
			if w.DelayLevel > 0 {
				level = whole(w.DelayLevel)
			}
			if err := out.add(w, f.due(w.DueMs), w.DueIn, w.Topic, whole(w.Queue), whole(w.Size), level, w.Handle); err != nil {
				return err
			}
		}
		left -= len(page.Timers)
		if l.Page = page.Next; l.Page == "" || limit > 0 && left == 0 {
			break
		}
		if err := out.flush(); err != nil {
			return err
		}
	}
	if l.Page != "" {
		fmt.Fprintf(a.stderr, "there may be more: --page %s\n", l.Page)
	}
	return out.close()
}
