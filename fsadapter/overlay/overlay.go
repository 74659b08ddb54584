// Package overlay is a file system of two: what is read comes from the one below, what is changed goes to the one above. So
// a directory can be opened, repaired and read as if it were changed, and stays as it is.
//
//	scratch := fsadapter.New(temporary)
//	over := overlay.New(fsadapter.New(precious), scratch)
//
// A file that is opened for writing is copied up first, with its holes. What is removed or renamed is hidden. A lock is
// taken below, so that nobody changes what is read; if there is nothing to lock, above.
//
// The FS below must not change meanwhile, and the one above be empty and nobody else's. What was hidden is known to the FS
// alone: another one over the same two begins anew.
package overlay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// FS is the file system of two. It is safe for concurrent use, if both are.
type FS struct {
	below, above vfs.FS

	mu     sync.RWMutex
	hidden map[string]bool // names below that were removed or renamed; guarded by mu
}

// New makes a file system that shows what is below, and changes what is above.
func New(below, above vfs.FS) *FS {
	return &FS{below: below, above: above, hidden: map[string]bool{}}
}

// where finds the file system that has a name now. The caller has mu.
func (f *FS) where(name string) (vfs.FS, vfs.Info, error) {
	info, err := f.above.Stat(name)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return f.above, info, err
	}
	if f.hidden[name] {
		return nil, info, err
	}
	info, err = f.below.Stat(name)
	return f.below, info, err
}

// Stat describes a file or directory.
func (f *FS) Stat(name string) (vfs.Info, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	_, info, err := f.where(name)
	return info, err
}

// OpenFile opens a file, for writing after it was copied.
func (f *FS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if flag&(os.O_RDWR|os.O_CREATE|os.O_TRUNC) == 0 {
		f.mu.RLock()
		defer f.mu.RUnlock()
		in, _, err := f.where(name)
		if in == nil || err != nil {
			in = f.above // it knows the error
		}
		return in.OpenFile(name, flag, perm)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	in, _, err := f.where(name)
	switch {
	case err == nil && in == f.below && flag&os.O_EXCL != 0 && flag&os.O_CREATE != 0:
		return in.OpenFile(name, flag, perm) // it is there
	case err == nil && in == f.below:
		if err := f.copyUp(name); err != nil {
			return nil, err
		}
	default:
		if err := f.parents(name); err != nil {
			return nil, err
		}
	}
	return f.above.OpenFile(name, flag, perm)
}

// parents makes the directory of a name above, if it is there. The caller has mu.
func (f *FS) parents(name string) error {
	dir := path.Dir(name)
	if dir == "." {
		return nil
	}
	if in, info, err := f.where(dir); err != nil || in != f.below || !info.Dir {
		return nil // whoever needs it says what is wrong
	}
	return f.above.MkdirAll(dir, 0o700)
}

// chunk is what is copied at once; a chunk of zeros stays a hole.
const chunk = 128 << 10

// copyUp copies a file from below. The caller has mu.
func (f *FS) copyUp(name string) (err error) {
	in, err := f.below.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := f.parents(name); err != nil {
		return err
	}
	size, err := in.Size()
	if err != nil {
		return err
	}
	out, err := f.above.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil {
			_ = f.above.Remove(name)
		}
	}()
	if err := out.Truncate(size); err != nil {
		return err
	}
	buf := make([]byte, min(chunk, max(size, 1)))
	for at := int64(0); at < size; at += int64(len(buf)) {
		n, err := in.ReadAt(buf[:min(int64(len(buf)), size-at)], at)
		if err != nil && (err != io.EOF || at+int64(n) < size) {
			return fmt.Errorf("overlay: copy %s: %w", name, err)
		}
		if slices.ContainsFunc(buf[:n], func(b byte) bool { return b != 0 }) {
			if _, err := out.WriteAt(buf[:n], at); err != nil {
				return err
			}
		}
	}
	return nil
}

// Remove removes a file or an empty directory above, and hides one below.
func (f *FS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, info, err := f.where(name)
	if err != nil {
		return f.above.Remove(name) // it knows the error
	}
	if info.Dir {
		if list, err := f.list(name); err != nil || len(list) > 0 {
			return cmp.Or[error](err, &fs.PathError{Op: "remove", Path: name, Err: fs.ErrExist})
		}
	}
	if err := f.above.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f.hidden[name] = true
	return nil
}

// Rename gives a file another name, above.
func (f *FS) Rename(oldName, newName string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	in, info, err := f.where(oldName)
	if err == nil && in == f.below && !info.Dir {
		err = f.copyUp(oldName)
	}
	if to, other, toErr := f.where(newName); toErr == nil && to == f.below && other.Dir || info.Dir && in == f.below {
		return &fs.PathError{Op: "rename", Path: newName, Err: fs.ErrInvalid}
	}
	if err != nil {
		return f.above.Rename(oldName, newName)
	}
	if err := f.parents(newName); err != nil {
		return err
	}
	if err := f.above.Rename(oldName, newName); err != nil {
		return err
	}
	if path.Clean(oldName) != path.Clean(newName) {
		f.hidden[oldName] = true
	}
	return nil
}

// MkdirAll makes a directory above.
func (f *FS) MkdirAll(name string, perm fs.FileMode) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for dir := name; dir != "." && dir != "/" && dir != ""; dir = path.Dir(dir) {
		if in, info, err := f.where(dir); err == nil && in == f.below && !info.Dir {
			return f.below.MkdirAll(name, perm) // a file is in its way: nothing is made
		}
	}
	return f.above.MkdirAll(name, perm)
}

// ReadDir lists a directory.
func (f *FS) ReadDir(name string) ([]vfs.Info, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.list(name)
}

// list merges the two lists. The caller has mu.
func (f *FS) list(name string) ([]vfs.Info, error) {
	above, err := f.above.ReadDir(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) || f.hidden[name] {
		return above, err
	}
	below, belowErr := f.below.ReadDir(name)
	switch {
	case err != nil && belowErr != nil:
		return nil, belowErr
	case belowErr != nil && !errors.Is(belowErr, fs.ErrNotExist):
		return nil, belowErr
	}
	for _, info := range below {
		full := path.Join(name, info.Name)
		_, both := slices.BinarySearchFunc(above, info.Name, func(i vfs.Info, name string) int { return strings.Compare(i.Name, name) })
		if !both && !f.hidden[full] {
			above = append(above, info)
			slices.SortFunc(above, func(a, b vfs.Info) int { return strings.Compare(a.Name, b.Name) })
		}
	}
	return above, nil
}

// SyncDir makes the entries of a directory above durable.
func (f *FS) SyncDir(name string) error {
	err := vfs.SyncDir(f.above, name)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := f.Stat(name); err == nil {
			return nil // nothing in it was changed
		}
	}
	return err
}

// Lock keeps others away from what is read; of a file that is not there below, from what is above.
func (f *FS) Lock(name string) (io.Closer, error) {
	if _, err := f.below.Stat(name); err == nil {
		return vfs.Lock(f.below, name)
	}
	return vfs.Lock(f.above, name)
}

// Free is how much room there is above.
func (f *FS) Free() (uint64, error) { return vfs.Free(f.above) }
