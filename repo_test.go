// Package repo_test keeps the rules of the repository as tests: what may import what, that every package is documented
// and tested, that files stay readable, that the engine stays passive and portable, that no test sleeps, and that no
// file speaks of the machine it was written on. A failure says why the rule is there.
package repo_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/tidewheel/tidewheel"

// testSupport lists packages that are written for tests although their files are not *_test.go: they may use what a
// test may, and nothing but tests may import them. The program engine/mutants runs tests and is judged the same.
var testSupport = []string{
	"engine/enginetest", "engine/internal/filetest", "engine/internal/golden", "engine/wasmtest", "engine/mutants", "fsadapter/vfstest", "host/broker/brokertest", "plugins/plugintest",
}

// arrows says what each tree may import from this module, and what must not be anywhere below it. All rows that match a
// package hold. Imports of *_test.go files are free.
var arrows = []struct {
	from  string
	may   []string // trees of this module
	never []string // reached, at any depth; trees of import paths
	why   string
}{
	{"engine", []string{"engine"},
		[]string{"net", "os/exec", "os/signal", "github.com/spf13/afero", "github.com/tetratelabs/wazero", "github.com/BurntSushi/toml"},
		"the engine compiles to wasip1 and js and is embedded"},
	{"engine/vfs", []string{"engine/vfs"}, nil, "everything that has files stands on it"},
	{"engine/internal/corrupt", nil, nil, "every format reports damage with it"},
	{"engine/internal/invariant", nil, nil, "every package asserts with it"},
	{"engine/commitlog", []string{"engine/vfs", "engine/internal/corrupt", "engine/internal/invariant"}, nil,
		"the CommitLog frames records and knows nothing of what is in them"},
	{"engine/message", []string{"engine/commitlog", "engine/internal/corrupt", "engine/internal/invariant"}, nil,
		"a codec does no I/O"},
	{"engine/record", []string{"engine/commitlog", "engine/message", "engine/timerlog", "engine/internal/corrupt", "engine/internal/invariant"}, nil,
		"a codec does no I/O"},
	{"engine/internal/segment", []string{"engine/vfs", "engine/internal/corrupt", "engine/internal/invariant"}, nil,
		"an array of cells does not know what a cell means"},
	{"engine/internal/arrays", []string{"engine/vfs", "engine/internal/segment"}, nil, "a set of arrays does not know what a number means"},
	{"fsadapter", []string{"fsadapter", "engine/vfs"},
		[]string{"github.com/BurntSushi/toml", "github.com/tetratelabs/wazero"},
		"an adapter knows a file system and nothing else"},
	{"plugins", []string{"plugins"}, []string{"github.com/BurntSushi/toml"}, "the host introduces plugins to the engine"},
	{"plugins/abi", []string{"plugins/abi"}, []string{"github.com/tetratelabs/wazero"}, "it is compiled into guests"},
	{"plugins/guest", []string{"plugins/guest", "plugins/abi"}, []string{"github.com/tetratelabs/wazero"}, "it is compiled into guests"},
	{"host", []string{"host", "engine", "fsadapter", "plugins"}, nil, "only cmd stands above the host"},
	{"host/broker", []string{"host/broker", "engine"}, []string{"net/http", "github.com/spf13/afero", "github.com/BurntSushi/toml"},
		"the broker is handed its file system and its network"},
	{"host/delivery", []string{"host/broker", "host/config", "host/egress", "host/pluginhost", "engine", "plugins"}, nil,
		"what serves HTTP stands above what makes requests"},
	{"host/egress", nil, []string{"github.com/BurntSushi/toml", "github.com/tetratelabs/wazero"},
		"where requests may go is judged without knowing who asks"},
	{"cmd", []string{"cmd", "host", "engine", "fsadapter", "plugins"}, nil, "nothing but cmd may import cmd"},
	{"examples", []string{"examples", "plugins/guest", "engine", "fsadapter"}, nil, "an example holds what a guest's author would write"},
}

// granted are trees that may reach what a row above keeps from those around them.
var granted = []struct{ tree, dep, why string }{
	{"fsadapter/wasifs", "github.com/tetratelabs/wazero", "it is the file system of a guest of the runtime"},
}

func mayReach(tree, dep string) bool {
	for _, g := range granted {
		if under(tree, g.tree) && under(dep, g.dep) {
			return true
		}
	}
	return false
}

// pkg is what go list says of a package, without its tests.
type pkg struct {
	ImportPath    string
	Name          string
	Dir           string
	GoFiles       []string
	TestGoFiles   []string
	XTestGoFiles  []string
	Imports, Deps []string
}

// rel is the directory of the package within the repository.
func (p pkg) rel() string {
	if p.ImportPath == module {
		return "."
	}
	return strings.TrimPrefix(p.ImportPath, module+"/")
}

// packages lists the main module once for all tests.
var packages = sync.OnceValues(func() ([]pkg, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Name,Dir,GoFiles,TestGoFiles,XTestGoFiles,Imports,Deps", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.Join(err, errors.New(stderr.String()))
	}
	var ps []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return ps, nil
		case err != nil:
			return nil, err
		}
		ps = append(ps, p)
	}
})

func goList(t *testing.T) []pkg {
	t.Helper()
	ps, err := packages()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return ps
}

// under says whether path is tree or lies in it.
func under(path, tree string) bool { return path == tree || strings.HasPrefix(path, tree+"/") }

func underAny(path string, trees []string) bool {
	for _, tree := range trees {
		if under(path, tree) {
			return true
		}
	}
	return false
}

func TestImportArrows(t *testing.T) {
	for _, p := range goList(t) {
		if underAny(p.rel(), testSupport) {
			continue
		}
		for _, a := range arrows {
			if !under(p.rel(), a.from) {
				continue
			}
			for _, imp := range p.Imports {
				if in, ok := strings.CutPrefix(imp, module+"/"); ok && !underAny(in, a.may) {
					t.Errorf("%s imports %s; %s may import %v of this module: %s", p.rel(), in, a.from, a.may, a.why)
				}
			}
			for _, dep := range p.Deps {
				if underAny(dep, a.never) && !mayReach(p.rel(), dep) {
					t.Errorf("%s reaches %s, which %s must not: %s", p.rel(), dep, a.from, a.why)
				}
			}
		}
	}
}

// TestTestSupportStaysInTests: what is written for tests must not end up in a binary.
func TestTestSupportStaysInTests(t *testing.T) {
	for _, p := range goList(t) {
		if underAny(p.rel(), testSupport) {
			continue
		}
		for _, imp := range p.Imports {
			if imp == "testing" || strings.HasPrefix(imp, "testing/") {
				t.Errorf("%s imports %s outside its tests: list it in testSupport or move it to a _test.go file", p.rel(), imp)
			}
			if in, ok := strings.CutPrefix(imp, module+"/"); ok && underAny(in, testSupport) {
				t.Errorf("%s imports %s outside its tests: test support must not be part of a program", p.rel(), in)
			}
		}
	}
}

// TestNoCgo: the binary is pure Go, so it builds for every platform from any other.
func TestNoCgo(t *testing.T) {
	for _, p := range goList(t) {
		for _, imp := range p.Imports {
			if imp == "C" {
				t.Errorf("%s imports C: Tidewheel is built without cgo", p.rel())
			}
		}
	}
}

// TestGuestTreesBuildForWasm builds what a guest may contain for both WASM systems.
func TestGuestTreesBuildForWasm(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the engine twice")
	}
	var guest []string
	for _, p := range goList(t) {
		if len(p.GoFiles) > 0 && underAny(p.rel(), []string{"engine", "plugins/abi", "plugins/guest"}) && !underAny(p.rel(), testSupport) {
			guest = append(guest, p.ImportPath)
		}
	}
	if len(guest) == 0 {
		t.Fatal("found no package of the engine")
	}
	for _, goos := range []string{"wasip1", "js"} {
		t.Run(goos, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("go", append([]string{"build"}, guest...)...)
			cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH=wasm", "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("the engine must build for GOOS=%s, since guests embed it: %v\n%s", goos, err, out)
			}
		})
	}
}
