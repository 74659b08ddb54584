package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/broker"
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
	wait   span
	lease  span // of --ack-timeout
	follow bool // no --wait: until interrupted
	when   timeFlags
}

func (a *app) consume() *cobra.Command {
	var f consumeFlags
	cmd := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Read messages as they become visible",
		Long: `Read messages as they become visible, until interrupted, or until --max messages came or none came for --wait.

With --group and --ack the group is given each message for --ack-timeout, and is done with it when it was printed. Any
number of readers share a group's messages; one that dies leaves its own to the others, when that time is over. With
--group alone it shows what the group would get, and changes nothing. Without a group it begins with the first message
that is there.

With --queue it reads that queue alone, from --offset or from where the group stands; --ack then says how far the group
has come, whoever else reads.`,
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
			case f.lease != 0 && (!f.ack || f.queue >= 0):
				return fmt.Errorf("%w: --ack-timeout needs --ack, and no --queue", errUsage)
			case f.max < 0:
				return fmt.Errorf("%w: --max is 0 or more", errUsage)
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.CloseIdle()
			r := reader{a: a, c: c, f: f, topic: args[0], out: a.messages()}
			err = r.read(cmd.Context())
			return errors.Join(err, r.out.close())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.group, "group", "", "the consumer group")
	flags.BoolVar(&f.ack, "ack", false, "the group is done with what was printed")
	flags.Var(&f.lease, "ack-timeout", "how long the group has a message until it is given to another reader (default: as the server is set)")
	flags.IntVar(&f.queue, "queue", -1, "only this queue")
	flags.Int64Var(&f.offset, "offset", -1, "begin at this offset of --queue")
	flags.StringArrayVar(&f.tags, "tag", nil, "only messages with this tag, or one of these")
	flags.IntVar(&f.max, "max", 0, "end after so many messages; 0: no end")
	flags.Var(&f.wait, "wait", "end when no message came for so long; 0s: take what is there")
	flags.Lookup("wait").DefValue, flags.Lookup("ack-timeout").DefValue = "", "" // nothing is not 0s
	flags.StringSliceVar(&a.columns, "columns", nil, "the columns of the table or csv, in this order")
	f.when.addZone(cmd)
	return a.withURL(cmd)
}

// messages is a list of messages that were read.
func (a *app) messages() *list {
	return a.list("QUEUE", "OFFSET", "DUE", "KEY", "TAG", "BODY", "ID", "ATTEMPT", "RECEIPT", "STORED", "LEVEL").
		extra("ID", "ATTEMPT", "RECEIPT", "STORED", "LEVEL").named("ID").
		cut("KEY", 40).cut("TAG", 40).cut("BODY", 80).cut("ID", 0).cut("RECEIPT", 0)
}

// reader reads a topic and remembers how far it has come.
type reader struct {
	a     *app
	c     *client.Client
	f     consumeFlags
	topic string
	out   *list
	from  []httpapi.QueueOffset // nil: the group is given messages, or all queues from their begin
	count int
}

// pollWait is how long the server may wait for the next message of one request.
const pollWait = 20 * time.Second

// read goes on until there is a reason to stop. That it was interrupted is none to complain about.
func (r *reader) read(ctx context.Context) error {
	switch {
	case r.f.queue >= 0:
		r.from = []httpapi.QueueOffset{{Queue: r.f.queue, Offset: httpapi.Int64(r.f.offset)}}
	case r.f.group != "" && !r.f.ack:
		// Saying from where leases nothing.
		t, err := r.c.Topic(ctx, r.topic)
		if err != nil {
			return err
		}
		for _, q := range t.Queues {
			r.from = append(r.from, httpapi.QueueOffset{Queue: q.Queue, Offset: broker.Committed})
		}
	}
	idle, patience := time.Now(), time.Duration(r.f.wait)
	for r.f.max == 0 || r.count < r.f.max {
		wait := pollWait
		if !r.f.follow {
			wait = min(pollWait, max(patience-time.Since(idle), 0))
		}
		n, err := r.pull(ctx, wait)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case n > 0:
			idle = time.Now()
		case !r.f.follow && time.Since(idle) >= patience:
			return nil
		}
		r.count += n
	}
	return nil
}

// pull reads once, prints, and acks.
func (r *reader) pull(ctx context.Context, wait time.Duration) (int, error) {
	req := client.Pull{Topic: r.topic, Group: r.f.group, From: r.from, Tags: r.f.tags, Wait: wait, AckTimeout: time.Duration(r.f.lease)}
	if r.f.max > 0 {
		req.Max = min(r.f.max-r.count, 1000)
	}
	got, err := r.c.Pull(ctx, req)
	if err != nil {
		return 0, err
	}
	for i := range got.Messages {
		if err := r.out.add(&got.Messages[i], messageRow(&got.Messages[i], &r.f.when)...); err != nil {
			return 0, err
		}
	}
	if err := r.out.flush(); err != nil {
		return 0, err
	}
	if r.f.ack && r.f.queue < 0 {
		return len(got.Messages), r.ack(ctx, got.Messages)
	}
	r.from = r.from[:0]
	for _, n := range got.Next {
		r.from = append(r.from, n.QueueOffset)
	}
	if r.f.ack && len(got.Messages) > 0 {
		err = r.c.Ack(ctx, r.topic, httpapi.Ack{Group: r.f.group, Offsets: r.from})
	}
	return len(got.Messages), err
}

// ack says that the group is done with messages. An interrupt does not keep it from doing so: they were printed.
func (r *reader) ack(ctx context.Context, messages []httpapi.Message) error {
	var receipts []string
	place := map[string]string{}
	for i := range messages {
		if m := &messages[i]; m.Receipt != "" {
			receipts = append(receipts, m.Receipt)
			place[m.Receipt] = fmt.Sprintf("queue %d, offset %d", m.Queue, m.Offset)
		}
	}
	if len(receipts) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ackWait)
	defer cancel()
	results, err := r.c.AckReceipts(ctx, r.topic, receipts...)
	for _, got := range results {
		if got.Outcome != httpapi.OutcomeAcked {
			fmt.Fprintf(r.a.stderr, "%s: %s: it comes again\n", place[got.Receipt], got.Outcome)
		}
	}
	return err
}

// ackWait is how long an ack may take.
const ackWait = 10 * time.Second

func messageRow(m *httpapi.Message, f *timeFlags) []string {
	row := []string{whole(m.Queue), whole(m.Offset), "", m.Key, m.Tag, "", m.ID, "", m.Receipt, "", ""}
	if m.Problem != nil {
		row[5] = "(" + m.Problem.Error() + ")"
		return row
	}
	for cell, n := range map[int]int{7: m.Attempt, 10: m.DelayLevel} {
		if n != 0 {
			row[cell] = whole(n)
		}
	}
	for cell, ms := range map[int]int64{2: m.DueMs, 9: m.StoredMs} {
		if ms != 0 {
			row[cell] = f.due(ms)
		}
	}
	row[5] = bodyCell(m.Body, m.BodyBase64)
	return row
}

// bodyCell is a body in a row: what is no text is counted.
func bodyCell(text *string, bytes []byte) string {
	if text == nil && len(bytes) > 0 {
		return fmt.Sprintf("(%d bytes)", len(bytes))
	}
	if text == nil {
		return ""
	}
	return *text
}
