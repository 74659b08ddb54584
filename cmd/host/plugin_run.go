package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/author"
	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/guest/golden"
)

// ranRecord is what a plugin did with a record.
type ranRecord struct {
	Line    int             `json:"line"` // of the input
	Key     string          `json:"key,omitempty"`
	Verdict json.RawMessage `json:"verdict"`
	Message string          `json:"message,omitempty"` // why it could not decide
	Stack   string          `json:"stack,omitempty"`
	Fuel    int64           `json:"fuel"`
	Memory  int64           `json:"memory_bytes"`
	Log     []string        `json:"log,omitempty"`
}

func (a *app) pluginRun() *cobra.Command {
	var set setting
	hook, input := "", "-"
	cmd := &cobra.Command{
		Use:   "run [FILE]",
		Short: "Ask a plugin about records from standard input, and show what each costs",
		Long: `Ask a plugin about records, one by one, and show the verdict on each, the fuel it took, and how large the plugin's memory
is after it. What the plugin writes to its log goes to standard error. Records are lines of JSON: topic, key, tag, properties,
body (text, or any JSON value), body_base64, id, stored_ms, due_ms, attempt, now_ms; for result status. Lines that are none are
named by their numbers, the others are decided, and the exit code is 1. FILE may be the directory of a project; without it the
project is here.`,
		Example: "  tidewheel plugin run < testdata/filter.ndjson\n" +
			"  echo '{\"body\":{\"spam\":true}}' | tidewheel plugin run spam-filter.wasm --hook filter -o json",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := a.usable(args)
			if err != nil {
				return err
			}
			h, err := author.PickHook(m.info, hook)
			if err != nil {
				return fmt.Errorf("%w: %w", errUsage, err)
			}
			in := a.stdin
			if input != "-" {
				f, err := os.Open(input)
				if err != nil {
					return fmt.Errorf("%w: --input: %w", errNotFound, err)
				}
				defer f.Close()
				in = f
			} else if isTerminal(in) {
				fmt.Fprintln(a.stderr, "records are read from the terminal, a line of JSON each; an end of file ends it")
			}
			s, err := set.open(cmd.Context(), m)
			if err != nil {
				return err
			}
			defer s.Close()
			return a.runRecords(cmd.Context(), s, h, in)
		},
	}
	cmd.Flags().StringVar(&hook, "hook", "", "the hook to ask: publish, filter, transform, prepare or result; the plugin's only one if it has one")
	cmd.Flags().StringVar(&input, "input", input, "a file with records instead of standard input")
	cmd.Flags().StringSliceVar(&a.columns, "columns", nil, "the columns of the table or csv, in this order")
	set.flags(cmd)
	return cmd
}

// runRecords asks about each line and says at the end what it came to.
func (a *app) runRecords(ctx context.Context, s *author.Session, h abi.Hook, in io.Reader) error {
	out := a.list("LINE", "KEY", "VERDICT", "CODE", "FUEL", "BUDGET", "MEMORY", "DETAIL")
	counts, bad, most := map[string]int{}, 0, int64(0)
	err := author.EachRecord(in, func(line int, r golden.Record, wrong *author.LineError) error {
		if wrong != nil {
			bad++
			fmt.Fprintf(a.stderr, "%v\n", wrong)
			return nil
		}
		o, err := s.Run(ctx, h, r)
		if err != nil {
			return err
		}
		counts[o.Verdict.Action]++
		most = max(most, o.Fuel)
		row := ranRecord{Line: line, Key: r.Key, Verdict: json.RawMessage(o.Verdict.String()), Fuel: o.Fuel, Memory: o.Memory}
		for _, l := range o.Log {
			row.Log = append(row.Log, l.Text)
			if a.format != formatJSON && a.format != formatNDJSON {
				fmt.Fprintf(a.stderr, "line %d, the plugin says: %s\n", line, l.Text)
			}
		}
		if f := o.Failure; f != nil {
			row.Message, row.Stack = f.Message, f.Stack
		}
		code := ""
		if o.Verdict.Code != 0 {
			code = whole(int(o.Verdict.Code))
		}
		return out.add(row, whole(line), r.Key, o.Verdict.Action, code, thousands(o.Fuel), share(o.Fuel, s.Budget()), bytesText(o.Memory), detail(o.Verdict, o.Failure))
	})
	if closed := out.close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	var verdicts []string
	total := 0
	for _, action := range slices.Sorted(maps.Keys(counts)) {
		total += counts[action]
		verdicts = append(verdicts, fmt.Sprintf("%s %s", thousands(int64(counts[action])), action))
	}
	if a.format == formatTable {
		fmt.Fprintf(a.stderr, "%s: %s; most fuel %s of %s\n", count(int64(total), "record", "records"), listText(verdicts), thousands(most), thousands(s.Budget()))
	}
	if bad > 0 {
		fmt.Fprintf(a.stderr, "%s could not be read\n", count(int64(bad), "line", "lines"))
		return errReported
	}
	return nil
}

// share is a part of something in percent.
func share(n, of int64) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of)) }

// detail is what a verdict says beyond its action and code.
func detail(v golden.Verdict, f *plugins.Failure) string {
	switch {
	case f != nil && f.Class == plugins.ClassError:
		return f.Message
	case f != nil:
		return v.Failure + ": " + f.Message
	case v.Action == abi.Retry.String() && v.DelayMs == 0:
		return "when the host says"
	case v.Action == abi.Retry.String():
		return fmt.Sprintf("after %d ms", v.DelayMs)
	case v.Action == abi.Route.String():
		return fmt.Sprintf("target %d", v.Target)
	case v.Record != nil:
		return "by " + v.Record.String()
	case v.Request != nil:
		return strings.TrimSpace(fmt.Sprintf("%s %s %s", v.Request.Method, v.Request.URL, v.Request.Body))
	}
	return ""
}
