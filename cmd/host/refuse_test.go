package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/host/client"
	"github.com/tidewheel/tidewheel/host/demo"
	"github.com/tidewheel/tidewheel/host/httpapi"
)

// snapshot is every file below a directory with its mode, owner-independent, and its content.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		what := info.Mode().String()
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what += fmt.Sprintf(" %d %x", len(b), sha256.Sum256(b))
		}
		files[path] = what
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// unchanged compares a directory with a snapshot.
func unchanged(t *testing.T, dir string, before map[string]string) {
	t.Helper()
	if after := snapshot(t, dir); !maps.Equal(before, after) {
		t.Errorf("%s was changed:\n%v\nand now\n%v", dir, before, after)
	}
}

// refused runs serve, which must end by itself with an exit code and say something on one line.
func refused(t *testing.T, cmd *exec.Cmd, code int, want string) {
	t.Helper()
	var said bytes.Buffer
	cmd.Args[0] = "tidewheel" // a test binary is the program by that name only
	cmd.Stderr = &said
	timer := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	err := cmd.Run()
	timer.Stop()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != code {
		t.Errorf("%v, want exit code %d: %s", err, code, said.Bytes())
	}
	if text := said.String(); !strings.Contains(text, want) || strings.Count(strings.TrimSpace(text), "\n") > 0 || strings.Contains(text, "goroutine ") {
		t.Errorf("it says %s, want one line with %q", text, want)
	}
}

func serveOn(dir string) *exec.Cmd {
	return exec.Command(program(), "serve", "--data", dir, "--http", "127.0.0.1:0")
}

// launch starts a server and a client of it.
func launch(t *testing.T, dir string, args ...string) (*demo.Process, *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	p, err := demo.Launch(ctx, program(), dir, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	c, err := client.New(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	return p, c
}

// putOne stores a message of some size, due in an hour.
func putOne(c *client.Client, bytes int) (httpapi.Stored, error) {
	body, delay := strings.Repeat("x", bytes), "1h"
	return c.Put(context.Background(), "orders", httpapi.Envelope{Body: &body, Time: httpapi.Time{Delay: &delay}})
}

// storeIn makes a store with one message in a directory.
func storeIn(t *testing.T, dir string, args ...string) {
	t.Helper()
	p, c := launch(t, dir, args...)
	if _, err := putOne(c, 10); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(5 * time.Second); err != nil {
		t.Fatal(err)
	}
}

// TestServeForeignDirectory: what is somebody else's stays as it is.
func TestServeForeignDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.txt"), []byte("ten years"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, dir)
	refused(t, serveOn(dir), exitError, "it holds something else")
	unchanged(t, dir, before)
	refused(t, serveOn(filepath.Join(dir, "thesis.txt")), exitError, "is a file")
	refused(t, serveOn(filepath.Join(dir, "thesis.txt", "data")), exitError, "thesis.txt")
	unchanged(t, dir, before)
}

// TestServeSecondProcess: the second one says what is wrong, and the first one goes on.
func TestServeSecondProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p, c := launch(t, dir)
	if _, err := putOne(c, 10); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		refused(t, serveOn(dir), exitError, dir+" is open in another process")
	}
	refused(t, exec.Command(program(), "serve", "--data", dir+"2", "--http", strings.TrimPrefix(p.URL, "http://")), exitError, "is in use")
	if _, err := os.Stat(dir + "2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a server that could not listen made its directory: %v", err)
	}
	if _, err := putOne(c, 10); err != nil {
		t.Errorf("the first one: %v", err)
	}
	if err := p.Stop(5 * time.Second); err != nil {
		t.Error(err)
	}
}

// TestServeDamage: a start that finds damage exits with 6, names the file, and leaves all as it is.
func TestServeDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	storeIn(t, dir)
	meta := filepath.Join(dir, "meta")
	b, err := os.ReadFile(meta)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(meta, b, 0o600); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, dir)
	refused(t, serveOn(dir), exitDamage, "meta")
	unchanged(t, dir, before)
}
