package main

import (
	"flag"
	"testing"

	"github.com/tidewheel/tidewheel/plugins/guest"
	"github.com/tidewheel/tidewheel/plugins/guest/golden"
)

var update = flag.Bool("update", false, "write the verdicts in testdata anew")

// TestGolden decides the records in testdata natively, without WebAssembly.
func TestGolden(t *testing.T) {
	conf, err := golden.Config("testdata")
	if err != nil {
		t.Fatal(err)
	}
	if err := guest.Configured(conf); err != nil {
		t.Fatal(err)
	}
	report, err := golden.Check("testdata", golden.Native, *update)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range report.Diffs {
		t.Error(d)
	}
}

// TestConfigure: a configuration that makes no sense refuses to start, not the first message.
func TestConfigure(t *testing.T) {
	for _, c := range []struct {
		text string
		ok   bool
	}{
		{`{"url":"https://example.com/hooks"}`, true},
		{`{"url":"http://127.0.0.1:8080"}`, true},
		{`{}`, false},
		{`{"url":"/hooks"}`, false},
		{`{"url":"https://exa mple.com"}`, false},
	} {
		if err := guest.Configured([]byte(c.text)); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}
