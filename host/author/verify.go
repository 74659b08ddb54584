package author

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidewheel/tidewheel/plugins/abi"
	"github.com/tidewheel/tidewheel/plugins/guest/golden"
)

// Difference is a record that was decided in two ways.
type Difference struct {
	File   string
	Record int // its number in the file, from 1
	Key    string
	First  string // the verdict, or the fuel, as text
	Second string
}

// String is the difference on three lines.
func (d Difference) String() string {
	return fmt.Sprintf("%s, record %d (key %q):\n  once   %s\n  again  %s", d.File, d.Record, d.Key, d.First, d.Second)
}

// Verified is what Verify found.
type Verified struct {
	Records     int
	Differences []Difference // between two pristine instances: the plugin is not what the ABI wants
	State       []Difference // when asked one by one and backwards: it remembers what it was asked before
}

// Verify has two pristine instances decide the same records, each in a process-wide runtime of its own, and compares verdicts
// and fuel. A third one is asked one by one, from the last record to the first: where it differs, the plugin remembers.
func Verify(ctx context.Context, module []byte, set Setting, inputs []Input) (Verified, error) {
	var v Verified
	for _, in := range inputs {
		first, err := decided(ctx, module, set, in, false)
		if err != nil {
			return v, fmt.Errorf("%s: %w", in.File, err)
		}
		second, err := decided(ctx, module, set, in, false)
		if err != nil {
			return v, fmt.Errorf("%s: %w", in.File, err)
		}
		backwards, err := decided(ctx, module, set, in, true)
		if err != nil {
			return v, fmt.Errorf("%s: %w", in.File, err)
		}
		v.Records += len(in.Records)
		v.Differences = append(v.Differences, differences(in, first.verdicts, second.verdicts)...)
		v.State = append(v.State, differences(in, first.verdicts, backwards.verdicts)...)
		if first.fuel != second.fuel {
			v.Differences = append(v.Differences, Difference{File: in.File, Record: len(in.Records),
				First: fmt.Sprintf("%d fuel for all records", first.fuel), Second: fmt.Sprintf("%d", second.fuel)})
		}
	}
	return v, nil
}

// outcome is what one instance did with all records of a file.
type outcome struct {
	verdicts []golden.Verdict
	fuel     int64
}

// decided asks a pristine instance.
func decided(ctx context.Context, module []byte, set Setting, in Input, backwards bool) (o outcome, err error) {
	s, err := Open(ctx, module, set)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	ask := func(hook abi.Hook, nowMs int64, records []abi.Record) ([]golden.Verdict, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		verdicts, err := s.Decide(hook, nowMs, records)
		o.fuel += s.answer.Fuel
		return verdicts, err
	}
	if !backwards {
		o.verdicts, err = golden.All(in.Hook, in.Records, ask)
		return o, err
	}
	o.verdicts = make([]golden.Verdict, len(in.Records))
	for i := len(in.Records) - 1; i >= 0; i-- {
		one, err := golden.All(in.Hook, in.Records[i:i+1], ask)
		if err != nil {
			return o, err
		}
		o.verdicts[i] = one[0]
	}
	return o, nil
}

func differences(in Input, first, second []golden.Verdict) (all []Difference) {
	for i := range first {
		if a, b := first[i].String(), second[i].String(); a != b {
			all = append(all, Difference{File: in.File, Record: i + 1, Key: in.Records[i].Key, First: a, Second: b})
		}
	}
	return all
}
