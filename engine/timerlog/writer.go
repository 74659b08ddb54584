package timerlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/tidewheel/tidewheel/engine/internal/durable"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// chunk is how many bytes go to a file in one write: full blocks, below the mebibyte that a write may have so that it
// delays no fsync of the CommitLog for long.
const chunk = groupHeaderSize + 19*blockSize

// openFile is a file that is open for writing.
type openFile struct {
	vfs.File
	number int64
	end    int64 // next group
}

// WriteGroup appends entries of one slot as a group, sorted strictly by (due, id); else it is ErrOrder. prev is the
// older group of the slot, the zero Ref if there is none. Without entries nothing is written and the answer is the zero
// Ref. It is called by a job, since it writes up to all of a memtable; the entries are not kept.
//
// The group can be read at once. It is not durable before Sync. After an error the log is as before, and the same group
// may be tried again unless the error is ErrFailed or ErrClosed.
func (l *Log) WriteGroup(ring uint8, slot int64, prev Ref, sorted []Entry) (Ref, error) {
	if len(sorted) == 0 {
		return Ref{}, nil
	}
	for i := 1; i < len(sorted); i++ {
		if !sorted[i-1].Key.Less(sorted[i].Key) {
			return Ref{}, fmt.Errorf("%w: entry %d of slot %d: (%d, %d) after (%d, %d)", ErrOrder, i, slot,
				sorted[i].Due, sorted[i].ID, sorted[i-1].Due, sorted[i-1].ID)
		}
	}
	ref := Ref{Kind: KindGroup, Ring: ring, Slot: slot, Min: sorted[0].Key, Max: sorted[len(sorted)-1].Key}
	return l.write(ref, prev.Place(), sorted)
}

// WriteSpill appends entries in the order in which they stand. Everything else is as with WriteGroup.
func (l *Log) WriteSpill(entries []Entry) (Ref, error) {
	if len(entries) == 0 {
		return Ref{}, nil
	}
	ref := Ref{Kind: KindSpill, Slot: NoSlot, Min: entries[0].Key, Max: entries[0].Key}
	for i := range entries {
		if k := entries[i].Key; k.Less(ref.Min) {
			ref.Min = k
		} else if ref.Max.Less(k) {
			ref.Max = k
		}
	}
	return l.write(ref, NoPlace, entries)
}

// write appends what ref describes and returns ref with its place.
func (l *Log) write(ref Ref, prev Place, entries []Entry) (Ref, error) {
	if len(entries) > maxCount {
		return Ref{}, fmt.Errorf("timerlog: write group: %d entries are more than %d", len(entries), maxCount)
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.writable(); err != nil {
		return Ref{}, err
	}
	ref.Count = len(entries)
	ref.Length = groupHeaderSize + blocksSize(ref.Count)
	if err := l.room(ref.Length); err != nil {
		return Ref{}, fmt.Errorf("timerlog: write group: %w", err)
	}
	ref.File, ref.Offset = l.cur.number, l.cur.end
	if prev != NoPlace && !prev.before(ref.Place()) {
		return Ref{}, fmt.Errorf("timerlog: write group: previous group at file %d byte %d is not an older one",
			prev.File, prev.Offset)
	}
	if err := l.writeOut(ref, prev, entries); err != nil {
		// cur.end stands: the next group goes over what was written of this one.
		return Ref{}, fmt.Errorf("timerlog: write group: %w", err)
	}
	l.cur.end = ref.end()
	l.mu.Lock()
	l.files[len(l.files)-1].Length = ref.end()
	l.mu.Unlock()
	return ref, nil
}

// writable says why nothing may be written.
func (l *Log) writable() error {
	if l.failed != nil {
		return l.failed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	return nil
}

// writeOut encodes a group and writes it chunk by chunk.
func (l *Log) writeOut(ref Ref, prev Place, entries []Entry) error {
	at := ref.Offset
	if need := int(min(ref.Length, chunk)); cap(l.buf) < need {
		l.buf = make([]byte, 0, need)
	}
	b, group := appendGroupHeader(l.buf[:0], &l.tmp, ref, prev)
	for len(entries) > 0 {
		n := min(len(entries), blockEntries)
		if len(b)+blockHeadSize+n*EntrySize > cap(b) {
			if _, err := l.cur.WriteAt(b, at); err != nil {
				return err
			}
			at, b = at+int64(len(b)), b[:0]
		}
		b = appendBlock(b, &l.tmp, Place{ref.File, at + int64(len(b))}, group, entries[:n])
		entries = entries[n:]
	}
	_, err := l.cur.WriteAt(b, at)
	return err
}

// room makes cur a file with room for size bytes, and one that Sync will sync.
func (l *Log) room(size int64) error {
	if l.cur == nil {
		if err := l.resume(); err != nil {
			return err
		}
	}
	// A file that holds nothing takes a group of any length.
	if l.cur == nil || l.cur.end > fileHeaderSize && size > l.opts.FileSize-l.cur.end {
		f, err := l.create()
		if err != nil {
			return err
		}
		if l.cur != nil && !slices.Contains(l.unsynced, l.cur) {
			_ = l.cur.Close() // synced; a close that fails takes nothing back
		}
		l.cur = f
		l.mu.Lock()
		l.files = append(l.files, FileState{Number: f.number, Length: f.end})
		l.mu.Unlock()
	}
	if !slices.Contains(l.unsynced, l.cur) {
		l.unsynced = append(l.unsynced, l.cur)
	}
	return nil
}

// resume opens the last file of the state to write on at its recorded length. It leaves cur nil if that file is not
// there, or not even its header is. That is no damage as long as no ref points into it, and neither is a file that is too
// short: the state may cover groups that were written but not synced before a power cut. Who follows a ref finds out.
func (l *Log) resume() error {
	l.mu.Lock()
	var last FileState
	if n := len(l.files); n > 0 {
		last = l.files[n-1]
	}
	l.mu.Unlock()
	if last.Number == 0 || last.Length >= l.opts.FileSize {
		return nil
	}
	f, err := l.fsys.OpenFile(l.fileName(last.Number), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	ours, err := l.isOurs(f, last.Number)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if !ours {
		return f.Close()
	}
	l.cur = &openFile{File: f, number: last.Number, end: last.Length}
	l.newName = true // by whom it was made, and whether he lived to sync the directory, nobody knows
	return nil
}

// isOurs says whether f begins with the header of a file of this log. Damage is an answer, a failed read an error.
func (l *Log) isOurs(f vfs.File, number int64) (bool, error) {
	b := make([]byte, fileHeaderSize)
	if _, err := f.ReadAt(b, 0); err == io.EOF {
		return false, nil
	} else if err != nil {
		return false, err
	}
	h, err := decodeFileHeader(b)
	if errors.Is(err, ErrNewerFormat) {
		return false, err
	}
	return err == nil && h == l.header(number), nil
}

func (l *Log) header(number int64) fileHeader {
	return fileHeader{family: l.family, ident: l.opts.Ident, number: number}
}

// create makes the next file. One that has the name is of a life whose checkpoint was never committed.
func (l *Log) create() (*openFile, error) {
	l.mu.Lock()
	number := int64(1)
	if n := len(l.files); n > 0 {
		number = l.files[n-1].Number + 1
	}
	l.mu.Unlock()
	if err := l.fsys.MkdirAll(l.dir, durable.DirPerm); err != nil {
		return nil, err
	}
	l.newName = true
	f, err := l.fsys.OpenFile(l.fileName(number), os.O_RDWR|os.O_CREATE|os.O_TRUNC, durable.FilePerm)
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteAt(l.header(number).append(nil), 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &openFile{File: f, number: number, end: fileHeaderSize}, nil
}

// Sync makes durable what was written before the call. It is called by a job. An error of a sync is final: it and every
// later call that writes return ErrFailed.
func (l *Log) Sync() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	for _, f := range l.unsynced {
		if err := vfs.SyncData(f.File); err != nil {
			return l.fail(fmt.Errorf("sync %s: %w", l.fileName(f.number), err))
		}
	}
	if l.newName {
		if err := durable.SyncDirs(l.fsys, l.dir); err != nil {
			return l.fail(err)
		}
		l.newName = false
	}
	for _, f := range l.unsynced {
		if f != l.cur {
			_ = f.Close() // synced; a close that fails takes nothing back
		}
	}
	l.unsynced = l.unsynced[:0]
	return nil
}

// fail remembers why nothing is written any more.
func (l *Log) fail(err error) error {
	l.failed = fmt.Errorf("%w: %w", ErrFailed, err)
	return l.failed
}
