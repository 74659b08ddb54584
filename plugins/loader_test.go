package plugins_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"

	"github.com/tidewheel/tidewheel/plugins"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// desk is a loader with one plugin from a file in memory.
type desk struct {
	t      *testing.T
	fs     afero.Fs
	loader *plugins.Loader
	plugin *plugins.Plugin
	now    int64
}

func newDesk(t *testing.T, s plugins.Spec) *desk {
	t.Helper()
	d := &desk{t: t, fs: afero.NewMemMapFs(), now: 1_700_000_000_000}
	d.loader = plugins.NewLoader(open(t, plugins.Options{}), d.fs)
	t.Cleanup(func() {
		if err := d.loader.Close(); err != nil {
			t.Error(err)
		}
	})
	d.write(verdicts(0x10002))
	var err error
	if d.plugin, err = d.loader.Open(ctx, "p.wasm", s, d.now); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *desk) write(data []byte) {
	d.t.Helper()
	if err := afero.WriteFile(d.fs, "p.wasm", data, 0o644); err != nil {
		d.t.Fatal(err)
	}
	at := time.UnixMilli(d.now)
	if err := d.fs.Chtimes("p.wasm", at, at); err != nil {
		d.t.Fatal(err)
	}
}

// poll polls n times, two seconds apart.
func (d *desk) poll(n int) {
	for range n {
		d.now += 2000
		d.loader.Poll(d.now)
		d.loader.Wait()
	}
}

func (d *desk) expect(want string, generation uint64) {
	d.t.Helper()
	a := decide(d.t, d.plugin, filter, bodies("a"))
	if got := actions(a); got != want || a.Generation != generation {
		d.t.Errorf("%s by generation %d, want %s by %d", got, a.Generation, want, generation)
	}
}

// TestLoaderReload: a new file is seen by the second poll that reads it the same, and the same file again is nothing.
func TestLoaderReload(t *testing.T) {
	d := newDesk(t, spec())
	d.poll(3)
	d.expect("drop:1", 1)
	d.write(verdicts(0x20002))
	d.poll(1)
	d.expect("drop:1", 1)
	d.poll(1)
	d.expect("drop:2", 2)
	d.write(verdicts(0x20002))
	d.poll(4)
	d.expect("drop:2", 2)
	if s := d.loader.Status(); len(s) != 1 || s[0].Err != nil || s[0].Failed != 0 || s[0].Plugin != "p" {
		t.Errorf("status %+v", s)
	}
}

// TestLoaderSameTime: a second change within the resolution of file times is not missed.
func TestLoaderSameTime(t *testing.T) {
	d := newDesk(t, spec())
	d.write(verdicts(0x30002)) // same size, same time
	d.poll(2)
	d.expect("drop:3", 2)
}

// TestLoaderHalfWritten: a file that is being copied is left alone until it stays the same.
func TestLoaderHalfWritten(t *testing.T) {
	d := newDesk(t, spec())
	whole := verdicts(0x20002)
	for n := 100; n < len(whole); n += len(whole) / 5 {
		d.write(whole[:n])
		d.poll(1)
	}
	d.expect("drop:1", 1)
	if s := d.loader.Status()[0]; s.Failed != 0 {
		t.Errorf("%d loads of a file that was being written", s.Failed)
	}
	d.write(whole)
	d.poll(2)
	d.expect("drop:2", 2)
}

// TestLoaderBrokenFile: what cannot be loaded changes nothing, says why, is not tried again and again, and can be mended.
func TestLoaderBrokenFile(t *testing.T) {
	d := newDesk(t, spec())
	d.write([]byte("not a module"))
	d.poll(6)
	d.expect("drop:1", 1)
	s := d.loader.Status()[0]
	var le *plugins.LoadError
	if !errors.As(s.Err, &le) || s.Failed != 1 {
		t.Errorf("status %+v", s)
	}
	if err := d.fs.Remove("p.wasm"); err != nil {
		t.Fatal(err)
	}
	d.poll(1)
	if s := d.loader.Status()[0]; !errors.Is(s.Err, fs.ErrNotExist) {
		t.Errorf("removed: %v", s.Err)
	}
	d.expect("drop:1", 1)
	d.write(verdicts(0x10002))
	d.poll(2)
	if s := d.loader.Status()[0]; s.Err != nil {
		t.Errorf("mended: %v", s.Err)
	}
	d.expect("drop:1", 1)
}

// TestLoaderPin: a file that changed while its pin did not is refused.
func TestLoaderPin(t *testing.T) {
	s := spec()
	pin := plugins.Digest(sha256.Sum256(verdicts(0x10002)))
	s.Pin = &pin
	d := newDesk(t, s)
	d.write(verdicts(0x20002))
	d.poll(2)
	if s := d.loader.Status()[0]; !errors.Is(s.Err, plugins.ErrPin) {
		t.Errorf("status %+v", s)
	}
	d.expect("drop:1", 1)
}

func TestLoaderReloadNow(t *testing.T) {
	d := newDesk(t, spec())
	if err := d.loader.Reload(ctx, "p", d.now); err != nil {
		t.Fatal(err)
	}
	d.expect("drop:1", 1)
	d.write(verdicts(0x20002))
	if err := d.loader.Reload(ctx, "p", d.now); err != nil {
		t.Fatal(err)
	}
	d.expect("drop:2", 2)
	d.write([]byte("x"))
	if err := d.loader.Reload(ctx, "p", d.now); err == nil {
		t.Error("a broken file was loaded")
	}
	d.expect("drop:2", 2)
	if err := d.loader.Reload(ctx, "q", d.now); err == nil {
		t.Error("a plugin that does not exist was loaded")
	}
}

func TestLoaderOpenErrors(t *testing.T) {
	r := open(t, plugins.Options{})
	fsys := afero.NewMemMapFs()
	l := plugins.NewLoader(r, fsys)
	if _, err := l.Open(ctx, "missing.wasm", spec(), 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if err := fsys.Mkdir("d", 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Open(ctx, "d", spec(), 0); err == nil {
		t.Error("a directory was loaded")
	}
	s := spec()
	s.Limits.BinaryMax = 100
	if err := afero.WriteFile(fsys, "p.wasm", plugintest.Scripted(), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Open(ctx, "p.wasm", s, 0); err == nil || !strings.Contains(err.Error(), "at most 100") {
		t.Errorf("too large: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Open(ctx, "p.wasm", spec(), 0); !errors.Is(err, plugins.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

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
				if strings.HasSuffix(p, ".sum") {
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

func ExampleLoader() {
	files := afero.NewMemMapFs() // afero.NewBasePathFs(afero.NewOsFs(), "plugins") in a host
	afero.WriteFile(files, "script.wasm", plugintest.Scripted(), 0o644)

	r, err := plugins.NewRuntime(plugins.Options{})
	if err != nil {
		panic(err)
	}
	defer r.Close()
	loader := plugins.NewLoader(r, files)
	defer loader.Close()
	p, err := loader.Open(ctx, "script.wasm", plugins.Spec{Name: "script", Policy: plugins.Policy{OnError: plugins.OnErrorSkip}}, 1700000000000)
	if err != nil {
		panic(err)
	}
	loader.Poll(1700000002000) // every few seconds
	fmt.Println(p.Stats().State, p.Module().Hooks())
	// Output: active [publish filter transform]
}
