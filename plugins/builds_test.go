package plugins_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// The plugins of the tests in their languages, built once.
var (
	goGuest   = sync.OnceValues(func() ([]byte, error) { return goBuild("./guest/testdata/filter") })
	jsonGuest = sync.OnceValues(func() ([]byte, error) { return goBuild("./guest/testdata/json") })
	cGuest    = sync.OnceValues(func() ([]byte, error) { return cBuild("filter.c") })
	ownGuest  = sync.OnceValues(func() ([]byte, error) { return cBuild("own.c") })
	asGuest   = sync.OnceValues(asBuild)
)

// errMissing is returned when a language's tool is not on this machine.
var errMissing = errors.New("missing")

func buildGo(t testing.TB) []byte {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and compiles a Go guest")
	}
	return built(t, goGuest)
}

func buildC(t testing.TB) []byte { t.Helper(); return built(t, cGuest) }

func buildAS(t testing.TB) []byte { t.Helper(); return built(t, asGuest) }

// built gives a guest; without its tool the test is skipped, unless PLUGIN_TOOLS says that all are there.
func built(t testing.TB, build func() ([]byte, error)) []byte {
	t.Helper()
	module, err := build()
	if errors.Is(err, errMissing) && os.Getenv("PLUGIN_TOOLS") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return module
}

// compiled runs a compiler that writes to the path it is handed, and returns what it wrote.
func compiled(tool func(out string) *exec.Cmd) ([]byte, error) {
	dir, err := os.MkdirTemp("", "guest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "guest.wasm")
	cmd := tool(out)
	if said, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(said), "wasm-ld") {
			err = fmt.Errorf("wasm-ld is %w: the C guest is not built (Debian: lld)", errMissing)
		}
		return nil, fmt.Errorf("%v: %w\n%s", cmd, err, said)
	}
	return os.ReadFile(out)
}

func goBuild(pkg string) ([]byte, error) {
	return compiled(func(out string) *exec.Cmd {
		cmd := exec.Command("go", "build", "-buildmode=c-shared", "-o", out, pkg)
		cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
		return cmd
	})
}

func cBuild(source string) ([]byte, error) {
	for _, name := range []string{"clang", "clang-19", "clang-16", "clang-14"} {
		clang, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		return compiled(func(out string) *exec.Cmd {
			return exec.Command(clang, "--target=wasm32", "-O2", "-Wall", "-Werror", "-Wno-implicit-fallthrough", "-nostdlib",
				"-Wl,--no-entry", "-o", out, "guest/c/testdata/"+source)
		})
	}
	return nil, fmt.Errorf("clang is %w: the C guest is not built (Debian: clang and lld)", errMissing)
}

func asBuild() ([]byte, error) {
	const asc = "guest/as/node_modules/.bin/asc"
	if _, err := os.Stat(asc); err != nil {
		return nil, fmt.Errorf("the AssemblyScript compiler is %w: npm ci in plugins/guest/as brings it", errMissing)
	}
	return compiled(func(out string) *exec.Cmd {
		cmd := exec.Command("node_modules/.bin/asc", "testdata/filter.ts", "-O3", "--runtime", "minimal", "--use", "abort=tidewheel/abort", "--outFile", out)
		cmd.Dir = "guest/as"
		return cmd
	})
}
