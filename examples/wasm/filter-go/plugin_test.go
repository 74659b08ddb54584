package main

import (
	"flag"
	"testing"

	"github.com/tidewheel/tidewheel/plugins/guest/golden"
)

var update = flag.Bool("update", false, "write the verdicts in testdata anew")

// TestGolden decides the records in testdata natively, without WebAssembly.
func TestGolden(t *testing.T) {
	report, err := golden.Check("testdata", golden.Native, *update)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range report.Diffs {
		t.Error(d)
	}
}
