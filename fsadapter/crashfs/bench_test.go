package crashfs_test

import (
	"fmt"
	"testing"

	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// A record of 200 bytes, and a sync: the work of a log.
func BenchmarkWriteSync(b *testing.B) {
	h := open(b, crashfs.New(crashfs.Options{}), "log")
	must(b, vfs.Preallocate(h, 64<<10))
	record := make([]byte, 200)
	b.ReportAllocs()
	b.SetBytes(int64(len(record)))
	for i := 0; b.Loop(); i++ {
		if _, err := h.WriteAt(record, int64(i*len(record)%(60<<10))); err != nil {
			b.Fatal(err)
		}
		if err := h.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadAt(b *testing.B) {
	h := open(b, crashfs.New(crashfs.Options{}), "log")
	write(b, h, string(make([]byte, 64<<10)), 0)
	p := make([]byte, 200)
	b.ReportAllocs()
	b.SetBytes(int64(len(p)))
	for i := 0; b.Loop(); i++ {
		if _, err := h.ReadAt(p, int64(i*len(p)%(60<<10))); err != nil {
			b.Fatal(err)
		}
	}
}

// store makes a directory as an engine has it: 32 files of 64 KiB, preallocated, written and synced.
func store(b *testing.B) (*crashfs.FS, vfs.File) {
	f := crashfs.New(crashfs.Options{})
	for i := range 32 {
		name := fmt.Sprintf("%d/%d", i%4, i)
		put(b, f, name, string(make([]byte, 20_000)))
		h := open(b, f, name)
		must(b, vfs.Preallocate(h, 64<<10))
		must(b, h.Sync())
		must(b, h.Close())
	}
	return f, open(b, f, "0/0")
}

// The next life of a store of 32 files with 2 KiB pending.
func BenchmarkSnapshot(b *testing.B) {
	f, h := store(b)
	write(b, h, string(make([]byte, 2048)), 5000)
	r := rng(1)
	p := crashfs.Policy{KeepPct: 50, MetaPct: 50}
	b.ReportAllocs()
	for b.Loop() {
		f.Snapshot(r, p)
	}
}

// A life: open a segment, write and sync 20 records, make another, lose power.
func BenchmarkLife(b *testing.B) {
	f, _ := store(b)
	r := rng(1)
	p := crashfs.Policy{KeepPct: 50, MetaPct: 50}
	record := string(make([]byte, 200))
	b.ReportAllocs()
	for b.Loop() {
		h := open(b, f, "0/0")
		for i := range int64(20) {
			write(b, h, record, i*200)
			must(b, h.Sync())
		}
		next := open(b, f, "0/next")
		must(b, vfs.Preallocate(next, 64<<10))
		write(b, next, record, 0)
		must(b, next.Sync())
		must(b, f.SyncDir("0"))
		must(b, f.Remove("0/next"))
		must(b, f.SyncDir("0"))
		f = f.Crash(r, p)
	}
}
