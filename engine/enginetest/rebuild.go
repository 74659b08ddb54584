package enginetest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// copyFS returns a file system in memory with what fsys shows now. A crashfs is cloned, which costs little.
func copyFS(fsys vfs.FS) (*crashfs.FS, error) {
	if c, ok := fsys.(*crashfs.FS); ok {
		return c.Clone(), nil
	}
	to := crashfs.New(crashfs.Options{})
	return to, copyTree(to, fsys, ".")
}

func copyTree(to *crashfs.FS, from vfs.FS, dir string) error {
	list, err := from.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, info := range list {
		name := path.Join(dir, info.Name)
		if info.Dir {
			if err := to.MkdirAll(name, 0o700); err != nil {
				return err
			}
			err = copyTree(to, from, name)
		} else {
			err = copyFile(to, from, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyFile(to *crashfs.FS, from vfs.FS, name string) error {
	src, err := from.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer src.Close()
	size, err := src.Size()
	if err != nil {
		return err
	}
	dst, err := to.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer dst.Close()
	buf := make([]byte, size)
	if _, err := src.ReadAt(buf, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	_, err = dst.WriteAt(buf, 0)
	return err
}

// checkFiles runs engine.Check on a copy of a store's files, which may be open.
func checkFiles(fsys vfs.FS, env engine.Env, dir string, opts engine.Options) error {
	c, err := copyFS(fsys)
	if err != nil {
		return err
	}
	env.FS = c
	if _, err := engine.Check(env, dir, opts); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	return nil
}

// rebuilt rebuilds a copy of a store's files from the log alone, opens it, and returns it; the caller closes it.
func rebuilt(fsys vfs.FS, env engine.Env, dir string, opts engine.Options) (*engine.Engine, error) {
	c, err := copyFS(fsys)
	if err != nil {
		return nil, err
	}
	env.FS = c
	if err := engine.Rebuild(env, dir, opts); err != nil {
		return nil, fmt.Errorf("rebuild: %w", err)
	}
	e, err := engine.Open(env, dir, opts)
	if err != nil {
		return nil, fmt.Errorf("open after a rebuild: %w", err)
	}
	return e, nil
}
