package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/author"
	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/guest/golden"
)

// verifiedPlugin is what plugin verify says.
type verifiedPlugin struct {
	File        string   `json:"file"`
	SHA256      string   `json:"sha256"`
	Records     int      `json:"records"`
	Differences []string `json:"differences"` // between pristine instances
	State       []string `json:"state"`       // when asked in another order
}

func (a *app) pluginVerify() *cobra.Command {
	var set setting
	hook, input, data, configFile, running := "", "", "", "", ""
	cmd := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Check that a plugin decides the same records in the same way again",
		Long: `Check that a plugin decides the same records in the same way again. Two pristine instances decide the records of testdata,
or of --input, and have to agree in every verdict and in the fuel. A third one is asked one by one and backwards: where it
differs, the plugin remembers what it was asked before. That is allowed, and seldom meant: instances come and go.

With --data it is asked again about the messages that a server's log says it decided: those whose verdict has the digest of this
file, as far as the log still has them. No server may have the directory. --config names the server's configuration, for the
settings of the plugin. A plugin that decides by the clock or by random numbers may differ there, and so may one that was asked
behind another that changed the message.

With --running a server does the same with a plugin that it runs, named as in its configuration, and its own log: --url says which
server. It serves on meanwhile, and the plugin is asked in an instance of its own, with its settings there. The exit code is 1 when
something does not agree.`,
		Example: "  tidewheel plugin verify\n  tidewheel plugin verify spam-filter.wasm --hook filter --input orders.ndjson\n" +
			"  tidewheel plugin verify spam-filter.wasm --data ./data --config tidewheel.toml\n" +
			"  tidewheel plugin verify --running spam-filter",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if running != "" {
				if len(args) > 0 || data != "" || configFile != "" || hook != "" || input != "" {
					return fmt.Errorf("%w: --running takes the file, its settings and its records from the server", errUsage)
				}
				return a.served(func(ctx context.Context, c *client.Client, _ []string) error { return a.verifyRunning(ctx, c, running) })(cmd, args)
			}
			m, err := a.usable(args)
			if err != nil {
				return err
			}
			if data != "" {
				return a.verifyLog(cmd.Context(), m, &set, data, configFile)
			}
			var h abi.Hook
			if input != "" || hook != "" {
				if h, err = author.PickHook(m.info, hook); err != nil {
					return fmt.Errorf("%w: %w", errUsage, err)
				}
			}
			inputs, err := a.inputs(m, h, input)
			if err != nil {
				return err
			}
			if len(inputs) == 0 {
				return fmt.Errorf("%w: %s has no file of records, as filter.ndjson; --input names one", errNotFound, m.tests())
			}
			s, err := set.setting(m)
			if err != nil {
				return err
			}
			v, err := author.Verify(cmd.Context(), m.module, s, inputs)
			if err != nil {
				return err
			}
			return a.showVerified(m, v)
		},
	}
	cmd.Flags().StringVar(&hook, "hook", "", "the hook that --input is for: publish, filter, transform, prepare or result; the plugin's only one if it has one")
	cmd.Flags().StringVar(&input, "input", "", "a file with records; those of testdata if empty")
	cmd.Flags().StringVar(&data, "data", "", "a data directory without a server, whose verdicts are compared")
	cmd.Flags().StringVar(&configFile, "config", "", "with --data: the server's configuration, for the plugin's settings")
	cmd.Flags().StringVar(&running, "running", "", "the name of a plugin of a running server, whose verdicts are compared")
	cmd.Flags().StringSliceVar(&a.columns, "columns", nil, "the columns of the table or csv, in this order")
	set.flags(cmd)
	return a.withURL(cmd)
}

// inputs are the records of a file for a hook, or without one those of the tests.
func (a *app) inputs(m *authored, h abi.Hook, file string) ([]author.Input, error) {
	if file == "" {
		return author.Inputs(m.tests())
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%w: --input: %w", errNotFound, err)
	}
	records, err := golden.ReadRecords(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("%w: %s has no records", errNotFound, file)
	}
	return []author.Input{{File: file, Hook: h, Records: records}}, nil
}

func (a *app) showVerified(m *authored, v author.Verified) error {
	out := verifiedPlugin{File: m.file, SHA256: m.info.Digest.String(), Records: v.Records, Differences: []string{}, State: []string{}}
	for _, d := range v.Differences {
		out.Differences = append(out.Differences, d.String())
	}
	for _, d := range v.State {
		out.State = append(out.State, d.String())
	}
	agree := "agree"
	if len(v.Differences) > 0 {
		agree = count(int64(len(v.Differences)), "difference", "differences")
	}
	state := "no trace of it"
	if len(v.State) > 0 {
		state = "it remembers: " + count(int64(len(v.State)), "verdict depends", "verdicts depend") + " on what it was asked before"
	}
	if err := a.one(out, func(w io.Writer) {
		fmt.Fprintf(w, "plugin\t%s\nsha256\t%s\nrecords\t%s\n", out.File, out.SHA256, thousands(int64(out.Records)))
		fmt.Fprintf(w, "two pristine instances\t%s\nmemory of earlier records\t%s\n", agree, state)
	}); err != nil {
		return err
	}
	if a.format == formatTable {
		for _, d := range append(out.Differences, out.State...) {
			fmt.Fprintf(a.stdout, "\n%s\n", d)
		}
	}
	if len(v.Differences) > 0 {
		return errReported
	}
	return nil
}
