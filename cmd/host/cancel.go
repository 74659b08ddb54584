package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/httpapi"
)

// cancelled is the answer for one handle.
type cancelled struct {
	Handle  string           `json:"handle"`
	Outcome string           `json:"outcome"`
	Problem *httpapi.Problem `json:"problem,omitempty"`
}

func (a *app) cancel() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "cancel HANDLE...",
		Short: "Take back messages that wait",
		Long: `Take back messages that wait. The answer is definite, also after a crash: cancelled, already_cancelled,
superseded (it was moved), already_delivered or not_found. With several handles the exit code is that of the
first that was not cancelled.`,
		Example: `  tidewheel cancel tw1.AQAAAAAB...
  tidewheel put orders '{"id":42}' --level 5 -o json | jq -r .handle | xargs tidewheel cancel`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, handles []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.CloseIdle()
			if dry {
				return a.try(cmd.Context(), c, "cancel", handles, &timeFlags{})
			}
			out := a.list("OUTCOME", "HANDLE").named("HANDLE").cut("HANDLE", 0)
			var first error
			for _, h := range handles {
				line := cancelled{Handle: h}
				got, err := c.Cancel(cmd.Context(), h)
				var p *httpapi.Problem
				switch {
				case err == nil:
					line.Outcome = got.Outcome
				case errors.As(err, &p):
					line.Outcome, line.Problem = p.Code, p
				default:
					return errors.Join(err, out.close())
				}
				if first == nil {
					first = err
				}
				if line.Problem != nil && a.format == formatName {
					continue // only those that are cancelled
				}
				if err := out.add(line, line.Outcome, line.Handle); err != nil {
					return err
				}
			}
			if err := out.close(); err != nil {
				return err
			}
			return first
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, dryRunHelp)
	return a.withURL(cmd)
}
