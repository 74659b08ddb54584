package commitlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Part of the file format, do not change.
const (
	redoName     = "redo"
	redoMagic    = 0x54575244 // "TWRD"
	redoMagicAt  = 0
	redoVersion  = 4
	redoLogID    = 8
	redoPosition = 16
	redoLength   = 24
	redoSum      = 32 // u32, of the content
	// 24 reserved bytes.
	redoCRC  = 60 // of the header
	redoSize = 64
)

// redo is a copy of the end of the log, made by Recover before it writes that anew in its place. When the power fails
// meanwhile, sectors there may hold neither the old bytes nor the new ones, although they are the same: without the copy
// an acknowledged batch that has no later one as a witness could be lost.
type redo struct {
	pos    Offset
	length int64
	sum    uint32
}

func (d redo) end() Offset { return d.pos + Offset(d.length) }

// appendRedo appends the header of a copy.
func appendRedo(b []byte, id uint64, d redo) []byte {
	n := len(b)
	be := binary.BigEndian
	b = be.AppendUint32(b, redoMagic)
	b = be.AppendUint32(b, formatVersion)
	b = be.AppendUint64(b, id)
	b = be.AppendUint64(b, uint64(d.pos))
	b = be.AppendUint64(b, uint64(d.length))
	b = be.AppendUint32(b, d.sum)
	b = append(b, make([]byte, redoCRC-redoSum-4)...)
	return be.AppendUint32(b, crc32.Checksum(b[n:], castagnoli))
}

// decodeRedo reads the header of a copy that is in a file of the given length. One that is not whole, or of another
// log, is not ok; one of a newer version is an error.
func decodeRedo(file string, b []byte, size int64, id uint64) (d redo, ok bool, err error) {
	be := binary.BigEndian
	if len(b) < redoSize || be.Uint32(b[redoMagicAt:]) != redoMagic ||
		crc32.Checksum(b[:redoCRC], castagnoli) != be.Uint32(b[redoCRC:]) {
		return redo{}, false, nil
	}
	if err := checkVersion(file, be.Uint32(b[redoVersion:])); err != nil {
		return redo{}, false, err
	}
	d = redo{
		pos:    Offset(be.Uint64(b[redoPosition:])),
		length: int64(be.Uint64(b[redoLength:])),
		sum:    be.Uint32(b[redoSum:]),
	}
	ok = be.Uint64(b[redoLogID:]) == id && d.pos >= 0 && d.length > 0 && d.length <= size-redoSize
	return d, ok, nil
}

// findRedo opens the copy that an interrupted recovery has left and checks all of it. Without one, or with one that was
// not finished, the file is nil: then nothing was written in its place either.
func findRedo(fsys vfs.FS, dir string, id uint64) (vfs.File, redo, error) {
	name := path.Join(dir, redoName)
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, redo{}, nil
	}
	if err != nil {
		return nil, redo{}, fmt.Errorf("commitlog: open redo: %w", err)
	}
	d, ok, err := readRedo(f, name, id)
	if err != nil || !ok {
		closeIdle(f)
		return nil, redo{}, err
	}
	return f, d, nil
}

func readRedo(f vfs.File, name string, id uint64) (redo, bool, error) {
	size, err := f.Size()
	if err != nil {
		return redo{}, false, fmt.Errorf("commitlog: size of redo: %w", err)
	}
	head := make([]byte, min(size, redoSize))
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return redo{}, false, fmt.Errorf("commitlog: read redo: %w", err)
	}
	d, ok, err := decodeRedo(name, head, size, id)
	if err != nil || !ok {
		return redo{}, false, err
	}
	sum := uint32(0)
	err = copyBlocks(f, redoSize, d.length, func(b []byte, _ int64) error {
		sum = crc32.Update(sum, castagnoli, b)
		return nil
	})
	return d, err == nil && sum == d.sum, err
}

// applyRedo brings an interrupted recovery to its end: the copy goes to its place, which is synced. It returns the end
// of what is durable by that, 0 when there was no copy. The bytes are those of the log ever since, so it does no harm
// to do it again, if the copy comes back. With readOnly it returns ErrInterrupted when there is something to do.
func applyRedo(fsys vfs.FS, dir string, id uint64, segs []*segment, readOnly bool) (Offset, error) {
	f, d, err := findRedo(fsys, dir, id)
	if f == nil || err != nil {
		return 0, err
	}
	defer closeIdle(f)
	i := segmentIndex(segs, d.pos)
	if i < 0 || i+1 < len(segs) && d.end() > segs[i+1].base {
		return 0, nil // its segment was dropped since
	}
	if readOnly {
		return 0, compareRedo(fsys, f, d, segs[i])
	}
	// The copy too may be in the page cache only. On a full disk it must do as it is.
	if err := saveRedo(fsys, dir, id, f, redoSize, d); err != nil && !vfs.IsNoSpace(err) {
		return 0, err
	}
	seg, err := fsys.OpenFile(segs[i].name, os.O_RDWR, 0)
	if err != nil {
		return 0, fmt.Errorf("commitlog: open segment: %w", err)
	}
	defer closeIdle(seg) // synced below
	at := int64(d.pos - segs[i].base)
	err = copyBlocks(f, redoSize, d.length, func(b []byte, off int64) error {
		_, err := seg.WriteAt(b, at+off)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("commitlog: apply redo: %w", err)
	}
	if err := seg.Sync(); err != nil {
		return 0, syncError{fmt.Errorf("commitlog: sync segment: %w", err)}
	}
	return d.end(), removeRedo(fsys, dir)
}

// compareRedo returns ErrInterrupted if a segment does not hold what the copy says.
func compareRedo(fsys vfs.FS, f vfs.File, d redo, s *segment) error {
	seg, err := fsys.OpenFile(s.name, os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("commitlog: open segment: %w", err)
	}
	defer closeIdle(seg)
	there := make([]byte, min(d.length, scanBlock))
	return copyBlocks(f, redoSize, d.length, func(b []byte, off int64) error {
		n, err := seg.ReadAt(there[:len(b)], int64(d.pos-s.base)+off)
		if n < len(b) && !errors.Is(err, io.EOF) {
			return fmt.Errorf("commitlog: read segment: %w", err)
		}
		if !bytes.Equal(b, there[:n]) {
			return ErrInterrupted
		}
		return nil
	})
}

// removeRedo unlinks a copy, and what is left of one that was not finished.
func removeRedo(fsys vfs.FS, dir string) error {
	for _, name := range []string{redoName + newSuffix, redoName} {
		if err := removeFile(fsys, path.Join(dir, name)); err != nil {
			return fmt.Errorf("commitlog: remove redo: %w", err)
		}
	}
	return nil
}

// saveRedo makes a copy of d.length bytes of a file from off on, which belong to d.pos, and makes it durable. A copy
// that is there already stays until then.
func saveRedo(fsys vfs.FS, dir string, id uint64, from vfs.File, off int64, d redo) error {
	name := path.Join(dir, redoName)
	temp := name + newSuffix
	if err := removeFile(fsys, temp); err != nil {
		return fmt.Errorf("commitlog: create redo: %w", err)
	}
	f, err := fsys.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, filePerm)
	if err != nil {
		return fmt.Errorf("commitlog: create redo: %w", err)
	}
	defer closeIdle(f) // synced below, or of no use
	d.sum = 0
	err = copyBlocks(from, off, d.length, func(b []byte, at int64) error {
		d.sum = crc32.Update(d.sum, castagnoli, b)
		_, err := f.WriteAt(b, redoSize+at)
		return err
	})
	if err == nil {
		_, err = f.WriteAt(appendRedo(nil, id, d), 0)
	}
	if err != nil {
		return fmt.Errorf("commitlog: write redo: %w", err)
	}
	if err := f.Sync(); err != nil {
		return syncError{fmt.Errorf("commitlog: sync redo: %w", err)}
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("commitlog: close redo: %w", err)
	}
	if err := fsys.Rename(temp, name); err != nil {
		return fmt.Errorf("commitlog: rename redo: %w", err)
	}
	if err := vfs.SyncDir(fsys, dir); err != nil {
		return syncError{fmt.Errorf("commitlog: sync directory: %w", err)}
	}
	return nil
}

// copyBlocks reads n bytes of a file from off on and gives them to fn, a block at a time with its distance from off.
func copyBlocks(f vfs.File, off, n int64, fn func(b []byte, at int64) error) error {
	buf := make([]byte, min(n, scanBlock))
	for at := int64(0); at < n; at += int64(len(buf)) {
		buf = buf[:min(n-at, int64(len(buf)))]
		if k, err := f.ReadAt(buf, off+at); k < len(buf) {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		if err := fn(buf, at); err != nil {
			return err
		}
	}
	return nil
}
