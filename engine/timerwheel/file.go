package timerwheel

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

// Part of the file format, do not change.
const (
	magic      = "TWWHEEL\x00"
	version    = 1
	headerSize = 4096
	headerUsed = 8 + 4 + 4 + 8 + 8 + 4
)

// Errors of opening.
var (
	// ErrNewerFormat says that a later version of this package wrote the file.
	ErrNewerFormat = errors.New("timerwheel: newer format")
	// ErrPages is returned by DecodePages and DecodeTable for bytes that were not written by their counterparts.
	ErrPages = errors.New("timerwheel: bad pages")
)

// Page is a frozen page for a checkpoint.
type Page struct {
	Number int
	page   *page
	epoch  uint64
}

// Freeze returns the pages that changed since the last Freeze that was thawed, ascending. They do not change any more:
// a later Set makes a copy. Table, called with it, says which pages there are.
func (w *Wheel) Freeze() []Page {
	if len(w.dirty) == 0 {
		return nil
	}
	pages, epoch := make([]Page, 0, len(w.dirty)), w.share()
	for n := range w.dirty {
		pages = append(pages, Page{n, w.pages[n], epoch})
	}
	slices.SortFunc(pages, func(a, b Page) int { return a.Number - b.Number })
	clear(w.dirty)
	return pages
}

// Thaw ends a Freeze when its pages are in place.
func (w *Wheel) Thaw(pages []Page) {
	if len(pages) > 0 {
		w.unshare(pages[0].epoch)
	}
}

// writer is what a job knows of the file.
type writer struct {
	named  bool // name and header are durable
	failed error
	buf    []byte
}

// Write puts frozen pages in place and makes them durable. It is a job's, when both copies of the checkpoint that holds
// them are there. After an error it may be called again with the same pages, unless a sync failed, which is final.
func (w *Wheel) Write(pages []Page) error {
	if w.file.failed != nil {
		return w.file.failed
	}
	if len(pages) == 0 {
		return nil
	}
	if err := w.write(pages); err != nil {
		return fmt.Errorf("timerwheel: write %s: %w", w.name, err)
	}
	return nil
}

func (w *Wheel) write(pages []Page) (err error) {
	if !w.file.named {
		if err := w.fsys.MkdirAll(path.Dir(w.name), durable.DirPerm); err != nil {
			return err
		}
	}
	f, err := w.fsys.OpenFile(w.name, os.O_RDWR|os.O_CREATE, durable.FilePerm)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if !w.file.named {
		if _, err := f.WriteAt(w.appendHeader(nil), 0); err != nil {
			return err
		}
	}
	for _, p := range pages {
		w.file.buf = appendPage(w.file.buf[:0], p.Number, p.page)
		if _, err := f.WriteAt(w.file.buf, pageOffset(p.Number)); err != nil {
			return err
		}
	}
	if err := vfs.SyncData(f); err != nil {
		w.file.failed = err
		return err
	}
	if !w.file.named {
		if err := durable.SyncDirs(w.fsys, path.Dir(w.name)); err != nil {
			w.file.failed = err
			return err
		}
		w.file.named = true
	}
	return nil
}

func pageOffset(n int) int64 { return headerSize + int64(n)*pageSize }

func appendPage(b []byte, n int, p *page) []byte {
	var tmp [8]byte
	for i := range p.slots {
		b = appendSlot(b, &tmp, int64(n*pageSlots+i), &p.slots[i])
	}
	return b
}

func (w *Wheel) appendHeader(b []byte) []byte {
	start := len(b)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint32(b, version)
	b = binary.BigEndian.AppendUint32(b, uint32(w.p.Slots))
	b = binary.BigEndian.AppendUint64(b, uint64(w.p.WidthMs))
	b = binary.BigEndian.AppendUint64(b, w.p.Ident)
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
	return append(b, make([]byte, headerSize-headerUsed)...)
}

func (w *Wheel) checkHeader(b []byte) error {
	be := binary.BigEndian
	switch {
	case string(b[:8]) != magic:
		return corrupt.Errorf(w.name, 0, "no magic of a TimerWheel")
	case be.Uint32(b[8:]) > version:
		return fmt.Errorf("%w: %s has version %d, this is %d", ErrNewerFormat, w.name, be.Uint32(b[8:]), version)
	case be.Uint32(b[8:]) != version:
		return corrupt.Errorf(w.name, 8, "version %d", be.Uint32(b[8:]))
	case crc32.Checksum(b[:headerUsed-4], castagnoli) != be.Uint32(b[headerUsed-4:]):
		return corrupt.Errorf(w.name, headerUsed-4, "crc of the header")
	case int64(be.Uint32(b[12:])) != int64(w.p.Slots) || be.Uint64(b[16:]) != uint64(w.p.WidthMs):
		return corrupt.Errorf(w.name, 12, "%d slots of %d ms, wanted %d of %d", be.Uint32(b[12:]), be.Uint64(b[16:]), w.p.Slots, w.p.WidthMs)
	case be.Uint64(b[24:]) != w.p.Ident:
		return corrupt.Errorf(w.name, 24, "the ring of another store or lane")
	}
	return nil
}

// Load fills an empty ring as a checkpoint says: the pages of its table, those among redo from the checkpoint (they count
// as changed again), the others from the file. A damaged or missing file is a *corrupt.Error.
func (w *Wheel) Load(table []int, redo []DecodedPage) error {
	last := -1
	for _, n := range table {
		if n <= last || n*pageSlots >= w.p.Slots {
			return fmt.Errorf("%w: page %d in a table", ErrPages, n)
		}
		last = n
	}
	fromRedo := map[int][]byte{}
	for _, p := range redo {
		fromRedo[p.Number] = p.Data
	}
	var f vfs.File
	defer func() {
		if f != nil {
			_ = f.Close() // only read
		}
	}()
	buf := make([]byte, pageSize)
	for _, n := range table {
		data, again := fromRedo[n]
		if !again {
			if f == nil {
				var err error
				if f, err = w.openRead(); err != nil {
					return err
				}
			}
			if err := w.readPage(f, n, buf); err != nil {
				return err
			}
			data = buf
		}
		if err := w.install(n, data, again); err != nil {
			return err
		}
	}
	return nil
}

func (w *Wheel) openRead() (vfs.File, error) {
	f, err := w.fsys.OpenFile(w.name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, corrupt.Errorf(w.name, 0, "the file is missing")
	}
	if err != nil {
		return nil, fmt.Errorf("timerwheel: open: %w", err)
	}
	b := make([]byte, headerUsed)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		_ = f.Close()
		if err == io.EOF {
			return nil, corrupt.Errorf(w.name, int64(n), "the file ends in its header")
		}
		return nil, fmt.Errorf("timerwheel: read %s: %w", w.name, err)
	}
	if err := w.checkHeader(b); err != nil {
		_ = f.Close()
		return nil, err
	}
	// A page that only the file has was made durable by a Write, and so was the header. It is not written again: a power
	// cut may leave anything in a sector that is being written, and the page would be lost with it.
	w.file.named = true
	return f, nil
}

func (w *Wheel) readPage(f vfs.File, n int, buf []byte) error {
	got, err := f.ReadAt(buf, pageOffset(n))
	if got == len(buf) {
		return nil
	}
	if err == io.EOF {
		return corrupt.Errorf(w.name, pageOffset(n)+int64(got), "the file ends within page %d", n)
	}
	return fmt.Errorf("timerwheel: read %s: %w", w.name, err)
}

// install decodes a page into memory.
func (w *Wheel) install(n int, data []byte, dirty bool) error {
	var tmp [8]byte
	for i := range pageSlots {
		index := n*pageSlots + i
		s, err := decodeSlot(data[i*SlotSize:], &tmp, int64(index))
		if err == nil && s.Count > 0 && (index >= w.p.Slots || w.index(s.Time) != index) {
			err = fmt.Errorf("slot %d holds time %d", index, s.Time)
		}
		if err != nil {
			return corrupt.Errorf(w.name, pageOffset(n)+int64(i*SlotSize), "%v", err)
		}
		if s.Count > 0 {
			w.Set(s)
		}
	}
	if w.pages[n] == nil {
		return corrupt.Errorf(w.name, pageOffset(n), "page %d has no slot, a checkpoint lists it", n)
	}
	if !dirty {
		delete(w.dirty, n)
	}
	return nil
}

// RemoveAll removes the file, for a rebuild.
func (w *Wheel) RemoveAll() error {
	err := w.fsys.Remove(w.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("timerwheel: remove: %w", err)
	}
	w.file.named = false
	return vfs.SyncDir(w.fsys, path.Dir(w.name))
}
