package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

func (a *app) dlq() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "List, show, retry and drop the messages that a group gave up",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.dlqLs(), a.dlqShow(), a.dlqRetry(), a.dlqDrop())
	return cmd
}

func (a *app) dlqLs() *cobra.Command {
	var d client.Dead
	var f timeFlags
	var limit int
	cmd := &cobra.Command{
		Use:   "ls [GROUP]",
		Short: "List a group's dead letters, or the groups that have any",
		Long: `List the messages that a group gave up, in that order, or without a group: which groups have any.

` + timeHelp,
		Example: `  tidewheel dlq ls
  tidewheel dlq ls billing --reason timeout --from -1d`,
		Args: cobra.MaximumNArgs(1),
		RunE: a.served(func(ctx context.Context, c *client.Client, args []string) error {
			if len(args) == 0 {
				return a.deadGroups(ctx, c)
			}
			d, err := deadTimes(ctx, c, d, &f)
			if err != nil {
				return err
			}
			d.Limit = min(limit, lsPage)
			out := a.list("OFFSET", "DIED", "TOPIC", "ATTEMPTS", "KEY", "TAG", "REASON", "ID", "BODY", "FIRST").extra("TAG", "ID", "BODY", "FIRST").
				cut("KEY", 40).cut("TAG", 40).cut("BODY", 80).cut("ID", 0)
			n := 0
			for l, err := range c.DeadLetters(ctx, args[0], d) {
				if err != nil {
					return err
				}
				if limit > 0 && n == limit {
					fmt.Fprintln(a.stderr, "there are more: --limit 0 lists all")
					break
				}
				n++
				if err := out.add(l, letterRow(&l, &f)...); err != nil {
					return err
				}
			}
			return out.close()
		}),
	}
	deadFlags(cmd, &d)
	f.addZone(cmd)
	cmd.Flags().IntVar(&limit, "limit", 100, "at most so many; 0: all")
	return a.reads(a.withURL(cmd))
}

// deadFlags say which dead letters are meant.
func deadFlags(cmd *cobra.Command, d *client.Dead) {
	flags := cmd.Flags()
	flags.StringVar(&d.Topic, "topic", "", "only those that were put into this topic")
	flags.StringVar(&d.Key, "key", "", "only with this key")
	flags.StringVar(&d.Tag, "tag", "", "only with this tag")
	flags.StringVar(&d.Reason, "reason", "", "only with this in their reason, in any case")
	flags.StringVar(&d.From, "from", "", "given up at this TIME or later; -2h is two hours ago")
	flags.StringVar(&d.To, "to", "", "given up before this TIME")
}

// deadTimes resolves the times by the server's clock.
func deadTimes(ctx context.Context, c *client.Client, d client.Dead, f *timeFlags) (client.Dead, error) {
	if d.From == "" && d.To == "" {
		return d, nil
	}
	now, err := c.Time(ctx)
	if err != nil {
		return d, err
	}
	for flag, text := range map[string]*string{"--from": &d.From, "--to": &d.To} {
		if *text == "" {
			continue
		}
		ms, err := f.before(flag, *text, now.NowMs)
		if err != nil {
			return d, err
		}
		*text = "@" + strconv.FormatInt(ms, 10)
	}
	return d, nil
}

func (a *app) deadGroups(ctx context.Context, c *client.Client) error {
	got, err := c.DeadGroups(ctx)
	if err != nil {
		return err
	}
	out := a.list("GROUP", "DEAD")
	for _, g := range got.Groups {
		if err := out.add(g, g.Group, whole(g.DeadLetters)); err != nil {
			return err
		}
	}
	return out.close()
}

func letterRow(l *httpapi.DeadLetter, f *timeFlags) []string {
	if l.Problem != nil {
		return []string{whole(l.Offset), "", "", "", "", "", "(" + l.Problem.Error() + ")", "", "", ""}
	}
	return []string{
		whole(l.Offset), f.due(l.DiedMs), l.Topic, whole(l.Attempts), l.Key, l.Tag, letterReason(l), l.ID, bodyCell(l.Body, l.BodyBase64),
		f.due(l.FirstMs),
	}
}

// letterReason is the reason in words, or that a plugin said so: its verdict has a number and no words.
func letterReason(l *httpapi.DeadLetter) string {
	if l.Reason == "" && l.Plugin != "" {
		return fmt.Sprintf("verdict of %s, code %d", l.Plugin, l.Code)
	}
	return l.Reason
}

func (a *app) dlqShow() *cobra.Command {
	var f timeFlags
	cmd := &cobra.Command{
		Use:     "show GROUP OFFSET",
		Short:   "Show a dead letter, with its properties and body",
		Example: "  tidewheel dlq show billing 17",
		Args:    cobra.ExactArgs(2),
		RunE: a.served(func(ctx context.Context, c *client.Client, args []string) error {
			offset, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil || offset < 0 {
				return fmt.Errorf("%w: OFFSET is %q, allowed is a whole number", errUsage, args[1])
			}
			l, err := c.DeadLetter(ctx, args[0], offset)
			if err != nil {
				return err
			}
			return a.one(l, func(w io.Writer) { letterTable(w, &l, &f) })
		}),
	}
	f.addZone(cmd)
	return a.reads(a.withURL(cmd))
}

func letterTable(w io.Writer, l *httpapi.DeadLetter, f *timeFlags) {
	if l.Problem != nil {
		fmt.Fprintf(w, "offset %d\t%s\n", l.Offset, l.Problem.Error())
		return
	}
	fmt.Fprintf(w, "offset %d\tgiven up %s after %s\n", l.Offset, f.due(l.DiedMs), count(int64(l.Attempts), "delivery", "deliveries"))
	fmt.Fprintf(w, "reason\t%s\n", dash(letterReason(l), 0))
	if l.Plugin != "" {
		fmt.Fprintf(w, "plugin\t%s (%s), code %d, file %.12s\n", l.Plugin, l.Hook, l.Code, l.Digest)
	}
	fmt.Fprintf(w, "topic\t%s, queue %d, offset %d\n", l.Topic, l.Queue, l.TopicOffset)
	fmt.Fprintf(w, "id\t%s\n", l.ID)
	fmt.Fprintf(w, "key\t%s\n", dash(l.Key, 0))
	fmt.Fprintf(w, "tag\t%s\n", dash(l.Tag, 0))
	if l.FirstMs != 0 {
		fmt.Fprintf(w, "first failed\t%s\n", f.due(l.FirstMs))
	}
	for _, name := range slices.Sorted(maps.Keys(l.Properties)) {
		fmt.Fprintf(w, "property\t%s=%s\n", cell(name, 80), cell(l.Properties[name], 200))
	}
	if body := bodyCell(l.Body, l.BodyBase64); utf8.ValidString(body) {
		fmt.Fprintf(w, "body\t%s\n", cell(body, 1000))
	}
}

func (a *app) dlqRetry() *cobra.Command {
	var toGroup bool
	cmd := a.deadDo("retry", "Have dead letters delivered again, as if for the first time", `Have dead letters delivered again, as if for the first time: those with the OFFSETs, those that match the flags, or with
--all all of the group. They go to the topic that they were put into, for all its groups, or with --to-group to the group
alone. What is given up after the count is left alone.`,
		"  tidewheel dlq retry billing --reason timeout\n  tidewheel dlq retry billing 17 18 --to-group --yes",
		func(ctx context.Context, c *client.Client, group string, s httpapi.DeadSelection) (httpapi.DeadDone, error) {
			s.ToGroup = toGroup
			return c.RetryDeadLetters(ctx, group, s)
		})
	cmd.Flags().BoolVar(&toGroup, "to-group", false, "to the group alone, not to its topic")
	return cmd
}

func (a *app) dlqDrop() *cobra.Command {
	return a.deadDo("drop", "Remove dead letters", `Remove dead letters for good: those with the OFFSETs, those that match the flags, or with --all all of the group. What is
given up after the count is left alone.`,
		"  tidewheel dlq drop billing --to -7d --dry-run",
		func(ctx context.Context, c *client.Client, group string, s httpapi.DeadSelection) (httpapi.DeadDone, error) {
			return c.DropDeadLetters(ctx, group, s)
		})
}

// deadDone is the answer of retry and drop.
type deadDone struct {
	Group   string `json:"group"`
	Action  string `json:"action"`
	Matched int64  `json:"matched"`
	DryRun  bool   `json:"dry_run,omitempty"`
}

// deadDo is a verb that counts dead letters, asks, and does something with those that were counted.
func (a *app) deadDo(action, short, long, example string,
	do func(context.Context, *client.Client, string, httpapi.DeadSelection) (httpapi.DeadDone, error)) *cobra.Command {
	var d client.Dead
	var f timeFlags
	var careful careful
	var all bool
	cmd := &cobra.Command{
		Use:     action + " GROUP [OFFSET...]",
		Short:   short,
		Long:    long + "\n\n" + timeHelp,
		Example: example,
		Args:    cobra.MinimumNArgs(1),
		RunE: a.served(func(ctx context.Context, c *client.Client, args []string) error {
			s, err := deadSelection(ctx, c, d, &f, args[1:], all)
			if err != nil {
				return err
			}
			s.DryRun = true
			n, err := do(ctx, c, args[0], s)
			if err != nil {
				return err
			}
			done := deadDone{args[0], action, n.Matched, careful.dryRun}
			if n.Matched > 0 && !careful.dryRun {
				verb := map[string]string{"retry": "Deliver", "drop": "Remove"}[action]
				if err := a.ask(&careful, fmt.Sprintf("%s %s of %s?", verb, count(n.Matched, "dead letter", "dead letters"), args[0])); err != nil {
					return err
				}
				s.DryRun = false
				if n.Before != nil {
					s.Before = *n.Before
				}
				if n, err = do(ctx, c, args[0], s); err != nil {
					return err
				}
				done.Matched = n.Matched
			}
			return a.one(done, func(w io.Writer) {
				word := map[string]string{"retry": "delivered", "drop": "removed"}[action]
				if careful.dryRun {
					word = "matched"
				}
				fmt.Fprintf(w, "%s\t%d\n", word, done.Matched)
			})
		}),
	}
	deadFlags(cmd, &d)
	f.addZone(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "all of the group: without it something must be said")
	careful.add(cmd, "only tell how many match")
	return a.withURL(cmd)
}

// deadSelection is what the arguments and flags mean.
func deadSelection(ctx context.Context, c *client.Client, d client.Dead, f *timeFlags, offsets []string, all bool) (httpapi.DeadSelection, error) {
	d, err := deadTimes(ctx, c, d, f)
	s := httpapi.DeadSelection{Topic: d.Topic, Key: d.Key, Tag: d.Tag, Reason: d.Reason, From: d.From, To: d.To, All: all}
	for _, text := range offsets {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return s, fmt.Errorf("%w: OFFSET is %q, allowed is a whole number", errUsage, text)
		}
		s.Offsets = append(s.Offsets, httpapi.Int64(n))
	}
	if said := d != (client.Dead{}) || len(offsets) > 0; err == nil && said == all {
		return s, fmt.Errorf("%w: it needs OFFSETs, or one of --topic, --key, --tag, --reason, --from, --to, or --all alone", errUsage)
	}
	return s, err
}
