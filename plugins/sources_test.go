package plugins_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidewheel/tidewheel/plugins"
)

// TestSources: what the program hands to authors is what the directories hold, all of it and nothing else.
func TestSources(t *testing.T) {
	have := map[string]bool{}
	err := fs.WalkDir(plugins.Sources(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		have[path] = true
		got, err := fs.ReadFile(plugins.Sources(), path)
		if err != nil {
			return err
		}
		want, err := os.ReadFile(filepath.FromSlash(path))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from the file: %v", path, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"abi", "guest", "guest/golden", "guest/c", "guest/as"} {
		files, err := filepath.Glob(dir + "/*.*")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			name := filepath.ToSlash(f)
			if want := !strings.HasSuffix(name, "_test.go"); have[name] != want {
				t.Errorf("%s: in the sources %v, want %v", name, have[name], want)
			}
		}
	}
	if _, err := plugins.Sources().Open("guest/guest_test.go"); err == nil {
		t.Error("a test can be opened")
	}
}
