package schedule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// DefaultLevels is the table of delay levels that RocketMQ's clients expect: level 1 is 1 s, level 18 is 2 h.
const DefaultLevels = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

// MaxLevels is how many levels a table may have.
const MaxLevels = 64

// MaxDelayMs is the longest delay of a level in milliseconds: 100 years.
const MaxDelayMs int64 = 100 * 366 * 24 * 3600 * 1000

// Errors of a table. The message names the level and the word.
var (
	ErrLevels = errors.New("schedule: table of delay levels")
	ErrLevel  = errors.New("schedule: delay level") // a level that no table can have
)

// units in order of length, longest first; String depends on it.
var units = [...]struct {
	name string
	ms   int64
}{{"d", 24 * 3600 * 1000}, {"h", 3600 * 1000}, {"m", 60 * 1000}, {"s", 1000}, {"ms", 1}}

// Table says which delay a level stands for. It is made by ParseLevels and never changes, so it is safe for concurrent
// use. The zero Table has no levels.
type Table struct {
	delays []int64 // ms; level n is delays[n-1]
}

// ParseLevels reads a table: words of a whole number and a unit (ms, s, m, h, d) with spaces between them, the first of
// which is level 1. A table has 1 to MaxLevels levels, each longer than 0 and no longer than MaxDelayMs; they need not
// ascend. The error is of kind ErrLevels, names the first bad word, and nothing of the table is used.
func ParseLevels(s string) (Table, error) {
	words := strings.Fields(s)
	switch {
	case len(words) == 0:
		return Table{}, fmt.Errorf("%w: empty, at least one level is needed", ErrLevels)
	case len(words) > MaxLevels:
		return Table{}, fmt.Errorf("%w: level %d, %q: at most %d levels are allowed",
			ErrLevels, MaxLevels+1, words[MaxLevels], MaxLevels)
	}
	t := Table{delays: make([]int64, len(words))}
	for i, word := range words {
		ms, err := parseDelay(word)
		if err != nil {
			return Table{}, fmt.Errorf("%w: level %d, %q: %w", ErrLevels, i+1, word, err)
		}
		t.delays[i] = ms
	}
	return t, nil
}

// parseDelay reads one word, in milliseconds.
func parseDelay(word string) (int64, error) {
	digits := len(word) - len(strings.TrimLeft(word, "0123456789"))
	if digits == 0 {
		return 0, errors.New("a whole number must come first, as in 30s")
	}
	var unitMs int64
	for _, u := range units {
		if word[digits:] == u.name {
			unitMs = u.ms
		}
	}
	if unitMs == 0 {
		return 0, fmt.Errorf("unit %q is not ms, s, m, h or d", word[digits:])
	}
	n, err := strconv.ParseInt(word[:digits], 10, 64)
	if err != nil || n > MaxDelayMs/unitMs {
		return 0, errors.New("longer than 100 years")
	}
	if n == 0 {
		return 0, errors.New("a delay must be longer than 0")
	}
	return n * unitMs, nil
}

// Levels is the number of levels; it is also the last one.
func (t Table) Levels() int { return len(t.delays) }

// Delay says what a level asked for means: the delay in milliseconds, the level that is applied, and whether that is
// not the one asked for, because a level above the last is clamped to the last. Level 0 is no delay: all zero. A
// negative level, and any but 0 in a table without levels, is an error of kind ErrLevel.
func (t Table) Delay(level int) (delayMs int64, applied int, clamped bool, err error) {
	last := len(t.delays)
	switch {
	case level == 0:
		return 0, 0, false, nil
	case level < 0 || last == 0:
		return 0, 0, false, fmt.Errorf("%w: %d, allowed is 0 (none) to %d", ErrLevel, level, last)
	case level > last:
		return t.delays[last-1], last, true, nil
	}
	return t.delays[level-1], level, false, nil
}

// String is the table as ParseLevels reads it, each delay in the longest unit that divides it.
func (t Table) String() string {
	var b strings.Builder
	for i, ms := range t.delays {
		if i > 0 {
			b.WriteByte(' ')
		}
		for _, u := range units {
			if ms%u.ms == 0 {
				fmt.Fprintf(&b, "%d%s", ms/u.ms, u.name)
				break
			}
		}
	}
	return b.String()
}
