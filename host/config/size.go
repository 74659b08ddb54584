package config

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Size is a number of bytes that is written as "64MiB", in the file, over HTTP and on the command line. Its methods are
// safe for concurrent use, but for UnmarshalText.
type Size int64

// sizeUnits from large to small.
var sizeUnits = [...]struct {
	name string
	size int64
}{
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"B", 1},
}

// ParseSize reads a whole number with one of the units B, KiB, MiB, GiB and TiB; "0" needs no unit. KB, M and the like
// are refused, since they mean different things to different people. The largest is 8 EiB - 1. On error the value is 0,
// and the error says what is wrong with the text and what is allowed.
func ParseSize(text string) (Size, error) {
	s, err := parseSize(text)
	if err != nil {
		return 0, fmt.Errorf("config: size %q: %w", shorten(text), err)
	}
	return s, nil
}

func parseSize(text string) (Size, error) {
	if text == "" {
		return 0, errors.New(`empty; a size is a number and a unit, as in "64MiB"`)
	}
	if text == "0" {
		return 0, nil
	}
	n, unit, rest, err := cutQuantity(text)
	switch {
	case err != nil:
		return 0, err
	case rest != "":
		return 0, fmt.Errorf(`%q is too much; a size is one whole number and one unit, as in "1536MiB"`, shorten(rest))
	case unit == "":
		return 0, fmt.Errorf("%d has no unit; units are B KiB MiB GiB TiB", n)
	}
	for _, u := range sizeUnits {
		if u.name != unit {
			continue
		}
		if n > math.MaxInt64/u.size {
			return 0, errors.New("more than 8 EiB")
		}
		return Size(n * u.size), nil
	}
	for _, u := range sizeUnits {
		if strings.EqualFold(unit[:1], u.name[:1]) {
			return 0, fmt.Errorf("unknown unit %q, is it %s? Units are B KiB MiB GiB TiB", shorten(unit), u.name)
		}
	}
	return 0, fmt.Errorf("unknown unit %q; units are B KiB MiB GiB TiB", shorten(unit))
}

// String is the value as ParseSize reads it, in the largest unit that divides it.
func (s Size) String() string {
	if s == 0 {
		return "0"
	}
	for _, u := range sizeUnits {
		if int64(s)%u.size == 0 {
			return fmt.Sprintf("%d%s", int64(s)/u.size, u.name)
		}
	}
	return "" // 1 divides everything
}

// MarshalText is String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is ParseSize. On error the value stays as it was.
func (s *Size) UnmarshalText(text []byte) error {
	v, err := ParseSize(string(text))
	if err != nil {
		return err
	}
	*s = v
	return nil
}
