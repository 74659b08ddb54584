package osfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/engine/vfs/osfs"
	"github.com/tidewheel/tidewheel/fsadapter/vfstest"
)

// TestConformance also runs in a WASM guest: see TestConformanceInGuest of fsadapter/vfstest.
func TestConformance(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) vfs.FS { return open(t, t.TempDir()) })
}

func open(t *testing.T, dir string) *osfs.FS {
	t.Helper()
	f, err := osfs.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestNewMakesTheDirectoryPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	f := open(t, dir)
	if err := f.MkdirAll("c", 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := f.OpenFile("c/f", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "wasip1" || runtime.GOOS == "windows" {
		t.Skip("no modes here")
	}
	for name, want := range map[string]fs.FileMode{"": 0o700, "../../a": 0o700, "c": 0o700, "c/f": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("mode of %q is %v, %v; want %v", name, info.Mode().Perm(), err, want)
		}
	}
}

func TestNewOfAFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := osfs.New(name); err == nil {
		t.Errorf("New of a file is %v", f)
	}
}

func TestSymbolicLinksDoNotLeadOut(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := open(t, filepath.Join(dir, "store"))
	for link, target := range map[string]string{"absolute": secret, "relative": "../secret", "up": "..", "in": "real"} {
		if err := os.Symlink(target, filepath.Join(dir, "store", link)); err != nil {
			t.Skip("no symbolic links here:", err)
		}
	}
	if err := f.MkdirAll("real", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"absolute", "relative", "up/secret"} {
		for _, flag := range []int{os.O_RDONLY, os.O_RDWR | os.O_CREATE, os.O_RDWR | os.O_TRUNC} {
			if file, err := f.OpenFile(name, flag, 0o600); err == nil {
				t.Errorf("OpenFile(%q) leads out", name)
				_ = file.Close()
			}
		}
		if _, err := f.Stat(name); err == nil {
			t.Errorf("Stat(%q) leads out", name)
		}
	}
	if _, err := f.ReadDir("up"); err == nil {
		t.Error("ReadDir leads out")
	}
	if _, err := f.ReadDir("in"); err != nil {
		t.Error("a link that stays inside:", err)
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != "s" {
		t.Errorf("the secret is %q, %v", b, err)
	}
}

func TestCloseLeavesOpenFiles(t *testing.T) {
	f, err := osfs.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file, err := f.OpenFile("f", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := file.WriteAt([]byte("abc"), 0); err != nil {
		t.Error(err)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	if _, err := f.Stat("f"); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Stat after Close: %v", err)
	}
}

// Linux has a device whose writes all fail for want of space.
func TestFullDiskIsErrNoSpace(t *testing.T) {
	dev, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer dev.Close()
	_, err = dev.Write([]byte("x"))
	err = vfs.WrapError("write", "f", err)
	if !errors.Is(err, vfs.ErrNoSpace) {
		t.Errorf("%v is not ErrNoSpace", err)
	}
	if _, err := osfs.NewFile(dev, "full", true); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a device as a file: %v", err)
	}
}

func Example() {
	dir, err := os.MkdirTemp("", "osfs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	fsys, err := osfs.New(filepath.Join(dir, "data"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer fsys.Close()

	f, err := fsys.OpenFile("log", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	_, err = f.WriteAt([]byte("hello"), 0)
	fmt.Println(err)
	fmt.Println(vfs.SyncData(f), vfs.SyncDir(fsys, "."))
	fmt.Println(fsys.ReadDir("."))
	_, err = fsys.OpenFile("../outside", os.O_RDONLY, 0)
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil> <nil>
	// [{log 5 false}] <nil>
	// open ../outside: invalid argument
}
