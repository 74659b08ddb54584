package idempotency

import (
	"fmt"
	"path"
	"slices"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/durable"
	"github.com/tidewheel/tidewheel/engine/vfs"
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
		n := int64(len(f.frozen.entries))
		for k := len(f.kept) - 1; k >= 0 && n+f.kept[k].Count <= mergeEntries; k = len(f.kept) - 1 {
			n += f.kept[k].Count
			f.merge, f.kept = append(f.merge, f.kept[k]), f.kept[:k]
		}
	}
	x.table = newTable(at)
	return f
}

// Run writes the run.
func (f *Freeze) Run() error {
	f.state = State{Low: f.cut, Memory: f.at, Runs: slices.Clone(f.kept)}
	if f.frozen == nil {
		return nil
	}
	entries := slices.Clone(f.frozen.entries)
	from := f.frozen.from
	for _, r := range f.merge {
		old, err := f.x.readAll(r)
		if err != nil {
			return err
		}
		entries = append(entries, old...)
		from = min(from, r.From)
	}
	entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.Position < f.cut })
	if len(entries) == 0 {
		return nil
	}
	r := Run{From: max(from, f.cut), To: f.at, Count: int64(len(entries)), LastMs: f.frozen.lastMs}
	if err := f.x.write(r, entries); err != nil {
		return err
	}
	f.state.Runs = append(f.state.Runs, r)
	return nil
}

// State is what the checkpoint holds, behind a Run that succeeded.
func (f *Freeze) State() State { return f.state }

// Install makes the run part of the index. It belongs to the writer.
func (x *Index) Install(f *Freeze) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.runs, x.low, x.frozen = f.state.Runs, f.state.Low, nil
}

// Spill writes a table that has become large during a replay, when no checkpoint will do it soon: the log is read up to
// at.
func (x *Index) Spill(at commitlog.Offset) error {
	if len(x.table.entries) < tableEntries || at <= x.table.from {
		return nil
	}
	f := x.NewFreeze(at, 0)
	if err := f.Run(); err != nil {
		return err
	}
	x.Install(f)
	return nil
}

// write makes the file of a run.
func (x *Index) write(r Run, entries []Entry) error {
	sortEntries(entries)
	if err := x.fs.MkdirAll(x.dir, durable.DirPerm); err != nil {
		return fmt.Errorf("idempotency: make directory: %w", err)
	}
	if err := durable.SyncDirs(x.fs, path.Dir(x.dir)); err != nil {
		return fmt.Errorf("idempotency: %w", err)
	}
	err := durable.Replace(x.fs, path.Join(x.dir, r.name()), func(f vfs.File) error {
		buf := r.appendHeader(make([]byte, 0, 64<<10), x.logID)
		off := int64(0)
		for number := int64(0); number < r.blocks() || len(buf) > 0; number++ {
			if number < r.blocks() {
				part := entries[number*perBlock:]
				buf = appendBlock(buf, number, part[:min(len(part), perBlock)])
			}
			if len(buf) < 60<<10 && number+1 < r.blocks() {
				continue
			}
			if _, err := f.WriteAt(buf, off); err != nil {
				return err
			}
			off += int64(len(buf))
			buf = buf[:0]
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("idempotency: write run: %w", err)
	}
	return nil
}
