package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Modes of what is created.
const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
)

// Mark is an array as it stood at a moment. It keeps the memory of the cells that were not flushed then.
type Mark struct {
	first, length int64
	tail          *tail
}

// Len is the length of the array at the mark.
func (m Mark) Len() int64 { return m.length }

// Mark freezes the array's present bounds for a checkpoint. It copies nothing.
func (a *Array) Mark() Mark {
	return Mark{first: a.first.Load(), length: a.length.Load(), tail: a.tail.Load()}
}

// Flush makes the array durable up to a mark, as far as that is worth a sync, and returns the state to record. If at
// least the given number of bytes up to the mark are in no file, they are written, at most 64 KiB per WriteAt, and
// their files synced; the state's Tail is empty. Else no file is touched and the Tail holds them.
//
// An error of kind ErrSync is final, and every later Flush returns it. After any other, Flush may be called again with
// the same mark or a later one. Marks must not go back.
func (a *Array) Flush(m Mark, least int) (State, error) {
	if a.failed != nil {
		return State{}, a.failed
	}
	if a.closed.Load() {
		return State{}, ErrClosed
	}
	from := min(max(a.durable, m.first), m.length)
	s := State{First: m.first, Flushed: from}
	if unflushed := (m.length - from) * int64(a.p.Cell); unflushed == 0 || unflushed < int64(least) {
		if unflushed > 0 {
			s.Tail = make([]byte, unflushed)
			m.tail.copyTo(s.Tail, from, &a.p)
		}
		return s, nil
	}
	created := false
	for i := from; i < m.length; {
		first := a.fileOf(i)
		end := min(m.length, first+int64(a.p.PerFile))
		isNew := a.durable <= max(first, a.held)
		if err := a.writeFile(m.tail, first, i, end, isNew); err != nil {
			return State{}, err
		}
		created = created || isNew
		i = end
	}
	if created {
		if err := a.syncDirs(); err != nil {
			return State{}, err
		}
	}
	a.durable = m.length
	s.Flushed = m.length
	return s, nil
}

// writeFile writes cells [i, end) to their file and syncs it. A file that is not new holds durable cells: it must be
// there and be ours.
func (a *Array) writeFile(t *tail, first, i, end int64, isNew bool) (err error) {
	name := a.path(first)
	f, err := a.openForWrite(first, isNew)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := f.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("segment: close: %w", closeErr)
		}
	}()
	at := a.offset(i)
	err = t.each(i, end, &a.p, func(b []byte) error {
		_, err := f.WriteAt(b, at)
		at += int64(len(b))
		return err
	})
	if err != nil {
		return fmt.Errorf("segment: write cells: %w", err)
	}
	if isNew {
		err = f.Sync()
	} else {
		err = vfs.SyncData(f)
	}
	return a.syncFailed(name, err)
}

// openForWrite opens a file with a good header.
func (a *Array) openForWrite(first int64, isNew bool) (f vfs.File, err error) {
	name := a.path(first)
	if isNew {
		return a.create(name, first)
	}
	f, err = a.fsys.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, corrupt.Errorf(name, 0, "the file is missing")
	}
	if err != nil {
		return nil, fmt.Errorf("segment: open: %w", err)
	}
	if err := a.readHeader(f, first); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// create makes a new file and writes its header. A file of that name may be there after a crash or a Flush that failed.
// It is unlinked, not used: if the sync of its directory failed in an earlier life, its entry will never be durable,
// whatever later syncs say. Only a file that holds cells below durable, trimmed ones, is used: the older copy of a
// checkpoint may refer to them. The header is written in any case, for what is read may not be what the disk has.
func (a *Array) create(name string, first int64) (vfs.File, error) {
	if !a.hasDir {
		if err := a.fsys.MkdirAll(a.dir, dirMode); err != nil {
			return nil, fmt.Errorf("segment: make directory: %w", err)
		}
	}
	flag := os.O_RDWR | os.O_CREATE
	if a.durable <= first {
		flag |= os.O_EXCL
	}
	f, err := a.fsys.OpenFile(name, flag, fileMode)
	if errors.Is(err, fs.ErrExist) {
		if err := a.fsys.Remove(name); err != nil {
			return nil, fmt.Errorf("segment: remove leftover: %w", err)
		}
		f, err = a.fsys.OpenFile(name, flag, fileMode)
	}
	if err != nil {
		return nil, fmt.Errorf("segment: create: %w", err)
	}
	if _, err := f.WriteAt(a.p.appendHeader(nil, first), 0); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("segment: write header: %w", err)
	}
	return f, nil
}

// syncDirs makes the entries of new files durable; the first time also the directory's own, up to the root, since a
// process before this one may have died between making and syncing them.
func (a *Array) syncDirs() error {
	if err := a.syncDir(a.dir); err != nil {
		return err
	}
	for dir := a.dir; !a.hasDir && dir != "."; {
		dir = parent(dir)
		if err := a.syncDir(dir); err != nil {
			return err
		}
	}
	a.hasDir = true
	return nil
}

func (a *Array) syncDir(dir string) error {
	return a.syncFailed(dir, vfs.SyncDir(a.fsys, dir))
}

// syncFailed wraps and remembers the error of a sync.
func (a *Array) syncFailed(name string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%w: %s: %w", ErrSync, name, err)
	if a.failed == nil {
		a.failed = err
	}
	return err
}

// parent is the directory that holds name; "." for one that lies in the root.
func parent(name string) string {
	if i := strings.LastIndexByte(name, '/'); i > 0 {
		return name[:i]
	}
	return "."
}

// Delete unlinks files that lie wholly below an index, and below First. Files that a crash brought back go too.
func (a *Array) Delete(below int64) error {
	limit := a.fileOf(max(0, min(below, a.first.Load())))
	if limit <= max(a.deleted, 0) {
		return nil
	}
	a.p.Handles.drop(a, limit)
	if err := a.unlink(limit); err != nil {
		return err
	}
	a.deleted = limit
	return nil
}

// unlink removes the array's files whose first cell lies below limit.
func (a *Array) unlink(limit int64) error {
	infos, err := a.fsys.ReadDir(a.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("segment: list: %w", err)
	}
	removed := false
	for _, info := range infos {
		first, ok := parseName(info.Name)
		if !ok || first >= limit {
			continue
		}
		if err := a.fsys.Remove(a.path(first)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("segment: remove: %w", err)
		}
		removed = true
	}
	if !removed {
		return nil
	}
	return a.syncDir(a.dir)
}

// Files lists the files that must exist, with the length that each must have at least, in order. It counts what Flush
// wrote even if it is not installed.
func (a *Array) Files() []vfs.Info {
	var files []vfs.Info
	for i := max(a.first.Load(), a.held); i < a.durable; {
		first := a.fileOf(i)
		end := min(a.durable, first+int64(a.p.PerFile))
		size := headerSize + (end-first)*int64(a.p.Cell)
		files = append(files, vfs.Info{Name: a.path(first), Size: size})
		i = end
	}
	return files
}

// Verify checks that the files that Files lists are there and long enough. The first that is not is a *corrupt.Error.
// It reads none of them.
func (a *Array) Verify() error {
	for _, want := range a.Files() {
		info, err := a.fsys.Stat(want.Name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return corrupt.Errorf(want.Name, 0, "the file is missing")
		case err != nil:
			return fmt.Errorf("segment: verify: %w", err)
		case info.Dir:
			return corrupt.Errorf(want.Name, 0, "a directory stands where a file should be")
		case info.Size < want.Size:
			return corrupt.Errorf(want.Name, info.Size, "the file ends before byte %d, where it was flushed to",
				want.Size)
		}
	}
	return nil
}

// RemoveAll closes the array and removes its files and its directory, durably. It may be called again after an error;
// a directory that is not there is none. Files that are not the array's stay, and so does the directory with them.
func (a *Array) RemoveAll() error {
	if !a.closed.Swap(true) {
		a.p.Handles.drop(a, math.MaxInt64)
	}
	if err := a.unlink(math.MaxInt64); err != nil {
		return err
	}
	err := a.fsys.Remove(a.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("segment: remove directory: %w", err)
	}
	return a.syncDir(parent(a.dir))
}
