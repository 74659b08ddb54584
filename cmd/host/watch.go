package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

// watchFlags are what watch takes.
type watchFlags struct {
	ask   client.Events
	kinds []string
	max   int
	when  timeFlags
}

// eventKinds are the kinds of events. One that is missing here cannot be asked for.
var eventKinds = []string{
	engine.EventStored, engine.EventScheduled, engine.EventRolled, engine.EventDelivered, engine.EventDropped,
	engine.EventCancelled, engine.EventMoved, engine.EventUndone, engine.EventCommitted, engine.EventTopic, engine.EventNoTopic,
	engine.EventGroup, engine.EventNoGroup, engine.EventTrimmed, engine.EventLost, engine.EventStaged, engine.EventDecided,
}

func (a *app) watch() *cobra.Command {
	var f watchFlags
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Show what happens to messages as it happens, and how late they come",
		Long: `Show what happens as it becomes durable: messages that are stored, scheduled, moved, cancelled, undone, delivered (with how
late) and dropped, commits of groups, and changes of topics. It goes on until interrupted. When the connection is lost
it connects again and goes on right behind the last event: none is missed and none comes twice.`,
		Example: `  tidewheel watch --topic orders
  tidewheel watch --kind delivered --kind cancelled -o ndjson
  tidewheel watch --from first --max 10`,
		Args: cobra.NoArgs,
		RunE: a.served(func(ctx context.Context, c *client.Client, _ []string) error {
			if f.max < 0 {
				return fmt.Errorf("%w: --max is 0 or more", errUsage)
			}
			for _, kind := range f.kinds {
				if !slices.Contains(eventKinds, kind) {
					return fmt.Errorf("%w: --kind is %q, allowed are %s", errUsage, kind, strings.Join(eventKinds, ", "))
				}
			}
			if _, err := f.when.zone(); err != nil {
				return err
			}
			return a.follower(c, f).run(ctx)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.ask.Topic, "topic", "", "only of this topic")
	flags.StringVar(&f.ask.From, "from", "now", "where to begin: now, first (the oldest that there is), or a POSITION of the log")
	flags.StringArrayVar(&f.kinds, "kind", nil, "only events of this kind, or one of these: "+strings.Join(eventKinds, ", "))
	flags.IntVar(&f.max, "max", 0, "end after so many events; 0: no end")
	flags.StringSliceVar(&a.columns, "columns", nil, "the columns of the table or csv, in this order")
	f.when.addZone(cmd)
	return a.withURL(cmd)
}

// follower follows the events of a server.
type follower struct {
	a     *app
	c     *client.Client
	f     watchFlags
	out   *list
	count int
	came  bool // a connection has been there: from then on a lost one is made again
}

func (a *app) follower(c *client.Client, f watchFlags) *follower {
	return &follower{a: a, c: c, f: f, out: a.list("AT", "KIND", "TOPIC", "KEY", "DUE", "LATE", "QUEUE", "OFFSET", "ID", "GROUP",
		"TAG", "SIZE", "POSITION", "NEW_DUE").extra("ID", "GROUP", "TAG", "SIZE", "POSITION").cut("KEY", 40).cut("TAG", 40).named("POSITION")}
}

// Times between attempts to connect again.
const (
	reconnectFirst = 100 * time.Millisecond
	reconnectMost  = 5 * time.Second
)

// run goes on until there is a reason to stop. That it was interrupted is none to complain about.
func (w *follower) run(ctx context.Context) error {
	wait := reconnectFirst
	for {
		before := w.f.ask.After
		err := w.stream(ctx)
		if ctx.Err() != nil || err == nil {
			return w.out.close()
		}
		if !w.mayCome(err) {
			return errors.Join(err, w.out.close())
		}
		if w.f.ask.After != before {
			wait = reconnectFirst
		}
		fmt.Fprintf(w.a.stderr, "the connection was lost, again in %v: %s\n", wait, text(err))
		select {
		case <-ctx.Done():
			return w.out.close()
		case <-time.After(wait):
		}
		wait = min(2*wait, reconnectMost)
	}
}

// mayCome says whether it makes sense to connect again.
func (w *follower) mayCome(err error) bool {
	var p *httpapi.Problem
	if errors.As(err, &p) {
		return w.came && p.Status == 503
	}
	return w.came || errors.Is(err, client.ErrStreamEnded)
}

// stream shows the events of one connection. Nil: there were as many as were wanted.
func (w *follower) stream(ctx context.Context) error {
	if err := w.begin(ctx); err != nil {
		return err
	}
	for ev, err := range w.c.Events(ctx, w.f.ask) {
		if err != nil {
			return err
		}
		w.f.ask.After = int64(ev.Position)
		if len(w.f.kinds) > 0 && !slices.Contains(w.f.kinds, ev.Kind) {
			continue
		}
		if err := w.out.add(ev, w.row(&ev)...); err != nil {
			return err
		}
		if err := w.out.flush(); err != nil {
			return err
		}
		if w.count++; w.count == w.f.max {
			return nil
		}
	}
	return ctx.Err()
}

// begin pins where the first connection begins: with now, a connection that is lost before the first event would leave out
// what happens until the next one.
func (w *follower) begin(ctx context.Context) error {
	if !w.came && w.f.ask.From == "now" {
		s, err := w.c.Status(ctx)
		if err != nil {
			return err
		}
		w.f.ask.From = fmt.Sprint(int64(s.Log.Durable))
		if w.f.ask.From == "0" {
			w.f.ask.From = "first"
		}
		fmt.Fprintf(w.a.stderr, "watching from log position %d\n", int64(s.Log.Durable))
	}
	w.came = true
	return nil
}

func (w *follower) row(ev *httpapi.LogEvent) []string {
	f := &w.f.when
	row := []string{f.due(ev.AtMs), ev.Kind, ev.Topic, ev.Key, "", "", "", "", ev.MessageID, ev.Group, ev.Tag, "", whole(ev.Position), ""}
	if ev.DueMs != 0 {
		row[4] = f.due(ev.DueMs)
	}
	if ev.LatenessMs != nil {
		row[5] = (time.Duration(*ev.LatenessMs) * time.Millisecond).String()
	}
	if ev.Queue != nil {
		row[6] = whole(*ev.Queue)
	}
	if ev.Offset != nil {
		row[7] = whole(*ev.Offset)
	}
	if ev.Size != 0 {
		row[11] = whole(ev.Size)
	}
	if ev.NewDueMs != 0 {
		row[13] = f.due(ev.NewDueMs)
	}
	return row
}
