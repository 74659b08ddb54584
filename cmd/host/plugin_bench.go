package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/author"
)

// benchedBatch is what a batch of one size costs.
type benchedBatch struct {
	Batch         int     `json:"batch"` // records of a call
	NsPerRecord   float64 `json:"ns_per_record"`
	FuelPerRecord int64   `json:"fuel_per_record"`
	EmptyNs       float64 `json:"empty_ns_per_record"` // of a plugin that keeps everything
	Ratio         float64 `json:"ratio"`
	PerSecond     float64 `json:"records_per_second"`
}

func (a *app) pluginBench() *cobra.Command {
	var set setting
	hook, input := "", ""
	each := span(time.Second)
	cmd := &cobra.Command{
		Use:   "bench [FILE]",
		Short: "Measure time and fuel per record in batches of 1, 64 and 256",
		Long: `Measure how long a plugin takes for a record, and how much fuel, in batches of 1, 64 and 256, on one core, with the encoding
of the batch and the checks of the answer. EMPTY is a plugin that keeps everything, measured in turns in the same run, and RATIO
how many times as long this one takes: that holds on other machines, too. The records are those of testdata for the hook, or
lines of --input, or else JSON of 1 KiB.`,
		Example: "  tidewheel plugin bench\n  tidewheel plugin bench spam-filter.wasm --hook filter --input orders.ndjson --for 5s",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := a.usable(args)
			if err != nil {
				return err
			}
			if each <= 0 {
				return fmt.Errorf("%w: --for is more than 0s", errUsage)
			}
			in, err := a.benchInput(m, hook, input)
			if err != nil {
				return err
			}
			s, err := set.open(cmd.Context(), m)
			if err != nil {
				return err
			}
			defer s.Close()
			costs, err := author.Bench(cmd.Context(), s, in.Hook, in.Records, author.BatchSizes, time.Duration(each))
			if err != nil {
				return err
			}
			out := a.list("BATCH", "NS/RECORD", "FUEL/RECORD", "RECORDS/S", "EMPTY", "RATIO")
			for _, c := range costs {
				b := benchedBatch{c.Batch, c.Ns, c.Fuel, c.EmptyNs, c.Ratio(), 1e9 / c.Ns}
				if err := out.add(b, whole(b.Batch), thousands(int64(b.NsPerRecord)), thousands(b.FuelPerRecord), thousands(int64(b.PerSecond)),
					thousands(int64(b.EmptyNs)), fmt.Sprintf("%.1f", b.Ratio)); err != nil {
					return err
				}
			}
			return out.close()
		},
	}
	cmd.Flags().StringVar(&hook, "hook", "", "the hook to ask: publish, filter, transform, prepare or result; the plugin's only one if it has one")
	cmd.Flags().StringVar(&input, "input", "", "a file with records; those of testdata if empty")
	cmd.Flags().Var(&each, "for", "how long each size of batches is measured")
	cmd.Flags().StringSliceVar(&a.columns, "columns", nil, "the columns of the table or csv, in this order")
	set.flags(cmd)
	return cmd
}

// benchInput finds the records of a measurement and says which they are.
func (a *app) benchInput(m *authored, hook, file string) (author.Input, error) {
	h, err := author.PickHook(m.info, hook)
	if err != nil {
		return author.Input{}, fmt.Errorf("%w: %w", errUsage, err)
	}
	inputs, err := a.inputs(m, h, file)
	if err != nil {
		return author.Input{}, err
	}
	all := author.Input{Hook: h}
	bytes := 0
	for _, in := range inputs {
		if in.Hook == h {
			all.Records = append(all.Records, in.Records...)
		}
	}
	what := "of testdata"
	switch {
	case file != "":
		what = "of " + file
	case len(all.Records) == 0:
		what, all.Records = "made up", author.Sample(256)
	}
	for _, r := range all.Records {
		bytes += len(r.Body)
	}
	if a.format == formatTable {
		fmt.Fprintf(a.stderr, "hook %v, %s %s, bodies of %s on average\n", h, count(int64(len(all.Records)), "record", "records"), what, bytesText(int64(bytes/len(all.Records))))
	}
	return all, nil
}
