package schedule_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/engine/schedule"
)

func parse(t testing.TB, s string) schedule.Table {
	t.Helper()
	table, err := schedule.ParseLevels(s)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestDefaultLevels(t *testing.T) {
	table := parse(t, schedule.DefaultLevels)
	const s, m, h = 1000, 60_000, 3_600_000
	want := []int64{1 * s, 5 * s, 10 * s, 30 * s, 1 * m, 2 * m, 3 * m, 4 * m, 5 * m, 6 * m, 7 * m, 8 * m, 9 * m, 10 * m,
		20 * m, 30 * m, 1 * h, 2 * h}
	if table.Levels() != len(want) {
		t.Fatalf("%d levels, want %d", table.Levels(), len(want))
	}
	for i, ms := range want {
		got, applied, clamped, err := table.Delay(i + 1)
		if got != ms || applied != i+1 || clamped || err != nil {
			t.Errorf("level %d is %d ms, applied %d, clamped %t, %v; want %d ms", i+1, got, applied, clamped, err, ms)
		}
	}
}

func TestDelay(t *testing.T) {
	table := parse(t, "1s 5s 250ms")
	for _, c := range []struct {
		level   int
		delayMs int64
		applied int
		clamped bool
	}{
		{0, 0, 0, false}, {1, 1000, 1, false}, {2, 5000, 2, false}, {3, 250, 3, false},
		// RocketMQ #3212: DELAY=1959 was clamped and nobody was told.
		{4, 250, 3, true}, {1959, 250, 3, true}, {1<<31 - 1, 250, 3, true},
	} {
		delayMs, applied, clamped, err := table.Delay(c.level)
		if delayMs != c.delayMs || applied != c.applied || clamped != c.clamped || err != nil {
			t.Errorf("level %d: %d ms, applied %d, clamped %t, %v; want %+v", c.level, delayMs, applied, clamped, err, c)
		}
	}
	for _, level := range []int{-1, -1959, -1 << 31} {
		if _, _, _, err := table.Delay(level); !errors.Is(err, schedule.ErrLevel) ||
			!strings.Contains(err.Error(), fmt.Sprint(level)) {
			t.Errorf("level %d: %v", level, err)
		}
	}
	var none schedule.Table
	if _, _, _, err := none.Delay(1); !errors.Is(err, schedule.ErrLevel) {
		t.Errorf("level of no table: %v", err)
	}
	if ms, applied, _, err := none.Delay(0); ms != 0 || applied != 0 || err != nil {
		t.Errorf("level 0 of no table: %d, %d, %v", ms, applied, err)
	}
}

// RocketMQ #1988: a tool kept only the first word. All words count, whatever spaces are between them, and String gives
// back what was read.
func TestParseLevelsRoundTrip(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{schedule.DefaultLevels, schedule.DefaultLevels},
		{"1s", "1s"},
		{"  1s   5s\t10s\n30s ", "1s 5s 10s 30s"},
		{"500ms 1500ms 2000ms", "500ms 1500ms 2s"},
		{"60s 90s 60m 24h 7d", "1m 90s 1h 1d 7d"},
		{"5s 1s 5s", "5s 1s 5s"}, // need not ascend, may repeat
		{"36600d", "36600d"},
		{strings.Repeat("1s ", 64), strings.TrimSpace(strings.Repeat("1s ", 64))},
		{"007s", "7s"},
	} {
		table := parse(t, c.in)
		if got := table.String(); got != c.want {
			t.Errorf("%q reads as %q, want %q", c.in, got, c.want)
		}
		if again := parse(t, table.String()); again.String() != c.want || again.Levels() != table.Levels() {
			t.Errorf("%q is not what it reads as", table)
		}
	}
}

func TestParseLevelsRefuses(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "at least one"},
		{" \t ", "at least one"},
		{strings.Repeat("1s ", 64) + "7s", `level 65, "7s": at most 64`},
		{"1s 5", `level 2, "5": unit ""`},
		{"1s 5x 10s", `level 2, "5x": unit "x" is not ms, s, m, h or d`},
		{"1S", `level 1, "1S": unit "S"`},
		{"s", `level 1, "s": a whole number must come first`},
		{"-1s", `level 1, "-1s": a whole number`},
		{"+1s", `level 1, "+1s": a whole number`},
		{"1.5s", `level 1, "1.5s": unit ".5s"`},
		{"1 s", `level 1, "1": unit ""`},
		{"1s,5s", `level 1, "1s,5s": unit "s,5s"`},
		{"0s", `level 1, "0s": a delay must be longer than 0`},
		{"1s 0ms", `level 2, "0ms"`},
		{"36601d", `level 1, "36601d": longer than 100 years`},
		{"3162240000001ms", "longer than 100 years"},
		{"9223372036854775807d", "longer than 100 years"},
		{"99999999999999999999s", "longer than 100 years"},
		{"１s", "a whole number"}, // a digit, but not one of ours
	} {
		table, err := schedule.ParseLevels(c.in)
		if !errors.Is(err, schedule.ErrLevels) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.in, err, c.want)
		}
		if table.Levels() != 0 {
			t.Errorf("%q: a part of the table came back: %v", c.in, table)
		}
	}
}

func FuzzParseLevels(f *testing.F) {
	f.Add(schedule.DefaultLevels)
	f.Add("500ms  1d")
	f.Fuzz(func(t *testing.T, s string) {
		table, err := schedule.ParseLevels(s)
		if err != nil {
			return
		}
		again, err := schedule.ParseLevels(table.String())
		if err != nil || again.String() != table.String() || again.Levels() != table.Levels() {
			t.Fatalf("%q reads as %q, which reads as %q, %v", s, table, again, err)
		}
		for level := 1; level <= table.Levels(); level++ {
			ms, applied, clamped, err := table.Delay(level)
			if ms < 1 || ms > schedule.MaxDelayMs || applied != level || clamped || err != nil {
				t.Errorf("%q: level %d is %d ms, %d, %t, %v", s, level, ms, applied, clamped, err)
			}
		}
	})
}

func ExampleParseLevels() {
	table, err := schedule.ParseLevels("1s 5s 10s")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, level := range []int{0, 2, 99} {
		delayMs, applied, clamped, err := table.Delay(level)
		fmt.Println(delayMs, applied, clamped, err)
	}
	_, err = schedule.ParseLevels("1s 5 10s")
	fmt.Println(err)
	// Output:
	// 0 0 false <nil>
	// 5000 2 false <nil>
	// 10000 3 true <nil>
	// schedule: table of delay levels: level 2, "5": unit "" is not ms, s, m, h or d
}
