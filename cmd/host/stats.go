package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/httpapi"
	"github.com/tidewheel/tidewheel/host/instant"
)

// skewTold is from which difference on the clocks are told to differ.
const skewTold = time.Second

func (a *app) stats() *cobra.Command {
	var levels bool
	var f timeFlags
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Show how the server is: what waits, what it did, where its log stands",
		Long: `Show how the server is: what waits, what it has done since it was started, and where its log stands. With --levels it is
the table of delay levels: what waits in each, how much comes and goes, and when the next one is due. When the clocks of the
server and of this machine differ by more than a second, it says so: due times are compared with the server's.`,
		Example: "  tidewheel stats -o json\n  tidewheel stats --levels --watch=1s",
		Args:    cobra.NoArgs,
		RunE: a.served(func(ctx context.Context, c *client.Client, _ []string) error {
			if levels {
				return a.levels(ctx, c, &f)
			}
			began := time.Now()
			s, err := c.Status(ctx)
			if err != nil {
				return err
			}
			a.tellSkew(s.NowMs, began)
			return a.one(s, func(w io.Writer) { statsTable(w, &s, &f) })
		}),
	}
	cmd.Flags().BoolVar(&levels, "levels", false, "the delay levels")
	f.addZone(cmd)
	return a.reads(a.withURL(cmd))
}

// tellSkew says how far the clocks are apart, if that is more than the request could explain.
func (a *app) tellSkew(serverMs int64, began time.Time) {
	ahead := time.Since(time.UnixMilli(serverMs))
	took := time.Since(began)
	switch {
	case ahead > skewTold+took:
		fmt.Fprintf(a.stderr, "the clock of this machine is %v ahead of the server's\n", ahead.Round(100*time.Millisecond))
	case ahead < -skewTold:
		fmt.Fprintf(a.stderr, "the clock of this machine is %v behind the server's\n", (-ahead).Round(100*time.Millisecond))
	}
}

func statsTable(w io.Writer, s *httpapi.Status, f *timeFlags) {
	fmt.Fprintf(w, "%s\t%s\n", s.State, f.due(s.NowMs))
	if s.Problem != nil {
		fmt.Fprintf(w, "problem\t%s\n", s.Problem.Error())
	}
	if s.NotStoring != "" {
		fmt.Fprintf(w, "not storing\t%s\n", s.NotStoring)
	}
	if s.NotDelivering != "" {
		fmt.Fprintf(w, "not delivering\t%s\n", s.NotDelivering)
	}
	for _, text := range s.Attention {
		fmt.Fprintf(w, "attention\t%s\n", text)
	}
	fmt.Fprintf(w, "waiting\t%s\n", count(s.Pending, "message", "messages"))
	fmt.Fprintf(w, "delivered\t%s since the start\n", thousands(s.SinceStart.Delivered))
	fmt.Fprintf(w, "dropped\t%s, of deleted topics\n", thousands(s.Dropped))
	fmt.Fprintf(w, "topics\t%d\n", s.Topics)
	fmt.Fprintf(w, "groups\t%d\n", s.Groups)
	fmt.Fprintf(w, "log\t%s on disk, positions %d to %d\n", bytesText(s.Log.Bytes), s.Log.Head, s.Log.End)
	fmt.Fprintf(w, "durable\tup to %d\n", s.Log.Durable)
	fmt.Fprintf(w, "checkpoint\tat %d; a restart reads %s\n", s.Log.Checkpoint, bytesText(int64(s.Log.End-s.Log.Checkpoint)))
	fmt.Fprintf(w, "batches\t%s\n", thousands(s.SinceStart.Batches))
	fmt.Fprintf(w, "rolled\t%s\n", count(s.SinceStart.Rolled, "message", "messages"))
	if s.SinceStart.JobFailures > 0 {
		fmt.Fprintf(w, "failed jobs\t%d, the last: %s\n", s.SinceStart.JobFailures, cell(s.SinceStart.LastJobError, 200))
	}
	fmt.Fprintf(w, "queued\t%s, %s\n", count(int64(s.Broker.QueuedRequests), "request", "requests"), bytesText(int64(s.Broker.QueuedBytes)))
	fmt.Fprintf(w, "readers\t%d wait for messages\n", s.Broker.WaitingReaders)
}

func (a *app) levels(ctx context.Context, c *client.Client, f *timeFlags) error {
	got, err := c.Levels(ctx)
	if err != nil {
		return err
	}
	out := a.list("LEVEL", "DELAY", "WAITING", "IN/S", "OUT/S", "NEXT", "AGE")
	for _, l := range got.Levels {
		next, age := "", ""
		if l.HeadDueMs != 0 {
			next = f.due(l.HeadDueMs)
			age = instant.Span(time.Duration(l.HeadAgeMs) * time.Millisecond)
		}
		if err := out.add(l, whole(l.Level), l.Delay, whole(l.Waiting), rate(l.InPerSec), rate(l.OutPerSec), next, age); err != nil {
			return err
		}
	}
	return out.close()
}

// rate is a number per second.
func rate(perSecond float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", perSecond), ".0")
}

// bytesText is a number of bytes for a person, in three digits.
func bytesText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, i := float64(n), 0
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	if i == 0 || v >= 100 {
		return fmt.Sprintf("%.0f %s", v, units[i])
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}
