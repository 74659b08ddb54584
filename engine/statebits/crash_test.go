package statebits_test

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/statebits"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
	"github.com/tidewheel/tidewheel/fsadapter/faultfs"
)

// committed is the newest checkpoint: it survives everything.
type committed struct {
	table  []byte
	redo   []byte
	states map[uint64]statebits.State
	closed map[uint64]bool
}

func newCommitted() *committed {
	return &committed{table: statebits.AppendTable(nil, statebits.Table{})}
}

const crashChunks = 8

// pick is an id of one of a few chunks, of two files.
func pick(r *rand.Rand) uint64 { return first(252+r.Uint64N(crashChunks)) + r.Uint64N(40) }

// life recovers, checks, changes and takes checkpoints until the power fails.
func (c *committed) life(t *testing.T, r *rand.Rand, fsys vfs.FS, steps int) error {
	t.Helper()
	table, _, err := statebits.DecodeTable(c.table)
	if err != nil {
		t.Fatal(err)
	}
	b, err := statebits.Open(fsys, dir, statebits.Options{CacheBytes: 2 * statebits.PageBytes}, table)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	pages, err := statebits.DecodePages(c.redo)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		if err := b.Redo(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Verify(); err != nil {
		return err
	}
	for chunk := range uint64(crashChunks) {
		for id := first(252 + chunk); id < first(252+chunk)+40; id++ {
			if got, err := b.Get(id); err != nil {
				return err
			} else if got != c.states[id] {
				t.Fatalf("id %d is %v after recovery, want %v", id, got, c.states[id])
			}
		}
	}
	now, closed := make(map[uint64]statebits.State), make(map[uint64]bool)
	maps.Copy(now, c.states)
	maps.Copy(closed, c.closed)
	for range steps {
		switch n := r.IntN(20); {
		case n < 12:
			if id, s := pick(r), states[r.IntN(4)]; !closed[id/statebits.ChunkIDs] {
				if err := b.Set(id, s); err != nil {
					return err
				}
				now[id] = s
			}
		case n == 12:
			chunk := pick(r) / statebits.ChunkIDs
			closed[chunk] = true
			b.CloseChunk(chunk)
			maps.DeleteFunc(now, func(id uint64, _ statebits.State) bool { return id/statebits.ChunkIDs == chunk })
		default:
			pages, table := b.Freeze(), b.Table()
			if r.IntN(4) == 0 {
				continue // the checkpoint could not be written
			}
			*c = committed{
				statebits.AppendTable(nil, table), bytes.Join(statebits.EncodePages(pages), nil), maps.Clone(now), maps.Clone(closed),
			}
			if id := pick(r); !closed[id/statebits.ChunkIDs] { // the writer goes on while the job runs
				if err := b.Set(id, statebits.Cancelled); err != nil {
					return err
				}
				now[id] = statebits.Cancelled
			}
			if err := b.WritePages(pages); err != nil {
				return err
			}
			b.Thaw(pages)
			if err := b.DeleteClosed(table); err != nil {
				return err
			}
		}
	}
	return nil
}

// Lives end with a power cut at any operation, or with the death of the process, which makes nothing durable that was not.
// Table and redo of the newest checkpoint, with what lies in the files, are always the state of that moment.
func TestCrash(t *testing.T) {
	seeds := 150
	if testing.Short() {
		seeds = 20
	}
	policies := crashfs.Policies()
	for seed := range uint64(seeds) {
		r := newRand(seed)
		disk := newFS()
		c := newCommitted()
		for range 6 {
			if r.IntN(4) > 0 {
				disk.CrashAt(disk.Ops() + 1 + r.Int64N(60))
			}
			err := c.life(t, r, disk, r.IntN(60))
			if err != nil && !errors.Is(err, crashfs.ErrCrashed) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if err == nil && r.IntN(2) == 0 {
				disk = disk.Kill()
			} else {
				disk = disk.Crash(r, policies[r.IntN(len(policies))])
			}
		}
	}
}

// Each operation fails in turn. An error comes back, and the newest checkpoint survives a power cut.
func TestFaults(t *testing.T) {
	const steps = 80
	count := faultfs.New(newFS())
	if err := newCommitted().life(t, newRand(3), count, steps); err != nil {
		t.Fatal(err)
	}
	if n := count.Changes(); n < 60 {
		t.Fatalf("%d changes; the workload is too small", n)
	}
	for n := int64(1); n <= count.Ops(); n++ {
		for _, rule := range []faultfs.Rule{
			{Nth: n},
			{Nth: n, Err: syscall.ENOSPC, Short: 100},
			{Nth: n, After: true},
			{Nth: n, Sticky: true},
		} {
			disk := newFS()
			fsys := faultfs.New(disk, rule)
			c := newCommitted()
			err := c.life(t, newRand(3), fsys, steps)
			if fsys.Fired() > 0 && err == nil && !rule.After { // what fails after it failed is no news
				t.Errorf("%v: no error", rule)
			}
			if errors.Is(err, corrupt.ErrCorrupt) {
				t.Errorf("%v: %v", rule, err)
			}
			after := disk.Snapshot(newRand(uint64(n)), crashfs.Policy{KeepPct: 50, MetaPct: 50})
			if err := c.life(t, newRand(4), after, 0); err != nil {
				t.Fatalf("%v: the next life: %v", rule, err)
			}
		}
	}
}

// WritePages that failed is repeated with the same pages, unless it was a sync that failed.
func TestWritePagesAgain(t *testing.T) {
	for n := int64(1); n <= 8; n++ {
		fsys := faultfs.New(newFS(), faultfs.Rule{Changes: true, Nth: n, Err: syscall.ENOSPC, Short: 50})
		b := open(t, fsys, statebits.Options{}, statebits.Table{})
		for _, c := range []uint64{0, 1, 300} {
			set(t, b, first(c), statebits.Cancelled)
		}
		pages := b.Freeze()
		err := b.WritePages(pages)
		if fsys.Fired() == 0 || err == nil || !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("change %d: %v", n, err)
		}
		again := b.WritePages(pages)
		if errors.Is(err, statebits.ErrFailed) {
			if again == nil || again.Error() != err.Error() {
				t.Errorf("change %d: %v after %v", n, again, err)
			}
			if err := b.DeleteClosed(statebits.Table{}); !errors.Is(err, statebits.ErrFailed) {
				t.Errorf("change %d: delete: %v", n, err)
			}
			continue
		}
		if again != nil {
			t.Fatalf("change %d: again: %v", n, again)
		}
		b.Thaw(pages)
		for _, c := range []uint64{0, 1, 300} {
			checkGet(t, open(t, fsys, statebits.Options{}, b.Table()), first(c), statebits.Cancelled)
		}
	}
}

// The writer changes bits and closes chunks while a job writes what was frozen.
func TestHammer(t *testing.T) {
	b := open(t, newFS(), statebits.Options{CacheBytes: 4 * statebits.PageBytes}, statebits.Table{})
	r := newRand(1)
	want := make(map[uint64]statebits.State)
	oldest := uint64(0)
	for round := range uint64(100) {
		for range 200 {
			id, s := first(oldest+r.Uint64N(20))+r.Uint64N(statebits.ChunkIDs), states[r.IntN(4)]
			set(t, b, id, s)
			want[id] = s
		}
		pages, table := b.Freeze(), b.Table()
		snapshot := bytes.Join(statebits.EncodePages(pages), nil)
		var job sync.WaitGroup
		job.Go(func() {
			if err := b.WritePages(pages); err != nil {
				t.Error(err)
			}
			if err := b.DeleteClosed(table); err != nil {
				t.Error(err)
			}
			if !bytes.Equal(bytes.Join(statebits.EncodePages(pages), nil), snapshot) {
				t.Error("a frozen page changed")
			}
		})
		for range 200 {
			id, s := first(oldest+r.Uint64N(20))+r.Uint64N(statebits.ChunkIDs), states[r.IntN(4)]
			set(t, b, id, s)
			want[id] = s
		}
		if round%2 == 0 {
			b.CloseChunk(oldest)
			maps.DeleteFunc(want, func(id uint64, _ statebits.State) bool { return id/statebits.ChunkIDs == oldest })
			oldest++
		}
		job.Wait()
		b.Thaw(pages)
	}
	for id, s := range want {
		checkGet(t, b, id, s)
	}
}
