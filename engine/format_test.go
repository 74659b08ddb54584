package engine_test

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/enginetest"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

var updateFormat = flag.Bool("update-format", false, "write testdata/format-1 anew; only before the format was released")

// formatDir holds a data directory as the first version of the format wrote it. It stays as it is: every later version
// opens it. A new version of a format gets a directory of its own beside it.
const formatDir = "testdata/format-1"

// formatOptions are those of the store in formatDir.
func formatOptions() engine.Options {
	o := enginetest.SmallOptions()
	o.MaxDelay, o.Lanes = 20*365*24*time.Hour, 2
	o.SecondsEntries, o.HoursEntries, o.SecondsSlots = 16, 16, 4096
	return o
}

// writeFormat makes the store: visible messages, levels, times from a second to ten years, cancelled, moved and late
// ones, committed offsets, a deleted topic, checkpoints, flushed rings.
func writeFormat(t *testing.T, disk vfs.FS) (notes []string) {
	s := enginetest.Open(t, enginetest.Config{FS: disk, Options: formatOptions()})
	for i := range 120 {
		p := &engine.Put{Topic: "orders", Queue: i % 2, Key: fmt.Appendf(nil, "key-%d", i), Tag: []byte("tag"), Body: fmt.Appendf(nil, "order %d", i)}
		switch i % 4 {
		case 1:
			p.Level = 1 + i%18
		case 2:
			p.DelayMs = int64(i) * 1000
		case 3:
			p.DueMs = s.Clock.Wall() + int64(i)*30*24*3600*1000
		}
		a := s.Do(p)[0]
		if a.Outcome == engine.Scheduled {
			notes = append(notes, fmt.Sprintf("order %d %s", i, s.SealHandle(a.Handle())))
		}
		s.Pass(700 * time.Millisecond)
	}
	s.Do(&engine.Put{Topic: "gone", Queue: 0, DelayMs: 3600_000, Body: []byte("dropped")}, &engine.DeleteTopic{Topic: "gone"})
	s.Do(&engine.CommitOffset{Group: "billing", Topic: "orders", Queue: 0, Offset: 3})
	s.Clock.Step(-time.Hour)
	s.Do(&engine.Put{Topic: "orders", Queue: 0, DelayMs: 1000, Body: []byte("late")})
	h, err := s.OpenHandle(strings.Fields(notes[len(notes)-1])[2])
	if err != nil {
		t.Fatal(err)
	}
	s.Do(&engine.Cancel{Handle: h})
	s.Step()
	return notes
}

// TestGoldenDirectory opens a directory that the first version of the format wrote, and finds everything in it.
func TestGoldenDirectory(t *testing.T) {
	if *updateFormat {
		disk := crashfs.New(crashfs.Options{})
		notes := writeFormat(t, disk)
		saveFormat(t, disk, formatDir, func(name string) bool { return path.Base(name) != "next" })
		if err := os.WriteFile(formatDir+".handles", []byte(strings.Join(notes, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := enginetest.Open(t, enginetest.Config{FS: loadFormat(t, formatDir), Options: formatOptions(), Clock: enginetest.NewClock(enginetest.Epoch)})
	if got, want := s.Stats().Pending, int64(72); got != want {
		t.Errorf("%d messages wait, want %d", got, want)
	}
	if at, ok, _ := s.Committed("billing", "orders", 0); !ok || at != 3 {
		t.Errorf("committed offset is %d, %v; want 3", at, ok)
	}
	notes, err := os.ReadFile(formatDir + ".handles")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(notes)), "\n")
	for i, line := range lines {
		h, err := s.OpenHandle(strings.Fields(line)[2])
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		outcome, _, err := s.Verdict(h)
		if err != nil || i == len(lines)-1 && outcome != engine.AlreadyCancelled || outcome == engine.NotFound {
			t.Errorf("%s: %v, %v", line, outcome, err)
		}
	}
	s.Pass(11 * 365 * 24 * time.Hour)
	if st := s.Stats(); st.Pending != 0 || st.Dropped != 1 {
		t.Errorf("after eleven years %d wait and %d were dropped, want 0 and 1", st.Pending, st.Dropped)
	}
	var bodies []string
	for q := range 2 {
		var p engine.Pulled
		if err := s.Engine.Pull(engine.PullRequest{Topic: "orders", Queue: q, MaxCount: 100}, &p); err != nil {
			t.Fatal(err)
		}
		for _, m := range p.Messages {
			bodies = append(bodies, string(m.Body))
		}
	}
	slices.Sort(bodies)
	if want := 120; len(slices.Compact(bodies)) != want { // one was cancelled, one is the late one
		t.Errorf("%d messages are there, want %d: %q", len(bodies), want, bodies)
	}
}

// TestNewerFormatIsRefused makes the directory one of a later version: its meta says so, and nothing else is looked at.
// What each other kind of file does is a test of its package.
func TestNewerFormatIsRefused(t *testing.T) {
	disk := loadFormat(t, formatDir)
	f, err := disk.OpenFile("meta", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint32(b[8:], 99)
	binary.BigEndian.PutUint32(b[60:], crc32.Checksum(b[:60], crc32.MakeTable(crc32.Castagnoli)))
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	clock := enginetest.NewClock(enginetest.Epoch)
	e, err := engine.Open(engine.Env{FS: disk, Wall: clock.Wall, Mono: clock.Mono}, ".", formatOptions())
	if err == nil {
		_ = e.Close()
	}
	if !errors.Is(err, engine.ErrNewer) || !strings.Contains(err.Error(), "99") || !strings.Contains(err.Error(), "1") {
		t.Errorf("got %v, want ErrNewer with both versions", err)
	}
}

// list names all files below a directory.
func list(t *testing.T, disk vfs.FS, dir string) (names []string) {
	infos, err := disk.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		name := path.Join(dir, info.Name)
		if info.Dir {
			names = append(names, list(t, disk, name)...)
		} else {
			names = append(names, name)
		}
	}
	return names
}

// saveFormat writes the files of a store that some says yes to.
func saveFormat(t *testing.T, disk vfs.FS, dir string, some func(name string) bool) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.RemoveAll(dir))
	for _, name := range list(t, disk, ".") {
		if name == "lock" || !some(name) {
			continue
		}
		f, err := disk.OpenFile(name, os.O_RDONLY, 0)
		must(err)
		size, err := f.Size()
		must(err)
		b := make([]byte, size)
		if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.FromSlash(name))
		must(os.MkdirAll(filepath.Dir(to), 0o755))
		must(os.WriteFile(to, b, 0o644))
	}
}

func loadFormat(t *testing.T, dir string) *crashfs.FS {
	t.Helper()
	disk := crashfs.New(crashfs.Options{})
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			return disk.MkdirAll(rel, 0o700)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := disk.OpenFile(rel, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		if _, err := f.WriteAt(b, 0); err != nil {
			return err
		}
		return f.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	return disk
}
