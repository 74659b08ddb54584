package idempotency

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/durable"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// tableEntries is how many a table has that is written during a replay, when no checkpoint does it.
const tableEntries = 1 << 18

// table is what came since the last run.
type table struct {
	from    commitlog.Offset
	entries []Entry
	last    map[uint64]int32 // the newest entry of a hash
	older   []int32          // the one before it; -1: none
	lastMs  int64
}

func newTable(from commitlog.Offset) *table { return &table{from: from, last: map[uint64]int32{}} }

func (t *table) add(e Entry, logMs int64) {
	before, ok := t.last[e.Hash]
	if !ok {
		before = -1
	}
	t.last[e.Hash] = int32(len(t.entries))
	t.entries, t.older, t.lastMs = append(t.entries, e), append(t.older, before), logMs
}

// find calls visit for the entries of a hash, the newest first, until it says false.
func (t *table) find(hash uint64, visit func(commitlog.Offset) bool) bool {
	i, ok := t.last[hash]
	for ok && i >= 0 {
		if !visit(t.entries[i].Position) {
			return false
		}
		i = t.older[i]
	}
	return true
}

// Index is the index of a log. The writer alone calls Add, NewFreeze, Install and Spill; Find, Since, Any and Verify are
// safe for concurrent use beside it. Close ends it.
type Index struct {
	// set by Open, then read-only
	fs    vfs.FS
	dir   string
	logID uint64

	mu sync.RWMutex
	// guarded by mu; changed by the writer
	table  *table
	frozen *table       // being written
	runs   []Run        // oldest first
	unread map[Run]bool // could not be read when they were to be merged
	low    commitlog.Offset

	spilled []Run // written by Spill; the writer's

	files  sync.Map // name → vfs.File: those that are open
	opened atomic.Int64
}

// Open opens the index that a checkpoint knew; the zero State is an empty one. It reads nothing: Verify does.
func Open(fsys vfs.FS, dir string, logID uint64, at State) *Index {
	return &Index{fs: fsys, dir: dir, logID: logID, table: newTable(at.Memory), low: at.Low, runs: slices.Clone(at.Runs)}
}

// Close closes the files.
func (x *Index) Close() (err error) {
	x.files.Range(func(name, f any) bool {
		err = errors.Join(err, f.(vfs.File).Close())
		x.files.Delete(name)
		return true
	})
	return err
}

// Add adds the entry of a message at the end of the log.
func (x *Index) Add(e Entry, logMs int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.table.add(e, logMs)
}

// Low is a position before which entries may have been dropped.
func (x *Index) Low() commitlog.Offset {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.low
}

// Since says whether a message with the hash came at or behind a position, or may have: what is in files is not looked
// at.
func (x *Index) Since(hash uint64, pos commitlog.Offset) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	oldest, found := x.table.from, false
	visit := func(p commitlog.Offset) bool { found = p >= pos; return false }
	if x.frozen != nil {
		oldest = x.frozen.from
		x.frozen.find(hash, visit)
	}
	if !found {
		x.table.find(hash, visit)
	}
	return found || pos < oldest
}

// Find calls visit for the positions of a hash, newest first, until it says false.
func (x *Index) Find(hash uint64, visit func(commitlog.Offset) bool) error {
	x.mu.RLock()
	var recent []commitlog.Offset
	collect := func(p commitlog.Offset) bool { recent = append(recent, p); return true }
	x.table.find(hash, collect)
	if x.frozen != nil {
		x.frozen.find(hash, collect)
	}
	runs := x.runs // replaced whole, never changed
	x.mu.RUnlock()
	for _, p := range recent {
		if !visit(p) {
			return nil
		}
	}
	for i := len(runs) - 1; i >= 0; i-- {
		more, err := x.findIn(runs[i], hash, visit)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrClosed) {
			if !x.has(runs[i]) { // it was merged or has expired meanwhile
				return x.Find(hash, visit)
			}
		}
		if err != nil || !more {
			return err
		}
	}
	return nil
}

func (x *Index) has(r Run) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Contains(x.runs, r)
}

// findIn looks into a run. Hashes are spread evenly, so the place of one is guessed, and found within a block or two.
func (x *Index) findIn(r Run, hash uint64, visit func(commitlog.Offset) bool) (more bool, err error) {
	f, done, err := x.open(r)
	if err != nil {
		return false, err
	}
	defer done()
	block := make([]byte, blockSize)
	var entries []Entry
	read := func(number int64) ([]Entry, error) {
		entries, err = x.readBlock(f, r, number, block, entries)
		return entries, err
	}
	// The first block whose last entry is not below the hash is in [lo, hi]; hi may be behind the last.
	lo, hi := int64(0), r.blocks()
	low, high := uint64(0), ^uint64(0) // hashes before lo, and at the begin of hi
	for try := 0; lo < hi; try++ {
		mid := (lo + hi) / 2
		if try < guesses {
			mid = lo + int64(float64(hash-low)/(float64(high-low)+1)*float64(hi-lo))
			mid = min(max(mid, lo), hi-1)
		}
		list, err := read(mid)
		if err != nil {
			return false, err
		}
		first, last := list[0].Hash, list[len(list)-1].Hash
		if last < hash {
			lo, low = mid+1, last
			continue
		}
		if hi, high = mid, first; first < hash {
			break // what is before ends below
		}
	}
	return visitFrom(r, hi, hash, read, visit)
}

// guesses is after how many bad guesses a search halves what is left.
const guesses = 6

// visitFrom visits the entries of the hash from a block on, newest first.
func visitFrom(r Run, number int64, hash uint64, read func(int64) ([]Entry, error), visit func(commitlog.Offset) bool) (more bool, err error) {
	var found []commitlog.Offset
	for ; number < r.blocks(); number++ {
		list, err := read(number)
		if err != nil {
			return false, err
		}
		i, _ := slices.BinarySearchFunc(list, Entry{Hash: hash}, Entry.compare)
		for ; i < len(list) && list[i].Hash == hash; i++ {
			found = append(found, list[i].Position)
		}
		if i < len(list) {
			break
		}
	}
	for _, p := range slices.Backward(found) {
		if !visit(p) {
			return false, nil
		}
	}
	return true, nil
}

// maxOpen is how many files are kept open. Others are opened for each look.
const maxOpen = 256

// open opens a run's file and checks its header; done ends its use.
func (x *Index) open(r Run) (f vfs.File, done func(), err error) {
	name := r.name()
	if f, ok := x.files.Load(name); ok {
		return f.(vfs.File), func() {}, nil
	}
	f, err = x.fs.OpenFile(path.Join(x.dir, name), os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("idempotency: open run: %w", err)
	}
	var header [headerSize]byte
	n, err := f.ReadAt(header[:], 0)
	if n == headerSize || errors.Is(err, io.EOF) {
		err = r.checkHeader(x.File(r), header[:n], x.logID)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("idempotency: read run: %w", err), f.Close())
	}
	if x.opened.Add(1) > maxOpen {
		x.opened.Add(-1)
		return f, func() { _ = f.Close() }, nil // it was only read
	}
	if other, loaded := x.files.LoadOrStore(name, f); loaded {
		x.opened.Add(-1)
		return other.(vfs.File), func() {}, f.Close()
	}
	if !x.has(r) && x.files.CompareAndDelete(name, f) { // it was deleted meanwhile, and nobody would close it
		x.opened.Add(-1)
		return f, func() { _ = f.Close() }, nil
	}
	return f, func() {}, nil
}

func (x *Index) readBlock(f vfs.File, r Run, number int64, block []byte, into []Entry) ([]Entry, error) {
	file := x.File(r)
	at := headerSize + number*blockSize
	n, err := f.ReadAt(block, at)
	if n < len(block) {
		if errors.Is(err, io.EOF) {
			return nil, corrupt.Errorf(file, at+int64(n), "the file ends within block %d", number)
		}
		return nil, fmt.Errorf("idempotency: read run: %w", err)
	}
	return r.decodeBlock(file, number, block, into)
}

// verify reads a run whole.
func (x *Index) verify(r Run) error {
	s, err := x.source(r)
	if err != nil {
		return err
	}
	defer s.done()
	_, err = mergeSources([]*source{s}, r.To, func(Entry) error { return nil })
	return err
}

// Any says whether there is an entry of a part of the log that came at or after a logTime.
func (x *Index) Any(from, to commitlog.Offset, sinceMs int64) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, t := range []*table{x.frozen, x.table} {
		if t != nil && len(t.entries) > 0 && t.entries[0].Position < to && t.entries[len(t.entries)-1].Position >= from {
			return true
		}
	}
	return slices.ContainsFunc(x.runs, func(r Run) bool { return r.From < to && r.To > from && r.LastMs >= sinceMs })
}

// Verify checks that the file of each run is there and as long as it should be. With whole it reads all of it.
func (x *Index) Verify(whole bool) error {
	x.mu.RLock()
	runs := x.runs
	x.mu.RUnlock()
	for _, r := range runs {
		name := path.Join(x.dir, r.name())
		info, err := x.fs.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return corrupt.Errorf(name, 0, "the file is missing")
		case err != nil:
			return fmt.Errorf("idempotency: %w", err)
		case info.Size != r.size():
			return corrupt.Errorf(name, min(info.Size, r.size()), "the file has %d bytes, not %d", info.Size, r.size())
		}
		_, done, err := x.open(r)
		if err != nil {
			return err
		}
		done()
		if whole {
			if err := x.verify(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// Sweep deletes the files that a checkpoint does not know, of which both copies are there.
func (x *Index) Sweep(at State) error {
	infos, err := x.fs.ReadDir(x.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("idempotency: sweep: %w", err)
	}
	for _, info := range infos {
		known := slices.ContainsFunc(at.Runs, func(r Run) bool { return r.name() == info.Name })
		if known || info.Dir || strings.Trim(info.Name, "0123456789-") != "" && !strings.HasSuffix(info.Name, durable.TempSuffix) {
			continue
		}
		err = errors.Join(err, x.remove(info.Name))
	}
	return err
}

// remove deletes a file of which the index has no use any more.
func (x *Index) remove(name string) (err error) {
	if f, ok := x.files.LoadAndDelete(name); ok {
		x.opened.Add(-1)
		err = f.(vfs.File).Close()
	}
	if rerr := x.fs.Remove(path.Join(x.dir, name)); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("idempotency: remove: %w", rerr))
	}
	return err
}
