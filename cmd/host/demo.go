package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/demo"
)

// demoEvents are orders and reminders, made by TestDemoEvents with -update.
//
//go:embed testdata/demo.ndjson
var demoEvents []byte

// Of a demo: how long the server stays down after a kill, so that something comes due meanwhile.
const demoDown = 1200 * time.Millisecond

func (a *app) demo() *cobra.Command {
	var keep string
	var kills int
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See it work: delayed events, cancels, moves, kill -9, and an account",
		Long: `Some thousands of orders and reminders go into a server of their own, on real files with fsync, with levels of
1 s, 5 s and 10 s and times of their own; some are cancelled while they wait, some moved. One WASM plugin drops orders that
were paid meanwhile, another one calls a webhook for each reminder. In the middle of it the server is killed with SIGKILL and
started again. In the end every event is accounted for, and the exit code is 1 unless none was lost, none was delivered or
dropped twice, none early, and what was moved came at its new time. It takes about half a minute; the files go to a temporary
directory.

A terminal shows how it goes: what is put, pending, delivered and late, and what falls due in the seconds ahead. NO_COLOR
leaves colours out; a terminal below 80 columns, or with TERM=dumb, shows one line. A pipe gets the account alone.`,
		Example: "  tidewheel demo\n  tidewheel demo --kills 3 -o json\n  tidewheel demo --keep ./demo-data",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if kills < 0 || kills > 5 {
				return fmt.Errorf("%w: --kills is %d, allowed is 0 to 5", errUsage, kills)
			}
			dir, remove, err := demoDir(keep)
			if err != nil {
				return err
			}
			defer remove()
			events, err := demo.ParseEvents(demoEvents)
			if err != nil {
				return err
			}
			return a.runDemo(cmd.Context(), events, dir, kills, demoDown)
		},
	}
	cmd.Flags().StringVar(&keep, "keep", "", "keep the files in this directory, which must be empty or new")
	cmd.Flags().IntVar(&kills, "kills", 1, "how often to kill the server")
	return cmd
}

// demoDir is where the files go.
func demoDir(keep string) (dir string, remove func(), err error) {
	if keep == "" {
		dir, err := os.MkdirTemp("", "tidewheel-demo-")
		return dir, func() { _ = os.RemoveAll(dir) }, err
	}
	if err := os.MkdirAll(keep, 0o700); err != nil {
		return "", nil, err
	}
	entries, err := os.ReadDir(keep)
	if err != nil {
		return "", nil, err
	}
	if len(entries) > 0 {
		return "", nil, fmt.Errorf("%w: %s is not empty", errUsage, keep)
	}
	return keep, func() {}, nil
}

func (a *app) runDemo(ctx context.Context, events []demo.Event, dir string, kills int, down time.Duration) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cfg := demo.Config{
		Events: events, Exe: exe, Dir: filepath.Join(dir, "data"), KillAt: killTimes(events, kills), Down: down, Check: a.demoCheck,
	}
	end := a.demoShow(&cfg)
	report, err := demo.Run(ctx, cfg)
	end()
	if err != nil {
		return err
	}
	if a.format == formatTable {
		err = report.WriteTable(a.stdout)
	} else {
		err = a.one(&report, nil)
	}
	if err == nil && !report.OK() {
		return errReported // the report says what is wrong
	}
	return err
}

// demoShow has a run shown on a terminal; in a pipe nothing is said but the kills.
func (a *app) demoShow(cfg *demo.Config) (end func()) {
	view := a.demoView()
	if view == nil {
		cfg.Killed = func(k demo.Kill) {
			if k.Down == 0 {
				fmt.Fprintln(a.stderr, k)
			}
		}
		return func() {}
	}
	view.Say(fmt.Sprintf("%s events with delays of 1 to 10 s, fsync on, %d× kill -9", thousands(int64(len(cfg.Events))), len(cfg.KillAt)))
	view.Say("files in " + filepath.Dir(cfg.Dir))
	cfg.Progress = view.Show
	cfg.Killed = func(k demo.Kill) { view.Say(k.String()) }
	return view.End
}

// killTimes spreads the kills over the time in which events are put, never twice the same.
func killTimes(events []demo.Event, kills int) []time.Duration {
	load := time.Duration(events[len(events)-1].AtMs) * time.Millisecond
	var at []time.Duration
	for i := range kills {
		slot := load / time.Duration(kills)
		at = append(at, slot*time.Duration(i)+slot/2+rand.N(slot/4))
	}
	return at
}

// demoCheck is what data check says.
func (a *app) demoCheck(dir string) string {
	quiet := *a
	quiet.stderr = io.Discard
	env, err := quiet.dataEnv(dir)
	if err == nil {
		_, err = engine.Check(env, ".", engine.Options{})
	}
	if err != nil {
		return err.Error()
	}
	return demo.CheckClean
}
