package demo

import (
	"testing"

	"github.com/tidewheel/tidewheel/host/author"
	verdicts "github.com/tidewheel/tidewheel/plugins/guest/golden"
)

// TestPluginModule: the module that the demo brings along decides as its source does, whose verdicts examples/wasm keeps true.
// After a change of the source, build it there and copy it here.
func TestPluginModule(t *testing.T) {
	const tests = "../../examples/wasm/demo-c/" + author.TestDir
	config, err := verdicts.Config(tests)
	if err != nil {
		t.Fatal(err)
	}
	s, err := author.Open(t.Context(), pluginModule, author.Setting{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	report, err := verdicts.Check(tests, s.Decide, false)
	if err != nil || report.Records < 10 {
		t.Fatalf("%d records, %v", report.Records, err)
	}
	for _, d := range report.Diffs {
		t.Error(d)
	}
}
