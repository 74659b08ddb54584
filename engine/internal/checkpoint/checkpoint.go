package checkpoint

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/durable"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Sizes of writes: small parts are gathered, large ones go out as they are, but not more than a mebibyte at once, so that
// no fsync of the CommitLog waits long.
const (
	gather   = 64 << 10
	maxWrite = 1 << 20
)

// Write writes f as one copy in dir, which it makes if needed, and returns nil when it is durable. After any error the copy
// that was there before is still whole, or the new one is; call it again. It is for one caller at a time. The parts are read
// only, and not kept.
func Write(fsys vfs.FS, dir, name string, f *File) error {
	size := f.size()
	if size > MaxSize {
		return fmt.Errorf("checkpoint: write %s: %d bytes are more than %d", path.Join(dir, name), size, MaxSize)
	}
	if err := fsys.MkdirAll(dir, durable.DirPerm); err != nil {
		return fmt.Errorf("checkpoint: write: %w", err)
	}
	err := durable.Replace(fsys, path.Join(dir, name), func(file vfs.File) error {
		w := writer{file: file, buf: make([]byte, 0, min(size, gather))}
		return w.writeFile(f)
	})
	if err != nil {
		return fmt.Errorf("checkpoint: write: %w", err)
	}
	if parent := path.Dir(dir); dir != "." {
		if err := durable.SyncDirs(fsys, parent); err != nil {
			return fmt.Errorf("checkpoint: write: %w", err)
		}
	}
	return nil
}

// writer writes a file from its start to its end.
type writer struct {
	file vfs.File
	at   int64 // of buf in the file
	buf  []byte
	crc  uint32 // over what is written; buf is not in it
}

func (w *writer) writeFile(f *File) error {
	if err := w.write(f.appendHeader(nil)); err != nil {
		return err
	}
	for i := range f.Sections {
		s := &f.Sections[i]
		if err := w.write(s.appendHead(nil)); err != nil {
			return err
		}
		for _, p := range s.Parts {
			if err := w.write(p); err != nil {
				return err
			}
		}
	}
	return w.put(appendTrailer(w.buf, crc32.Update(w.crc, castagnoli, w.buf)))
}

func (w *writer) write(p []byte) error {
	if len(w.buf)+len(p) <= cap(w.buf) {
		w.buf = append(w.buf, p...)
		return nil
	}
	if err := w.flush(); err != nil {
		return err
	}
	if len(p) <= cap(w.buf) {
		w.buf = append(w.buf, p...)
		return nil
	}
	for len(p) > 0 {
		n := min(len(p), maxWrite)
		if err := w.put(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

func (w *writer) flush() error {
	err := w.put(w.buf)
	w.buf = w.buf[:0]
	return err
}

func (w *writer) put(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	if _, err := w.file.WriteAt(p, w.at); err != nil {
		return err
	}
	w.at += int64(len(p))
	w.crc = crc32.Update(w.crc, castagnoli, p)
	return nil
}

// Load returns the newer of the copies that are whole, and what is wrong with a copy that is not: a *corrupt.Error, an error
// of kind fs.ErrNotExist if it is missing, or what reading it returned. Without a whole copy the file is nil; a new directory
// is the ordinary case. The error is ErrNewerFormat, whatever the other copy holds: an older program must not go on from it.
//
// Nothing is changed; see Settle. Memory is bounded by the size of the files, which is bounded by MaxSize.
func Load(fsys vfs.FS, dir string) (newest *File, problems []error, err error) {
	for _, name := range []string{CopyA, CopyB} {
		f, err := load(fsys, path.Join(dir, name))
		switch {
		case errors.Is(err, ErrNewerFormat):
			return nil, problems, err
		case err != nil:
			problems = append(problems, err)
		case newest == nil || newest.Seq < f.Seq:
			newest = f
		}
	}
	return newest, problems, nil
}

// LoadCopy returns one copy, for people; else as Load. Nothing is changed.
func LoadCopy(fsys vfs.FS, dir, name string) (*File, error) { return load(fsys, path.Join(dir, name)) }

func load(fsys vfs.FS, name string) (*File, error) {
	file, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: load: %w", err)
	}
	f, err := read(file, name)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	return f, nil
}

func read(file vfs.File, name string) (*File, error) {
	size, err := file.Size()
	if err != nil {
		return nil, fmt.Errorf("checkpoint: load: %w", err)
	}
	head := make([]byte, min(size, headerSize))
	if _, err := file.ReadAt(head, 0); err != nil && err != io.EOF {
		return nil, fmt.Errorf("checkpoint: load: %w", err)
	}
	// Before anything is allocated: only a header that is whole says that the size is meant.
	if _, err := decodeHeader(head, size); err != nil {
		return nil, wrap(name, err)
	}
	if size > MaxSize {
		return nil, corrupt.Errorf(name, 48, "%d bytes are more than %d", size, MaxSize)
	}
	b := make([]byte, size)
	if _, err := file.ReadAt(b, 0); err == io.EOF {
		return nil, corrupt.Errorf(name, 0, "the file became shorter while it was read")
	} else if err != nil {
		return nil, fmt.Errorf("checkpoint: load: %w", err)
	}
	f, err := decode(b)
	if err != nil {
		return nil, wrap(name, err)
	}
	return f, nil
}

// wrap adds the file to what decode says.
func wrap(name string, err error) error {
	var d *damage
	if errors.As(err, &d) {
		return corrupt.Errorf(name, d.offset, "%s", d.reason)
	}
	return fmt.Errorf("checkpoint: load %s: %w", name, err)
}

// Settle makes the directory agree with what Load answered: both copies hold f, durably, or with nil neither exists. Call it
// after every Load, before anything else is written or deleted.
//
// For what Load finds need not be what the next restart finds. A copy that could not be read may come back, and refer to
// what was overwritten meanwhile. A copy that a killed process had just renamed may be in memory only, and the older one
// refer to a part of the log that would be deleted behind the newer. Copies that hold f are not written again.
func Settle(fsys vfs.FS, dir string, f *File) error {
	found := f != nil
	for _, name := range []string{CopyA, CopyB} {
		full := path.Join(dir, name)
		got, err := load(fsys, full)
		switch {
		case errors.Is(err, ErrNewerFormat):
			return err
		case f != nil && err == nil && got.Seq == f.Seq && got.StoreID == f.StoreID:
		case f != nil:
			if err := Write(fsys, dir, name, f); err != nil {
				return err
			}
		case errors.Is(err, fs.ErrNotExist):
		default:
			found = true
			if err := fsys.Remove(full); err != nil {
				return fmt.Errorf("checkpoint: settle: %w", err)
			}
		}
	}
	if !found {
		return nil
	}
	if err := durable.SyncDirs(fsys, dir); err != nil {
		return fmt.Errorf("checkpoint: settle: %w", err)
	}
	return nil
}

// Clean removes the temporary files of writes that were cut short. Call it when nobody writes.
func Clean(fsys vfs.FS, dir string) error {
	if err := durable.RemoveTemps(fsys, dir); err != nil {
		return fmt.Errorf("checkpoint: clean: %w", err)
	}
	return nil
}
