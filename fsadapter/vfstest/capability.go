package vfstest

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// supported ends the case where the file system does not have the capability.
func (t *tester) supported(err error) {
	t.Helper()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("not supported")
	}
	t.must(err)
}

var capabilityCases = []testCase{
	{"PreallocateLengthens", func(t *tester) {
		f := t.create("f", "abc")
		t.supported(vfs.Preallocate(f, 100_000))
		t.wantContent(f, "abc"+strings.Repeat("\x00", 99_997))
		t.write(f, "end", 99_997)
		t.wantContent(f, "abc"+strings.Repeat("\x00", 99_994)+"end")
	}},
	{"PreallocateNeverShortens", func(t *tester) {
		f := t.create("f", strings.Repeat("x", 5000))
		t.supported(vfs.Preallocate(f, 10))
		t.must(vfs.Preallocate(f, 0))
		t.wantContent(f, strings.Repeat("x", 5000))
	}},
	{"PreallocateAgain", func(t *tester) {
		f := t.create("f", "")
		t.supported(vfs.Preallocate(f, 8192))
		t.write(f, "abc", 4096)
		t.must(vfs.Preallocate(f, 8192))
		t.must(vfs.Preallocate(f, 12_288))
		t.wantContent(f, strings.Repeat("\x00", 4096)+"abc"+strings.Repeat("\x00", 8189))
	}},
	{"PreallocateOfANegativeSizeIsInvalid", func(t *tester) {
		f := t.create("f", "abc")
		err := vfs.Preallocate(f, -1)
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skip("not supported")
		}
		t.wantKind(err, fs.ErrInvalid)
		t.wantContent(f, "abc")
	}},
	{"SyncDataIsEverywhere", func(t *tester) {
		f := t.create("f", "abc")
		t.must(vfs.SyncData(f))
		t.wantContent(f, "abc")
	}},
	{"SyncDirIsEverywhere_row17", func(t *tester) {
		t.must(t.fs.MkdirAll("a/b", 0o700))
		t.put("a/b/f", "abc")
		for _, dir := range []string{".", "a", "a/b"} {
			t.must(vfs.SyncDir(t.fs, dir))
		}
		t.must(t.fs.Rename("a/b/f", "a/g"))
		t.must(t.fs.Remove("a/g"))
		for _, dir := range []string{"a", "a/b"} {
			t.must(vfs.SyncDir(t.fs, dir))
		}
	}},
	{"SyncDirOfWhatIsNoDirectory", func(t *tester) {
		d, ok := t.fs.(vfs.DirSyncer)
		if !ok {
			t.Skip("not supported")
		}
		t.supported(d.SyncDir("."))
		t.wantKind(d.SyncDir("none"), fs.ErrNotExist)
		t.put("f", "abc")
		t.wantPathError(d.SyncDir("f"))
	}},
	{"LockKeepsOthersAway_row17", func(t *tester) {
		l, err := vfs.Lock(t.fs, "LOCK")
		t.supported(err)
		_, err = vfs.Lock(t.fs, "LOCK")
		t.wantKind(err, vfs.ErrLocked)
		_, err = t.fs.Stat("LOCK")
		t.must(err)
		other, err := vfs.Lock(t.fs, "OTHER")
		t.must(err)
		t.must(other.Close())
		t.must(l.Close())
		t.wantKind(l.Close(), fs.ErrClosed)
		l, err = vfs.Lock(t.fs, "LOCK")
		t.must(err)
		t.must(l.Close())
	}},
	{"LockOfAnExistingFileKeepsIt", func(t *tester) {
		t.put("LOCK", "abc")
		l, err := vfs.Lock(t.fs, "LOCK")
		t.supported(err)
		t.must(l.Close())
		t.wantFile("LOCK", "abc")
	}},
	{"LockNeedsTheParent", func(t *tester) {
		_, err := vfs.Lock(t.fs, "none/LOCK")
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skip("not supported")
		}
		t.wantKind(err, fs.ErrNotExist)
		t.must(t.fs.MkdirAll("d", 0o700))
		_, err = vfs.Lock(t.fs, "d")
		t.wantKind(err, fs.ErrInvalid)
	}},
	{"FreeIsSomething_row17", func(t *tester) {
		n, err := vfs.Free(t.fs)
		t.supported(err)
		if n == 0 {
			t.Error("no space is free")
		}
	}},
	{"UnsupportedDoesNothing", func(t *tester) {
		f := t.create("f", "abc")
		if err := vfs.Preallocate(f, 5000); errors.Is(err, errors.ErrUnsupported) {
			t.wantContent(f, "abc")
		}
		if _, err := vfs.Lock(t.fs, "LOCK"); errors.Is(err, errors.ErrUnsupported) {
			if _, err := t.fs.OpenFile("LOCK", os.O_RDONLY, 0); err == nil {
				t.Error("a lock that is not supported made a file")
			}
		}
	}},
}
