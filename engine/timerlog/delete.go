package timerlog

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Delete unlinks the files for which needed is false, except the one being written, and whatever lies in the directory
// without being in the State: left by a life that was cut short, or come back after an unlink that was not durable.
//
// It is called by a job, when a checkpoint is committed for good: needed must be true for every file into which a ref
// points, of that checkpoint, of memory, and of a job that runs.
func (l *Log) Delete(needed func(file int64) bool) error {
	// needed is asked before anything is locked: it may take locks of its caller. Groups written meanwhile go into the last
	// of these files or into a newer one.
	old := l.State().Files
	var garbage []int64
	for i, f := range old {
		if i < len(old)-1 && !needed(f.Number) {
			garbage = append(garbage, f.Number)
		}
	}

	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	files := l.State().Files
	infos, err := l.list()
	if err != nil {
		return fmt.Errorf("timerlog: delete: %w", err)
	}
	for _, info := range infos {
		if n, ok := parseName(info.Name); ok && !info.Dir {
			if _, known := find(files, n); !known {
				garbage = append(garbage, n)
			}
		}
	}
	return l.remove(garbage)
}

// RemoveAll unlinks every file of the family, for a rebuild from the CommitLog. The Log is empty then, and goes on.
// Refs and cursors of before must not be used again.
func (l *Log) RemoveAll() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	_ = l.closeWriters() // nobody needs what they hold
	infos, err := l.list()
	if err != nil {
		return fmt.Errorf("timerlog: remove all: %w", err)
	}
	var garbage []int64
	for _, f := range l.State().Files {
		l.handles.drop(f.Number)
		l.forget(f.Number)
	}
	for _, info := range infos {
		if n, ok := parseName(info.Name); ok && !info.Dir {
			garbage = append(garbage, n)
		}
	}
	return l.remove(garbage)
}

// Rewind drops all groups from a place on, and gives their room back: they were written last, by a job that failed half way,
// and no ref to one is used any more. It is called by that job. After an error the groups take room until they are deleted
// with their file.
func (l *Log) Rewind(to Place) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	var later []int64
	l.mu.Lock()
	i, known := find(l.files, to.File)
	if !known || to.Offset < fileHeaderSize || to.Offset > l.files[i].Length {
		l.mu.Unlock()
		return fmt.Errorf("timerlog: rewind: no group ever began at byte %d of file %d", to.Offset, to.File)
	}
	l.files[i].Length = to.Offset
	for _, f := range l.files[i+1:] {
		later = append(later, f.Number)
	}
	l.mu.Unlock()
	if l.cur != nil && l.cur.number == to.File {
		l.cur.end = to.Offset
		_ = l.cur.Truncate(to.Offset) // what stays is written over
		return nil
	}
	if l.cur != nil && !slices.Contains(l.unsynced, l.cur) {
		_ = l.cur.Close() // nobody needs what it holds
	}
	l.cur = nil // the next group opens the file again
	return l.remove(later)
}

// list lists the directory; one that does not exist is empty.
func (l *Log) list() ([]vfs.Info, error) {
	infos, err := l.fsys.ReadDir(l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return infos, err
}

// remove unlinks files and forgets them.
func (l *Log) remove(numbers []int64) error {
	for _, n := range numbers {
		l.handles.drop(n)
		l.forget(n)
		if err := l.fsys.Remove(l.fileName(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			// It is no longer in the State, so the next Delete finds it in the directory.
			return fmt.Errorf("timerlog: remove: %w", err)
		}
	}
	if len(numbers) == 0 {
		return nil
	}
	if err := vfs.SyncDir(l.fsys, l.dir); err != nil {
		// Final, as in Sync: the names of files made since the last Sync may be lost with it.
		return l.fail(fmt.Errorf("sync directory %s: %w", path.Clean(l.dir), err))
	}
	return nil
}

// forget takes a file out of the State, and out of what Sync would sync.
func (l *Log) forget(number int64) {
	l.mu.Lock()
	l.files = slices.DeleteFunc(l.files, func(f FileState) bool { return f.Number == number })
	l.mu.Unlock()
	l.unsynced = slices.DeleteFunc(l.unsynced, func(f *openFile) bool {
		if f.number != number {
			return false
		}
		_ = f.Close() // nobody needs what it holds
		return true
	})
}
