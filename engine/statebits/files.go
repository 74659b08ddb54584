package statebits

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"sync"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/durable"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// maxReaders is how many files are kept open for reading: 270 million ids.
const maxReaders = 16

// jobs is what WritePages and DeleteClosed share.
type jobs struct {
	mu     sync.Mutex
	failed error
	named  map[uint64]bool // files whose names were synced since Open, by first chunk
	buf    []byte
}

// firstOf is the first chunk of the file that has a chunk.
func firstOf(chunk uint64) uint64 { return chunk / filePages * filePages }

func offsetOf(chunk uint64) int64 { return int64(chunk%filePages) * pageStride }

// fileName is the name of the file with a chunk, for vfs and for errors.
func (b *Bits) fileName(first uint64) string {
	return path.Join(b.dir, fmt.Sprintf("%020d", first))
}

// parseName is the first chunk in the name of a file of ours.
func parseName(name string) (uint64, bool) {
	if len(name) != 20 {
		return 0, false
	}
	n, err := strconv.ParseUint(name, 10, 64)
	return n, err == nil && n <= maxChunk && n%filePages == 0
}

// read reads the page of a chunk that the table has into data.
func (b *Bits) read(chunk uint64, data []byte) error {
	first, at := firstOf(chunk), offsetOf(chunk)
	name := b.fileName(first)
	f, err := b.readers.open(b.fsys, name, first)
	if errors.Is(err, fs.ErrNotExist) {
		return corrupt.Errorf(name, at, "the file is missing, with the page of chunk %d", chunk)
	}
	if err != nil {
		return fmt.Errorf("statebits: open: %w", err)
	}
	_, err = f.ReadAt(b.head, at)
	if err == nil {
		_, err = f.ReadAt(data, at+pageHeaderSize)
	}
	if err == io.EOF {
		return corrupt.Errorf(name, at, "the file ends before or within the page of chunk %d", chunk)
	}
	if err != nil {
		return fmt.Errorf("statebits: read %s at %d: %w", name, at, err)
	}
	if err := checkPage(b.head, data, chunk, b.ident); errors.Is(err, ErrNewerFormat) {
		return fmt.Errorf("statebits: read %s at %d: %w", name, at, err)
	} else if err != nil {
		return corrupt.Errorf(name, at, "%v", err)
	}
	return nil
}

// readers is the files open for reading, used last first. It is the writer's.
type readers struct {
	files  []reader
	closed bool
}

type reader struct {
	first uint64
	file  vfs.File
}

func (r *readers) open(fsys vfs.FS, name string, first uint64) (vfs.File, error) {
	if r.closed {
		return nil, ErrClosed
	}
	i := slices.IndexFunc(r.files, func(x reader) bool { return x.first == first })
	if i < 0 {
		f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
		if err != nil {
			return nil, err
		}
		if i = len(r.files); i == maxReaders {
			i--
			_ = r.files[i].file.Close() // opened for reading: there is nothing to lose
			r.files = r.files[:i]
		}
		r.files = append(r.files, reader{first, f})
	}
	x := r.files[i]
	copy(r.files[1:], r.files[:i])
	r.files[0] = x
	return x.file, nil
}

// close closes one file, if it is open.
func (r *readers) close(first uint64) {
	if i := slices.IndexFunc(r.files, func(x reader) bool { return x.first == first }); i >= 0 {
		_ = r.files[i].file.Close() // opened for reading: there is nothing to lose
		r.files = slices.Delete(r.files, i, i+1)
	}
}

func (r *readers) closeAll() error {
	if r.closed {
		return ErrClosed
	}
	r.closed = true
	var errs []error
	for _, x := range r.files {
		errs = append(errs, x.file.Close())
	}
	r.files = nil
	return errors.Join(errs...)
}

// WritePages writes pages of Freeze in place and makes them durable. It is called by a job, when both copies of the
// checkpoint that holds them are there. Pages of chunks closed meanwhile are left out. After an error it may be called again
// with the same pages, unless a sync failed: that is final, and ErrFailed from then on.
func (b *Bits) WritePages(pages []Page) error {
	b.job.mu.Lock()
	defer b.job.mu.Unlock()
	if b.job.failed != nil {
		return b.job.failed
	}
	var unnamed []uint64 // files whose names may not be durable: made just now, or by a life that was cut short
	for len(pages) > 0 {
		first := firstOf(pages[0].Chunk)
		n := slices.IndexFunc(pages, func(p Page) bool { return firstOf(p.Chunk) != first })
		if n < 0 {
			n = len(pages)
		}
		wrote, err := b.writeFile(first, pages[:n])
		if err != nil {
			return err
		}
		if wrote && !b.job.named[first] {
			unnamed = append(unnamed, first)
		}
		pages = pages[n:]
	}
	if len(unnamed) == 0 {
		return nil
	}
	if err := durable.SyncDirs(b.fsys, b.dir); err != nil {
		return b.fail(err)
	}
	for _, first := range unnamed {
		b.job.named[first] = true
	}
	return nil
}

// writeFile writes and syncs pages of one file, if there are any to write.
func (b *Bits) writeFile(first uint64, pages []Page) (wrote bool, err error) {
	name := b.fileName(first)
	var f vfs.File
	for _, p := range pages {
		if !b.has(p.Chunk) {
			continue
		}
		if f == nil {
			if f, err = b.openWrite(name); err != nil {
				return false, fmt.Errorf("statebits: write pages: %w", err)
			}
		}
		b.job.buf = appendPage(b.job.buf[:0], p, b.ident)
		if _, err := f.WriteAt(b.job.buf, offsetOf(p.Chunk)); err != nil {
			return false, errors.Join(fmt.Errorf("statebits: write pages: %w", err), f.Close())
		}
	}
	if f == nil {
		return false, nil
	}
	if err := vfs.SyncData(f); err != nil {
		return false, errors.Join(b.fail(fmt.Errorf("sync %s: %w", name, err)), f.Close())
	}
	if err := f.Close(); err != nil {
		return false, fmt.Errorf("statebits: write pages: %w", err)
	}
	return true, nil
}

// has says whether a chunk has a page, to a job.
func (b *Bits) has(chunk uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.table.Has(chunk)
}

func (b *Bits) openWrite(name string) (vfs.File, error) {
	f, err := b.fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, durable.FilePerm)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := b.fsys.MkdirAll(b.dir, durable.DirPerm); err != nil {
		return nil, err
	}
	return b.fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, durable.FilePerm)
}

// fail remembers why nothing is written any more.
func (b *Bits) fail(err error) error {
	b.job.failed = fmt.Errorf("%w: %w", ErrFailed, err)
	return b.job.failed
}

// DeleteClosed unlinks the files in which no chunk has a page any more, neither now nor in committed, which is the table of
// the newest checkpoint of which both copies are there: a restart would begin with it. It is called by a job.
func (b *Bits) DeleteClosed(committed Table) error {
	return b.remove(func(first uint64) bool {
		if committed.hasAny(first, first+filePages) {
			return false
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		return !b.table.hasAny(first, first+filePages)
	})
}

// RemoveAll unlinks every file, for a rebuild from the CommitLog; it is called by the writer, and no job may run. There is
// no page then.
func (b *Bits) RemoveAll() error {
	for len(b.readers.files) > 0 {
		b.readers.close(b.readers.files[0].first)
	}
	limit := b.limit
	b.cache = cache{}
	b.cache.init(limit)
	b.last, b.lastChunk = nil, noChunk
	b.mu.Lock()
	b.table = Table{}
	b.mu.Unlock()
	return b.remove(func(uint64) bool { return true })
}

// remove unlinks the files that garbage says.
func (b *Bits) remove(garbage func(first uint64) bool) error {
	b.job.mu.Lock()
	defer b.job.mu.Unlock()
	if b.job.failed != nil {
		return b.job.failed
	}
	infos, err := b.fsys.ReadDir(b.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("statebits: delete: %w", err)
	}
	removed := false
	for _, info := range infos {
		first, ours := parseName(info.Name)
		if !ours || info.Dir || !garbage(first) {
			continue
		}
		if err := b.fsys.Remove(b.fileName(first)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("statebits: delete: %w", err)
		}
		delete(b.job.named, first)
		removed = true
	}
	if !removed {
		return nil
	}
	if err := vfs.SyncDir(b.fsys, b.dir); err != nil {
		return b.fail(fmt.Errorf("sync directory %s: %w", b.dir, err))
	}
	return nil
}

// Verify checks that the files are there and long enough for the pages that are not in memory. It costs an open a file,
// which is right for opening; the pages are checked when they are read, and all of them by EachPage.
func (b *Bits) Verify() error {
	for _, r := range b.table.Ranges {
		for chunk := r.First; chunk < r.End; chunk++ {
			if b.pages[chunk] != nil {
				continue
			}
			// The last page of the file that is not in memory says how long the file must be.
			end := min(r.End, firstOf(chunk)+filePages)
			for b.pages[end-1] != nil {
				end--
			}
			if err := b.verifyFile(end - 1); err != nil {
				return err
			}
			chunk = min(r.End, firstOf(chunk)+filePages) - 1
		}
	}
	return nil
}

// verifyFile checks that a file reaches to the end of a chunk's page.
func (b *Bits) verifyFile(chunk uint64) error {
	name := b.fileName(firstOf(chunk))
	info, err := b.fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return corrupt.Errorf(name, offsetOf(chunk), "the file is missing, with the page of chunk %d", chunk)
	}
	if err != nil {
		return fmt.Errorf("statebits: verify: %w", err)
	}
	if info.Size < offsetOf(chunk)+pageStride {
		return corrupt.Errorf(name, info.Size, "the file ends before or within the page of chunk %d", chunk)
	}
	return nil
}
