package plugins_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// TestCacheHeals: whatever happened to the files of the cache, the plugin starts and answers the same, and the next start
// finds them whole.
func TestCacheHeals(t *testing.T) {
	dir := t.TempDir()
	start := func(want plugins.CacheStats, why string) {
		t.Helper()
		r, err := plugins.NewRuntime(plugins.Options{CacheDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		m, err := r.Load(ctx, plugintest.Scripted(), spec())
		if err != nil {
			t.Fatalf("%s: %v", why, err)
		}
		p, err := r.NewPlugin(m)
		if err != nil {
			t.Fatal(err)
		}
		if got := actions(decide(t, p, filter, bodies("a", "!", "d"))); got != "keep dead_letter(trap) drop:7" {
			t.Errorf("%s: %s", why, got)
		}
		if got := r.CacheStats(); got != want {
			t.Errorf("%s: %+v, want %+v", why, got, want)
		}
		if err := errors.Join(p.Close(), r.Close()); err != nil {
			t.Error(err)
		}
	}
	hit, miss, heal := plugins.CacheStats{Hits: 1}, plugins.CacheStats{Misses: 1}, plugins.CacheStats{Misses: 1, Healed: 1}
	start(miss, "empty")
	start(hit, "second start")
	files := func() (code, sum string) {
		filepath.Walk(dir, func(p string, info fs.FileInfo, err error) error {
			if err == nil && !info.IsDir() {
				if filepath.Base(p) == "SUM" {
					sum = p
				} else {
					code = p
				}
			}
			return nil
		})
		return code, sum
	}
	edit := func(f func(b []byte) []byte) func(name string) error {
		return func(name string) error {
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			return os.WriteFile(name, f(b), 0o600)
		}
	}
	flip := func(at int) func(b []byte) []byte {
		return func(b []byte) []byte { b[min(at, len(b)-1)] ^= 1; return b }
	}
	for _, c := range []struct {
		name   string
		sum    bool
		damage func(name string) error
	}{
		{"cut", false, edit(func(b []byte) []byte { return b[:len(b)/2] })},
		{"empty", false, edit(func(b []byte) []byte { return nil })},
		{"header flipped", false, edit(flip(2))},
		{"offsets flipped", false, edit(flip(40))},
		{"code flipped", false, edit(flip(2000))},
		{"removed", false, os.Remove},
		{"sum flipped", true, edit(flip(3))},
		{"sum removed", true, os.Remove},
		{"a link in its place", false, func(name string) error {
			return errors.Join(os.Rename(name, name+"y"), os.Symlink(filepath.Base(name)+"y", name))
		}},
		{"a link to the same bytes", false, func(name string) error {
			other := filepath.Join(t.TempDir(), "code")
			return errors.Join(os.Rename(name, other), os.Symlink(other, name))
		}},
		{"the directory is a link", false, func(name string) error {
			entry := filepath.Dir(filepath.Dir(filepath.Dir(name)))
			other := filepath.Join(t.TempDir(), "entry")
			return errors.Join(os.Rename(entry, other), os.Symlink(other, entry))
		}},
		{"another file", false, func(name string) error { return os.WriteFile(name+"x", []byte("x"), 0o600) }},
	} {
		code, sum := files()
		name := code
		if c.sum {
			name = sum
		}
		if err := c.damage(name); err != nil {
			t.Fatal(err)
		}
		start(heal, c.name)
		start(hit, c.name+", then")
	}
	// What an older version left goes; what is not ours stays.
	for _, d := range []string{"tw0-v1-linux-amd64", "mine"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	start(hit, "old versions")
	if _, err := os.Stat(filepath.Join(dir, "tw0-v1-linux-amd64")); !os.IsNotExist(err) {
		t.Error("the cache of an older version is still there")
	}
	if _, err := os.Stat(filepath.Join(dir, "mine")); err != nil {
		t.Error(err)
	}
}

// TestCacheIsPrivate: code that others could have put there is not run.
func TestCacheIsPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes here")
	}
	version := func(dir string) string {
		list, err := os.ReadDir(dir)
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return filepath.Join(dir, list[0].Name())
	}
	for name, damage := range map[string]func(dir string) error{
		"others can write":    func(dir string) error { return os.Chmod(version(dir), 0o702) },
		"the group can write": func(dir string) error { return os.Chmod(version(dir), 0o770) },
		"the version is a link": func(dir string) error {
			v := version(dir)
			return errors.Join(os.Rename(v, v+"x"), os.Symlink(filepath.Base(v)+"x", v))
		},
	} {
		dir := t.TempDir()
		if _, err := plugins.NewRuntime(plugins.Options{CacheDir: dir}); err != nil {
			t.Fatal(err)
		}
		if err := damage(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := plugins.NewRuntime(plugins.Options{CacheDir: dir}); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", name, err)
		}
		// While a process runs it goes on, without.
		os.RemoveAll(dir)
		r := open(t, plugins.Options{CacheDir: dir})
		load(t, r, verdicts(0x10002), spec())
		if err := damage(dir); err != nil {
			t.Fatal(err)
		}
		load(t, r, verdicts(0x10002), spec())
		if s := r.CacheStats(); s != (plugins.CacheStats{Misses: 2}) {
			t.Errorf("%s, later: %+v", name, s)
		}
	}
}

// TestCachePrunes: what was compiled longest ago goes, and what was compiled last stays.
func TestCachePrunes(t *testing.T) {
	dir := t.TempDir()
	r := open(t, plugins.Options{CacheDir: dir})
	for i := range 36 {
		load(t, r, verdicts(int64(i)<<16|2), spec()).Close()
	}
	list, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(list) != 32 {
		t.Errorf("%d entries, %v, want 32", len(list), err)
	}
	load(t, r, verdicts(35<<16|2), spec())
	if s := r.CacheStats(); s != (plugins.CacheStats{Misses: 36, Hits: 1}) {
		t.Errorf("%+v", s)
	}
}

// TestCacheReadOnly: a cache that cannot be written is one that is empty.
func TestCacheReadOnly(t *testing.T) {
	if runtime.GOOS == "windows" || os.Geteuid() == 0 {
		t.Skip("root and Windows write everywhere")
	}
	dir := t.TempDir()
	if _, err := plugins.NewRuntime(plugins.Options{CacheDir: dir}); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if err := os.Chmod(filepath.Join(dir, list[0].Name()), 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, list[0].Name()), 0o700) })
	p := load(t, open(t, plugins.Options{CacheDir: dir}), plugintest.Scripted(), spec())
	if got := actions(decide(t, p, filter, bodies("d"))); got != "drop:7" {
		t.Error(got)
	}
}

// TestHammerCache: several runtimes, as processes would, use one cache at the same time; all of them start.
func TestHammerCache(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			r, err := plugins.NewRuntime(plugins.Options{CacheDir: dir})
			if err != nil {
				t.Error(err)
				return
			}
			for j := range 6 {
				m, err := r.Load(ctx, verdicts(int64(1+(i+j)%3)<<16|2), spec())
				if err != nil {
					t.Error(err)
					return
				}
				p, err := r.NewPlugin(m)
				if err != nil {
					t.Error(err)
					return
				}
				if got, want := actions(decide(t, p, filter, bodies("a"))), fmt.Sprint("drop:", 1+(i+j)%3); got != want {
					t.Errorf("%s, want %s", got, want)
				}
				p.Close()
			}
		})
	}
	wg.Wait()
}
