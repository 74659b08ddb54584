package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration that is written as "7d", "30m" or "7d12h", in the file, over HTTP and on the command line.
// Conversions to and from time.Duration keep the value. Its methods are safe for concurrent use, but for UnmarshalText.
type Duration time.Duration

// durationUnits from long to short; a year has 365 days. A week is read and never written: "7d" stays "7d".
var durationUnits = [...]struct {
	name  string
	size  time.Duration
	write bool
}{
	{"y", 365 * 24 * time.Hour, true},
	{"w", 7 * 24 * time.Hour, false},
	{"d", 24 * time.Hour, true},
	{"h", time.Hour, true},
	{"m", time.Minute, true},
	{"s", time.Second, true},
	{"ms", time.Millisecond, true},
}

// ParseDuration reads whole numbers with the units y (365 days), w, d, h, m, s and ms, from long to short and each at
// most once, as in "7d12h"; "0" needs no unit. There are no signs, fractions and spaces: who has a sign cuts it off. The
// longest is 292 years. On error the value is 0, and the error says what is wrong with the text and what is allowed.
func ParseDuration(text string) (Duration, error) {
	d, err := parseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("config: duration %q: %w", shorten(text), err)
	}
	return d, nil
}

func parseDuration(text string) (Duration, error) {
	if text == "" {
		return 0, errors.New(`empty; a duration is a number and a unit, as in "30m"`)
	}
	if text == "0" {
		return 0, nil
	}
	var sum time.Duration
	next := 0 // the longest unit that may still come
	for rest := text; rest != ""; {
		n, unit, after, err := cutQuantity(rest)
		if err != nil {
			return 0, err
		}
		switch {
		case unit == "" && after != "":
			return 0, fmt.Errorf(`%q stands where a unit should; a duration is like "1h30m"`, shorten(after))
		case unit == "":
			return 0, fmt.Errorf("%d has no unit; units are y w d h m s ms", n)
		}
		i := unitIndex(unit)
		switch {
		case i < 0:
			return 0, fmt.Errorf("unknown unit %q; units are y w d h m s ms", shorten(unit))
		case i < next:
			return 0, fmt.Errorf(`%q is out of order; units go from long to short, each once, as in "7d12h"`, unit)
		case n > int64((math.MaxInt64-sum)/durationUnits[i].size):
			return 0, errTooLong
		}
		sum += time.Duration(n) * durationUnits[i].size
		next, rest = i+1, after
	}
	return Duration(sum), nil
}

var errTooLong = errors.New("longer than 292 years")

func unitIndex(name string) int {
	for i, u := range durationUnits {
		if u.name == name {
			return i
		}
	}
	return -1
}

// cutQuantity takes a whole number and the letters behind it off a text that is not empty.
func cutQuantity(text string) (n int64, unit, rest string, err error) {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	if digits == 0 {
		return 0, "", "", fmt.Errorf("a whole number must stand where %q is, without sign, fraction or space", shorten(text))
	}
	n, err = strconv.ParseInt(text[:digits], 10, 64)
	if err != nil {
		return 0, "", "", errors.New("the number is too large")
	}
	rest = strings.TrimLeftFunc(text[digits:], func(r rune) bool { return !strings.ContainsRune("0123456789 .,+-", r) })
	return n, text[digits : len(text)-len(rest)], rest, nil
}

// String is the value as ParseDuration reads it, in as few units as it takes. What is below a millisecond is cut off; a
// negative value, which ParseDuration refuses, has a sign.
func (d Duration) String() string {
	left := time.Duration(d).Truncate(time.Millisecond)
	if left == 0 {
		return "0"
	}
	var b strings.Builder
	if left < 0 {
		b.WriteByte('-')
	}
	for _, u := range durationUnits {
		if !u.write {
			continue
		}
		// The quotient is negated, not the value: the most negative one has no positive counterpart.
		if n := int64(left / u.size); n != 0 {
			fmt.Fprintf(&b, "%d%s", max(n, -n), u.name)
		}
		left %= u.size
	}
	return b.String()
}

// MarshalText is String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is ParseDuration. On error the value stays as it was.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := ParseDuration(string(text))
	if err != nil {
		return err
	}
	*d = v
	return nil
}

// shorten keeps text that is quoted in an error readable.
func shorten(s string) string {
	const most = 60
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
