package wasmtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

// maxGuest is what the engine as a stripped guest may weigh, bytes. The aim was 4 MiB. A program that prints its arguments
// weighs 2.5 MB, log/slog adds 0.8 (it brings encoding/json), hashes and randomness 0.2, and the engine 2.6.
const maxGuest = 6600000

// TestGuestOnFiles builds the engine as a guest of its own, weighs it, and lets it store and fire on real files, beside the
// same program built natively. The rates are printed, not judged.
func TestGuestOnFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles the standard library for wasip1")
	}
	const count = 10000
	dir := t.TempDir()
	guest, native := filepath.Join(dir, "guest.wasm"), filepath.Join(dir, "guest")
	build(t, guest, "GOOS=wasip1", "GOARCH=wasm")
	build(t, native)
	code, err := os.ReadFile(guest)
	if err != nil {
		t.Fatal(err)
	}
	if len(code) > maxGuest {
		t.Errorf("the guest has %d bytes, the limit is %d", len(code), maxGuest)
	}
	out, err := exec.Command(native, t.TempDir(), strconv.Itoa(count)).CombinedOutput()
	if err != nil {
		t.Fatalf("native: %v\n%s", err, out)
	}
	t.Logf("%d bytes; native: %s", len(code), strings.TrimSpace(string(out)))
	t.Logf("under wazero: %s", strings.TrimSpace(runOnFiles(t, code, t.TempDir(), count)))
}

func build(t *testing.T, to string, env ...string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-trimpath", "-o", to, "./guest")
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build for %v: %v\n%s", env, err, out)
	}
}

// runOnFiles runs the guest with one directory of the host.
func runOnFiles(t *testing.T, code []byte, dir string, count int) string {
	t.Helper()
	ctx := t.Context()
	r := wazero.NewRuntime(ctx)
	defer r.Close(ctx)
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	var out strings.Builder
	config := wazero.NewModuleConfig().WithArgs("guest", "/data", strconv.Itoa(count)).
		WithFSConfig(wazero.NewFSConfig().WithDirMount(dir, "/data")).
		WithStdout(&out).WithStderr(&out).WithSysWalltime().WithSysNanotime().WithSysNanosleep().
		WithRandSource(zeros{})
	_, err := r.InstantiateWithConfig(ctx, code, config)
	if exit, ok := err.(*sys.ExitError); ok && exit.ExitCode() == 0 {
		err = nil
	}
	if err != nil {
		t.Fatalf("guest: %v\n%s", err, out.String())
	}
	return out.String()
}

// zeros is a source of randomness that is none: ids of a store in a test.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
