package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// ErrDirectory is the kind of every error about a data directory that cannot be used.
var ErrDirectory = errors.New("server: the data directory cannot be used")

// ownFiles are names of a store whose owner tells whose store it is.
var ownFiles = [...]string{"meta", "keys"}

// checkDir looks whether a directory may be used, before anything is made in it.
func checkDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // it will be made
	case err != nil:
		return explain(dir, err)
	case !info.IsDir():
		return dirError{dir + " is a file, and has to be a directory", syscall.ENOTDIR}
	}
	for _, name := range ownFiles {
		info, err := os.Lstat(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return explain(dir, err)
		}
		if owner, ok := ownerOf(info); ok && owner != os.Geteuid() {
			return dirError{fmt.Sprintf("the store in %s belongs to the user with id %d, and this process runs as %d: "+
				"run it as that user, or give the files to this one with chown -R", dir, owner, os.Geteuid()), fs.ErrPermission}
		}
	}
	return nil
}

// explain says what an error of opening a directory means and what helps.
func explain(dir string, err error) error {
	help := ""
	switch {
	case errors.Is(err, engine.ErrLocked):
		// What the lock says is not worth telling.
		return dirError{fmt.Sprintf("%s is open in another process: stop that first, or use another directory", dir), err}
	case errors.Is(err, engine.ErrForeign):
		help = "it holds something else: use an empty directory, or a new one"
	case errors.Is(err, engine.ErrNewer):
		help = "a later version of this program wrote it: use that"
	case errors.Is(err, engine.ErrCorrupt):
		help = "its files are damaged: keep a copy, then see tidewheel data check"
	case errors.Is(err, syscall.EROFS):
		help = "its file system is mounted read-only, or turned so after an error of the disk"
	case errors.Is(err, fs.ErrPermission):
		help = fmt.Sprintf("the user with id %d may not use it%s", os.Geteuid(), owned(dir))
	case vfs.IsNoSpace(err):
		help = "there is no room on its disk: make some, or set a smaller [log] segment_size"
	default:
		return dirError{fmt.Sprintf("%s: %v", dir, err), err}
	}
	return dirError{fmt.Sprintf("%s: %s: %v", dir, help, err), err}
}

// dirError is of kind ErrDirectory and of its cause's kinds.
type dirError struct {
	text  string
	cause error
}

func (e dirError) Error() string        { return "server: " + e.text }
func (e dirError) Unwrap() error        { return e.cause }
func (e dirError) Is(target error) bool { return target == ErrDirectory }

// owned says whose a directory is, or the nearest one above it that is there.
func owned(dir string) string {
	for {
		info, err := os.Stat(dir)
		if err == nil {
			if owner, ok := ownerOf(info); ok {
				return fmt.Sprintf(" (%s has mode %v and belongs to %d)", dir, info.Mode().Perm(), owner)
			}
			return ""
		}
		above := filepath.Dir(dir)
		if above == dir {
			return ""
		}
		dir = above
	}
}
