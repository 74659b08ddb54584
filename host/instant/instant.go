// Package instant reads points in time as people and programs write them. The grammar is the same over HTTP and on the
// command line, but for the last line, which needs a time zone and is for people:
//
//	2026-12-24T18:00:00+01:00   RFC 3339; the offset or Z is required
//	@1798131600123              ms since 1970
//	+2h, 7d12h                  from now, as config.ParseDuration has it
//	today 18:00, tomorrow 09:00, 2026-12-24 18:00
//
// Nothing is guessed: a number without a unit is neither seconds nor milliseconds, a time without an offset is in no
// zone, and a local time that a change of the clocks skips or has twice is refused. Results are ms since 1970; what is
// finer is rounded up, since a message must not be early. The functions are safe for concurrent use.
package instant

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tidewheel/tidewheel/host/config"
)

// ErrTime is the kind of every error of this package; its text says what is allowed.
var ErrTime = errors.New("not a time")

// RFC3339 reads a time with its offset, ms since 1970.
func RFC3339(text string) (int64, error) {
	t, err := time.Parse(time.RFC3339, text)
	// Package time takes one-digit hours, a comma and offsets of a hundred hours, too.
	_, offset := t.Zone()
	loose := err == nil && (text[len("2006-01-02T15")] != ':' || strings.Contains(text, ",") || max(offset, -offset) >= 24*60*60)
	if err != nil || loose {
		return 0, fmt.Errorf("%w: %q, allowed is RFC 3339 with its offset, as in 2026-12-24T18:00:00+01:00", ErrTime, text)
	}
	return ceilMs(t), nil
}

// ceilMs is the first ms that is not before t.
func ceilMs(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return ms
}

// Delay reads a duration from now, with a sign + or none.
func Delay(text string) (time.Duration, error) {
	d, err := config.ParseDuration(strings.TrimPrefix(text, "+"))
	if err != nil {
		return 0, fmt.Errorf(`%w: %q, allowed is a duration with its units, as in "7d12h"`, ErrTime, text)
	}
	return time.Duration(d), nil
}

// Shift reads a duration with a sign, which must be there.
func Shift(text string) (time.Duration, error) {
	if text == "" || text[0] != '+' && text[0] != '-' {
		return 0, fmt.Errorf(`%w: %q, allowed is a sign and a duration, as in "+2h" or "-30m"`, ErrTime, text)
	}
	d, err := Delay(text[1:])
	if err == nil && strings.HasPrefix(text[1:], "+") {
		err = fmt.Errorf("%w: %q has two signs", ErrTime, text)
	}
	if text[0] == '-' {
		d = -d
	}
	return d, err
}

// Parse reads a time that needs no zone; now is ms since 1970.
func Parse(text string, nowMs int64) (int64, error) {
	if digits, ok := strings.CutPrefix(text, "@"); ok {
		ms, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || digits[0] == '+' {
			return 0, fmt.Errorf("%w: %q, allowed after @ is a whole number of ms since 1970", ErrTime, text)
		}
		return ms, nil
	}
	if d, err := Delay(text); err == nil {
		if away := d.Milliseconds(); nowMs <= math.MaxInt64-away {
			return nowMs + away, nil
		}
		return 0, fmt.Errorf("%w: %q is too far away", ErrTime, text)
	}
	if ms, err := RFC3339(text); err == nil {
		return ms, nil
	}
	return 0, fmt.Errorf("%w: %q, allowed is RFC 3339 with its offset, @ms since 1970, or a duration from now, as in +2h",
		ErrTime, text)
}

// ParseIn reads a time as Parse does, and those of people, which are of a zone.
func ParseIn(text string, now time.Time, zone *time.Location) (int64, error) {
	ms, err := Parse(text, now.UnixMilli())
	if err == nil {
		return ms, nil
	}
	day, clock, ok := strings.Cut(text, " ")
	if !ok {
		return 0, fmt.Errorf(`%w, or "tomorrow 09:00"`, err)
	}
	var date time.Time
	switch day {
	case "today":
		date = now.In(zone)
	case "tomorrow":
		date = now.In(zone).AddDate(0, 0, 1)
	default:
		if date, err = time.Parse(time.DateOnly, day); err != nil {
			return 0, fmt.Errorf(`%w: %q, allowed is today, tomorrow or a date like 2026-12-24, and a time`, ErrTime, text)
		}
	}
	at, err := time.Parse("15:04", clock)
	if err != nil {
		at, err = time.Parse("15:04:05", clock)
	}
	if err != nil || len(clock) != len("15:04") && len(clock) != len("15:04:05") {
		return 0, fmt.Errorf("%w: %q, allowed after the day is a time like 09:00 or 09:00:30", ErrTime, text)
	}
	return local(text, date, at, zone)
}

// local puts a date and a time of day together.
func local(text string, date, at time.Time, zone *time.Location) (int64, error) {
	const layout = "2006-01-02 15:04:05"
	y, m, d := date.Date()
	t := time.Date(y, m, d, at.Hour(), at.Minute(), at.Second(), 0, zone)
	want := date.Format(time.DateOnly) + " " + at.Format(time.TimeOnly)
	if t.Format(layout) != want {
		return 0, fmt.Errorf("%w: %q does not exist in %v, where the clocks are changed", ErrTime, text, zone)
	}
	// Clocks are put back by an hour, in few places by half an hour or two.
	for _, change := range []time.Duration{30 * time.Minute, time.Hour, 2 * time.Hour} {
		for _, other := range []time.Time{t.Add(change), t.Add(-change)} {
			if other.Format(layout) == want {
				return 0, fmt.Errorf("%w: %q is there twice in %v, where the clocks are changed; say the offset", ErrTime, text, zone)
			}
		}
	}
	return t.UnixMilli(), nil
}

// Span is a duration for people: days, and what is left of one as package time writes it.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	if d < day {
		return d.String()
	}
	return fmt.Sprintf("%dd%v", d/day, d%day)
}
