package wasifs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/afero"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/tidewheel/tidewheel/fsadapter"
	"github.com/tidewheel/tidewheel/fsadapter/wasifs"
	"github.com/tidewheel/tidewheel/plugins/plugintest"
)

// hostile is a guest that calls WASI by hand, without the checks of a language's library: each export takes paths.
type hostile struct {
	t   *testing.T
	mod api.Module
}

// Where the guest's memory holds what.
const (
	first, second, answer = 1024, 8192, 16384
	mounted               = 3 // the descriptor of the mount
)

func newHostile(t *testing.T, config wazero.FSConfig) *hostile {
	const wasi = "wasi_snapshot_preview1"
	m := plugintest.New()
	m.Import(wasi, "path_open", "i32 i32 i32 i32 i32 i64 i64 i32 i32 -> i32")
	m.Import(wasi, "path_symlink", "i32 i32 i32 i32 i32 -> i32")
	m.Import(wasi, "path_link", "i32 i32 i32 i32 i32 i32 i32 -> i32")
	m.Import(wasi, "path_rename", "i32 i32 i32 i32 i32 i32 -> i32")
	m.Import(wasi, "path_readlink", "i32 i32 i32 i32 i32 i32 -> i32")
	m.Import(wasi, "path_create_directory", "i32 i32 i32 -> i32")
	m.Import(wasi, "path_remove_directory", "i32 i32 i32 -> i32")
	m.Import(wasi, "path_unlink_file", "i32 i32 i32 -> i32")
	m.Import(wasi, "path_filestat_get", "i32 i32 i32 i32 i32 -> i32")
	m.Import(wasi, "fd_read", "i32 i32 i32 i32 -> i32")
	m.Memory(1, 1)
	m.Func("open", "$n:i32 $flags:i32 -> i32", "", "i32.const 3 i32.const 1 i32.const 1024 local.get $n local.get $flags i64.const -1 i64.const -1 i32.const 0 i32.const 16384 call $path_open")
	m.Func("symlink", "$n:i32 $k:i32 -> i32", "", "i32.const 1024 local.get $n i32.const 3 i32.const 8192 local.get $k call $path_symlink")
	m.Func("link", "$n:i32 $k:i32 -> i32", "", "i32.const 3 i32.const 1 i32.const 1024 local.get $n i32.const 3 i32.const 8192 local.get $k call $path_link")
	m.Func("rename", "$n:i32 $k:i32 -> i32", "", "i32.const 3 i32.const 1024 local.get $n i32.const 3 i32.const 8192 local.get $k call $path_rename")
	m.Func("readlink", "$n:i32 -> i32", "", "i32.const 3 i32.const 1024 local.get $n i32.const 16384 i32.const 1000 i32.const 8192 call $path_readlink")
	m.Func("mkdir", "$n:i32 -> i32", "", "i32.const 3 i32.const 1024 local.get $n call $path_create_directory")
	m.Func("rmdir", "$n:i32 -> i32", "", "i32.const 3 i32.const 1024 local.get $n call $path_remove_directory")
	m.Func("unlink", "$n:i32 -> i32", "", "i32.const 3 i32.const 1024 local.get $n call $path_unlink_file")
	m.Func("stat", "$n:i32 -> i32", "", "i32.const 3 i32.const 1 i32.const 1024 local.get $n i32.const 16384 call $path_filestat_get")
	m.Func("read", "$fd:i32 -> i32", "", "i32.const 32 i32.const 16384 i32.store i32.const 36 i32.const 1000 i32.store local.get $fd i32.const 32 i32.const 1 i32.const 8192 call $fd_read")
	r := wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfigInterpreter())
	t.Cleanup(func() { r.Close(t.Context()) })
	wasi_snapshot_preview1.MustInstantiate(t.Context(), r)
	mod, err := r.InstantiateWithConfig(t.Context(), m.Bytes(), wazero.NewModuleConfig().WithFSConfig(config))
	if err != nil {
		t.Fatal(err)
	}
	return &hostile{t, mod}
}

// do calls an export with up to two paths and returns the error number of WASI; 0 is success.
func (h *hostile) do(f string, paths ...string) uint32 {
	h.t.Helper()
	var args []uint64
	for i, p := range paths {
		h.mod.Memory().Write([]uint32{first, second}[i], []byte(p))
		args = append(args, uint64(len(p)))
	}
	if f == "create" {
		f, args = "open", append(args, 1) // O_CREAT
	} else if f == "open" {
		args = append(args, 0)
	}
	res, err := h.mod.ExportedFunction(f).Call(h.t.Context(), args...)
	if err != nil {
		h.t.Fatal(err)
	}
	return uint32(res[0])
}

// content opens a path and returns the beginning of the file; the error number when it cannot.
func (h *hostile) content(path string) (string, uint32) {
	if e := h.do("open", path); e != 0 {
		return "", e
	}
	fd, _ := h.mod.Memory().ReadUint32Le(answer)
	res, err := h.mod.ExportedFunction("read").Call(h.t.Context(), uint64(fd))
	if err != nil || res[0] != 0 {
		return "", 1000
	}
	n, _ := h.mod.Memory().ReadUint32Le(second)
	b, _ := h.mod.Memory().Read(answer, n)
	return string(b), 0
}

// outside are paths that mean something above the mount, to some system at least.
var outside = []string{
	"..", "../secret", "../../secret", "a/../../secret", "a/b/../../../secret", "./../secret", "../mount/../secret", "../mount2/file",
	"/secret", "/../secret", "//secret", "/etc/passwd", "..\\secret", "a\\..\\..\\secret", "C:\\secret", "C:/secret", "C:secret", "\\\\host\\share",
	"in\x00/../../secret", "../secret\x00", "/",
}

// TestNoWayOut: no path, link or rename of a guest reads, makes, moves or removes anything above its mount.
func TestNoWayOut(t *testing.T) {
	top := t.TempDir()
	mount := filepath.Join(top, "mount")
	for name, text := range map[string]string{"secret": "secret", "mount2/file": "neighbour", "mount/in": "inside", "mount/a/b/f": "deep"} {
		name = filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := fsadapter.OpenRoot(mount)
	if err != nil {
		t.Fatal(err)
	}
	h := newHostile(t, wasifs.Mount(fsadapter.New(root), "/"))
	if text, e := h.content("in"); text != "inside" || e != 0 {
		t.Fatalf("inside: %q, error %d", text, e)
	}
	if text, e := h.content("a/../a/b/f"); text != "deep" || e != 0 {
		t.Fatalf("inside, by a way round: %q, error %d", text, e)
	}
	before := tree(t, top)
	for _, p := range outside {
		for _, f := range []string{"open", "create", "stat", "mkdir", "rmdir", "unlink", "readlink"} {
			if e := h.do(f, p); e == 0 && p != "/" {
				t.Errorf("%s %q succeeded", f, p)
			}
		}
		for _, f := range []string{"symlink", "link", "rename"} {
			if h.do(f, p, "in2") == 0 || h.do(f, "in", p) == 0 {
				t.Errorf("%s with %q succeeded", f, p)
			}
		}
	}
	for _, target := range []string{"in", "../secret", "/etc/passwd", ".."} {
		if h.do("symlink", target, "lnk") == 0 || h.do("link", target, "lnk") == 0 {
			t.Errorf("a link to %q was made", target)
		}
	}
	if after := tree(t, top); after != before {
		t.Errorf("the disk was\n%s\nand is\n%s", before, after)
	}
}

// TestNoWayOutByLinksOfTheDisk: links that are on the disk already lead nowhere outside, as files and on the way.
func TestNoWayOutByLinksOfTheDisk(t *testing.T) {
	top := t.TempDir()
	mount := filepath.Join(top, "mount")
	if err := os.Mkdir(mount, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(top, "secret"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"file": "../secret", "abs": filepath.Join(top, "secret"), "up": "..", "chain": "up", "none": "../made"} {
		if err := os.Symlink(target, filepath.Join(mount, name)); err != nil {
			t.Skip("no symbolic links here:", err)
		}
	}
	root, err := fsadapter.OpenRoot(mount)
	if err != nil {
		t.Fatal(err)
	}
	h := newHostile(t, wasifs.Mount(fsadapter.New(root), "/"))
	for _, p := range []string{"file", "abs", "up/secret", "chain/secret", "up/mount/../secret"} {
		if text, e := h.content(p); e == 0 || text != "" {
			t.Errorf("%s: %q", p, text)
		}
	}
	for _, p := range []string{"none", "up/made", "chain/made"} {
		if h.do("create", p) == 0 {
			t.Errorf("%s was made", p)
		}
	}
	if h.do("unlink", "up/secret") == 0 || h.do("rename", "up/secret", "mine") == 0 || h.do("mkdir", "up/d") == 0 {
		t.Error("something outside was changed")
	}
	if list, err := os.ReadDir(top); err != nil || len(list) != 2 {
		t.Errorf("outside: %v, %v", list, err)
	}
}

// tree writes a directory down, with contents.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := afero.Walk(afero.NewOsFs(), dir, func(name string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		text := ""
		if !info.IsDir() {
			raw, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text = string(raw)
		}
		b.WriteString(name + " " + info.Mode().String() + " " + text + "\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
