package fsadapter_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/spf13/afero"

	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openRoot(t testing.TB, dir string) afero.Fs {
	t.Helper()
	root, err := fsadapter.OpenRoot(dir)
	must(t, err)
	t.Cleanup(func() { must(t, root.(io.Closer).Close()) })
	return root
}

func create(t testing.TB, fsys vfs.FS, name string) vfs.File {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestOpenRootIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	fsys := fsadapter.New(openRoot(t, dir))
	must(t, fsys.MkdirAll("c", 0o700))
	create(t, fsys, "c/f")
	if runtime.GOOS == "windows" {
		t.Skip("no modes here")
	}
	for name, want := range map[string]fs.FileMode{"..": 0o700, ".": 0o700, "c": 0o700, "c/f": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if info.Mode().Perm() != want {
			t.Errorf("mode of %q is %v, want %v", name, info.Mode().Perm(), want)
		}
	}
}

func TestOpenRootOfAFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(name, nil, 0o600))
	if _, err := fsadapter.OpenRoot(name); err == nil {
		t.Error("a file is opened as a directory")
	}
}

// Used as an afero.Fs, by whoever shares it with the adapter, the root holds too. Row 16.
func TestOpenRootIsAJail(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("s"), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "store-evil"), 0o700))
	root := openRoot(t, filepath.Join(dir, "store"))
	must(t, afero.WriteFile(root, "inside", []byte("i"), 0o600))
	if err := os.Symlink(filepath.Join(dir, "secret"), filepath.Join(dir, "store", "link")); err != nil {
		t.Skip(err)
	}
	must(t, os.Symlink("..", filepath.Join(dir, "store", "up")))
	for _, name := range []string{"../secret", "/../secret", "link", "/link", "up/secret", "../store-evil/x", "a/../../secret"} {
		for call, fn := range map[string]func() error{
			"Open":     func() error { _, err := root.Open(name); return err },
			"Create":   func() error { _, err := root.Create(name); return err },
			"OpenFile": func() error { _, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600); return err },
			"Stat":     func() error { _, err := root.Stat(name); return err },
			"Chmod":    func() error { return root.Chmod(name, 0o777) },
			"Mkdir":    func() error { return root.Mkdir(name, 0o700) },
		} {
			if fn() == nil {
				t.Errorf("%s of %q leads out", call, name)
			}
		}
		if name != "link" && name != "/link" { // those are links, and may be given new files
			if root.Rename("inside", name) == nil || root.Remove(name) == nil {
				t.Errorf("%q can be changed", name)
			}
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "secret")); err != nil || string(b) != "s" {
		t.Errorf("the secret is %q, %v", b, err)
	}
	if list, err := os.ReadDir(filepath.Join(dir, "store-evil")); err != nil || len(list) != 0 {
		t.Errorf("outside there is %v, %v", list, err)
	}
}

// The rest of what an afero.Fs does, since a host hands the root to others as one.
func TestOpenRootIsAnAferoFs(t *testing.T) {
	root := openRoot(t, t.TempDir())
	must(t, root.MkdirAll("/a/b", 0o700))
	must(t, root.Mkdir("c", 0o700))
	must(t, afero.WriteFile(root, "/a/b/f", []byte("abc"), 0o600))
	must(t, root.Rename("a/b/f", "/c/g"))
	must(t, root.Chmod("c/g", 0o400))
	info, err := root.Stat("c/g")
	must(t, err)
	must(t, root.Chtimes("c/g", info.ModTime(), info.ModTime()))
	must(t, root.Chown("c/g", os.Getuid(), os.Getgid()))
	if info.Size() != 3 || info.Mode().Perm() != 0o400 {
		t.Errorf("info is %v", info)
	}
	if _, lstat, err := root.(afero.Lstater).LstatIfPossible("c/g"); err != nil || !lstat {
		t.Errorf("Lstat: %t, %v", lstat, err)
	}
	must(t, root.RemoveAll("/a"))
	list, err := afero.ReadDir(root, "/")
	must(t, err)
	if len(list) != 1 || list[0].Name() != "c" || root.Name() == "" {
		t.Errorf("%s lists %v", root.Name(), list)
	}
}

// On Linux, where the engine is to run, every capability is there.
func TestOpenRootHasAllOnLinux(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("on Linux only")
	}
	root := openRoot(t, t.TempDir())
	for name, back := range map[string]afero.Fs{"OpenRoot": root, "BasePathFs": afero.NewBasePathFs(root, "/")} {
		fsys := fsadapter.New(back)
		f := create(t, fsys, "f")
		for what, err := range map[string]error{
			"Preallocate": f.(vfs.Preallocator).Preallocate(4096),
			"SyncData":    f.(vfs.DataSyncer).SyncData(),
			"SyncDir":     fsys.SyncDir("."),
		} {
			if err != nil {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		l, err := fsys.Lock("LOCK")
		must(t, err)
		must(t, l.Close())
		if n, err := fsys.Free(); err != nil || n == 0 {
			t.Errorf("%s: Free is %d, %v", name, n, err)
		}
	}
}

// MemMapFs takes "a" and "/a" for two files; the adapter means the one that everybody means.
func TestMemMapFsNames(t *testing.T) {
	mem := afero.NewMemMapFs()
	fsys := fsadapter.New(mem)
	must(t, fsys.MkdirAll("d", 0o700))
	_, err := create(t, fsys, "d/f").WriteAt([]byte("abc"), 0)
	must(t, err)
	if b, err := afero.ReadFile(mem, "/d/f"); err != nil || string(b) != "abc" {
		t.Errorf("MemMapFs has %q, %v", b, err)
	}
}

// odd is a back end with habits: it reads and writes a byte at a time, without a word, and offers capabilities.
type odd struct {
	afero.Fs
	calls map[string]int
}

type oddFile struct {
	afero.File
	odd *odd
}

func (o *odd) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	f, err := o.Fs.OpenFile(name, flag, perm)
	return &oddFile{f, o}, err
}

func (o *odd) SyncDir(string) error           { o.calls["SyncDir"]++; return nil }
func (o *odd) Lock(string) (io.Closer, error) { o.calls["Lock"]++; return io.NopCloser(nil), nil }
func (o *odd) Free() (uint64, error)          { o.calls["Free"]++; return 1, nil }

func (f *oddFile) ReadAt(p []byte, off int64) (int, error) {
	return f.File.ReadAt(p[:min(len(p), 1)], off)
}

func (f *oddFile) WriteAt(p []byte, off int64) (int, error) {
	return f.File.WriteAt(p[:min(len(p), 1)], off)
}

func (f *oddFile) Preallocate(int64) error { f.odd.calls["Preallocate"]++; return nil }
func (f *oddFile) SyncData() error         { f.odd.calls["SyncData"]++; return nil }

func TestOddBackEnd(t *testing.T) {
	back := &odd{afero.NewMemMapFs(), map[string]int{}}
	fsys := fsadapter.New(afero.NewBasePathFs(back, "/"))
	f := create(t, fsys, "f")
	if n, err := f.WriteAt([]byte("abc"), 0); n != 1 || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a short write is %d, %v", n, err)
	}
	for i, b := range []byte("xyz") {
		_, err := f.WriteAt([]byte{b}, int64(i))
		must(t, err)
	}
	p := make([]byte, 3)
	if n, err := f.ReadAt(p, 0); n != 3 || err != nil || string(p) != "xyz" {
		t.Errorf("a short read is %d, %v, %q", n, err, p)
	}
	if n, err := f.ReadAt(p, 1); n != 2 || err != io.EOF {
		t.Errorf("a short read at the end is %d, %v", n, err)
	}

	// Capabilities of files are found through a BasePathFs, those of the Fs only without one.
	must(t, vfs.Preallocate(f, 1))
	must(t, vfs.SyncData(f))
	direct := fsadapter.New(back)
	must(t, direct.SyncDir("."))
	_, err := direct.Lock("LOCK")
	must(t, err)
	_, err = direct.Free()
	must(t, err)
	for _, what := range []string{"Preallocate", "SyncData", "SyncDir", "Lock", "Free"} {
		if back.calls[what] != 1 {
			t.Errorf("%s was called %d times", what, back.calls[what])
		}
	}
}

// A read-only back end refuses what changes, and leaves no file open.
func TestReadOnlyBackEnd(t *testing.T) {
	mem := afero.NewMemMapFs()
	must(t, afero.WriteFile(mem, "/f", []byte("abc"), 0o600))
	fsys := fsadapter.New(afero.NewReadOnlyFs(afero.NewBasePathFs(mem, "/")))
	if _, err := fsys.OpenFile("f", os.O_RDWR|os.O_CREATE, 0o600); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("opening for writing: %v", err)
	}
	if err := fsys.Rename("f", "g"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("renaming: %v", err)
	}
	f, err := fsys.OpenFile("f", os.O_RDONLY, 0)
	must(t, err)
	p := make([]byte, 3)
	if _, err := f.ReadAt(p, 0); err != nil || string(p) != "abc" {
		t.Errorf("read %q, %v", p, err)
	}
	must(t, f.Close())
}

func Example() {
	dir, err := os.MkdirTemp("", "fsadapter")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	root, err := fsadapter.OpenRoot(filepath.Join(dir, "data"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, back := range []afero.Fs{root, afero.NewMemMapFs()} { // production, and a test
		fsys := fsadapter.New(back)
		f, err := fsys.OpenFile("log", os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			fmt.Println(err)
			return
		}
		_, err = f.WriteAt([]byte("hello"), 0)
		fmt.Println(err, vfs.SyncData(f), vfs.SyncDir(fsys, "."), f.Close())
		fmt.Println(fsys.Stat("log"))
	}
	// Output:
	// <nil> <nil> <nil> <nil>
	// {log 5 false} <nil>
	// <nil> <nil> <nil> <nil>
	// {log 5 false} <nil>
}

// A record of 1 KiB and a data sync, in preallocated space.
func BenchmarkWriteSyncData(b *testing.B) {
	for name, back := range map[string]afero.Fs{"OpenRoot": openRoot(b, b.TempDir()), "MemMapFs": afero.NewMemMapFs()} {
		b.Run(name, func(b *testing.B) {
			f := create(b, fsadapter.New(back), "log")
			record := make([]byte, 1024)
			if err := vfs.Preallocate(f, 1<<20); err != nil && !errors.Is(err, errors.ErrUnsupported) {
				b.Fatal(err)
			}
			must(b, f.Sync())
			b.ReportAllocs()
			b.SetBytes(int64(len(record)))
			for i := 0; b.Loop(); i++ {
				if _, err := f.WriteAt(record, int64(i%1024*len(record))); err != nil {
					b.Fatal(err)
				}
				if err := vfs.SyncData(f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Row 15: what one byte costs in a MemMapFs, by the bytes behind it.
func BenchmarkMemMapFsOverwrite(b *testing.B) {
	for _, size := range []int64{64 << 10, 1 << 20, 4 << 20} {
		b.Run(fmt.Sprint(size>>10, "KiB"), func(b *testing.B) {
			f := create(b, fsadapter.New(afero.NewMemMapFs()), "f")
			must(b, f.Truncate(size))
			for b.Loop() {
				if _, err := f.WriteAt([]byte("x"), 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
