package plugins_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeNamesTests: each test that the README names is there.
func TestReadmeNamesTests(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, pattern := range []string{"*_test.go", "internal/*/*_test.go", "abi/*_test.go", "../fsadapter/wasifs/*_test.go", "../host/pluginhost/*_test.go", "../host/server/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			code.Write(b)
		}
	}
	names := regexp.MustCompile("`((Test|Fuzz|Benchmark)[A-Z]\\w*)`").FindAllStringSubmatch(string(readme), -1)
	if len(names) < 40 {
		t.Errorf("found %d names", len(names))
	}
	for _, n := range names {
		if !strings.Contains(code.String(), "func "+n[1]+"(") {
			t.Errorf("the README names %s, which does not exist", n[1])
		}
	}
}
