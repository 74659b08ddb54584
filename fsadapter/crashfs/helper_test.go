package crashfs_test

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"testing"

	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

var (
	nothing = crashfs.Policy{}
	all     = crashfs.Policy{KeepPct: 100, MetaPct: 100}
)

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t testing.TB, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error %v, want one of kind %q", err, kind)
	}
}

// open opens a file for writing, and makes it if it is not there.
func open(t testing.TB, f vfs.FS, name string) vfs.File {
	t.Helper()
	h, err := f.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	return h
}

func write(t testing.TB, h vfs.File, content string, off int64) {
	t.Helper()
	if n, err := h.WriteAt([]byte(content), off); err != nil || n != len(content) {
		t.Fatalf("WriteAt is %d, %v", n, err)
	}
}

// put makes a file that a power cut does not touch, with its directory.
func put(t testing.TB, f vfs.FS, name, content string) {
	t.Helper()
	must(t, f.MkdirAll(path.Dir(name), 0o700))
	h := open(t, f, name)
	must(t, h.Truncate(0))
	write(t, h, content, 0)
	must(t, h.Sync())
	must(t, h.Close())
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		must(t, vfs.SyncDir(f, dir))
		if dir == "." {
			return
		}
	}
}

// read returns what a file holds, or an error.
func read(f vfs.FS, name string) (string, error) {
	h, err := f.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer h.Close()
	size, err := h.Size()
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.NewSectionReader(h, 0, size))
	return string(b), err
}

func wantFile(t testing.TB, f vfs.FS, name, want string) {
	t.Helper()
	if got, err := read(f, name); err != nil || got != want {
		t.Errorf("%s holds %.80q, %v; want %.80q", name, got, err, want)
	}
}

func wantNone(t testing.TB, f vfs.FS, name string) {
	t.Helper()
	if got, err := read(f, name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s holds %.80q, %v; want none", name, got, err)
	}
}

// tree returns all files and what they hold, directories with a slash.
func tree(t testing.TB, f vfs.FS) map[string]string {
	t.Helper()
	files := map[string]string{}
	var walk func(dir string)
	walk = func(dir string) {
		list, err := f.ReadDir(dir)
		must(t, err)
		for _, info := range list {
			name := path.Join(dir, info.Name)
			if info.Dir {
				files[name+"/"] = ""
				walk(name)
				continue
			}
			content, err := read(f, name)
			must(t, err)
			files[name] = content
		}
	}
	walk(".")
	return files
}

func wantTree(t testing.TB, f vfs.FS, want map[string]string) {
	t.Helper()
	if got := tree(t, f); !maps.Equal(got, want) {
		t.Errorf("tree is %.60q\nwant %.60q", got, want)
	}
}
