package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

// changed is the answer for one handle of move, fire and undo.
type changed struct {
	Old     string           `json:"old_handle"`
	Outcome string           `json:"outcome"`
	Handle  string           `json:"handle,omitempty"` // the new one
	Due     string           `json:"due,omitempty"`
	DueMs   int64            `json:"due_ms,omitempty"`
	DueIn   string           `json:"due_in,omitempty"`
	Problem *httpapi.Problem `json:"problem,omitempty"`
}

// changeEach changes messages one after the other, or if try is the name of the verb, says what it would do. The error is
// the first refusal.
func (a *app) changeEach(ctx context.Context, handles []string, f *timeFlags, try string,
	change func(*client.Client, string) (httpapi.Changed, error)) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.CloseIdle()
	if try != "" {
		return a.try(ctx, c, try, handles, f)
	}
	out := a.list("OUTCOME", "DUE", "IN", "HANDLE").named("HANDLE").cut("HANDLE", 0)
	var first error
	for _, h := range handles {
		got, err := change(c, h)
		line := changed{h, got.Outcome, got.Handle, got.Due, got.DueMs, got.DueIn, nil}
		row := []string{got.Outcome, f.due(got.DueMs), got.DueIn, got.Handle}
		var p *httpapi.Problem
		if errors.As(err, &p) {
			line.Outcome, line.Problem = p.Code, p
			row = []string{p.Code, "", "", h}
		} else if err != nil {
			return errors.Join(err, out.close())
		}
		if first == nil {
			first = err
		}
		if p != nil && a.format == formatName {
			continue // a handle that nothing became of would be taken for the new one
		}
		if err := out.add(line, row...); err != nil {
			return err
		}
	}
	if err := out.close(); err != nil {
		return err
	}
	return first
}

func (a *app) move() *cobra.Command {
	var f timeFlags
	var by string
	var dry bool
	cmd := &cobra.Command{
		Use:   "move HANDLE... --by SHIFT|--in DELAY|--at TIME",
		Short: "Give messages that wait another due time",
		Long: `Give messages that wait another due time. It is one step, also across a crash: a message never is away, and never
there twice. The old handle is superseded; the new one is printed. The answer is definite: moved, superseded,
already_cancelled, already_delivered or not_found.

` + timeHelp,
		Example: `  tidewheel move tw1.AQAAAAAB... --by +2h
  tidewheel move tw1.AQAAAAAB... --at "tomorrow 09:00" --tz Europe/Berlin
  tidewheel ls --topic promo -o ndjson | jq -r .handle | xargs tidewheel move --by -30m`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, handles []string) error {
			at, err := f.time()
			if err != nil {
				return err
			}
			to := httpapi.Reschedule{Time: at}
			switch timed := f.in != "" || f.at != ""; {
			case timed == (by != ""):
				return fmt.Errorf("%w: move needs one of --by, --in and --at", errUsage)
			case by != "":
				to.By = &by
			}
			return a.changeEach(cmd.Context(), handles, &f, only(dry, "move"), func(c *client.Client, h string) (httpapi.Changed, error) {
				return c.Move(cmd.Context(), h, to)
			})
		},
	}
	cmd.Flags().StringVar(&by, "by", "", "later or earlier than they are due, as +2h or -30m")
	f.add(cmd, "due")
	cmd.Flags().BoolVar(&dry, "dry-run", false, dryRunHelp)
	return a.withURL(cmd)
}

// only is the text if it is wanted.
func only(wanted bool, text string) string {
	if wanted {
		return text
	}
	return ""
}

func (a *app) fire() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "fire HANDLE...",
		Short: "Deliver messages that wait now",
		Long: `Deliver messages that wait now: they are moved to now. The answer is definite: fired, superseded,
already_cancelled, already_delivered or not_found.`,
		Example: "  tidewheel fire tw1.AQAAAAAB...",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, handles []string) error {
			return a.changeEach(cmd.Context(), handles, &timeFlags{}, only(dry, "fire"), func(c *client.Client, h string) (httpapi.Changed, error) {
				return c.Fire(cmd.Context(), h)
			})
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, dryRunHelp)
	return a.withURL(cmd)
}

func (a *app) undo() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "undo HANDLE...",
		Short: "Take cancels back, before the due time",
		Long: `Take cancels back, until a message's due time and while its body is in the log: it waits again, under a new handle,
which is printed. After the due time the answer is too_late.`,
		Example: "  tidewheel undo tw1.AQAAAAAB...",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, handles []string) error {
			return a.changeEach(cmd.Context(), handles, &timeFlags{}, "", func(c *client.Client, h string) (httpapi.Changed, error) {
				return c.Undo(cmd.Context(), h)
			})
		},
	}
	return a.withURL(cmd)
}
