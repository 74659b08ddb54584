package idempotency

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/durable"
	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Bounds of a merge.
const (
	mergeEntries = 1 << 16 // runs that have no more together become one
	mergeFan     = 4       // so many of about the same size become one
	mergeMost    = 1 << 24 // that has no more; its file has 256 MiB
)

// Freeze writes what is in memory as a run, for a checkpoint. Run may run on any goroutine, and again after an error.
type Freeze struct {
	x      *Index
	frozen *table
	at     commitlog.Offset
	cut    commitlog.Offset // what is below has expired
	kept   []Run            // runs that stay as they are
	merge  []Run            // become part of the new one
	state  State            // set by Run
}

// NewFreeze freezes the table at the end of the log; the next one begins empty. What is below cut has
// expired. It belongs to the writer; there is one at a time.
func (x *Index) NewFreeze(at, cut commitlog.Offset) *Freeze {
	x.mu.Lock()
	defer x.mu.Unlock()
	f := &Freeze{x: x, at: at, cut: min(max(cut, x.low), at)}
	for _, r := range x.runs {
		if r.To > f.cut {
			f.kept = append(f.kept, r)
		}
	}
	if len(x.table.entries) > 0 {
		f.frozen, x.frozen = x.table, x.table
		keep := len(f.kept) - x.mergeable(f.kept, int64(len(f.frozen.entries)))
		f.kept, f.merge = f.kept[:keep:keep], f.kept[keep:]
	}
	x.table = newTable(at)
	return f
}

// mergeable says how many of the newest runs become one with n entries that come next: those that have few together, and
// then mergeFan of about the same size. So a key is written some times, and there are some runs of each size. The caller
// holds mu.
func (x *Index) mergeable(runs []Run, n int64) (take int) {
	for i, r := range slices.Backward(runs) {
		if x.unread[r] {
			runs = runs[i+1:] // what is behind a run that cannot be read is as old as can be
			break
		}
	}
	next := func(i int) int64 { return runs[len(runs)-1-i].Count }
	for take < len(runs) && n+next(take) <= mergeEntries {
		n += next(take)
		take++
	}
	for size := int64(mergeEntries); size < mergeMost; size *= mergeFan {
		most, sum := take, n
		for most < len(runs) && next(most) <= size {
			sum += next(most)
			most++
		}
		if most == take {
			continue
		}
		if most-take < mergeFan-1 || sum > mergeMost {
			break
		}
		take, n = most, sum
	}
	return take
}

// Run writes the run. Of a merge that fails because a run cannot be read it writes what is new alone: a file of which a
// part is damaged shall not keep a checkpoint from being made.
func (f *Freeze) Run() error {
	f.state = State{Low: f.cut, Memory: f.at, Runs: slices.Clone(f.kept)}
	if f.frozen == nil {
		return nil
	}
	r, unread, err := f.write(f.merge)
	if unread != (Run{}) {
		f.x.spare(unread)
		f.state.Runs = append(f.state.Runs, f.merge...)
		r, _, err = f.write(nil)
	}
	if err != nil {
		return err
	}
	if r.Count > 0 {
		f.state.Runs = append(f.state.Runs, r)
	}
	return nil
}

// spare keeps a run that cannot be read from being merged.
func (x *Index) spare(r Run) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.unread == nil {
		x.unread = map[Run]bool{}
	}
	x.unread[r] = true
}

// State is what the checkpoint holds, behind a Run that succeeded.
func (f *Freeze) State() State { return f.state }

// Install makes the run part of the index. It belongs to the writer.
func (x *Index) Install(f *Freeze) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.runs, x.low, x.frozen = f.state.Runs, f.state.Low, nil
	maps.DeleteFunc(x.unread, func(r Run, _ bool) bool { return !slices.Contains(x.runs, r) })
}

// Spill writes a table that has become large during a replay, when no checkpoint will do it soon: the log is read up to
// at. What an earlier Spill wrote and this one takes in is deleted, since no checkpoint knows it: a rebuild may go over the
// keys of a month.
func (x *Index) Spill(at commitlog.Offset) error {
	if len(x.table.entries) < tableEntries || at <= x.table.from {
		return nil
	}
	f := x.NewFreeze(at, 0)
	if err := f.Run(); err != nil {
		return err
	}
	x.Install(f)
	var err error
	x.spilled = slices.DeleteFunc(x.spilled, func(r Run) bool {
		if slices.Contains(f.state.Runs, r) {
			return false
		}
		err = errors.Join(err, x.remove(r.name()))
		return true
	})
	if n := len(f.state.Runs); n > 0 && f.state.Runs[n-1].To == at {
		x.spilled = append(x.spilled, f.state.Runs[n-1])
	}
	return err
}

// write makes the file of a run with what is frozen and what is in older runs; its Count is 0 if all of that has expired.
// unread is a run that cannot be read, with the error.
func (f *Freeze) write(merge []Run) (r Run, unread Run, err error) {
	x := f.x
	sources := []*source{f.frozen.source()}
	defer func() {
		for _, s := range sources {
			s.done()
		}
	}()
	from := f.frozen.from
	for _, old := range merge {
		s, err := x.source(old)
		if err != nil {
			return r, old, err
		}
		sources, from = append(sources, s), min(from, old.From)
	}
	if err := x.fs.MkdirAll(x.dir, durable.DirPerm); err != nil {
		return r, unread, fmt.Errorf("idempotency: make directory: %w", err)
	}
	if err := durable.SyncDirs(x.fs, path.Dir(x.dir)); err != nil {
		return r, unread, fmt.Errorf("idempotency: %w", err)
	}
	r = Run{From: max(from, f.cut), To: f.at, LastMs: f.frozen.lastMs}
	if f.frozen.entries[len(f.frozen.entries)-1].Position < f.cut {
		return r, unread, nil // and so has everything before
	}
	err = durable.Replace(x.fs, path.Join(x.dir, r.name()), func(file vfs.File) error {
		w := runWriter{file: file, buf: make([]byte, headerSize, 64<<10)}
		var err error
		if unread, err = mergeSources(sources, f.cut, w.add); err != nil {
			return err
		}
		r.Count = w.count
		return w.end(r.appendHeader(nil, x.logID))
	})
	if err != nil {
		return Run{}, unread, fmt.Errorf("idempotency: write run: %w", err)
	}
	return r, unread, nil
}

// runWriter writes the file of a run.
type runWriter struct {
	file   vfs.File
	off    int64
	buf    []byte
	block  []Entry
	blocks int64
	count  int64
}

// add adds the next entry.
func (w *runWriter) add(e Entry) error {
	w.count++
	if w.block = append(w.block, e); len(w.block) == perBlock {
		return w.flush(60 << 10)
	}
	return nil
}

// flush ends a block, and writes when so many bytes have gathered.
func (w *runWriter) flush(most int) error {
	if len(w.block) > 0 {
		w.buf = appendBlock(w.buf, w.blocks, w.block)
		w.block = w.block[:0]
		w.blocks++
	}
	if len(w.buf) < most {
		return nil
	}
	if _, err := w.file.WriteAt(w.buf, w.off); err != nil {
		return err
	}
	w.off += int64(len(w.buf))
	w.buf = w.buf[:0]
	return nil
}

// end writes the rest, and the header, which has the number of entries.
func (w *runWriter) end(header []byte) error {
	if err := w.flush(0); err != nil {
		return err
	}
	_, err := w.file.WriteAt(header, 0)
	return err
}
