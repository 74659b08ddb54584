package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/config"
)

func (a *app) dev() *cobra.Command {
	var f serveFlags
	var keep, clock string
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a server to try things with",
		Long: `Run a server on a temporary directory, which is deleted when it ends: Ctrl-C, and everything is gone. With --keep the
data goes to a directory that stays. Files are real and fsync is on, as with serve.
With --clock manual the time stands still and moves by hand: POST /v1/dev/clock with {"advance":"48h"} answers when all
that fell due in these two days is delivered. Nothing but dev has that path.`,
		Example: `  tidewheel dev
  tidewheel dev --keep ./playground --max-delay 1y
  tidewheel dev --clock manual
  curl -d '{"advance":"48h"}' localhost:7070/v1/dev/clock`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s := session{a: a, fate: "kept when the server ends"}
			switch clock {
			case "real":
			case "manual":
				s.opts.Clock = broker.NewManualClock(time.Now().UnixMilli())
				s.note = append(s.note, [2]string{"clock", "stands still; POST /v1/dev/clock {\"advance\":\"48h\"} moves it"})
			default:
				return fmt.Errorf("%w: --clock is %q, allowed is real, manual", errUsage, clock)
			}
			dir := keep
			if keep == "" {
				var err error
				if dir, err = os.MkdirTemp("", "tidewheel-dev-"); err != nil {
					return err
				}
				defer os.RemoveAll(dir)
				s.fate = "DELETED when the server ends"
			}
			s.load = func() (*config.Config, error) {
				return loadServeConfig(cmd, f.file, commonKeys[:], config.Flag{Name: "dev", Key: dataKey.key, Value: dir})
			}
			var err error
			if s.cfg, err = s.load(); err != nil {
				return err
			}
			ctx := cmd.Context()
			if f.stdinCloses {
				ctx = a.untilStdinCloses(ctx)
			}
			return s.run(ctx)
		},
	}
	serverFlags(cmd, &f, commonKeys[:])
	cmd.Flags().StringVar(&keep, "keep", "", "keep the data in this directory")
	cmd.Flags().StringVar(&clock, "clock", "real", "real, or manual: it moves by POST /v1/dev/clock only")
	return cmd
}
