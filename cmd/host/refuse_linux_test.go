package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/host/httpapi"
)

// needRoot skips a test that mounts or becomes another user.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: disks were not mounted, other users not tried")
	}
}

// mounted is a file system of its own in memory, of a size.
func mounted(t *testing.T, size string) string {
	t.Helper()
	needRoot(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size+",mode=0700"); err != nil {
		t.Skipf("nothing can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// smallConfig makes a store fit a small disk.
func smallConfig(t *testing.T) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "small.toml")
	doc := "[log]\nsegment_size = \"256KiB\"\nreserve = 1\n[timer]\nseconds_slots = 4096\nfile_size = \"64KiB\"\nentries_per_file = 1024\n"
	if err := os.WriteFile(file, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"-c", file}
}

// TestServeReadOnlyDisk: a disk that turned read-only is said, and nothing else happens.
func TestServeReadOnlyDisk(t *testing.T) {
	disk := mounted(t, "16m")
	dir := filepath.Join(disk, "data")
	storeIn(t, dir, smallConfig(t)...)
	if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Skipf("it cannot be remounted: %v", err)
	}
	before := snapshot(t, dir)
	refused(t, serveOn(dir), exitError, "its file system is mounted read-only")
	refused(t, serveOn(filepath.Join(disk, "new")), exitError, "its file system is mounted read-only")
	unchanged(t, dir, before)
}

// TestServeDiskTooSmall: a new store that finds no room says so.
func TestServeDiskTooSmall(t *testing.T) {
	refused(t, serveOn(filepath.Join(mounted(t, "64k"), "data")), exitError, "there is no room on its disk")
}

// TestServeFullDisk: on a disk that others have filled a server starts, refuses messages with 507, and cancels; with room it
// goes on by itself.
func TestServeFullDisk(t *testing.T) {
	disk := mounted(t, "6m")
	dir, cfg := filepath.Join(disk, "data"), smallConfig(t)
	p, c := launch(t, dir, cfg...)
	first, err := putOne(c, 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	fill := filepath.Join(disk, "fill")
	f, err := os.Create(fill)
	if err != nil {
		t.Fatal(err)
	}
	for chunk := bytes.Repeat([]byte("x"), 4096); ; {
		if _, err := f.Write(chunk); err != nil {
			break
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	p, c = launch(t, dir, cfg...)
	var problem *httpapi.Problem
	stored := 0
	for ; stored < 1000 && problem == nil; stored++ {
		if _, err := putOne(c, 10_000); err != nil && !errors.As(err, &problem) {
			t.Fatal(err)
		}
	}
	if problem == nil || problem.Code != "disk_full" || problem.Status != 507 {
		t.Fatalf("after %d messages: %v", stored, problem)
	}
	if _, err := c.Cancel(t.Context(), first.Handle); err != nil {
		t.Errorf("a cancel on the full disk: %v", err)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, err := putOne(c, 10)
		return err
	})
	if err := p.Stop(5 * time.Second); err != nil {
		t.Error(err)
	}
}

// another is a user who is not root.
const another = 65534

// asAnother makes a command one of another user, with a copy of the program that this user can reach.
func asAnother(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	dir, err := os.MkdirTemp("", "tidewheel-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b, err := os.ReadFile(program())
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path = filepath.Join(dir, "tidewheel")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(cmd.Path, b, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: another, Gid: another}}
	return cmd
}

// TestServeWrongOwner: a store of another user is refused, also by root, whose files the other user could not read later.
func TestServeWrongOwner(t *testing.T) {
	needRoot(t)
	base, err := os.MkdirTemp("", "tidewheel-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "data")
	storeIn(t, dir)
	before := snapshot(t, dir)
	refused(t, asAnother(t, serveOn(dir)), exitError, fmt.Sprintf("the user with id %d may not use it (%s has mode -rwx------ and belongs to 0)", another, dir))
	refused(t, asAnother(t, serveOn(filepath.Join(base, "new"))), exitError, "may not use it ("+base)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	refused(t, asAnother(t, serveOn(dir)), exitError, "belongs to the user with id 0, and this process runs as 65534")
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	err = filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
		return errors.Join(err, os.Lchown(path, another, another))
	})
	if err != nil {
		t.Fatal(err)
	}
	refused(t, serveOn(dir), exitError, "belongs to the user with id 65534, and this process runs as 0")
	unchanged(t, dir, before)
}
