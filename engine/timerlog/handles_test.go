package timerlog_test

import (
	"io/fs"
	"sync/atomic"
	"testing"

	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// countFS counts open files.
type countFS struct {
	vfs.FS
	open, max atomic.Int64
}

type countFile struct {
	vfs.File
	fs *countFS
}

func (f *countFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	f.max.Store(max(f.max.Load(), f.open.Add(1)))
	return countFile{file, f}, nil
}

func (f countFile) Close() error {
	f.fs.open.Add(-1)
	return f.File.Close()
}

// Files are closed when there are too many, when they are deleted, and at the end.
func TestOpenFiles(t *testing.T) {
	fsys := &countFS{FS: newFS()}
	l := open(t, fsys, timerlog.Options{FileSize: 1000, Handles: 3}, timerlog.State{})
	expect := func(when string, want int64) {
		t.Helper()
		if got := fsys.open.Load(); got != want {
			t.Errorf("%s: %d files are open, want %d", when, got, want)
		}
	}
	var refs []timerlog.Ref
	for i := range uint64(8) {
		refs = append(refs, writeGroup(t, l, run(1, 100*i, 15)))
	}
	expect("before the sync", 8)
	syncLog(t, l)
	expect("after the sync", 1)
	for i, ref := range refs {
		checkEach(t, l, ref, run(1, 100*uint64(i), 15))
	}
	expect("after reading all", 1+3)
	if fsys.max.Load() > 8 {
		t.Errorf("%d files were open at once", fsys.max.Load())
	}
	if err := l.Delete(func(file int64) bool { return file == refs[6].File }); err != nil {
		t.Fatal(err)
	}
	expect("after deleting two that were read", 1+2)
	writeGroup(t, l, run(1, 2000, 15))
	writeGroup(t, l, run(1, 3000, 15))
	if err := l.Delete(func(int64) bool { return false }); err != nil {
		t.Fatal(err)
	}
	expect("after deleting what was not synced", 1)
	if _, err := each(l, refs[0]); err == nil {
		t.Error("a deleted group was read")
	}
	expect("after a file was not there", 1)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	expect("after closing", 0)
}
