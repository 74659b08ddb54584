package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // --tz works on machines that have no zones

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/httpapi"
	"github.com/tidewheel/tidewheel/host/instant"
)

// timeHelp is the grammar of times, for the help of verbs.
const timeHelp = `A TIME is RFC 3339 with its offset, a duration from now as in +2h or 7d12h, @ms since 1970, or in the zone of --tz
"today 18:00", "tomorrow 09:00" or "2026-12-24 18:00". Nothing is guessed: a number without a unit is refused.`

// timeFlags say when.
type timeFlags struct {
	in, at, tz string
	utc        bool
}

func (f *timeFlags) add(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&f.in, "in", "", what+" after this delay, as 30m or 7d12h")
	cmd.Flags().StringVar(&f.at, "at", "", what+" at this TIME")
	f.addZone(cmd)
}

func (f *timeFlags) addZone(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.tz, "tz", "", "read times of day in this zone and show times in it, as Europe/Berlin or Local (default: read in Local, show in UTC)")
	cmd.Flags().BoolVar(&f.utc, "utc", false, "the same as --tz UTC")
	cmd.MarkFlagsMutuallyExclusive("tz", "utc")
}

// zone is that of --tz.
func (f *timeFlags) zone() (*time.Location, error) {
	if f.utc {
		return time.UTC, nil
	}
	if f.tz == "" {
		return time.Local, nil
	}
	zone, err := time.LoadLocation(f.tz)
	if err != nil {
		return nil, fmt.Errorf("%w: --tz: %w", errUsage, err)
	}
	return zone, nil
}

// time says the flags in the server's words. What is relative stays so: the server's clock counts.
func (f *timeFlags) time() (httpapi.Time, error) {
	switch {
	case f.in != "" && f.at != "":
		return httpapi.Time{}, fmt.Errorf("%w: --in and --at: only one of them may be there", errUsage)
	case f.in != "":
		if _, err := instant.Delay(f.in); err != nil {
			return httpapi.Time{}, fmt.Errorf("%w: --in: %w", errUsage, err)
		}
		delay := strings.TrimPrefix(f.in, "+")
		return httpapi.Time{Delay: &delay}, nil
	case f.at == "":
		return httpapi.Time{}, nil
	}
	if _, err := instant.Delay(f.at); err == nil {
		delay := strings.TrimPrefix(f.at, "+")
		return httpapi.Time{Delay: &delay}, nil
	}
	ms, err := f.instant("--at", f.at)
	return httpapi.Time{DeliverAtMs: &ms}, err
}

// instant reads a TIME, ms since 1970.
func (f *timeFlags) instant(flag, text string) (int64, error) {
	return f.instantAt(flag, text, time.Now().UnixMilli())
}

// instantAt reads a TIME when it is nowMs.
func (f *timeFlags) instantAt(flag, text string, nowMs int64) (int64, error) {
	zone, err := f.zone()
	if err != nil {
		return 0, err
	}
	ms, err := instant.ParseIn(text, time.UnixMilli(nowMs), zone)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", errUsage, flag, err)
	}
	return ms, nil
}

// before reads a TIME, or one that lies that long back, as -2h.
func (f *timeFlags) before(flag, text string, nowMs int64) (int64, error) {
	if back, ok := strings.CutPrefix(text, "-"); ok {
		d, err := instant.Delay(back)
		if err != nil {
			return 0, fmt.Errorf("%w: %s: %w", errUsage, flag, err)
		}
		return nowMs - d.Milliseconds(), nil
	}
	return f.instantAt(flag, text, nowMs)
}

// border says a TIME that bounds a list in the server's words.
func (f *timeFlags) border(flag, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if _, err := instant.Delay(text); err == nil {
		return text, nil // from the server's now
	}
	ms, err := f.instant(flag, text)
	return "@" + strconv.FormatInt(ms, 10), err
}

// due is a time as the verbs show it: in UTC, and in the zone that was asked for.
func (f *timeFlags) due(ms int64) string {
	const layout = "2006-01-02T15:04:05.000Z07:00"
	t := time.UnixMilli(ms)
	if zone, err := f.zone(); f.tz != "" && err == nil {
		return t.In(zone).Format(layout)
	}
	return t.UTC().Format(layout)
}
