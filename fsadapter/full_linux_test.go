package fsadapter_test

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter"
)

// onSmallDisk runs fn with a directory of 1 MiB, in a mount namespace of its own that ends with the thread.
func onSmallDisk(t *testing.T, fn func(dir string)) {
	t.Helper()
	dir := t.TempDir()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := syscall.Unshare(syscall.CLONE_NEWNS | syscall.CLONE_FS)
		if err == nil {
			err = syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
		}
		if err == nil {
			err = syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m")
		}
		if err == nil {
			fn(dir)
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Skip("no right to mount:", err)
	}
}

// On a disk that is really full, each way to find out is ErrNoSpace, and what was preallocated can be written.
func TestFullDisk(t *testing.T) {
	onSmallDisk(t, func(dir string) {
		root, err := fsadapter.OpenRoot(dir)
		if err != nil {
			t.Error(err)
			return
		}
		fsys := fsadapter.New(root)
		var files []vfs.File
		for _, name := range []string{"reserved", "big", "rest"} {
			f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			files = append(files, f)
		}
		reserved, big, rest := files[0], files[1], files[2]
		if err := vfs.Preallocate(reserved, 256<<10); err != nil {
			t.Error(err)
		}
		if err := vfs.Preallocate(big, 2<<20); !errors.Is(err, vfs.ErrNoSpace) || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("preallocating more than there is: %v", err)
		}
		n, err := rest.WriteAt(make([]byte, 2<<20), 0)
		if n >= 2<<20 || !errors.Is(err, vfs.ErrNoSpace) { // package os says 0, whatever the system wrote
			t.Errorf("writing more than there is: %d, %v", n, err)
		}
		if n, err := fsys.Free(); err != nil || n > 64<<10 {
			t.Errorf("free are %d bytes, %v", n, err)
		}
		if _, err := reserved.WriteAt(make([]byte, 256<<10), 0); err != nil {
			t.Errorf("writing what was preallocated: %v", err)
		}
	})
}
