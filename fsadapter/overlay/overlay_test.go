package overlay_test

import (
	"io/fs"
	"os"
	"testing"

	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/overlay"
	"github.com/tidewheel/tidewheel/fsadapter/vfstest"
)

func memory() vfs.FS { return crashfs.New(crashfs.Options{}) }

// TestConformance: over nothing it is as what is above, and over a tree of other names, too.
func TestConformance(t *testing.T) {
	vfstest.Run(t, func(*testing.T) vfs.FS { return overlay.New(memory(), memory()) })
}

func write(t *testing.T, fsys vfs.FS, name, text string) {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err.(*fs.PathError).Err.Error()
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if n, _ := f.ReadAt(b, 0); n != len(b) {
		t.Fatalf("%d bytes of %d", n, size)
	}
	return string(b)
}

func names(t *testing.T, fsys vfs.FS, dir string) (all string) {
	t.Helper()
	list, err := fsys.ReadDir(dir)
	if err != nil {
		return err.Error()
	}
	for _, i := range list {
		all += i.Name + " "
	}
	return all
}

// TestOverlay: everything can be changed, and what is below stays as it is.
func TestOverlay(t *testing.T) {
	below := memory()
	if err := below.MkdirAll("d/e", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a": "below", "d/b": "second", "d/c": "third", "d/e/f": "deep"} {
		write(t, below, name, text)
	}
	o := overlay.New(below, memory())
	write(t, o, "a", "ABO")
	write(t, o, "d/new", "new")
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	check(o.Remove("d/b"))
	check(o.Rename("d/c", "d/moved"))
	check(o.Rename("d/new", "d/e/f"))
	if err := o.Remove("d/e"); err == nil {
		t.Error("a directory with a file was removed")
	}
	for name, want := range map[string]string{"a": "ABOow", "d/moved": "third", "d/e/f": "new"} {
		if got := read(t, o, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := names(t, o, "d"); got != "e moved " {
		t.Errorf("d has %q", got)
	}
	check(o.Remove("d/e/f"))
	check(o.Remove("d/e"))
	check(o.Remove("d/moved"))
	check(o.Remove("d"))
	if got := names(t, o, "."); got != "a " {
		t.Errorf("the root has %q", got)
	}
	check(o.MkdirAll("d/e", 0o700)) // what was in it does not come back
	if got := names(t, o, "d") + names(t, o, "d/e"); got != "e " {
		t.Errorf("d has %q", got)
	}
	if _, err := o.OpenFile("a", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		t.Error("a file that is there was made")
	}
	for name, want := range map[string]string{"a": "below", "d/b": "second", "d/c": "third", "d/e/f": "deep"} {
		if got := read(t, below, name); got != want {
			t.Errorf("below, %s is %q, want %q", name, got, want)
		}
	}
	if got := names(t, below, "."); got != "a d " {
		t.Errorf("below there is %q", got)
	}
}
