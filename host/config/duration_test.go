package config_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/host/config"
)

const day = 24 * time.Hour

func TestParseDuration(t *testing.T) {
	for _, c := range []struct {
		text string
		want time.Duration
		back string // what String makes of it
	}{
		{"0", 0, "0"},
		{"0s", 0, "0"},
		{"1ms", time.Millisecond, "1ms"},
		{"1500ms", 1500 * time.Millisecond, "1s500ms"},
		{"90s", 90 * time.Second, "1m30s"},
		{"30m", 30 * time.Minute, "30m"},
		{"24h", day, "1d"},
		{"7d", 7 * day, "7d"},
		{"1w", 7 * day, "7d"},
		{"7d12h", 7*day + 12*time.Hour, "7d12h"},
		{"1h0m0s", time.Hour, "1h"},
		{"2w3d", 17 * day, "17d"},
		{"100y", 36500 * day, "100y"},
		{"1y2w3d4h5m6s7ms", 382*day + 4*time.Hour + 5*time.Minute + 6*time.Second + 7*time.Millisecond, "1y17d4h5m6s7ms"},
		{"007d", 7 * day, "7d"},
		{"9223372036854ms", 9223372036854 * time.Millisecond, "292y171d23h47m16s854ms"},
	} {
		got, err := config.ParseDuration(c.text)
		if err != nil || time.Duration(got) != c.want || got.String() != c.back {
			t.Errorf("%q is %v (%s), %v; want %v (%s)", c.text, time.Duration(got), got, err, c.want, c.back)
		}
		if again, err := config.ParseDuration(got.String()); err != nil || again != got {
			t.Errorf("%q comes back from %q as %v, %v", c.text, got, again, err)
		}
	}
}

func TestParseDurationRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "empty; a duration is a number and a unit"},
		{"7", "7 has no unit; units are y w d h m s ms"},
		{"1d7", "7 has no unit"},
		{"00", "0 has no unit"},
		{"d", `a whole number must stand where "d" is`},
		{"-5m", `where "-5m" is, without sign, fraction or space`},
		{"+5m", `where "+5m" is`},
		{"1.5h", `".5h" stands where a unit should; a duration is like "1h30m"`},
		{"1h.5m", `where ".5m" is`},
		{"7 d", `" d" stands where a unit should`},
		{" 7d", `where " 7d" is`},
		{"7d ", `where " " is`},
		{"7x", `unknown unit "x"; units are`},
		{"30min", `unknown unit "min"`},
		{"5M", `unknown unit "M"`},
		{"5µs", `unknown unit "µs"`},
		{"12h7d", `"d" is out of order; units go from long to short, each once`},
		{"1s2s", `"s" is out of order`},
		{"293y", "longer than 292 years"},
		{"292y200d", "longer than 292 years"},
		{"99999999999999999999s", "the number is too large"},
		{strings.Repeat("x", 1000), "xxx…"},
	} {
		d, err := config.ParseDuration(c.text)
		if d != 0 || err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "config: duration ") {
			t.Errorf("%q is %v, %v; want an error with %q", c.text, d, err, c.want)
		}
	}
}

func TestDurationString(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{time.Millisecond - 1, "0"},
		{time.Second + time.Microsecond, "1s"},
		{-90 * time.Minute, "-1h30m"},
		{math.MinInt64, "-292y171d23h47m16s854ms"},
		{math.MaxInt64, "292y171d23h47m16s854ms"},
	} {
		if got := config.Duration(c.d).String(); got != c.want {
			t.Errorf("%v is %q, want %q", c.d, got, c.want)
		}
	}
}

func TestQuantitiesInJSON(t *testing.T) {
	type both struct {
		D config.Duration
		S config.Size
	}
	b, err := json.Marshal(both{config.Duration(36 * time.Hour), 64 << 20})
	if err != nil || string(b) != `{"D":"1d12h","S":"64MiB"}` {
		t.Errorf("got %s, %v", b, err)
	}
	var v both
	if err := json.Unmarshal(b, &v); err != nil || v.D != config.Duration(36*time.Hour) || v.S != 64<<20 {
		t.Errorf("got %+v, %v", v, err)
	}
	if err := json.Unmarshal([]byte(`{"D":"9x"}`), &v); err == nil || v.D != config.Duration(36*time.Hour) {
		t.Errorf("a bad text gave %v and left %v", err, v.D)
	}
	if err := json.Unmarshal([]byte(`{"S":"9x"}`), &v); err == nil || v.S != 64<<20 {
		t.Errorf("a bad text gave %v and left %v", err, v.S)
	}
}

func TestParseSize(t *testing.T) {
	for _, c := range []struct {
		text string
		want config.Size
		back string
	}{
		{"0", 0, "0"},
		{"0MiB", 0, "0"},
		{"1B", 1, "1B"},
		{"4097B", 4097, "4097B"},
		{"4096B", 4096, "4KiB"},
		{"64MiB", 64 << 20, "64MiB"},
		{"1536MiB", 1536 << 20, "1536MiB"},
		{"1024GiB", 1 << 40, "1TiB"},
		{"9223372036854775807B", math.MaxInt64, "9223372036854775807B"},
	} {
		got, err := config.ParseSize(c.text)
		if err != nil || got != c.want || got.String() != c.back {
			t.Errorf("%q is %d (%s), %v; want %d (%s)", c.text, int64(got), got, err, int64(c.want), c.back)
		}
		if again, err := config.ParseSize(got.String()); err != nil || again != got {
			t.Errorf("%q comes back from %q as %v, %v", c.text, got, again, err)
		}
	}
}

func TestParseSizeRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "empty; a size is a number and a unit"},
		{"64", "64 has no unit; units are B KiB MiB GiB TiB"},
		{"64MB", `unknown unit "MB", is it MiB?`},
		{"64M", `unknown unit "M", is it MiB?`},
		{"64mib", `is it MiB?`},
		{"64k", `is it KiB?`},
		{"64x", `unknown unit "x"; units are`},
		{"64é", `unknown unit "é"`},
		{"1.5GiB", `".5GiB" is too much`},
		{"1GiB512MiB", `"512MiB" is too much`},
		{"-1B", "a whole number must stand"},
		{"8388608TiB", "more than 8 EiB"},
		{"99999999999999999999B", "the number is too large"},
	} {
		s, err := config.ParseSize(c.text)
		if s != 0 || err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "config: size ") {
			t.Errorf("%q is %v, %v; want an error with %q", c.text, s, err, c.want)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"7d12h", "1y2w3d4h5m6s7ms", "0", "292y", "9x", "µ"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := config.ParseDuration(text)
		if err != nil {
			return
		}
		if again, err := config.ParseDuration(d.String()); err != nil || again != d || d < 0 {
			t.Errorf("%q is %v and comes back as %v, %v", text, d, again, err)
		}
	})
}

func FuzzParseSize(f *testing.F) {
	for _, text := range []string{"64MiB", "0", "1B", "8388607TiB", "64MB", "é"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := config.ParseSize(text)
		if err != nil {
			return
		}
		if again, err := config.ParseSize(s.String()); err != nil || again != s || s < 0 {
			t.Errorf("%q is %v and comes back as %v, %v", text, s, again, err)
		}
	})
}

func BenchmarkParseDuration(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := config.ParseDuration("7d12h30m"); err != nil {
			b.Fatal(err)
		}
	}
}
