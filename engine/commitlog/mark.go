package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Part of the file format, do not change.
const (
	markName        = "mark"
	markMagic       = 0x54574d4b // "TWMK"
	markMagicAt     = 0
	markVersion     = 4
	markLogID       = 8
	markSeq         = 16
	markDurable     = 24
	markLogMs       = 32
	markIncarnation = 40
	// 16 reserved bytes.
	markCRC  = 60
	markSize = 64

	markSlots   = 2
	markSpacing = 4096 // one page each, so that a torn write never reaches the other
)

// Mark is what the mark file knows of the end of the log.
type Mark struct {
	Seq         uint64 // counts the marks; 0: none
	Durable     Offset // the log was durable up to here
	LogMs       int64  // running time of the log, ms
	Incarnation uint32
}

// appendMark appends the slot that holds m.
func appendMark(b []byte, id uint64, m Mark) []byte {
	n := len(b)
	be := binary.BigEndian
	b = be.AppendUint32(b, markMagic)
	b = be.AppendUint32(b, formatVersion)
	b = be.AppendUint64(b, id)
	b = be.AppendUint64(b, m.Seq)
	b = be.AppendUint64(b, uint64(m.Durable))
	b = be.AppendUint64(b, uint64(m.LogMs))
	b = be.AppendUint32(b, m.Incarnation)
	b = append(b, make([]byte, markCRC-markIncarnation-4)...)
	return be.AppendUint32(b, crc32.Checksum(b[n:], castagnoli))
}

// decodeMark reads a slot. A slot that is damaged, or of another log, is not ok; one of a newer version is an error.
func decodeMark(file string, b []byte, id uint64) (m Mark, ok bool, err error) {
	be := binary.BigEndian
	if len(b) < markSize || be.Uint32(b[markMagicAt:]) != markMagic ||
		crc32.Checksum(b[:markCRC], castagnoli) != be.Uint32(b[markCRC:]) {
		return Mark{}, false, nil
	}
	if err := checkVersion(file, be.Uint32(b[markVersion:])); err != nil {
		return Mark{}, false, err
	}
	m = Mark{
		Seq:         be.Uint64(b[markSeq:]),
		Durable:     Offset(be.Uint64(b[markDurable:])),
		LogMs:       int64(be.Uint64(b[markLogMs:])),
		Incarnation: be.Uint32(b[markIncarnation:]),
	}
	return m, be.Uint64(b[markLogID:]) == id && m.Seq > 0 && m.Durable >= 0, nil
}

// markFile is the file with both slots. Its methods may be called from several goroutines.
type markFile struct {
	fs   vfs.FS
	name string
	id   uint64

	mu   sync.Mutex
	last Mark
	bad  bool     // the file is there and holds no mark
	made bool     // the file was not there, and its name may not be durable
	file vfs.File // nil until the first write
}

// openMark reads the mark. No file, and a file without a valid slot, give the zero mark.
func openMark(fsys vfs.FS, dir string, id uint64) (*markFile, error) {
	m := &markFile{fs: fsys, name: path.Join(dir, markName), id: id}
	f, err := fsys.OpenFile(m.name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		m.made = true
		return m, nil
	}
	if err != nil {
		return nil, fmt.Errorf("commitlog: open mark: %w", err)
	}
	defer f.Close() // only read
	some := false
	for i := range int64(markSlots) {
		var b [markSize]byte
		n, err := f.ReadAt(b[:], i*markSpacing)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("commitlog: read mark: %w", err)
		}
		some = some || n > 0
		slot, ok, err := decodeMark(m.name, b[:n], id)
		if err != nil {
			return nil, err
		}
		if ok && slot.Seq > m.last.Seq {
			m.last = slot
		}
	}
	m.bad = some && m.last.Seq == 0
	return m, nil
}

// write writes the next mark into the slot that does not hold the last one, and syncs it. After a failed write the
// last mark still stands and the same slot is tried again; a failed sync is returned as a syncError.
func (m *markFile) write(durableEnd Offset, logMs int64, incarnation uint32) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		f, err := m.fs.OpenFile(m.name, os.O_RDWR|os.O_CREATE, filePerm)
		if err != nil {
			return fmt.Errorf("commitlog: open mark: %w", err)
		}
		m.file = f
	}
	next := Mark{Seq: m.last.Seq + 1, Durable: durableEnd, LogMs: logMs, Incarnation: incarnation}
	b := appendMark(make([]byte, 0, markSize), m.id, next)
	if _, err := m.file.WriteAt(b, int64(next.Seq%markSlots)*markSpacing); err != nil {
		return fmt.Errorf("commitlog: write mark: %w", err)
	}
	if err := vfs.SyncData(m.file); err != nil {
		return syncError{fmt.Errorf("commitlog: sync mark: %w", err)}
	}
	m.last = next
	return nil
}

// mark is the last mark read or written.
func (m *markFile) mark() Mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

func (m *markFile) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		return nil
	}
	err := m.file.Close()
	m.file = nil
	return err
}

// syncError marks a failed sync, which is final, among errors of a job that may be tried again.
type syncError struct{ error }

func (e syncError) Unwrap() error { return e.error }
