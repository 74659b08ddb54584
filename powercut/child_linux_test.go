package powercut

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter"
	"golang.org/x/sys/unix"
)

// roleEnv says what this process is: empty for what go test started, "inside" for the test process in its own mount
// namespace, else a child.
const roleEnv = "TIDEWHEEL_POWERCUT_ROLE"

// job is what a child is told on its first line of input.
type job struct {
	FS     string // name of the file system
	Disk   string // path of the disk
	Dir    string // where to mount it
	NoSync bool   // writer: fsync does nothing
	Seed   uint64 // writer
	Notes  []note // judge: what was promised before the cut
}

func (j job) fileSystem() fileSystem {
	for _, f := range fileSystems {
		if f.name == j.FS {
			return f
		}
	}
	return fileSystem{name: j.FS}
}

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleEnv); role {
	case "":
		if missing() == "" {
			os.Exit(inside())
		}
		os.Exit(m.Run())
	case "inside":
		os.Exit(m.Run())
	case "writer", "judge":
		os.Exit(childMain(role))
	}
}

// inside runs the tests again in a process with a mount namespace of its own.
func inside() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), roleEnv+"=inside")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, "powercut:", err)
		return 1
	}
	return max(cmd.ProcessState.ExitCode(), cmd.ProcessState.ExitCode()&1) // -1, a signal, is 1
}

// childMain does a child's job: one line of JSON in, lines of JSON out.
func childMain(role string) int {
	in, out := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	line, err := in.ReadBytes('\n')
	if err != nil {
		fmt.Fprintln(os.Stderr, "job:", err)
		return 1
	}
	var j job
	if err := json.Unmarshal(line, &j); err != nil {
		fmt.Fprintln(os.Stderr, "job:", err)
		return 1
	}
	if role == "writer" {
		err = write(j, in, out)
	} else {
		err = out.Encode(judge(j))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		return 1
	}
	return 0
}

// runChild starts a child and gives each line that it says to hear. The child hears an empty line when hear returns.
func runChild(role string, j job, hear func(line []byte) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^$")
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	talk := func() error {
		defer stdin.Close()
		if err := json.NewEncoder(stdin).Encode(j); err != nil {
			return err
		}
		for r := bufio.NewReader(stdout); ; {
			line, err := r.ReadBytes('\n')
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			if err := hear(line); err != nil {
				return err
			}
			// A judge reads no answers and may be gone.
			if _, err := stdin.Write([]byte("\n")); err != nil && !errors.Is(err, syscall.EPIPE) {
				return err
			}
		}
	}()
	io.Copy(io.Discard, stdout) // what is left, so that the child can end
	if err := errors.Join(talk, cmd.Wait()); err != nil {
		return fmt.Errorf("%s: %w\n%s", role, err, stderr.Bytes())
	}
	return nil
}

// clock is the time of a store, moved by hand.
type clock struct{ wall int64 }

// startMs is when every store begins.
const startMs = 1_800_000_000_000

func env(fsys vfs.FS, c *clock) engine.Env {
	return engine.Env{
		FS:   fsys,
		Wall: func() int64 { return c.wall },
		Mono: func() int64 { return (c.wall - startMs) * 1e6 },
	}
}

// options make files so small that a short run has many of them.
func options() engine.Options {
	return engine.Options{
		SegmentSize: 64 << 10, CheckpointEvery: 48 << 10, TailBytes: 64 << 10, Reserve: 1, Queues: queues,
		FireChunk: 16, LooseEntries: 32, LooseRuns: 3, UnitsPerFile: 128, EntriesPerFile: 64,
		Lanes: 2, SecondsEntries: 16, HoursEntries: 16, SecondsSlots: 4096,
	}
}

// openDir is the production file system at dir. A store that leaves a file open keeps the disk from being unmounted.
func openDir(dir string) (fsys vfs.FS, close func() error, err error) {
	root, err := fsadapter.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	return fsadapter.New(root), root.(io.Closer).Close, nil
}

// syncless is a file system on which nothing can be made durable and everything says it was: it hides every capability,
// and its files' Sync does nothing.
type syncless struct{ vfs.FS }

func (s syncless) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	f, err := s.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return synclessFile{f}, nil
}

type synclessFile struct{ vfs.File }

func (synclessFile) Sync() error { return nil }
