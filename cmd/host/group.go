package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

func (a *app) group() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "group",
		Short: "List consumer groups, see how far they are, move and delete them",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.groupLs(), a.groupLag(), a.groupSeek(), a.groupRm())
	return cmd
}

func (a *app) groupLs() *cobra.Command {
	return a.reads(a.withURL(&cobra.Command{
		Use:     "ls",
		Short:   "List consumer groups by name",
		Example: "  tidewheel group ls",
		Args:    cobra.NoArgs,
		RunE: a.served(func(ctx context.Context, c *client.Client, _ []string) error {
			got, err := c.Groups(ctx)
			if err != nil {
				return err
			}
			out := a.list("NAME", "MODE", "LAG", "LEASED", "RETRYING", "DEAD", "TOPICS")
			for i := range got.Groups {
				g := &got.Groups[i]
				var topics []string
				for _, t := range g.Topics {
					topics = append(topics, t.Topic)
				}
				if err := out.add(g, g.Name, g.Mode, whole(g.Lag), whole(g.Leased), whole(g.Retrying), whole(g.DeadLetters),
					strings.Join(topics, " ")); err != nil {
					return err
				}
			}
			return out.close()
		}),
	}))
}

// groupQueue is a line of lag.
type groupQueue struct {
	Group string `json:"group"`
	Topic string `json:"topic"`
	httpapi.GroupQueue
}

func (a *app) groupLag() *cobra.Command {
	var topic string
	cmd := &cobra.Command{
		Use:     "lag GROUP",
		Short:   "Show how far a group is in each queue",
		Example: "  tidewheel group lag billing --topic orders --watch",
		Args:    cobra.ExactArgs(1),
		RunE: a.served(func(ctx context.Context, c *client.Client, args []string) error {
			g, err := c.Group(ctx, args[0])
			if err != nil {
				return err
			}
			out := a.list("TOPIC", "QUEUE", "COMMITTED", "NEXT", "END", "LAG", "LEASED")
			for _, t := range g.Topics {
				if topic != "" && t.Topic != topic {
					continue
				}
				for _, q := range t.Queues {
					committed := ""
					if q.Committed >= 0 {
						committed = whole(q.Committed)
					}
					if err := out.add(groupQueue{g.Name, t.Topic, q}, t.Topic, whole(q.Queue), committed, whole(q.Next),
						whole(q.End), whole(q.Lag), whole(q.Leased)); err != nil {
						return err
					}
				}
			}
			return out.close()
		}),
	}
	cmd.Flags().StringVar(&topic, "topic", "", "only in this topic")
	return a.reads(a.withURL(cmd))
}

func (a *app) groupSeek() *cobra.Command {
	var topic, to string
	var offsets []string
	var f timeFlags
	cmd := &cobra.Command{
		Use:   "seek GROUP --topic TOPIC --to TIME|--offset QUEUE=OFFSET",
		Short: "Set where a group goes on in a topic, back or forth",
		Long: `Set where a group goes on in a topic, back or forth: in all queues at the first message that became visible at a TIME or
later, or in some queues at an offset. What its readers have at the moment comes again, unless it lies before that.

` + timeHelp + `
Before now is written as -2h.`,
		Example: `  tidewheel group seek billing --topic orders --to -2h
  tidewheel group seek billing --topic orders --to 2026-12-01T00:00:00Z
  tidewheel group seek billing --topic orders --offset 0=1000 --offset 1=990`,
		Args: cobra.ExactArgs(1),
		RunE: a.served(func(ctx context.Context, c *client.Client, args []string) error {
			req := httpapi.Seek{Topic: topic}
			if topic == "" || (to == "") == (len(offsets) == 0) {
				return fmt.Errorf("%w: seek needs --topic, and one of --to and --offset", errUsage)
			}
			for _, text := range offsets {
				o, err := queueOffset(text)
				if err != nil {
					return err
				}
				req.Offsets = append(req.Offsets, o)
			}
			if to != "" {
				now, err := c.Time(ctx)
				if err != nil {
					return err
				}
				ms, err := f.before("--to", to, now.NowMs)
				if err != nil {
					return err
				}
				req.Time = "@" + strconv.FormatInt(ms, 10)
				fmt.Fprintf(a.stderr, "to %s\n", f.due(ms))
			}
			got, err := c.Seek(ctx, args[0], req)
			if err != nil {
				return err
			}
			out := a.list("TOPIC", "QUEUE", "OFFSET")
			for _, o := range got.Offsets {
				if err := out.add(o, topic, whole(o.Queue), whole(o.Offset)); err != nil {
					return err
				}
			}
			return out.close()
		}),
	}
	cmd.Flags().StringVar(&topic, "topic", "", "the topic")
	cmd.Flags().StringVar(&to, "to", "", "go on at this TIME")
	cmd.Flags().StringArrayVar(&offsets, "offset", nil, "QUEUE=OFFSET, as often as needed")
	f.addZone(cmd)
	return a.withURL(cmd)
}

// queueOffset reads QUEUE=OFFSET.
func queueOffset(text string) (httpapi.QueueOffset, error) {
	queue, offset, _ := strings.Cut(text, "=")
	q, err := strconv.Atoi(queue)
	n, err2 := strconv.ParseInt(offset, 10, 64)
	if err != nil || err2 != nil || q < 0 || n < 0 {
		return httpapi.QueueOffset{}, fmt.Errorf("%w: --offset is %q, allowed is QUEUE=OFFSET, as 0=1000", errUsage, text)
	}
	return httpapi.QueueOffset{Queue: q, Offset: httpapi.Int64(n)}, nil
}

// removedGroup is the answer of group rm.
type removedGroup struct {
	Name        string `json:"name"`
	Removed     bool   `json:"removed"`
	Retrying    int64  `json:"retrying"`
	DeadLetters int64  `json:"dead_letters"`
}

func (a *app) groupRm() *cobra.Command {
	var f careful
	cmd := &cobra.Command{
		Use:     "rm GROUP",
		Short:   "Delete a group with its offsets, retries and dead letters",
		Long:    "Delete a group with how far it has come, its retries and its dead letters. It says how many those are, and asks.",
		Example: "  tidewheel group rm billing",
		Args:    cobra.ExactArgs(1),
		RunE: a.served(func(ctx context.Context, c *client.Client, args []string) error {
			g, err := c.Group(ctx, args[0])
			if err != nil {
				return err
			}
			r := removedGroup{Name: g.Name, Retrying: g.Retrying, DeadLetters: g.DeadLetters}
			if !f.dryRun {
				if err := a.ask(&f, fmt.Sprintf("Delete group %s with %s and %s?", g.Name, count(r.Retrying, "retry", "retries"),
					count(r.DeadLetters, "dead letter", "dead letters"))); err != nil {
					return err
				}
				if err := c.DeleteGroup(ctx, args[0]); err != nil {
					return err
				}
				r.Removed = true
			}
			return a.one(r, func(w io.Writer) {
				fmt.Fprintf(w, "%s\t%s\n", map[bool]string{true: "deleted", false: "would be deleted"}[r.Removed], r.Name)
				fmt.Fprintf(w, "retrying\t%d\n", r.Retrying)
				fmt.Fprintf(w, "dead letters\t%d\n", r.DeadLetters)
			})
		}),
	}
	f.add(cmd, "only tell what would be deleted")
	return a.withURL(cmd)
}
