package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Permissions of what the engine makes: timers are nobody else's business.
const (
	FilePerm fs.FileMode = 0o600
	DirPerm  fs.FileMode = 0o700
)

// TempSuffix ends the name of a file that Replace has not finished. Such a file means nothing and may be removed by
// whoever has the directory to himself.
const TempSuffix = ".tmp"

// SyncDirs makes the name of the directory dir durable, and what stands in it: it syncs dir and every directory above.
// An error is as final as that of any other sync.
func SyncDirs(fsys vfs.FS, dir string) error {
	for {
		if err := vfs.SyncDir(fsys, dir); err != nil {
			return fmt.Errorf("durable: sync directory %s: %w", dir, err)
		}
		if dir == "." {
			return nil
		}
		dir = path.Dir(dir)
	}
}

// Replace makes a file with the content that fill writes, in place of the one that has the name, if any. After a power
// cut at any moment the name holds the old file or the whole new one. Replace returns nil when the new one is durable.
// After an error the old file may be there or the new one; but after one of fill, of a full disk for instance, it is
// the old one.
//
// The directory must exist; that its own name is durable is the caller's business, see SyncDirs. Replace is for one caller
// at a time per name.
func Replace(fsys vfs.FS, name string, fill func(f vfs.File) error) error {
	temp := name + TempSuffix
	if err := writeTemp(fsys, temp, fill); err != nil {
		// The disk may be full, and half a file is of no use. If it cannot be removed the next Replace overwrites it.
		_ = fsys.Remove(temp)
		return fmt.Errorf("durable: write %s: %w", temp, err)
	}
	if err := fsys.Rename(temp, name); err != nil {
		return fmt.Errorf("durable: rename %s: %w", temp, err)
	}
	if err := vfs.SyncDir(fsys, path.Dir(name)); err != nil {
		return fmt.Errorf("durable: sync directory of %s: %w", name, err)
	}
	return nil
}

func writeTemp(fsys vfs.FS, temp string, fill func(f vfs.File) error) error {
	f, err := fsys.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, FilePerm)
	if err != nil {
		return err
	}
	if err := fill(f); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// RemoveTemps removes what calls of Replace in dir left when they were cut short. A directory that does not exist holds
// nothing. The removals need not be durable: a file that comes back means as little as before.
func RemoveTemps(fsys vfs.FS, dir string) error {
	infos, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("durable: list %s: %w", dir, err)
	}
	for _, info := range infos {
		if info.Dir || !strings.HasSuffix(info.Name, TempSuffix) {
			continue
		}
		if err := fsys.Remove(path.Join(dir, info.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("durable: remove %s: %w", info.Name, err)
		}
	}
	return nil
}
