package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/author"
	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/guest/golden"
)

// testedFile is what plugin test says of a file of records.
type testedFile struct {
	File      string          `json:"file"`
	Records   int             `json:"records"`
	Different []changedRecord `json:"different"`
	Updated   bool            `json:"updated,omitempty"`
}

// changedRecord is a verdict that is not the one in the file.
type changedRecord struct {
	Record int    `json:"record"` // its number in the file, from 1
	Key    string `json:"key,omitempty"`
	Why    string `json:"why,omitempty"`
	Got    string `json:"got"`
	Want   string `json:"want"`
	Reason string `json:"reason,omitempty"` // why the plugin could not decide
}

func (a *app) pluginTest() *cobra.Command {
	var set setting
	update, dir := false, ""
	cmd := &cobra.Command{
		Use:   "test [FILE]",
		Short: "Decide the records in testdata and compare with the verdicts beside them",
		Long: `Decide the records of testdata with the compiled plugin and compare with the verdicts that are kept beside them:
HOOK.ndjson, or HOOK-WHAT.ndjson, has records, one a line, and HOOK.verdicts.ndjson what becomes of each. HOOK is publish, filter,
transform, prepare or result. config.json there is the plugin's configuration. --update writes the verdicts anew: read the
difference before you commit it. The exit code is 1 when a verdict differs.`,
		Example: "  tidewheel plugin test\n  tidewheel plugin test --update",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := a.usable(args)
			if err != nil {
				return err
			}
			if dir == "" {
				dir = m.tests()
			}
			s, err := set.open(cmd.Context(), m)
			if err != nil {
				return err
			}
			defer s.Close()
			report, err := golden.Check(dir, s.Decide, update)
			switch {
			case errors.Is(err, golden.ErrNoFiles):
				return fmt.Errorf("%w: %s has no file of records, as filter.ndjson", errNotFound, dir)
			case errors.Is(err, os.ErrNotExist):
				return fmt.Errorf("%w; --update writes the verdicts", err)
			case err != nil:
				return err
			}
			files, err := a.tested(cmd.Context(), s, dir, report)
			if err != nil {
				return err
			}
			return a.showTested(files)
		},
	}
	cmd.Flags().BoolVar(&update, "update", false, "write the verdicts that the plugin gives now")
	cmd.Flags().StringVar(&dir, "dir", "", "where the records are; testdata beside the module")
	cmd.Flags().StringSliceVar(&a.columns, "columns", nil, "the columns of the table or csv, in this order")
	set.flags(cmd)
	return cmd
}

// tested sorts a report by files. Records that the plugin failed on are asked once more, for the reason.
func (a *app) tested(ctx context.Context, s *author.Session, dir string, report golden.Report) ([]testedFile, error) {
	inputs, err := author.Inputs(dir)
	if err != nil {
		return nil, err
	}
	var files []testedFile
	for _, in := range inputs {
		f := testedFile{File: in.File, Records: len(in.Records), Different: []changedRecord{}}
		for _, name := range report.Updated {
			f.Updated = f.Updated || strings.TrimSuffix(name, ".verdicts.ndjson") == strings.TrimSuffix(in.File, ".ndjson")
		}
		for _, d := range report.Diffs {
			if d.File != in.File {
				continue
			}
			c := changedRecord{Record: d.Line, Key: d.Record.Key, Why: d.Record.Why, Got: d.Got, Want: d.Want}
			if d.Line <= len(in.Records) {
				if c.Reason, err = reason(ctx, s, in.Hook, in.Records[d.Line-1]); err != nil {
					return nil, err
				}
			}
			f.Different = append(f.Different, c)
		}
		files = append(files, f)
	}
	return files, nil
}

// reason says why a plugin can't decide a record; empty when it can, and when the verdict has its own words.
func reason(ctx context.Context, s *author.Session, h abi.Hook, r golden.Record) (string, error) {
	o, err := s.Run(ctx, h, r)
	if err != nil || o.Failure == nil || o.Failure.Class == plugins.ClassError {
		return "", err
	}
	text := o.Failure.Class.String() + ": " + o.Failure.Message
	if o.Failure.Stack != "" {
		text += "\n" + o.Failure.Stack
	}
	return text, nil
}

// showTested prints the files, and on a table the differences below them.
func (a *app) showTested(files []testedFile) error {
	out := a.list("FILE", "RECORDS", "DIFFERENT", "RESULT")
	different := 0
	for _, f := range files {
		result := "ok"
		switch {
		case len(f.Different) > 0:
			result = "differs"
		case f.Updated:
			result = "updated"
		}
		different += len(f.Different)
		if err := out.add(f, f.File, whole(f.Records), whole(len(f.Different)), result); err != nil {
			return err
		}
	}
	if err := out.close(); err != nil {
		return err
	}
	if different == 0 {
		return nil
	}
	if a.format == formatTable {
		for _, f := range files {
			for _, c := range f.Different {
				a.showChanged(f.File, c)
			}
		}
		fmt.Fprintf(a.stderr, "%s. If the plugin is right: tidewheel plugin test --update\n", count(int64(different), "verdict differs", "verdicts differ"))
	}
	return errReported
}

// showChanged prints a difference as patches do: what was wanted with a minus, what came with a plus.
func (a *app) showChanged(file string, c changedRecord) {
	about := ""
	for _, part := range []string{c.Key, c.Why} {
		if part != "" {
			about += ", " + part
		}
	}
	fmt.Fprintf(a.stdout, "\n%s, record %d%s\n", filepath.ToSlash(file), c.Record, about)
	if c.Want != "" {
		fmt.Fprintf(a.stdout, "  - %s\n", c.Want)
	}
	if c.Got != "" {
		fmt.Fprintf(a.stdout, "  + %s\n", c.Got)
	}
	if c.Reason != "" {
		fmt.Fprintf(a.stdout, "    %s\n", strings.ReplaceAll(c.Reason, "\n", "\n    "))
	}
}
