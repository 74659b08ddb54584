package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

// consumeFlags are what consume takes.
type consumeFlags struct {
	group  string
	ack    bool
	queue  int
	offset int64
	tags   []string
	max    int
	wait   time.Duration
	follow bool // no --wait: until interrupted
}

func (a *app) consume() *cobra.Command {
	var f consumeFlags
	cmd := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Read messages as they become visible",
		Long: `Read messages as they become visible, until interrupted, or until --max messages came or none came for --wait.

With --group it goes on where the group stands; with --ack it says so after printing, so that the next one goes on
behind. Without a group it begins with the first message that is there. Read each queue of a group in one place at a
time: two readers get the same messages.`,
		Example: `  tidewheel consume orders --group billing --ack
  tidewheel consume orders --max 10 --wait 0s -o ndjson
  tidewheel consume orders --queue 2 --offset 1000 --tag unpaid --tag overdue`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.follow = !cmd.Flags().Changed("wait")
			switch {
			case f.ack && f.group == "":
				return fmt.Errorf("%w: --ack needs --group", errUsage)
			case f.offset >= 0 && f.queue < 0:
				return fmt.Errorf("%w: --offset needs --queue", errUsage)
			case f.max < 0 || f.wait < 0:
				return fmt.Errorf("%w: --max and --wait are 0 or more", errUsage)
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.CloseIdle()
			r := reader{a: a, c: c, f: f, topic: args[0], out: a.list("QUEUE", "OFFSET", "DUE", "KEY", "TAG", "BODY").cut("KEY", 40).cut("TAG", 40).cut("BODY", 80)}
			err = r.read(cmd.Context())
			return errors.Join(err, r.out.close())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.group, "group", "", "the consumer group")
	flags.BoolVar(&f.ack, "ack", false, "commit what was printed")
	flags.IntVar(&f.queue, "queue", -1, "only this queue")
	flags.Int64Var(&f.offset, "offset", -1, "begin at this offset of --queue")
	flags.StringArrayVar(&f.tags, "tag", nil, "only messages with this tag, or one of these")
	flags.IntVar(&f.max, "max", 0, "end after so many messages; 0: no end")
	flags.DurationVar(&f.wait, "wait", 0, "end when no message came for so long; 0s: take what is there")
	return a.withURL(cmd)
}

// reader reads a topic and remembers how far it has come.
type reader struct {
	a     *app
	c     *client.Client
	f     consumeFlags
	topic string
	out   *list
	from  []httpapi.QueueOffset // nil: where the group stands
	count int
}

// pollWait is how long the server may wait for the next message of one request.
const pollWait = 20 * time.Second

// read goes on until there is a reason to stop. That it was interrupted is none to complain about.
func (r *reader) read(ctx context.Context) error {
	if r.f.queue >= 0 {
		r.from = []httpapi.QueueOffset{{Queue: r.f.queue, Offset: httpapi.Int64(r.f.offset)}}
	}
	idle := time.Now()
	for r.f.max == 0 || r.count < r.f.max {
		wait := pollWait
		if !r.f.follow {
			wait = min(pollWait, max(r.f.wait-time.Since(idle), 0))
		}
		n, err := r.pull(ctx, wait)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case n > 0:
			idle = time.Now()
		case !r.f.follow && time.Since(idle) >= r.f.wait:
			return nil
		}
		r.count += n
	}
	return nil
}

// pull reads once, prints, and acks.
func (r *reader) pull(ctx context.Context, wait time.Duration) (int, error) {
	req := client.Pull{Topic: r.topic, Group: r.f.group, From: r.from, Tags: r.f.tags, Wait: wait}
	if r.f.max > 0 {
		req.Max = min(r.f.max-r.count, 1000)
	}
	got, err := r.c.Pull(ctx, req)
	if err != nil {
		return 0, err
	}
	for i := range got.Messages {
		if err := r.out.add(&got.Messages[i], messageRow(&got.Messages[i])...); err != nil {
			return 0, err
		}
	}
	if err := r.out.flush(); err != nil {
		return 0, err
	}
	r.from = r.from[:0]
	for _, n := range got.Next {
		r.from = append(r.from, n.QueueOffset)
	}
	if !r.f.ack {
		return len(got.Messages), nil
	}
	ack := httpapi.Ack{Group: r.f.group, Offsets: r.from}
	if len(got.Messages) > 0 {
		err = r.c.Ack(ctx, r.topic, ack)
	}
	if r.f.queue < 0 {
		r.from = nil // the group knows; and it sees queues that are new
	}
	return len(got.Messages), err
}

func messageRow(m *httpapi.Message) []string {
	if m.Problem != nil {
		return []string{whole(m.Queue), whole(m.Offset), "", "", "", "(" + m.Problem.Error() + ")"}
	}
	due := ""
	if m.DueMs != 0 {
		due = time.UnixMilli(m.DueMs).UTC().Format("2006-01-02T15:04:05.000Z")
	}
	body := string(m.Bytes())
	if m.Body == nil {
		body = fmt.Sprintf("(%d bytes)", len(m.BodyBase64))
	}
	return []string{whole(m.Queue), whole(m.Offset), due, m.Key, m.Tag, body}
}
