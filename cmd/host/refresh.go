package main

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/config"
)

// span is a flag that is a duration, as everywhere: 2s, 7d12h.
type span time.Duration

// String is the duration with its units.
func (s *span) String() string { return config.Duration(*s).String() }

// Set reads it.
func (s *span) Set(text string) error {
	d, err := config.ParseDuration(text)
	*s = span(d)
	return err
}

// Type names it in a verb's help.
func (s *span) Type() string { return "duration" }

// reads gives a verb that reads the flags that all of them have: --columns and --watch.
func (a *app) reads(cmd *cobra.Command) *cobra.Command {
	var every span
	cmd.Flags().StringSliceVar(&a.columns, "columns", nil, "the columns of the table or csv, in this order")
	cmd.Flags().Var(&every, "watch", "again and again until interrupted, so often: --watch=2s")
	flag := cmd.Flags().Lookup("watch")
	flag.NoOptDefVal, flag.DefValue = "2s", ""
	once := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("watch") {
			return once(cmd, args)
		}
		if every <= 0 {
			return errors.Join(errUsage, errors.New("--watch is more than 0s"))
		}
		return a.again(cmd.Context(), time.Duration(every), func() error { return once(cmd, args) })
	}
	return cmd
}

// clearScreen goes home and clears.
const clearScreen = "\x1b[H\x1b[2J"

// again does something until it fails or is interrupted. A terminal shows the newest results alone.
func (a *app) again(ctx context.Context, every time.Duration, once func() error) error {
	out, drawn := a.stdout, isTerminal(a.stdout)
	defer func() { a.stdout, a.drawn, a.later = out, false, false }()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		var screen bytes.Buffer
		if drawn {
			a.stdout, a.drawn = &screen, true
			screen.WriteString(clearScreen)
		}
		err := once()
		if ctx.Err() != nil {
			return nil
		}
		a.later = !drawn
		if _, werr := out.Write(screen.Bytes()); err != nil || werr != nil {
			return errors.Join(err, werr)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
