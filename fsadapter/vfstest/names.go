package vfstest

import (
	"io/fs"
	"os"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// badNames are names that no file system may take. Row 16: "../x-evil" left an afero.BasePathFs.
var badNames = []string{
	"", "/", "/a", "a/", "a//b", "./a", "a/.", "..", "../a", "../a-evil/b", "a/../b", "a/../../b", `a\b`, `..\a`, "c:", "c:a", "a\x00b",
}

var nameCases = []testCase{
	{"NamesThatLeadOutAreInvalid_row16", func(t *tester) {
		t.must(t.fs.MkdirAll("a", 0o700))
		t.put("good", "x")
		for _, name := range badNames {
			for op, try := range everyNamedCall(t, name) {
				if err := try(); err == nil {
					t.Errorf("%s of %q works", op, name)
				} else {
					t.wantKind(err, fs.ErrInvalid)
				}
			}
		}
		t.wantList(".", vfs.Info{Name: "a", Dir: true}, vfs.Info{Name: "good", Size: 1})
	}},
	{"NamesWithDotsInsideAreGood", func(t *tester) {
		for _, name := range []string{"...", "..a", "a..b", ".hidden", "a.b", "a b", "ä"} {
			t.put(name, name)
			t.wantFile(name, name)
		}
	}},
	{"ErrorsCarryTheNameAsGiven", func(t *tester) {
		t.must(t.fs.MkdirAll("dir", 0o700))
		_, err := t.fs.OpenFile("dir/none", os.O_RDONLY, 0)
		if pathErr, ok := err.(*fs.PathError); !ok || pathErr.Path != "dir/none" {
			t.Errorf("error is %#v, want a *fs.PathError with Path %q", err, "dir/none")
		}
	}},
}

// everyNamedCall returns each call of the FS that takes a name, for that name.
func everyNamedCall(t *tester, name string) map[string]func() error {
	calls := map[string]func() error{
		"OpenFile": func() error {
			_, err := t.fs.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
			return err
		},
		"Remove":     func() error { return t.fs.Remove(name) },
		"RenameFrom": func() error { return t.fs.Rename(name, "new") },
		"RenameTo":   func() error { return t.fs.Rename("good", name) },
		"MkdirAll":   func() error { return t.fs.MkdirAll(name, 0o700) },
		"ReadDir":    func() error { _, err := t.fs.ReadDir(name); return err },
		"Stat":       func() error { _, err := t.fs.Stat(name); return err },
	}
	if d, ok := t.fs.(vfs.DirSyncer); ok {
		calls["SyncDir"] = func() error { return d.SyncDir(name) }
	}
	if l, ok := t.fs.(vfs.Locker); ok {
		calls["Lock"] = func() error { _, err := l.Lock(name); return err }
	}
	return calls
}
