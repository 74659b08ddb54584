package handle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/durable"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Sizes of the file of keys, part of the format, do not change.
const (
	secretSize = 32
	fileMagic  = "TWKEYS\r\n"
	fileHead   = len(fileMagic) + 4 + 4
	keySize    = 1 + 7 + secretSize
	crcSize    = 4
	maxKeys    = 255
	maxFile    = fileHead + maxKeys*keySize + crcSize

	fileVersion = 1
)

// ErrNewerFormat is the kind of error for a file of keys that a newer version wrote; the text names both.
var ErrNewerFormat = errors.New("file of a newer version")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendKeys appends the content of a file of keys.
func appendKeys(b []byte, keys []*key) []byte {
	start := len(b)
	b = append(b, fileMagic...)
	b = binary.BigEndian.AppendUint32(b, fileVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(len(keys)))
	for _, k := range keys {
		b = append(b, k.id, 0, 0, 0, 0, 0, 0, 0)
		b = append(b, k.secret[:]...)
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// decodeKeys reads the content of a file of keys; the name is for errors.
func decodeKeys(name string, b []byte) ([]*key, error) {
	if len(b) < fileHead || string(b[:len(fileMagic)]) != fileMagic {
		return nil, corrupt.Errorf(name, 0, "not a file of keys")
	}
	if v := binary.BigEndian.Uint32(b[len(fileMagic):]); v > fileVersion {
		return nil, fmt.Errorf("%s: %w: it has %d, this program reads up to %d", name, ErrNewerFormat, v, fileVersion)
	} else if v != fileVersion {
		return nil, corrupt.Errorf(name, int64(len(fileMagic)), "version %d", v)
	}
	count := int64(binary.BigEndian.Uint32(b[len(fileMagic)+4:]))
	if count < 1 || count > maxKeys || int64(len(b)) != int64(fileHead)+count*keySize+crcSize {
		return nil, corrupt.Errorf(name, int64(len(fileMagic)+4), "%d keys in %d bytes", count, len(b))
	}
	end := len(b) - crcSize
	if crc := crc32.Checksum(b[:end], castagnoli); crc != binary.BigEndian.Uint32(b[end:]) {
		return nil, corrupt.Errorf(name, int64(end), "CRC is %08x, the content has %08x", b[end:], crc)
	}
	keys := make([]*key, count)
	for i := range keys {
		at := fileHead + i*keySize
		if int(b[at]) != i+1 {
			return nil, corrupt.Errorf(name, int64(at), "key id %d in place %d", b[at], i+1)
		}
		keys[i] = &key{id: b[at]}
		copy(keys[i].secret[:], b[at+8:])
	}
	return keys, nil
}

// load reads a file of keys. Its name is made durable first: a process that was killed between rename and sync has left
// keys that a power cut could still take back, after new handles were sealed with them.
func load(fsys vfs.FS, name string) ([]*key, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := durable.SyncDirs(fsys, path.Dir(name)); err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	// A newer version may be longer, so the length is judged after the version.
	b := make([]byte, min(size, int64(maxFile)+1))
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, err
	}
	return decodeKeys(name, b)
}

// store replaces a file of keys. When it returns nil the new one is durable; after an error either may be found.
func store(fsys vfs.FS, name string, keys []*key) error {
	content := appendKeys(nil, keys)
	return durable.Replace(fsys, name, func(f vfs.File) error {
		_, err := f.WriteAt(content, 0)
		return err
	})
}

// absent is nil when there is no file of the name.
func absent(fsys vfs.FS, name string) error {
	switch _, err := fsys.Stat(name); {
	case err == nil:
		return &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return err
	}
}
