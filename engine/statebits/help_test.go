package statebits_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/tidewheel/tidewheel/engine/statebits"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

const (
	dir   = "statebits"
	ident = 0x0102030405060708
	file0 = dir + "/00000000000000000000"
	file1 = dir + "/00000000000000000256"
	page  = 32 + statebits.PageBytes // on disk
)

var states = []statebits.State{statebits.Regular, statebits.Cancelled, statebits.Superseded, statebits.LatePending}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func newFS() *crashfs.FS { return crashfs.New(crashfs.Options{}) }

func open(t testing.TB, fsys vfs.FS, opts statebits.Options, at statebits.Table) *statebits.Bits {
	t.Helper()
	opts.Ident = ident
	b, err := statebits.Open(fsys, dir, opts, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil && !errors.Is(err, statebits.ErrClosed) && !errors.Is(err, crashfs.ErrCrashed) {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

func set(t testing.TB, b *statebits.Bits, id uint64, s statebits.State) {
	t.Helper()
	if err := b.Set(id, s); err != nil {
		t.Fatal(err)
	}
}

func checkGet(t testing.TB, b *statebits.Bits, id uint64, want statebits.State) {
	t.Helper()
	if got, err := b.Get(id); err != nil || got != want {
		t.Fatalf("id %d is %v, %v; want %v", id, got, err, want)
	}
}

// first is the first id of a chunk.
func first(chunk uint64) uint64 { return chunk * statebits.ChunkIDs }

// checkpoint writes what changed in place, as behind a committed checkpoint.
func checkpoint(t testing.TB, b *statebits.Bits) {
	t.Helper()
	pages := b.Freeze()
	if err := b.WritePages(pages); err != nil {
		t.Fatal(err)
	}
	b.Thaw(pages)
}

func names(t testing.TB, fsys vfs.FS) (out []string) {
	t.Helper()
	infos, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		out = append(out, info.Name)
	}
	return out
}
