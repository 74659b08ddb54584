package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

func (a *app) topic() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topic",
		Short: "List, make, change, pause and delete topics",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.topicLs(), a.topicCreate(), a.topicShow(), a.topicSet(), a.topicPause(), a.topicResume(), a.topicRm())
	return cmd
}

func (a *app) topicLs() *cobra.Command {
	return a.reads(a.withURL(&cobra.Command{
		Use:     "ls",
		Short:   "List topics by name",
		Example: "  tidewheel topic ls --watch",
		Args:    cobra.NoArgs,
		RunE: a.served(func(ctx context.Context, c *client.Client, _ []string) error {
			got, err := c.Topics(ctx)
			if err != nil {
				return err
			}
			out := a.list("NAME", "QUEUES", "WAITING", "VISIBLE", "STATE")
			for i := range got.Topics {
				t := &got.Topics[i]
				if err := out.add(t, t.Name, whole(t.PutQueues), whole(t.Pending), whole(visible(t)), topicState(t)); err != nil {
					return err
				}
			}
			return out.close()
		}),
	}))
}

// visible is how many messages of a topic can be read.
func visible(t *httpapi.Topic) (n int64) {
	for _, q := range t.Queues {
		n += int64(q.Max - q.Min)
	}
	return n
}

func topicState(t *httpapi.Topic) string {
	state := "open"
	if t.Paused {
		state = "paused"
	}
	switch {
	case t.StageLag > 0:
		state += fmt.Sprintf(", %d in its stage", t.StageLag)
	case t.Staged:
		state += ", staged"
	}
	return state
}

// queuesText says how many queues take messages, and how many only have some.
func queuesText(t *httpapi.Topic) string {
	if t.PutQueues == len(t.Queues) {
		return whole(t.PutQueues)
	}
	return fmt.Sprintf("%d, and %d to read from", t.PutQueues, len(t.Queues)-t.PutQueues)
}

// printTopic prints one topic.
func (a *app) printTopic(t httpapi.Topic) error {
	return a.one(t, func(w io.Writer) {
		fmt.Fprintf(w, "%s\t%s\n", t.Name, topicState(&t))
		fmt.Fprintf(w, "waiting\t%d\n", t.Pending)
		fmt.Fprintf(w, "visible\t%d\n", visible(&t))
		fmt.Fprintf(w, "queues\t%s\n", queuesText(&t))
		for _, q := range t.Queues {
			taken := ""
			if q.Queue >= t.PutQueues {
				taken = ", takes no messages"
			}
			fmt.Fprintf(w, "queue %d\toffsets %d to %d%s\n", q.Queue, q.Min, q.Max, taken)
		}
	})
}

func (a *app) topicShow() *cobra.Command {
	return a.reads(a.withURL(&cobra.Command{
		Use:     "show TOPIC",
		Short:   "Show a topic and its queues",
		Example: "  tidewheel topic show orders",
		Args:    cobra.ExactArgs(1),
		RunE: a.served(func(ctx context.Context, c *client.Client, args []string) error {
			t, err := c.Topic(ctx, args[0])
			if err != nil {
				return err
			}
			return a.printTopic(t)
		}),
	}))
}

func (a *app) topicCreate() *cobra.Command {
	var queues int
	cmd := &cobra.Command{
		Use:     "create TOPIC",
		Short:   "Make a topic that is not there",
		Long:    "Make a topic that is not there. A topic that is put into is made by that, unless the server is configured otherwise.",
		Example: "  tidewheel topic create orders --queues 8",
		Args:    cobra.ExactArgs(1),
		RunE: a.served(func(ctx context.Context, c *client.Client, args []string) error {
			var p *httpapi.Problem
			switch _, err := c.Topic(ctx, args[0]); {
			case err == nil:
				return fmt.Errorf("topic %s is there already; topic set changes it", args[0])
			case !errors.As(err, &p) || p.Status != 404:
				return err
			}
			t, err := c.DefineTopic(ctx, args[0], queues)
			if err != nil {
				return err
			}
			return a.printTopic(t)
		}),
	}
	cmd.Flags().IntVar(&queues, "queues", 4, "how many queues")
	return a.withURL(cmd)
}

func (a *app) topicSet() *cobra.Command {
	var queues int
	cmd := &cobra.Command{
		Use:   "set TOPIC --queues N",
		Short: "Change how many queues a topic has",
		Long: `Change how many queues a topic has. Queues that are taken away get no new messages; what is in them can be read, and
what waits for them comes out in them.`,
		Example: "  tidewheel topic set orders --queues 16",
		Args:    cobra.ExactArgs(1),
		RunE: a.served(func(ctx context.Context, c *client.Client, args []string) error {
			if queues == 0 {
				return fmt.Errorf("%w: set needs --queues", errUsage)
			}
			if _, err := c.Topic(ctx, args[0]); err != nil {
				return err // it is not made by this
			}
			t, err := c.DefineTopic(ctx, args[0], queues)
			if err != nil {
				return err
			}
			return a.printTopic(t)
		}),
	}
	cmd.Flags().IntVar(&queues, "queues", 0, "how many queues")
	return a.withURL(cmd)
}

func (a *app) topicPause() *cobra.Command {
	return a.topicPaused(true, "pause TOPIC", "Keep groups from reading a topic",
		`Keep groups from reading a topic, also after a restart. Messages are stored and delivered as always, and reads without a
group are not held back.`)
}

func (a *app) topicResume() *cobra.Command {
	return a.topicPaused(false, "resume TOPIC", "Let groups read a topic again", "Let groups read a topic again.")
}

func (a *app) topicPaused(paused bool, use, short, long string) *cobra.Command {
	return a.withURL(&cobra.Command{
		Use:     use,
		Short:   short,
		Long:    long,
		Example: "  tidewheel topic " + use[:len(use)-len("TOPIC")] + "orders",
		Args:    cobra.ExactArgs(1),
		RunE: a.served(func(ctx context.Context, c *client.Client, args []string) error {
			t, err := c.PauseTopic(ctx, args[0], paused)
			if err != nil {
				return err
			}
			return a.printTopic(t)
		}),
	})
}

// removed is the answer of a verb that deletes something.
type removed struct {
	Name    string `json:"name"`
	Removed bool   `json:"removed"`
	Waiting int64  `json:"waiting,omitempty"` // messages that were lost with it
	Visible int64  `json:"visible,omitempty"`
}

func (a *app) topicRm() *cobra.Command {
	var f careful
	cmd := &cobra.Command{
		Use:   "rm TOPIC",
		Short: "Delete a topic with its messages",
		Long: `Delete a topic with its queues and messages, and with how far groups have come in it. What waits for it is dropped when
it is due. It says how many messages that are, and asks.`,
		Example: "  tidewheel topic rm promo --dry-run",
		Args:    cobra.ExactArgs(1),
		RunE: a.served(func(ctx context.Context, c *client.Client, args []string) error {
			t, err := c.Topic(ctx, args[0])
			if err != nil {
				return err
			}
			r := removed{Name: t.Name, Waiting: t.Pending, Visible: visible(&t)}
			if !f.dryRun {
				if err := a.ask(&f, fmt.Sprintf("Delete topic %s with %s waiting and %d visible?", t.Name,
					count(r.Waiting, "message", "messages"), r.Visible)); err != nil {
					return err
				}
				if err := c.DeleteTopic(ctx, args[0]); err != nil {
					return err
				}
				r.Removed = true
			}
			return a.one(r, func(w io.Writer) {
				fmt.Fprintf(w, "%s\t%s\n", map[bool]string{true: "deleted", false: "would be deleted"}[r.Removed], r.Name)
				fmt.Fprintf(w, "waiting\t%d\n", r.Waiting)
				fmt.Fprintf(w, "visible\t%d\n", r.Visible)
			})
		}),
	}
	f.add(cmd, "only tell what would be deleted")
	return a.withURL(cmd)
}
