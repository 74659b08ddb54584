package instant_test

import (
	"errors"
	"fmt"
	"testing"
	"time"
	_ "time/tzdata" // the tests do not depend on the machine's zones

	"github.com/tidewheel/tidewheel/host/instant"
)

const nowMs = 1_796_036_400_000 // 2026-11-30T11:00:00Z

func TestParse(t *testing.T) {
	for text, want := range map[string]int64{
		"2026-11-30T11:00:00Z":        nowMs,
		"2026-11-30T12:00:00+01:00":   nowMs,
		"2026-11-30T11:00:00.0001Z":   nowMs + 1, // rounded up: never early
		"2026-11-30T11:00:00.001Z":    nowMs + 1,
		"1969-12-31T23:59:59.999999Z": 0,
		"@0":                          0,
		"@-5":                         -5,
		"@1796036400123":              nowMs + 123,
		"+2h":                         nowMs + 2*3600_000,
		"7d12h":                       nowMs + 180*3600_000,
		"0":                           nowMs,
	} {
		if got, err := instant.Parse(text, nowMs); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", " ", "30", "1796036400123", "-2h", "++2h", "@", "@+1", "@1.5", "@99999999999999999999", "2026-11-30T11:00:00",
		"2026-11-30 11:00:00Z", "2026-11-30", "2026-11-30T1:00:00Z", "2026-11-30T11:00:00+99:00", "2026-02-30T11:00:00Z",
		"tomorrow 09:00", "2h30", "1.5h", "300y",
	} {
		if got, err := instant.Parse(text, nowMs); !errors.Is(err, instant.ErrTime) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

func TestShift(t *testing.T) {
	for text, want := range map[string]time.Duration{"+2h": 2 * time.Hour, "-30m": -30 * time.Minute, "-0": 0} {
		if got, err := instant.Shift(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "2h", "+", "--2h", "++2h", "+-2h", "+2"} {
		if got, err := instant.Shift(text); !errors.Is(err, instant.ErrTime) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// Local times are exact, also around a change of the clocks, or refused.
func TestParseIn(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.UnixMilli(nowMs) // noon in Berlin
	for text, want := range map[string]string{
		"today 18:00":               "2026-11-30T17:00:00Z",
		"tomorrow 09:00":            "2026-12-01T08:00:00Z",
		"tomorrow 00:00:30":         "2026-11-30T23:00:30Z",
		"2027-06-01 09:00":          "2027-06-01T07:00:00Z",
		"2027-03-28 01:59:59":       "2027-03-28T00:59:59Z", // before the clocks go forward
		"2027-03-28 03:00":          "2027-03-28T01:00:00Z",
		"+90m":                      "",
		"2026-12-24T18:00:00+09:00": "2026-12-24T09:00:00Z",
	} {
		got, err := instant.ParseIn(text, now, berlin)
		if s := time.UnixMilli(got).UTC().Format(time.RFC3339); want != "" && s != want || err != nil {
			t.Errorf("%q: %s, %v, want %s", text, s, err, want)
		}
	}
	for _, text := range []string{
		"2027-03-28 02:30", // skipped
		"2027-10-31 02:30", // there twice
		"tomorrow", "tomorrow 9:00", "tomorrow 24:00", "tomorrow 09:00 ", "yesterday 09:00", "2026-13-01 09:00", "2026-12-24T18:00",
	} {
		if got, err := instant.ParseIn(text, now, berlin); !errors.Is(err, instant.ErrTime) {
			t.Errorf("%q: %v, %v", text, time.UnixMilli(got), err)
		}
	}
}

// FuzzParse: whatever is taken means the same when it is written exactly.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"+2h", "@5", "2026-12-24T18:00:00+01:00", "tomorrow 09:00", "today 24:00", "9999-12-31T23:59:59Z"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ms, err := instant.ParseIn(text, time.UnixMilli(nowMs), time.UTC)
		if err != nil {
			return
		}
		if again, err := instant.Parse(fmt.Sprintf("@%d", ms), 0); err != nil || again != ms {
			t.Errorf("%q is %d, then %d, %v", text, ms, again, err)
		}
	})
}

func Example() {
	now, zone := time.UnixMilli(nowMs), time.FixedZone("", 3600)
	for _, text := range []string{"+2h", "@1796036400123", "tomorrow 09:00", "1796036400123"} {
		ms, err := instant.ParseIn(text, now, zone)
		if err != nil {
			fmt.Println(text, "is refused")
			continue
		}
		fmt.Println(text, "is", time.UnixMilli(ms).UTC().Format(time.RFC3339))
	}
	// Output:
	// +2h is 2026-11-30T13:00:00Z
	// @1796036400123 is 2026-11-30T11:00:00Z
	// tomorrow 09:00 is 2026-12-01T08:00:00Z
	// 1796036400123 is refused
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1500 * time.Millisecond: "1.5s", 24*time.Hour - time.Millisecond: "23h59m59.999s", 24 * time.Hour: "1d0s",
		574*time.Hour + 41*time.Minute: "23d22h41m0s",
	} {
		if got := instant.Span(d); got != want {
			t.Errorf("Span(%v) is %q, want %q", d, got, want)
		}
	}
}
