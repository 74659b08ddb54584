package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/host/bench"
)

// A result that has anything lost, twice or early ends the program with 1, after it was printed; others with 0.
func TestBenchVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		result bench.Result
		want   int
	}{
		"nothing wrong": {bench.Result{Count: 5}, exitOK},
		"lost":          {bench.Result{Lost: 1}, exitError},
		"twice":         {bench.Result{Twice: 1}, exitError},
		"early":         {bench.Result{Early: 1}, exitError},
	} {
		for _, format := range []string{formatTable, formatJSON} {
			t.Run(name+" as "+format, func(t *testing.T) {
				var stdout, stderr bytes.Buffer
				a := &app{stdout: &stdout, stderr: &stderr, format: format}
				err := a.benchVerdict(&c.result)
				if err != nil {
					a.complain(err)
				}
				if got := exitCodeOf(err); got != c.want {
					t.Errorf("exit code %d, want %d", got, c.want)
				}
				var back bench.Result
				switch {
				case stderr.Len() > 0:
					t.Errorf("stderr %q", stderr.String())
				case format == formatTable && strings.Contains(stdout.String(), "NOT") != (c.want != exitOK):
					t.Errorf("stdout %q", stdout.String())
				case format == formatJSON && (json.Unmarshal(stdout.Bytes(), &back) != nil || back != c.result):
					t.Errorf("stdout %q", stdout.String())
				}
			})
		}
	}
}

func exitCodeOf(err error) int {
	if err == nil {
		return exitOK
	}
	return exitCode(err)
}

func TestBenchNumber(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "0": 0, "2000": 2000, "100k": 100_000, "10M": 10_000_000,
		"-1": -1, "10m": -1, "1.5M": -1, "k": -1, "1 k": -1, "99999999999": -1, "9999999M": -1,
	} {
		got, err := number("--count", text)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q is %d, want %d (-1: refused); %v", text, got, want, err)
		}
	}
}
