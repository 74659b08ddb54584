package author

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidewheel/tidewheel/plugins"
)

// ManifestFile is the file of a project that says what the plugin is.
const ManifestFile = "manifest.json"

// TestDir is the directory of a project's tests.
const TestDir = "testdata"

// Project is the directory of a plugin. It is read-only after it was made; safe for concurrent use.
type Project struct {
	Dir      string
	Lang     Lang
	Manifest plugins.Manifest
	manifest []byte // as it stands in the file
}

// ErrNoProject is returned for a directory without a manifest.
var ErrNoProject = errors.New("no plugin project")

// Load reads the project in a directory.
func Load(dir string) (*Project, error) {
	p := &Project{Dir: dir}
	b, err := os.ReadFile(filepath.Join(dir, ManifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s has no %s; tidewheel plugin new makes one", ErrNoProject, dir, ManifestFile)
	}
	if err != nil {
		return nil, err
	}
	p.manifest = b
	if p.Manifest, err = plugins.ParseManifest(b); err != nil {
		return nil, fmt.Errorf("%s: %w", ManifestFile, err)
	}
	if err := CheckName(p.Manifest.Name); err != nil {
		return nil, fmt.Errorf("%s: %w", ManifestFile, err)
	}
	p.Lang, err = langOf(dir)
	return p, err
}

// Module is the file that Build writes.
func (p *Project) Module() string { return filepath.Join(p.Dir, p.Manifest.Name+".wasm") }

// CheckName says whether a name may be that of a plugin: 1 to 100 of A-Z a-z 0-9 _ -, the first of them no hyphen.
func CheckName(name string) error {
	ok := len(name) >= 1 && len(name) <= 100 && name[0] != '-'
	for _, c := range name {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-')
	}
	if !ok {
		return fmt.Errorf("the name %q is not 1 to 100 of A-Z a-z 0-9 _ -", name)
	}
	return nil
}

// Stale names a source that is newer than the module, or is empty.
func (p *Project) Stale() string {
	info, err := os.Stat(p.Module())
	if err != nil {
		return ""
	}
	built, stale := info.ModTime(), ""
	_ = filepath.WalkDir(p.Dir, func(path string, d fs.DirEntry, err error) error { // what can't be looked at is not newer
		if err != nil || stale != "" {
			return fs.SkipAll
		}
		name := d.Name()
		if d.IsDir() {
			if path != p.Dir && (name == TestDir || name == "node_modules" || strings.HasPrefix(name, ".")) {
				return fs.SkipDir
			}
			return nil
		}
		if isSource(name) && newer(d, built) {
			stale = path
		}
		return nil
	})
	return stale
}

func isSource(name string) bool {
	switch filepath.Ext(name) {
	case ".go":
		return !strings.HasSuffix(name, "_test.go")
	case ".c", ".h", ".ts":
		return true
	}
	return name == ManifestFile || name == "go.mod" || name == "asconfig.json"
}

func newer(d fs.DirEntry, than time.Time) bool {
	info, err := d.Info()
	return err == nil && info.ModTime().After(than)
}
