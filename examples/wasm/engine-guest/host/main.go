// Command host lends a directory to the engine in a WASM guest and runs it once:
//
//	host GUEST.wasm DIR NOW VERB …
//
// The guest sees DIR and nothing else: its files come through an afero file system and package wasifs, which let it out
// neither by ".." nor by a link.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/fsadapter/wasifs"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	err := lend(context.Background(), args, stdout, stderr)
	var exit *sys.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return int(exit.ExitCode()) // the guest has said why
	}
	fmt.Fprintln(stderr, "host:", err)
	return 1
}

// lend runs the guest on a directory of the disk.
func lend(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) < 4 {
		return errors.New("usage: host GUEST.wasm DIR NOW VERB …")
	}
	code, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	if err := os.MkdirAll(args[1], 0o700); err != nil {
		return err
	}
	root, err := fsadapter.OpenRoot(args[1])
	if err != nil {
		return err
	}
	h, err := newHost(ctx, code)
	if err != nil {
		return err
	}
	return errors.Join(h.run(ctx, fsadapter.New(root), args[2:], stdout, stderr), h.close(ctx))
}

// host holds the compiled guest.
type host struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
}

// newHost compiles a guest, which takes seconds. The memory of each run is bounded: 64 MiB.
func newHost(ctx context.Context, code []byte) (*host, error) {
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithMemoryLimitPages(1024))
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
		return nil, errors.Join(err, r.Close(ctx))
	}
	compiled, err := r.CompileModule(ctx, code)
	if err != nil {
		return nil, errors.Join(err, r.Close(ctx))
	}
	return &host{runtime: r, compiled: compiled}, nil
}

// run runs the guest once on a file system. It returns the guest's exit code as a *sys.ExitError, and nil for 0.
func (h *host) run(ctx context.Context, files vfs.FS, args []string, stdout, stderr io.Writer) error {
	config := wazero.NewModuleConfig().WithName("").
		WithArgs(append([]string{"engine-guest", "/data"}, args...)...).
		WithFSConfig(wasifs.Mount(files, "/data")).
		WithRandSource(rand.Reader). // of store ids; there is no clock but the argument
		WithStdout(stdout).WithStderr(stderr)
	mod, err := h.runtime.InstantiateModule(ctx, h.compiled, config)
	if mod != nil {
		err = errors.Join(err, mod.Close(ctx))
	}
	var exit *sys.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 0 {
		return nil
	}
	return err
}

func (h *host) close(ctx context.Context) error { return h.runtime.Close(ctx) }
