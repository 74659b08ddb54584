package wasmtest_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

// chosen are the tests of package engine that run as a guest: random histories at a small volume, those that failed once,
// and the named ones that are quick. They need no files, no clock and no second thread.
const chosen = "^(TestModel|TestModelRegressions|TestHistoryF(1|11|12)[A-Z].*|TestReview(B[2-9]|B10|S[0-9]+|M[0-9]+)[A-Z].*)$"

// TestEngineAsGuest runs the engine's deterministic tests under wasip1.
func TestEngineAsGuest(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles the standard library for wasip1")
	}
	guest := filepath.Join(t.TempDir(), "engine.test.wasm")
	build := exec.Command("go", "test", "-c", "-o", guest, "github.com/tidewheel/tidewheel/engine")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("compile the tests for wasip1: %v\n%s", err, out)
	}
	code, err := os.ReadFile(guest)
	if err != nil {
		t.Fatal(err)
	}
	out, err := runGuest(t.Context(), code, "-test.run="+chosen, "-test.short", "-test.v")
	passed := strings.Count(out, "\n--- PASS: ")
	if err != nil || passed < 20 {
		t.Fatalf("%d tests passed, then: %v\n%s", passed, err, tail(out, 6000))
	}
	t.Logf("%d tests passed as a guest", passed)
}

// runGuest runs a command of WASI with no files and no environment. An exit code is an error, but for 0.
func runGuest(ctx context.Context, code []byte, args ...string) (string, error) {
	r := wazero.NewRuntime(ctx)
	defer r.Close(ctx)
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	var out strings.Builder
	config := wazero.NewModuleConfig().WithArgs(append([]string{"engine.test"}, args...)...).
		WithStdout(&out).WithStderr(&out).WithSysWalltime().WithSysNanotime().WithSysNanosleep()
	_, err := r.InstantiateWithConfig(ctx, code, config)
	if exit, ok := err.(*sys.ExitError); ok && exit.ExitCode() == 0 {
		err = nil
	}
	return out.String(), err
}

// tail returns the last n bytes of s.
func tail(s string, n int) string { return s[max(len(s)-n, 0):] }
