package wasifs_test

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/afero"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	wasys "github.com/tetratelabs/wazero/sys"

	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/wasifs"
)

// backends are what guests are given in tests and in production.
func backends(t *testing.T) map[string]vfs.FS {
	root, err := fsadapter.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return map[string]vfs.FS{
		"memory":    fsadapter.New(afero.NewMemMapFs()),
		"directory": fsadapter.New(root),
		"crashfs":   crashfs.New(crashfs.Options{}),
	}
}

// TestConformanceInGuest: what the engine expects of a file system holds for a guest whose files come through this package.
// The suite and the guest are those of package osfs.
func TestConformanceInGuest(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and interprets a guest")
	}
	file := filepath.Join(t.TempDir(), "osfs.wasm")
	build := exec.Command("go", "test", "-c", "-o", file, "github.com/tidewheel/tidewheel/engine/vfs/osfs")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	code, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := backends(t)
	delete(all, "memory") // the slowest to look at, and tested below
	for name, fsys := range all {
		t.Run(name, func(t *testing.T) {
			if err := fsys.MkdirAll("tmp", 0o700); err != nil {
				t.Fatal(err)
			}
			host := wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfigInterpreter())
			defer host.Close(t.Context())
			wasi_snapshot_preview1.MustInstantiate(t.Context(), host)
			var out strings.Builder
			_, err := host.InstantiateWithConfig(t.Context(), code, wazero.NewModuleConfig().
				WithArgs("osfs.test", "-test.v", "-test.short", "-test.run=TestConformance").WithFSConfig(wasifs.Mount(fsys, "/")).
				WithStdout(&out).WithStderr(&out).WithRandSource(rand.Reader).WithSysNanotime().WithSysWalltime().WithSysNanosleep())
			if exit := (*wasys.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 0) {
				t.Fatalf("guest: %v\n%s", err, out.String())
			}
			for _, line := range []string{"--- PASS: TestConformance ", "--- PASS: TestConformance/RenameReplaces "} {
				if !strings.Contains(out.String(), line) {
					t.Errorf("the guest did not print %q:\n%s", line, out.String())
				}
			}
		})
	}
}

// TestErrors: what is refused has the number that a C library would give.
func TestErrors(t *testing.T) {
	for name, back := range backends(t) {
		t.Run(name, func(t *testing.T) {
			f := wasifs.New(back)
			mustBe := func(what string, got, want sys.Errno) {
				t.Helper()
				if got != want {
					t.Errorf("%s: %v, want %v", what, got, want)
				}
			}
			mustBe("mkdir", f.Mkdir("d", 0o700), 0)
			mustBe("mkdir again", f.Mkdir("d", 0o700), sys.EEXIST)
			mustBe("mkdir in nothing", f.Mkdir("x/d", 0o700), sys.ENOENT)
			file, e := f.OpenFile("d/f", sys.O_CREAT|sys.O_WRONLY, 0o600)
			mustBe("create", e, 0)
			_, e = file.Read(make([]byte, 1))
			mustBe("read what is open for writing", e, sys.EBADF)
			mustBe("close", file.Close(), 0)
			mustBe("close again", file.Close(), sys.EBADF)
			for what, c := range map[string]struct {
				path string
				flag sys.Oflag
				want sys.Errno
			}{
				"nothing":                  {"x", sys.O_RDONLY, sys.ENOENT},
				"exclusive":                {"d/f", sys.O_CREAT | sys.O_EXCL | sys.O_RDWR, sys.EEXIST},
				"directory for writing":    {"d", sys.O_RDWR, sys.EISDIR},
				"file as directory":        {"d/f", sys.O_DIRECTORY, sys.ENOTDIR},
				"file with a slash":        {"d/f/", sys.O_RDONLY, sys.ENOTDIR},
				"new directory":            {"n", sys.O_CREAT | sys.O_DIRECTORY, sys.EINVAL},
				"below a file":             {"d/f/g", sys.O_CREAT | sys.O_RDWR, sys.ENOTDIR},
				"outside":                  {"../x", sys.O_RDONLY, sys.EPERM},
				"outside, from the root":   {"/../x", sys.O_RDONLY, sys.EPERM},
				"the mount is the root":    {"//x", sys.O_RDONLY, sys.ENOENT},
				"exclusive without create": {"x", sys.O_EXCL | sys.O_RDWR, sys.ENOENT},
			} {
				_, e := f.OpenFile(c.path, c.flag, 0o600)
				if what == "below a file" && e != 0 {
					continue // ENOTDIR or ENOENT, as the back end has it
				}
				mustBe(what, e, c.want)
			}
			file, e = f.OpenFile("d/f", sys.O_RDONLY, 0)
			mustBe("open", e, 0)
			_, e = file.Write([]byte("x"))
			mustBe("write what is open for reading", e, sys.EBADF)
			mustBe("truncate it", file.Truncate(0), sys.EBADF)
			_, e = file.Readdir(-1)
			mustBe("list a file", e, sys.ENOTDIR)
			_, e = file.Seek(-1, io.SeekStart)
			mustBe("seek before the beginning", e, sys.EINVAL)
			_, e = file.Seek(0, 7)
			mustBe("seek from nowhere", e, sys.EINVAL)
			file.Close()
			mustBe("rmdir of a file", f.Rmdir("d/f"), sys.ENOTDIR)
			mustBe("unlink of a directory", f.Unlink("d"), sys.EISDIR)
			mustBe("rmdir of a full directory", f.Rmdir("d"), sys.ENOTEMPTY)
			mustBe("rmdir of the root", f.Rmdir("."), sys.EINVAL)
			mustBe("rename of a directory", f.Rename("d", "e"), sys.EINVAL)
			mustBe("rename of nothing", f.Rename("x", "y"), sys.ENOENT)
			mustBe("symlink", f.Symlink("d", "l"), sys.ENOSYS)
			mustBe("link", f.Link("d/f", "l"), sys.ENOSYS)
			_, e = f.Readlink("d/f")
			mustBe("readlink", e, sys.ENOSYS)
			mustBe("chmod", f.Chmod("d/f", 0o777), sys.ENOSYS)
			mustBe("utimens", f.Utimens("d/f", 0, 0), sys.ENOSYS)
			mustBe("unlink", f.Unlink("d/f"), 0)
			mustBe("unlink again", f.Unlink("d/f"), sys.ENOENT)
			mustBe("rmdir", f.Rmdir("d"), 0)
		})
	}
}

// TestFile: the cursor, appending, holes, and what stat says.
func TestFile(t *testing.T) {
	for name, back := range backends(t) {
		t.Run(name, func(t *testing.T) {
			f := wasifs.New(back)
			file, e := f.OpenFile("f", sys.O_CREAT|sys.O_RDWR, 0o600)
			if e != 0 {
				t.Fatal(e)
			}
			write := func(s string) {
				t.Helper()
				if n, e := file.Write([]byte(s)); n != len(s) || e != 0 {
					t.Fatalf("write: %d, %v", n, e)
				}
			}
			expect := func(want string) {
				t.Helper()
				b, err := io.ReadAll(reader{file})
				if string(b) != want || err != nil {
					t.Errorf("got %q, %v, want %q", b, err, want)
				}
			}
			write("hello ")
			write("world")
			if at, e := file.Seek(-5, io.SeekEnd); at != 6 || e != 0 {
				t.Errorf("seek: %d, %v", at, e)
			}
			expect("world")
			file.SetAppend(true)
			file.Seek(0, io.SeekStart)
			write("!")
			file.SetAppend(false)
			file.Seek(1, io.SeekStart)
			write("E")
			if n, e := file.Pwrite([]byte("?"), 14); n != 1 || e != 0 {
				t.Errorf("pwrite: %d, %v", n, e)
			}
			file.Seek(0, io.SeekStart)
			expect("hEllo world!\x00\x00?")
			if e := file.Truncate(5); e != 0 {
				t.Error(e)
			}
			if n, e := file.Pread(make([]byte, 9), 3); n != 2 || e != 0 {
				t.Errorf("pread over the end: %d, %v", n, e)
			}
			if st, e := file.Stat(); st.Size != 5 || !st.Mode.IsRegular() || e != 0 {
				t.Errorf("stat %+v, %v", st, e)
			}
			file.Close()
			file, e = f.OpenFile("f", sys.O_WRONLY|sys.O_APPEND|sys.O_SYNC, 0)
			if e != 0 || !file.IsAppend() {
				t.Fatal(e)
			}
			write("+")
			file.Close()
			if st, e := f.Stat("f"); st.Size != 6 || e != 0 {
				t.Errorf("stat %+v, %v", st, e)
			}
			if file, e = f.OpenFile("f", sys.O_RDONLY|sys.O_CREAT|sys.O_TRUNC, 0o600); e != 0 {
				t.Fatal(e)
			}
			expect("")
			file.Close()
		})
	}
}

// reader is a guest's file as an io.Reader.
type reader struct{ sys.File }

func (r reader) Read(b []byte) (int, error) {
	n, e := r.File.Read(b)
	switch {
	case e != 0:
		return n, e
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// TestDirectory: entries come in portions, a rewind sees what is new, and a sync makes names durable.
func TestDirectory(t *testing.T) {
	disk := crashfs.New(crashfs.Options{})
	f := wasifs.New(disk)
	make1 := func(name string) {
		t.Helper()
		file, e := f.OpenFile(name, sys.O_CREAT|sys.O_RDWR, 0o600)
		if e != 0 || file.Sync() != 0 || file.Close() != 0 {
			t.Fatal(name, e)
		}
	}
	make1("b")
	make1("a")
	if e := f.Mkdir("c", 0o700); e != 0 {
		t.Fatal(e)
	}
	dir, e := f.OpenFile(".", sys.O_DIRECTORY, 0)
	if e != 0 {
		t.Fatal(e)
	}
	names := func(n int) string {
		t.Helper()
		list, e := dir.Readdir(n)
		if e != 0 {
			t.Fatal(e)
		}
		var all []string
		for i := range list {
			name := list[i].Name
			if list[i].IsDir() {
				name += "/"
			}
			all = append(all, name)
		}
		return strings.Join(all, " ")
	}
	if got := names(2) + "," + names(2) + "," + names(-1); got != "a b,c/," {
		t.Errorf("entries %q", got)
	}
	make1("d")
	if _, e := dir.Seek(0, io.SeekStart); e != 0 {
		t.Fatal(e)
	}
	if got := names(-1); got != "a b c/ d" {
		t.Errorf("entries after a rewind %q", got)
	}
	if e := dir.Sync(); e != 0 {
		t.Fatal(e)
	}
	make1("lost")
	if dir.Close() != 0 || dir.Close() != sys.EBADF {
		t.Error("close")
	}
	after := disk.Crash(mathrand.New(mathrand.NewPCG(1, 2)), crashfs.Policy{})
	for name, want := range map[string]error{"a": nil, "d": nil, "lost": fs.ErrNotExist} {
		if _, err := after.Stat(name); !errors.Is(err, want) {
			t.Errorf("%s after a power cut: %v, want %v", name, err, want)
		}
	}
}
