package egress

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, x := range []struct {
		value string
		want  time.Duration
		ok    bool
	}{
		{"0", 0, true},
		{"120", 2 * time.Minute, true},
		{" 7 ", 7 * time.Second, true},
		{"007", 7 * time.Second, true},
		{"86401", MaxRetryAfter, true},
		{"99999999999999999999999999999", MaxRetryAfter, true},
		{"Mon, 30 Nov 2026 12:00:30 GMT", 30 * time.Second, true},
		{"Monday, 30-Nov-26 12:01:00 GMT", time.Minute, true},
		{"Mon Nov 30 12:00:01 2026", time.Second, true},
		{"Mon, 30 Nov 2026 11:59:00 GMT", 0, true},
		{"Sun, 30 Nov 2036 12:00:00 GMT", MaxRetryAfter, true},
		{"", 0, false},
		{"-1", 0, false},
		{"+1", 0, false},
		{"1.5", 0, false},
		{"1e3", 0, false},
		{"0x10", 0, false},
		{"10s", 0, false},
		{"1 2", 0, false},
		{"٣", 0, false},
		{"tomorrow", 0, false},
		{"2026-11-30T12:00:30Z", 0, false},
	} {
		if got, ok := RetryAfter(x.value, now); got != x.want || ok != x.ok {
			t.Errorf("RetryAfter(%q) is %v, %v; want %v, %v", x.value, got, ok, x.want, x.ok)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"0", "120", "Mon, 30 Nov 2026 12:00:30 GMT", "99999999999999999999", "-1"} {
		f.Add(seed, int64(1_764_500_000))
	}
	f.Fuzz(func(t *testing.T, value string, now int64) {
		got, ok := RetryAfter(value, time.Unix(now%(1<<40), 0))
		if got < 0 || got > MaxRetryAfter || !ok && got != 0 {
			t.Fatalf("RetryAfter(%q) is %v, %v", value, got, ok)
		}
		if n, err := strconv.ParseUint(strings.Trim(value, " \t"), 10, 64); err == nil && (!ok || got != min(time.Duration(min(n, 1<<32))*time.Second, MaxRetryAfter)) {
			t.Fatalf("RetryAfter(%q) is %v, %v", value, got, ok)
		}
	})
}
