package vfstest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

// TestConformanceInGuest runs the tests of package osfs, the suite among them, as a WASM guest: what a guest without afero
// has for a file system.
func TestConformanceInGuest(t *testing.T) {
	if testing.Short() || underRace {
		t.Skip("builds and interprets a guest: not with -short or -race")
	}
	wasm := filepath.Join(t.TempDir(), "osfs.wasm")
	build := exec.Command("go", "test", "-c", "-o", wasm, "github.com/tidewheel/tidewheel/engine/vfs/osfs")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	code, err := os.ReadFile(wasm)
	if err != nil {
		t.Fatal(err)
	}
	disk := t.TempDir()
	if err := os.Mkdir(filepath.Join(disk, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}

	ctx := context.Background()
	host := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer host.Close(ctx)
	wasi_snapshot_preview1.MustInstantiate(ctx, host)
	var out strings.Builder
	_, err = host.InstantiateWithConfig(ctx, code, wazero.NewModuleConfig().
		WithArgs("osfs.test", "-test.v", "-test.run=Test").
		WithFSConfig(wazero.NewFSConfig().WithDirMount(disk, "/")).
		WithStdout(&out).WithStderr(&out).
		WithRandSource(rand.Reader).WithSysNanotime().WithSysWalltime().WithSysNanosleep())
	if exit := (*sys.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 0) {
		t.Fatalf("guest: %v\n%s", err, out.String())
	}
	for _, line := range []string{
		"--- PASS: TestConformance ", "--- PASS: TestConformance/RenameReplaces ", "--- PASS: TestConformance/HammerReadAt_row4 ",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("the guest did not print %q:\n%s", line, out.String())
		}
	}
}
