package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/afero"
	"github.com/tetratelabs/wazero/sys"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// guest builds and compiles the guest, once for all tests.
var guest = sync.OnceValues(func() (*host, error) {
	dir, err := os.MkdirTemp("", "engine-guest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "guest.wasm")
	build := exec.Command("go", "build", "-o", file, "..")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	code, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return newHost(context.Background(), code)
})

// t0 is when the tests begin, ms since 1970.
const t0 = 1_700_000_000_000

// machine is a file system with a guest, and what the guest has promised so far.
type machine struct {
	t     *testing.T
	h     *host
	files vfs.FS

	stored  int      // messages below this number are durable
	visible []string // lines of list, by offset
}

func newMachine(t *testing.T, files vfs.FS) *machine {
	if testing.Short() {
		t.Skip("compiles the engine for wasip1")
	}
	h, err := guest()
	if err != nil {
		t.Fatal(err)
	}
	return &machine{t: t, h: h, files: files}
}

// run runs the guest at a number of seconds after t0, notes what it promises, and returns what it printed.
func (m *machine) run(seconds int, args ...string) (string, error) {
	m.t.Helper()
	var out, errs strings.Builder
	err := m.h.run(m.t.Context(), m.files, append([]string{strconv.Itoa(t0 + 1000*seconds)}, args...), &out, &errs)
	if err != nil && !killed(err) {
		m.t.Fatalf("%v: %v\n%s%s", args, err, out.String(), errs.String())
	}
	var list []string
	for line := range strings.Lines(out.String()) {
		switch f := strings.Fields(line); f[0] {
		case "stored":
			m.stored, _ = strconv.Atoi(f[1])
		case "visible":
			list = append(list, strings.TrimSpace(line))
			if due, _ := strconv.Atoi(f[3]); due > t0+1000*seconds {
				m.t.Errorf("visible %d ms early: %s", due-t0-1000*seconds, line)
			}
		}
	}
	if len(list) > 0 {
		if n := min(len(m.visible), len(list)); len(list) < len(m.visible) || !slices.Equal(list[:n], m.visible) {
			m.t.Errorf("was visible:\n%s\nis visible:\n%s", strings.Join(m.visible, "\n"), strings.Join(list, "\n"))
		}
		m.visible = list
	}
	return out.String(), err
}

// must runs a guest that lives to its end.
func (m *machine) must(seconds int, args ...string) string {
	m.t.Helper()
	out, err := m.run(seconds, args...)
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

// settle opens the store, lets everything fire, and checks that each message that was stored is there exactly once.
func (m *machine) settle(when int) {
	m.t.Helper()
	m.must(when, "list")
	m.must(when+120, "fire")
	if out := m.must(when+120, "list"); !strings.HasSuffix(out, "waiting 0\n") {
		m.t.Errorf("something still waits:\n%s", out)
	}
	times := map[string]int{}
	for _, line := range m.visible {
		times[strings.Fields(line)[2]]++
	}
	for i := range m.stored {
		if key := fmt.Sprintf("k%06d", i); times[key] == 0 {
			m.t.Errorf("%s was stored and is lost", key)
		}
	}
	for key, n := range times {
		if n > 1 {
			m.t.Errorf("%s is there %d times", key, n)
		}
	}
}

// TestGuestRuns: stores, fires what is due and no more, ends, and goes on where it was, on every file system.
func TestGuestRuns(t *testing.T) {
	root, err := fsadapter.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, files := range map[string]vfs.FS{"memory": fsadapter.New(afero.NewMemMapFs()), "directory": fsadapter.New(root)} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, files)
			m.must(0, "put", "0", "120")
			m.must(30, "fire")
			if out := m.must(30, "list"); len(m.visible) != 60 || !strings.HasSuffix(out, "waiting 60\n") {
				t.Errorf("after 30 of 60 seconds:\n%s", out)
			}
			m.must(31, "put", "120", "35")
			m.settle(32)
			if len(m.visible) != 155 {
				t.Errorf("%d messages, want 155", len(m.visible))
			}
		})
	}
}

// TestGuestAndHostShareFiles: what a guest stored the engine finds natively, and the other way round.
func TestGuestAndHostShareFiles(t *testing.T) {
	root, err := fsadapter.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t, fsadapter.New(root))
	m.must(0, "put", "0", "20")
	now := int64(t0 + 30_000)
	s, err := engine.OpenSolo(engine.Env{FS: m.files, Wall: func() int64 { return now }, Mono: func() int64 { return now * 1e6 }}, ".",
		engine.Options{Profile: engine.ProfileEdge})
	if err != nil {
		t.Fatal(err)
	}
	if n := s.Stats().Pending; n != 20 {
		t.Errorf("the host sees %d messages waiting, want 20", n)
	}
	if _, err := s.Do(&engine.Put{Topic: "reminders", DueMs: now + 1000, Key: []byte("k000020")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Step(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	m.stored = 21
	m.settle(30)
}

// mortal is a file system whose guest is killed before the change number at.
type mortal struct {
	vfs.FS
	at, changes int
}

// code is how a killed guest ends.
const code = 137

func killed(err error) bool {
	var exit *sys.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == code
}

// change counts. The panic is the runtime's own for an exit: not one more instruction of the guest is run.
func (m *mortal) change() {
	if m.changes++; m.changes == m.at {
		panic(sys.NewExitError(code))
	}
}

func (m *mortal) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	if flag&(os.O_CREATE|os.O_TRUNC) != 0 {
		m.change()
	}
	f, err := m.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &mortalFile{f, m}, nil
}

func (m *mortal) Remove(name string) error     { m.change(); return m.FS.Remove(name) }
func (m *mortal) Rename(from, to string) error { m.change(); return m.FS.Rename(from, to) }
func (m *mortal) SyncDir(name string) error    { m.change(); return vfs.SyncDir(m.FS, name) }
func (m *mortal) MkdirAll(name string, perm os.FileMode) error {
	m.change()
	return m.FS.MkdirAll(name, perm)
}

type mortalFile struct {
	vfs.File
	m *mortal
}

func (f *mortalFile) WriteAt(b []byte, off int64) (int, error) {
	f.m.change()
	return f.File.WriteAt(b, off)
}
func (f *mortalFile) Truncate(size int64) error { f.m.change(); return f.File.Truncate(size) }
func (f *mortalFile) Sync() error               { f.m.change(); return f.File.Sync() }

// TestGuestKilled kills the guest between any two changes of its files, with and without a power cut: what it had promised
// is there.
func TestGuestKilled(t *testing.T) {
	disk := crashfs.New(crashfs.Options{})
	base := newMachine(t, disk)
	rng := rand.New(rand.NewPCG(7, 11))
	kills, most := 0, 6
	if os.Getenv("TIDEWHEEL_VOLUME") == "ci" {
		most = 60
	}
	for _, step := range []struct {
		seconds int
		args    []string
	}{
		{0, []string{"put", "0", "60"}},
		{20, []string{"fire"}},
		{20, []string{"list"}},
		{21, []string{"put", "60", "40"}},
		{50, []string{"fire"}},
	} {
		// Once in full, on a copy, to see how many changes there are.
		count := &mortal{FS: disk.Clone()}
		m := *base
		m.files = count
		m.must(step.seconds, step.args...)
		for _, at := range rng.Perm(count.changes)[:min(most, count.changes)] {
			life := disk.Clone()
			m := *base
			m.files = &mortal{FS: life, at: at + 1}
			if _, err := m.run(step.seconds, step.args...); !killed(err) {
				t.Fatalf("%v, change %d of %d: it was not killed: %v", step.args, at+1, count.changes, err)
			}
			policy := crashfs.Policies()[rng.IntN(len(crashfs.Policies()))]
			kills++
			t.Run(fmt.Sprintf("%s_%d", step.args[0], at+1), func(t *testing.T) {
				m.t = t
				if kills%3 == 0 {
					t.Log("the process died")
					m.files = life.Kill()
				} else {
					t.Logf("the power failed, %v", policy)
					m.files = life.Crash(rng, policy)
				}
				m.settle(step.seconds + 1)
			})
		}
		base.must(step.seconds, step.args...)
	}
	t.Logf("killed %d times", kills)
}
