package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/httpapi"
	"github.com/tidewheel/tidewheel/host/instant"
)

// bulkFlags are what a change of many messages takes.
type bulkFlags struct {
	action  string
	filter  httpapi.BulkFilter
	all     bool
	by      string
	when    timeFlags
	careful careful
}

func (a *app) bulk() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bulk",
		Short: "Cancel, move or fire all messages that match",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		a.bulkOf("cancel", "Cancel all messages that wait and match", "  tidewheel bulk cancel --topic promo --from +1h --to +1d --dry-run"),
		a.bulkOf("move", "Give all messages that wait and match another due time", `  tidewheel bulk move --topic promo --to +1d --by +2h
  tidewheel bulk move --topic promo --tag summer --at "tomorrow 09:00" --tz Europe/Berlin --yes`),
		a.bulkOf("fire", "Deliver all messages that wait and match now", "  tidewheel bulk fire --key order-42"),
		a.bulkLs(), a.bulkShow(), a.bulkStop(),
	)
	return cmd
}

func (a *app) bulkOf(action, short, example string) *cobra.Command {
	f := bulkFlags{action: action}
	cmd := &cobra.Command{
		Use:   action + " --topic TOPIC [--tag TAG] [--key KEY] [--from TIME] [--to TIME]",
		Short: short,
		Long: short + `. It counts what matches first, exactly, and asks. What is put or moved after the count is not
touched; what is delivered, cancelled or moved meanwhile is passed over and counted. Ctrl-C stops it where it is: what it
has done stays done. The exit code is 1 if messages could not be changed.

` + timeHelp,
		Example: example,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runBulk(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.filter.Topic, "topic", "", "of this topic")
	flags.StringArrayVar(&f.filter.Tags, "tag", nil, "with this tag, or one of these")
	flags.StringVar(&f.filter.Key, "key", "", "with this key")
	flags.StringVar(&f.filter.From, "from", "", "due at this TIME or later")
	flags.StringVar(&f.filter.To, "to", "", "due before this TIME")
	flags.BoolVar(&f.all, "all", false, "really all that wait: without it something of the above must be there")
	if action == "move" {
		flags.StringVar(&f.by, "by", "", "later or earlier than they are due, as +2h or -30m")
		f.when.add(cmd, "due")
	} else {
		f.when.addZone(cmd)
	}
	f.careful.add(cmd, "only tell how many match")
	return a.withURL(cmd)
}

// request is what the flags mean, with the times resolved by the server's clock, and words for a person.
func (f *bulkFlags) request(ctx context.Context, c *client.Client) (req httpapi.BulkRequest, meant string, err error) {
	req = httpapi.BulkRequest{Action: f.action, Filter: f.filter, DryRun: f.careful.dryRun}
	var words []string
	for _, w := range [][2]string{
		{"topic", f.filter.Topic}, {"tag", strings.Join(f.filter.Tags, " or ")}, {"key", f.filter.Key}} {
		if w[1] != "" {
			words = append(words, w[0]+" "+w[1])
		}
	}
	now, err := c.Time(ctx)
	if err != nil {
		return req, "", err
	}
	resolve := func(flag, text string, into *string) error {
		if text == "" {
			return nil
		}
		ms, err := f.when.instantAt(flag, text, now.NowMs)
		*into = "@" + strconv.FormatInt(ms, 10)
		words = append(words, fmt.Sprintf("due %s %s", flag[2:], f.when.due(ms)))
		return err
	}
	if err := resolve("--from", f.filter.From, &req.Filter.From); err != nil {
		return req, "", err
	}
	if err := resolve("--to", f.filter.To, &req.Filter.To); err != nil {
		return req, "", err
	}
	if (len(words) == 0) != f.all {
		return req, "", fmt.Errorf("%w: bulk needs one of --topic, --tag, --key, --from, --to, or --all alone", errUsage)
	}
	to, err := f.target(&req, now.NowMs)
	meant = strings.Join(words, ", ")
	if f.all {
		meant = "all"
	}
	return req, meant + to, err
}

// target says where messages are moved.
func (f *bulkFlags) target(req *httpapi.BulkRequest, nowMs int64) (words string, err error) {
	at, flag := f.when.at, "--at"
	if f.when.in != "" {
		at, flag = f.when.in, "--in"
		if _, err := instant.Delay(at); err != nil {
			return "", fmt.Errorf("%w: --in: %w", errUsage, err)
		}
	}
	given := 0
	for _, text := range []string{f.by, f.when.in, f.when.at} {
		if text != "" {
			given++
		}
	}
	switch {
	case f.action != "move":
		return "", nil
	case given != 1:
		return "", fmt.Errorf("%w: move needs one of --by, --in and --at", errUsage)
	case f.by != "":
		if _, err := instant.Shift(f.by); err != nil {
			return "", fmt.Errorf("%w: --by: %w", errUsage, err)
		}
		req.By = &f.by
		return ", by " + f.by, nil
	}
	ms, err := f.when.instantAt(flag, at, nowMs)
	req.DeliverAtMs = &ms
	return ", to " + f.when.due(ms), err
}

// runBulk counts, asks, changes, and waits until that is done.
func (a *app) runBulk(ctx context.Context, f bulkFlags) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.CloseIdle()
	req, meant, err := f.request(ctx, c)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "%s: %s\n", f.action, meant)
	preview, err := c.PreviewBulk(ctx, req)
	if err != nil {
		return err
	}
	if f.careful.dryRun || preview.Matched == 0 {
		preview.Confirm, preview.Expires = "", ""
		return a.one(preview, func(w io.Writer) { bulkTable(w, &preview) })
	}
	verb := strings.ToUpper(f.action[:1]) + f.action[1:]
	if err := a.ask(&f.careful, fmt.Sprintf("%s %s?", verb, count(preview.Matched, "message", "messages"))); err != nil {
		return err
	}
	job, err := c.StartBulk(ctx, preview.Confirm)
	if err != nil {
		return err
	}
	if job, err = a.follow(ctx, c, job); err != nil {
		return err
	}
	if err := a.one(job, func(w io.Writer) { bulkTable(w, &job) }); err != nil {
		return err
	}
	switch {
	case job.State != "done":
		return fmt.Errorf("%s after %d of %d messages", job.State, job.Changed, job.Matched)
	case job.Refused > 0:
		return fmt.Errorf("%s could not be changed: %s", count(job.Refused, "message", "messages"), job.Error)
	}
	return nil
}

// bulkPoll is how often a change is asked how far it is, at first and later.
const (
	bulkPoll    = 10 * time.Millisecond
	bulkPollMax = 500 * time.Millisecond
)

// follow waits until a change has ended. An interrupt stops the change.
func (a *app) follow(ctx context.Context, c *client.Client, job httpapi.Bulk) (httpapi.Bulk, error) {
	m := a.meter(job.Action)
	defer m.end()
	for poll := bulkPoll; job.State == "running"; poll = min(2*poll, bulkPollMax) {
		select {
		case <-ctx.Done():
			return stopped(context.WithoutCancel(ctx), c, job.ID)
		case <-time.After(poll):
		}
		got, err := c.Bulk(ctx, job.ID)
		if err != nil && ctx.Err() == nil {
			return job, err
		}
		if err == nil {
			job = got
		}
		m.at(job.Changed+job.Passed+job.Refused, job.Matched)
	}
	return job, nil
}

// stopWait is how long a change may take to stop.
const stopWait = 5 * time.Second

// stopped stops a change and waits until it has.
func stopped(ctx context.Context, c *client.Client, id string) (httpapi.Bulk, error) {
	ctx, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	job, err := c.StopBulk(ctx, id)
	for err == nil && job.State == "running" {
		select {
		case <-ctx.Done():
			return job, nil // it says that it runs
		case <-time.After(bulkPoll):
		}
		job, err = c.Bulk(ctx, id)
	}
	return job, err
}

func bulkTable(w io.Writer, b *httpapi.Bulk) {
	if b.State == "preview" {
		fmt.Fprintf(w, "matched\t%d\n", b.Matched)
		return
	}
	fmt.Fprintf(w, "%s\t%s\n", b.State, b.ID)
	fmt.Fprintf(w, "action\t%s\n", b.Action)
	fmt.Fprintf(w, "matched\t%d\n", b.Matched)
	fmt.Fprintf(w, "changed\t%d\n", b.Changed)
	fmt.Fprintf(w, "passed\t%d\n", b.Passed)
	fmt.Fprintf(w, "refused\t%d\n", b.Refused)
	if b.Error != "" {
		fmt.Fprintf(w, "error\t%s\n", cell(b.Error, 200))
	}
}
