package timerlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// eachBlocks is how many full blocks Each reads at once.
const eachBlocks = 19

// openRead opens a file for reading and checks that it is the file it should be.
func (l *Log) openRead(number int64) (vfs.File, error) {
	name := l.fileName(number)
	f, err := l.fsys.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, corrupt.Errorf(name, 0, "the file is missing")
	}
	if err != nil {
		return nil, fmt.Errorf("timerlog: open: %w", err)
	}
	if err := l.checkFile(f, name, number); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (l *Log) checkFile(f vfs.File, name string, number int64) error {
	b := make([]byte, fileHeaderSize)
	if n, err := f.ReadAt(b, 0); err == io.EOF {
		return corrupt.Errorf(name, int64(n), "the file ends in its header")
	} else if err != nil {
		return fmt.Errorf("timerlog: read header of %s: %w", name, err)
	}
	h, err := decodeFileHeader(b)
	if errors.Is(err, ErrNewerFormat) {
		return fmt.Errorf("timerlog: open %s: %w", name, err)
	}
	if err != nil {
		return corrupt.Errorf(name, 0, "%v", err)
	}
	if want := l.header(number); h != want {
		return corrupt.Errorf(name, 0, "this is file %d of family %q of store %x, not file %d of %q of %x",
			h.number, h.family, h.ident, want.number, want.family, want.ident)
	}
	return nil
}

// readAt fills p from a place.
func (l *Log) readAt(p []byte, at Place) error {
	h, err := l.handles.acquire(at.File)
	if err != nil {
		return err
	}
	defer l.handles.release(h)
	n, err := h.file.ReadAt(p, at.Offset)
	if err == io.EOF {
		return corrupt.Errorf(l.fileName(at.File), at.Offset+int64(n), "the file ends within a group")
	}
	if err != nil {
		return fmt.Errorf("timerlog: read %s at %d: %w", l.fileName(at.File), at.Offset, err)
	}
	return nil
}

// checkRef compares the header of the group that ref names, in b, with ref, and returns its CRC.
func (l *Log) checkRef(ref Ref, b []byte, tmp *[20]byte) (uint32, error) {
	got, _, crc, err := decodeGroupHeader(b, tmp, ref.Place())
	if err != nil {
		return 0, corrupt.Errorf(l.fileName(ref.File), ref.Offset, "%v", err)
	}
	if got != ref {
		return 0, corrupt.Errorf(l.fileName(ref.File), ref.Offset, "another group stands here: %d entries (%d, %d) to (%d, %d) "+
			"of slot %d instead of %d entries (%d, %d) to (%d, %d) of slot %d", got.Count, got.Min.Due, got.Min.ID, got.Max.Due,
			got.Max.ID, got.Slot, ref.Count, ref.Min.Due, ref.Min.ID, ref.Max.Due, ref.Max.ID, ref.Slot)
	}
	return crc, nil
}

// Lookup reads the header of the group at a place, for a slot that remembers no more than that: its ref, and where the
// older group of its slot stands, NoPlace if there is none. Safe for concurrent use.
func (l *Log) Lookup(at Place) (Ref, Place, error) {
	length, err := l.length(at.File)
	if err != nil {
		return Ref{}, NoPlace, err
	}
	if at.Offset < fileHeaderSize || at.Offset > length-groupHeaderSize {
		return Ref{}, NoPlace, corrupt.Errorf(l.fileName(at.File), at.Offset, "no group within the recorded length %d", length)
	}
	b := make([]byte, groupHeaderSize)
	if err := l.readAt(b, at); err != nil {
		return Ref{}, NoPlace, err
	}
	ref, prev, _, err := decodeGroupHeader(b, new([20]byte), at)
	if err != nil {
		return Ref{}, NoPlace, corrupt.Errorf(l.fileName(at.File), at.Offset, "%v", err)
	}
	return ref, prev, l.checkBounds(ref)
}

// Each calls fn for every entry of a group or spill, as they stand, and stops at its first error, which it returns. It
// reads about 256 KiB at once. Safe for concurrent use.
func (l *Log) Each(ref Ref, fn func(Entry) error) error {
	if err := l.checkBounds(ref); err != nil {
		return err
	}
	var tmp [20]byte
	buf := make([]byte, min(ref.Length, groupHeaderSize+eachBlocks*blockSize))
	if err := l.readAt(buf, ref.Place()); err != nil {
		return err
	}
	group, err := l.checkRef(ref, buf, &tmp)
	if err != nil {
		return err
	}
	seen := Ref{Min: ref.Max, Max: ref.Min}
	at, b := ref.Offset+groupHeaderSize, buf[groupHeaderSize:]
	for left := ref.Count; left > 0; {
		n := min(left, blockEntries)
		size := blockHeadSize + n*EntrySize
		if len(b) == 0 {
			b = buf[:min(int64(eachBlocks*blockSize), ref.end()-at)]
			if err := l.readAt(b, Place{ref.File, at}); err != nil {
				return err
			}
		}
		if err := checkBlock(b[:size], &tmp, Place{ref.File, at}, group, n); err != nil {
			return corrupt.Errorf(l.fileName(ref.File), at, "%v", err)
		}
		for i := blockHeadSize; i < size; i += EntrySize {
			e := entryAt(b[i:])
			if e.Key.Less(seen.Min) {
				seen.Min = e.Key
			}
			if seen.Max.Less(e.Key) {
				seen.Max = e.Key
			}
			if err := fn(e); err != nil {
				return err
			}
		}
		at, b, left = at+int64(size), b[size:], left-n
	}
	if seen.Min != ref.Min || seen.Max != ref.Max {
		return corrupt.Errorf(l.fileName(ref.File), ref.Offset, "keys of the entries are not those of the header")
	}
	return nil
}

// Verify checks that what refs name is there: files of the right length, and at each place the header of that group. It
// costs one small read a ref, which is right for opening; the blocks are checked by who reads them, and all of them by
// Each. Safe for concurrent use.
func (l *Log) Verify(refs []Ref) error {
	b := make([]byte, groupHeaderSize)
	var tmp [20]byte
	sizes := make(map[int64]int64)
	for _, ref := range refs {
		if err := l.checkBounds(ref); err != nil {
			return err
		}
		if err := l.readAt(b, ref.Place()); err != nil {
			return err
		}
		if _, err := l.checkRef(ref, b, &tmp); err != nil {
			return err
		}
		size, ok := sizes[ref.File]
		if !ok {
			var err error
			if size, err = l.fileSize(ref.File); err != nil {
				return err
			}
			sizes[ref.File] = size
		}
		if ref.end() > size {
			return corrupt.Errorf(l.fileName(ref.File), size, "the file ends within the group at %d", ref.Offset)
		}
	}
	return nil
}

// VerifyFiles checks that files are there and as long as the State says, for a slot that remembers no more of its groups than
// places. It costs an open a file. Safe for concurrent use.
func (l *Log) VerifyFiles(numbers []int64) error {
	for _, n := range numbers {
		length, err := l.length(n)
		if err != nil {
			return err
		}
		if length == 0 {
			return corrupt.Errorf(l.fileName(n), 0, "the file is not in the recorded state")
		}
		size, err := l.fileSize(n)
		if err != nil {
			return err
		}
		if size < length {
			return corrupt.Errorf(l.fileName(n), size, "the file ends before byte %d, where it was written to", length)
		}
	}
	return nil
}

func (l *Log) fileSize(number int64) (int64, error) {
	h, err := l.handles.acquire(number)
	if err != nil {
		return 0, err
	}
	defer l.handles.release(h)
	size, err := h.file.Size()
	if err != nil {
		return 0, fmt.Errorf("timerlog: size of %s: %w", l.fileName(number), err)
	}
	return size, nil
}
