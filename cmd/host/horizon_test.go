package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tidewheel/tidewheel/host/httpapi"
)

func TestBar(t *testing.T) {
	const most = 1000
	before := 0
	for n := int64(0); n <= most; n++ {
		b := bar(n, most)
		length := 8 * strings.Count(b, "█")
		for i, part := range []string{"▏", "▎", "▍", "▌", "▋", "▊", "▉"} {
			length += (i + 1) * strings.Count(b, part)
		}
		if (length == 0) != (n == 0) || length < before || utf8.RuneCountInString(b) > barWidth {
			t.Fatalf("%d of %d: %q is %d eighths long, the one before %d", n, most, b, length, before)
		}
		before = length
	}
	if before != 8*barWidth {
		t.Errorf("the longest is %d eighths", before)
	}
}

// A count that did not come to its end shows what is known, and how to go on.
func TestHorizonTable(t *testing.T) {
	h := httpapi.Horizon{FromMs: 0, ToMs: 3000, StepMs: 1000, Counts: []int64{1, 2, 0}, Total: 3, ScannedToMs: 2000}
	var b strings.Builder
	horizonTable(&b, &h, &timeFlags{}, true)
	for _, want := range []string{
		"1970-01-01T00:00:00.000Z\t1\t" + strings.Repeat("█", 20) + "\n", "01.000Z\t2\t" + strings.Repeat("█", 40) + "\n",
		"total\t3\n", "go on with --from 1970-01-01T00:00:02Z\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "02.000Z\t0") {
		t.Errorf("a step that was not counted is shown:\n%s", b.String())
	}
	h.Complete = true
	b.Reset()
	horizonTable(&b, &h, &timeFlags{tz: "Asia/Tokyo"}, false)
	if !strings.Contains(b.String(), "1970-01-01T09:00:02.000+09:00\t0\n") || strings.Contains(b.String(), "█") {
		t.Errorf("in a pipe:\n%s", b.String())
	}
}

// Flags become the server's words; what is relative stays relative.
func TestTimeFlags(t *testing.T) {
	for _, c := range []struct {
		f     timeFlags
		delay string
		ms    int64
	}{
		{timeFlags{in: "30m"}, "30m", 0},
		{timeFlags{in: "+7d12h"}, "7d12h", 0},
		{timeFlags{at: "+2h"}, "2h", 0},
		{timeFlags{at: "@1796036400123"}, "", 1796036400123},
		{timeFlags{at: "2026-12-24 18:00", tz: "Europe/Berlin"}, "", time.Date(2026, 12, 24, 17, 0, 0, 0, time.UTC).UnixMilli()},
	} {
		got, err := c.f.time()
		if err != nil {
			t.Errorf("%+v: %v", c.f, err)
			continue
		}
		delay, ms := "", int64(0)
		if got.Delay != nil {
			delay = *got.Delay
		}
		if got.DeliverAtMs != nil {
			ms = *got.DeliverAtMs
		}
		if delay != c.delay || ms != c.ms {
			t.Errorf("%+v: %q, %d", c.f, delay, ms)
		}
	}
}
