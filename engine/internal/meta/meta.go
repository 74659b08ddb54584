package meta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/durable"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Sizes and marks are part of the file format, do not change.
const (
	// Name of the file.
	Name = "meta"
	// Version of the data directory that this program writes, and the only one it reads.
	Version = 1

	magic = "TIDEWHEL"
	size  = 8 + 4 + 4 + 8 + 8 + 8 + 8 + 12 + 4
)

var (
	// ErrForeign is returned by Load and Create: the directory holds something, but no store. Nothing was touched.
	ErrForeign = errors.New("meta: not a Tidewheel directory")

	// ErrNewerFormat is returned by Load and Create: a later version of the program made the store. The message names both
	// versions.
	ErrNewerFormat = errors.New("meta: newer format")
)

// Meta is what is fixed when a store is made.
type Meta struct {
	StoreID   uint64 // of this data directory
	LogID     uint64 // of the CommitLog; replicas share it
	NodeID    uint64 // of the machine in a cluster, 0 alone
	Lanes     uint32 // over which topics are spread
	CreatedMs int64  // since 1970
}

func (m Meta) append(b []byte) []byte {
	start := len(b)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint32(b, Version)
	b = binary.BigEndian.AppendUint32(b, m.Lanes)
	b = binary.BigEndian.AppendUint64(b, m.StoreID)
	b = binary.BigEndian.AppendUint64(b, m.LogID)
	b = binary.BigEndian.AppendUint64(b, uint64(m.CreatedMs))
	b = binary.BigEndian.AppendUint64(b, m.NodeID)
	b = append(b, make([]byte, 12)...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// decode reads a Meta. The CRC comes before the version, so that a flipped bit does not look like the future.
func decode(b []byte) (Meta, error) {
	if len(b) != size {
		return Meta{}, fmt.Errorf("%d bytes instead of %d", len(b), size)
	}
	if string(b[:8]) != magic {
		return Meta{}, errors.New("wrong magic")
	}
	if crc32.Checksum(b[:60], castagnoli) != binary.BigEndian.Uint32(b[60:]) {
		return Meta{}, errors.New("bad crc")
	}
	switch v := binary.BigEndian.Uint32(b[8:]); {
	case v == 0:
		return Meta{}, errors.New("version 0")
	case v > Version:
		return Meta{}, fmt.Errorf("%w: the directory has version %d, this program knows %d", ErrNewerFormat, v, Version)
	}
	return Meta{
		Lanes:     binary.BigEndian.Uint32(b[12:]),
		StoreID:   binary.BigEndian.Uint64(b[16:]),
		LogID:     binary.BigEndian.Uint64(b[24:]),
		CreatedMs: int64(binary.BigEndian.Uint64(b[32:])),
		NodeID:    binary.BigEndian.Uint64(b[40:]),
	}, nil
}

// Load reads the Meta of dir. The error is of kind fs.ErrNotExist if dir is empty or does not exist; ErrForeign if it holds
// something but no meta; ErrNewerFormat; a *corrupt.Error if the file is damaged; or what the file system says. Names in
// ours do not count as something: what the caller put there before, such as a lock file. Nothing is changed.
//
// A meta that is found may be in memory only, if the process that made it was killed at once: who goes on to write calls
// durable.SyncDirs before anything is acknowledged.
func Load(fsys vfs.FS, dir string, ours ...string) (Meta, error) {
	name := path.Join(dir, Name)
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if foreign := checkEmpty(fsys, dir, ours); foreign != nil {
			return Meta{}, foreign
		}
	}
	if err != nil {
		return Meta{}, fmt.Errorf("meta: load: %w", err)
	}
	b := make([]byte, size+1) // one more: a longer file is no meta
	n, err := f.ReadAt(b, 0)
	if err == io.EOF {
		err = nil
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return Meta{}, fmt.Errorf("meta: load: %w", err)
	}
	m, err := decode(b[:n])
	if errors.Is(err, ErrNewerFormat) {
		return Meta{}, err
	}
	if err != nil {
		return Meta{}, corrupt.Errorf(name, 0, "%v", err)
	}
	return m, nil
}

// checkEmpty returns ErrForeign if dir holds something that is not ours.
func checkEmpty(fsys vfs.FS, dir string, ours []string) error {
	infos, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("meta: load: %w", err)
	}
	for _, info := range infos {
		// A Create that was cut short leaves its temporary file; a fresh volume has lost+found.
		if info.Name == Name+durable.TempSuffix || info.Name == "lost+found" || slices.Contains(ours, info.Name) {
			continue
		}
		return fmt.Errorf("%w: %s has no file %s but holds %s", ErrForeign, dir, Name, info.Name)
	}
	return nil
}

// Create makes dir a data directory, and returns nil when that is durable. It makes dir if needed. The error is of kind
// fs.ErrExist if it is one already; ErrForeign as Load says it.
func Create(fsys vfs.FS, dir string, m Meta, ours ...string) error {
	switch _, err := Load(fsys, dir, ours...); {
	case err == nil:
		return fmt.Errorf("meta: create in %s: %w", dir, fs.ErrExist)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := fsys.MkdirAll(dir, durable.DirPerm); err != nil {
		return fmt.Errorf("meta: create: %w", err)
	}
	// The directory first: a meta whose directory is lost is no harm, but Create has to mean what it says.
	if err := durable.SyncDirs(fsys, dir); err != nil {
		return fmt.Errorf("meta: create: %w", err)
	}
	err := durable.Replace(fsys, path.Join(dir, Name), func(f vfs.File) error {
		_, err := f.WriteAt(m.append(nil), 0)
		return err
	})
	if err != nil {
		return fmt.Errorf("meta: create: %w", err)
	}
	return nil
}
