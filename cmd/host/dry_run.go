package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

// wouldBe is the answer for one handle of --dry-run.
type wouldBe struct {
	Handle  string           `json:"handle"`
	Outcome string           `json:"outcome"` // would_cancel and so on, or what the verb would say
	DryRun  bool             `json:"dry_run"`
	Topic   string           `json:"topic,omitempty"`
	Key     string           `json:"key,omitempty"`
	DueMs   int64            `json:"due_ms,omitempty"`
	Problem *httpapi.Problem `json:"problem,omitempty"`
}

// dryRunHelp is what the flag --dry-run says.
const dryRunHelp = "change nothing, tell what would become of each"

// try says what a verb would do with each handle. The error is what the first refusal would be.
func (a *app) try(ctx context.Context, c *client.Client, verb string, handles []string, f *timeFlags) error {
	out := a.list("OUTCOME", "TOPIC", "KEY", "DUE", "HANDLE").named("HANDLE").cut("KEY", 40).cut("HANDLE", 0)
	var first error
	for _, h := range handles {
		line := wouldBe{Handle: h, DryRun: true, Outcome: "would_" + verb}
		t, err := c.Timer(ctx, h)
		var p *httpapi.Problem
		switch {
		case errors.As(err, &p):
			line.Outcome, line.Problem = p.Code, p
		case err != nil:
			return errors.Join(err, out.close())
		case t.State == httpapi.StateCancelled && verb == "cancel":
			line.Outcome = httpapi.OutcomeAlreadyCancelled
		case t.State != httpapi.StateScheduled:
			line.Outcome = t.State
			err = &httpapi.Problem{Status: 409, Code: t.State, Title: fmt.Sprintf("It does not wait: it is %s", t.State)}
		}
		if first == nil {
			first = err
		}
		due := ""
		if line.Topic, line.Key, line.DueMs = t.Topic, t.Key, t.DueMs; line.DueMs != 0 {
			due = f.due(line.DueMs)
		}
		if err := out.add(line, line.Outcome, line.Topic, line.Key, due, h); err != nil {
			return err
		}
	}
	return errors.Join(first, out.close())
}
