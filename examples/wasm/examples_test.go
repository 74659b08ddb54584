// Package wasm_test builds the examples from their sources, as tidewheel plugin build does, and compares what the modules
// decide with the verdicts in their testdata.
package wasm_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidewheel/tidewheel/host/author"
	"github.com/tidewheel/tidewheel/plugins/guest/golden"
)

var update = flag.Bool("update", false, "write the verdicts in the examples' testdata anew")

// TestExamples builds and asks every example that is a project.
func TestExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("runs compilers")
	}
	manifests, err := filepath.Glob("*/" + author.ManifestFile)
	if err != nil || len(manifests) < 5 {
		t.Fatalf("found %v, %v", manifests, err)
	}
	cache := t.TempDir()
	for _, manifest := range manifests {
		dir := filepath.Dir(manifest)
		t.Run(dir, func(t *testing.T) { example(t, dir, cache) })
	}
}

func example(t *testing.T, dir, cache string) {
	project, err := author.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if project.Lang == author.AssemblyScript && os.Getenv("PLUGIN_TOOLS") == "" {
		// Build would fetch the compiler, and a test that nobody asked to do so stays off the network.
		if _, err := os.Stat(filepath.Join(dir, "node_modules")); errors.Is(err, fs.ErrNotExist) {
			t.Skipf("the AssemblyScript compiler is missing: npm ci in examples/wasm/%s brings it", dir)
		}
	}
	var said bytes.Buffer
	built, err := project.Build(context.Background(), &said)
	var missing *author.MissingError
	if errors.As(err, &missing) && os.Getenv("PLUGIN_TOOLS") == "" {
		t.Skipf("%s is missing: the example is not built", missing.Tool)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	module, err := os.ReadFile(built.File)
	if err != nil {
		t.Fatal(err)
	}
	tests := filepath.Join(dir, author.TestDir)
	config, err := golden.Config(tests)
	if err != nil {
		t.Fatal(err)
	}
	s, err := author.Open(context.Background(), module, author.Setting{Config: config, CacheDir: cache})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	report, err := golden.Check(tests, s.Decide, *update)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range report.Diffs {
		t.Error(d)
	}
	t.Logf("%d bytes, %d records in %d files", len(module), report.Records, len(report.Files))
}

// TestSameKit: the compiler of the AssemblyScript example is that of the kit.
func TestSameKit(t *testing.T) {
	for _, name := range []string{"package.json", "package-lock.json"} {
		want, err := os.ReadFile(filepath.Join("../../plugins/guest/as", name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("transform-as", name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from the kit's: %v", name, err)
		}
	}
}
