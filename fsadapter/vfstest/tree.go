package vfstest

import (
	"io/fs"
	"os"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

var treeCases = []testCase{
	{"RootIsThereAndEmpty", func(t *tester) {
		t.wantList(".")
		info, err := t.fs.Stat(".")
		if want := (vfs.Info{Name: ".", Dir: true}); err != nil || info != want {
			t.Errorf("Stat of the root is %v, %v; want %v", info, err, want)
		}
		t.must(t.fs.MkdirAll(".", 0o700))
		t.wantPathError(t.fs.Remove("."))
		t.wantPathError(t.fs.Rename(".", "x"))
		t.wantList(".")
	}},
	{"MkdirAllMakesThoseAbove", func(t *tester) {
		t.must(t.fs.MkdirAll("a/b/c", 0o700))
		t.must(t.fs.MkdirAll("a/b/c", 0o700))
		t.must(t.fs.MkdirAll("a/d", 0o700))
		t.wantList("a", vfs.Info{Name: "b", Dir: true}, vfs.Info{Name: "d", Dir: true})
		t.wantList("a/b", vfs.Info{Name: "c", Dir: true})
		t.wantList("a/b/c")
	}},
	{"MkdirAllKeepsFiles_row11", func(t *tester) {
		t.must(t.fs.MkdirAll("a", 0o700))
		t.put("a/f", "abc")
		t.wantPathError(t.fs.MkdirAll("a/f", 0o700))
		t.wantPathError(t.fs.MkdirAll("a/f/b", 0o700))
		t.must(t.fs.MkdirAll("a", 0o700))
		t.wantFile("a/f", "abc")
	}},
	{"ReadDirIsSorted", func(t *tester) {
		for _, name := range []string{"b", "a", "c", "a0", "a-"} {
			t.put(name, name)
		}
		t.must(t.fs.MkdirAll("ab", 0o700))
		t.wantList(".", vfs.Info{Name: "a", Size: 1}, vfs.Info{Name: "a-", Size: 2}, vfs.Info{Name: "a0", Size: 2},
			vfs.Info{Name: "ab", Dir: true}, vfs.Info{Name: "b", Size: 1}, vfs.Info{Name: "c", Size: 1})
	}},
	{"ReadDirOfWhatIsNoDirectory", func(t *tester) {
		_, err := t.fs.ReadDir("none")
		t.wantKind(err, fs.ErrNotExist)
		t.put("f", "abc")
		_, err = t.fs.ReadDir("f")
		t.wantPathError(err)
	}},
	{"ReadDirBelongsToTheCaller", func(t *tester) {
		t.put("f", "abc")
		list, err := t.fs.ReadDir(".")
		t.must(err)
		list[0].Name = "changed"
		t.wantList(".", vfs.Info{Name: "f", Size: 3})
	}},
	{"StatDoesNotChangeAfterwards_row12", func(t *tester) {
		f := t.create("f", "abc")
		before, err := t.fs.Stat("f")
		t.must(err)
		list, err := t.fs.ReadDir(".")
		t.must(err)
		t.write(f, "more", 3)
		if want := (vfs.Info{Name: "f", Size: 3}); before != want || list[0] != want {
			t.Errorf("Stat is %v, ReadDir %v; want %v", before, list[0], want)
		}
		after, err := t.fs.Stat("f")
		if err != nil || after.Size != 7 {
			t.Errorf("Stat after the write is %v, %v; want size 7", after, err)
		}
	}},
	{"StatOfADirectoryHasNoSize_row12", func(t *tester) {
		t.must(t.fs.MkdirAll("a/b", 0o700))
		t.put("a/b/f", "abc")
		info, err := t.fs.Stat("a/b")
		if want := (vfs.Info{Name: "b", Dir: true}); err != nil || info != want {
			t.Errorf("Stat is %v, %v; want %v", info, err, want)
		}
	}},
	{"StatOfMissing", func(t *tester) {
		t.wantNone("none")
		t.wantNone("none/below")
		t.put("f", "")
		_, err := t.fs.Stat("f/below")
		t.wantPathError(err)
	}},
	{"RemoveFile", func(t *tester) {
		t.must(t.fs.MkdirAll("d", 0o700))
		t.put("d/f", "abc")
		t.must(t.fs.Remove("d/f"))
		t.wantNone("d/f")
		t.wantList("d")
		t.wantKind(t.fs.Remove("d/f"), fs.ErrNotExist)
		t.must(t.fs.Remove("d"))
		t.wantNone("d")
	}},
	{"RemoveKeepsAFullDirectory_row11", func(t *tester) {
		t.must(t.fs.MkdirAll("d/e", 0o700))
		t.put("d/e/f", "abc")
		t.wantKind(t.fs.Remove("d/e"), fs.ErrExist)
		t.wantKind(t.fs.Remove("d"), fs.ErrExist)
		t.wantFile("d/e/f", "abc")
	}},
	{"RemovedFileLivesOnInItsHandles", func(t *tester) {
		f := t.create("f", "abc")
		t.must(t.fs.Remove("f"))
		t.write(f, "de", 3)
		t.must(f.Sync())
		t.wantContent(f, "abcde")
		t.put("f", "another")
		t.wantContent(f, "abcde")
		t.wantFile("f", "another")
	}},
	{"RenameFile", func(t *tester) {
		t.must(t.fs.MkdirAll("d", 0o700))
		t.put("f", "abc")
		t.must(t.fs.Rename("f", "d/g"))
		t.wantNone("f")
		t.wantFile("d/g", "abc")
		t.must(t.fs.Rename("d/g", "d/h"))
		t.wantList("d", vfs.Info{Name: "h", Size: 3})
		t.wantList(".", vfs.Info{Name: "d", Dir: true})
	}},
	{"RenameReplaces", func(t *tester) {
		t.put("new", "abcd")
		old := t.create("old", "12")
		t.must(t.fs.Rename("new", "old"))
		t.wantFile("old", "abcd")
		t.wantContent(old, "12")
		t.wantList(".", vfs.Info{Name: "old", Size: 4})
	}},
	{"RenameKeepsHandles", func(t *tester) {
		f := t.create("f", "abc")
		t.must(t.fs.Rename("f", "g"))
		t.write(f, "X", 1)
		t.wantFile("g", "aXc")
		t.must(f.Sync())
	}},
	{"RenameToItself", func(t *tester) {
		t.put("f", "abc")
		t.must(t.fs.Rename("f", "f"))
		t.wantFile("f", "abc")
	}},
	{"RenameOfMissing", func(t *tester) {
		t.put("f", "abc")
		t.wantKind(t.fs.Rename("none", "f"), fs.ErrNotExist)
		t.wantKind(t.fs.Rename("none", "none"), fs.ErrNotExist)
		t.wantFile("f", "abc")
	}},
	{"RenameNeedsTheParent_row10", func(t *tester) {
		t.put("f", "abc")
		t.wantKind(t.fs.Rename("f", "d/f"), fs.ErrNotExist)
		t.wantFile("f", "abc")
		t.wantNone("d")
	}},
	{"RenameOfDirectoriesIsInvalid", func(t *tester) {
		t.must(t.fs.MkdirAll("d", 0o700))
		t.put("f", "abc")
		t.wantKind(t.fs.Rename("d", "e"), fs.ErrInvalid)
		t.wantKind(t.fs.Rename("f", "d"), fs.ErrInvalid)
		t.wantKind(t.fs.Rename("d", "f"), fs.ErrInvalid)
		t.wantFile("f", "abc")
		t.wantList("d")
	}},
	{"NamesComeBackAfterRemove", func(t *tester) {
		for range 3 {
			t.must(t.fs.MkdirAll("d", 0o700))
			t.put("d/f", "abc")
			t.must(t.fs.Rename("d/f", "d/g"))
			t.must(t.fs.Remove("d/g"))
			t.must(t.fs.Remove("d"))
		}
		_, err := t.fs.OpenFile("d/f", os.O_RDWR|os.O_CREATE, 0o600)
		t.wantKind(err, fs.ErrNotExist)
	}},
}
