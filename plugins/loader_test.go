package plugins_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
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

// stuck is a file system on a disk that does not answer, while block is set.
type stuck struct {
	afero.Fs
	asked, block chan struct{}
}

func (s *stuck) Stat(name string) (fs.FileInfo, error) {
	select {
	case s.asked <- struct{}{}:
		<-s.block
	default:
	}
	return s.Fs.Stat(name)
}

// TestLoaderStuckDisk: while a disk does not answer, plugins decide, and what is known of their files can be asked.
func TestLoaderStuckDisk(t *testing.T) {
	disk := &stuck{Fs: afero.NewMemMapFs(), block: make(chan struct{})}
	if err := afero.WriteFile(disk, "p.wasm", verdicts(0x10002), 0o644); err != nil {
		t.Fatal(err)
	}
	l := plugins.NewLoader(open(t, plugins.Options{}), disk)
	if _, err := l.Open(ctx, "p.wasm", spec(), 0); err != nil {
		t.Fatal(err)
	}
	disk.asked = make(chan struct{})
	polled := make(chan struct{})
	go func() { l.Poll(1); close(polled) }()
	<-disk.asked
	if got := actions(decide(t, l.Plugin("p"), filter, bodies("a"))); got != "drop:1" {
		t.Error(got)
	}
	if s := l.Status(); len(s) != 1 || s[0].Loading {
		t.Errorf("status %+v", s)
	}
	l.Poll(2) // which leaves it alone
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := l.Reload(gone, "p", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Reload: %v", err)
	}
	close(disk.block)
	<-polled
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestHammerLoader: everything at once, and Close in the middle of it: nothing stays open, and nothing waits for ever.
func TestHammerLoader(t *testing.T) {
	files := afero.NewMemMapFs()
	l := plugins.NewLoader(open(t, plugins.Options{}), files)
	names := []string{"a", "b", "c"}
	for i, name := range names {
		s := spec()
		s.Name = name
		if i > 0 { // the first one has no file yet
			if err := afero.WriteFile(files, name, verdicts(2), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := l.Watch(ctx, name, s, 0); (err == nil) != (i > 0) {
			t.Fatal(err)
		}
	}
	if err := afero.WriteFile(files, "a", verdicts(2), 0o644); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			for i := range 20 {
				s := spec()
				s.Name = names[(g+i)%3]
				var err error
				switch (g + i) % 5 {
				case 0:
					l.Poll(int64(i) * 5000)
				case 1:
					err = l.Reload(ctx, s.Name, int64(i))
				case 2:
					s.Policy.QuarantineAfter = 1 + i%3
					err = l.Change(ctx, s.Name, s, int64(i))
				case 3:
					if p := l.Plugin(s.Name); p != nil {
						err = p.Decide(ctx, filter, bodies("a"), new(plugins.Answer))
					}
				case 4:
					l.Status()
					if g == 4 && i > 10 {
						err = l.Remove(ctx, s.Name)
					}
					if g == 5 && i > 15 {
						err = l.Close()
					}
				}
				if err != nil && !errors.Is(err, plugins.ErrClosed) && !strings.Contains(err.Error(), "no plugin is called") {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil && !errors.Is(err, plugins.ErrClosed) {
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
