package segment_test

import (
	"fmt"
	"testing"

	"github.com/tidewheel/tidewheel/engine/internal/segment"
	"github.com/tidewheel/tidewheel/engine/vfs"
	"github.com/tidewheel/tidewheel/engine/vfs/osfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

// benchParams are those of a ConsumeQueue.
func benchParams() segment.Params {
	return segment.Params{Magic: [8]byte{'b', 'e', 'n', 'c', 'h'}, Cell: 32, PerFile: 262_144}
}

func rate(b *testing.B, what string, n int) {
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), what+"/s")
}

func onDisk(b *testing.B) vfs.FS {
	b.Helper()
	fsys, err := osfs.New(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	return fsys
}

func BenchmarkAppend(b *testing.B) {
	a := open(b, crashfs.New(crashfs.Options{}), benchParams(), segment.State{})
	cell := make([]byte, 32)
	b.ReportAllocs()
	for i := range b.N {
		a.Append(cell)
		if i%262_144 == 262_143 { // as a checkpoint would
			a.Trim(a.Len())
		}
	}
	rate(b, "cells", b.N)
}

// BenchmarkRead reads a pull's worth of 32 cells.
func BenchmarkRead(b *testing.B) {
	for _, where := range []string{"memory", "file"} {
		b.Run(where, func(b *testing.B) {
			fsys := onDisk(b)
			a := open(b, fsys, benchParams(), segment.State{})
			defer a.Close()
			const n = 200_000
			cell := make([]byte, 32)
			for range n {
				a.Append(cell)
			}
			if where == "file" {
				flush(b, a, 0)
			}
			buf := make([]byte, 32*32)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if cells, err := a.Read(int64(i*7919%(n-32)), buf); cells != 32 || err != nil {
					b.Fatal(cells, err)
				}
			}
			rate(b, "cells", 32*b.N)
		})
	}
}

// BenchmarkFlush writes 8 MiB of cells and syncs them.
func BenchmarkFlush(b *testing.B) {
	fsys := onDisk(b)
	a := open(b, fsys, benchParams(), segment.State{})
	defer a.Close()
	cell := make([]byte, 32)
	b.ReportAllocs()
	b.SetBytes(8 << 20)
	for range b.N {
		b.StopTimer()
		for range 262_144 {
			a.Append(cell)
		}
		a.Trim(a.Len() - 262_144)
		if err := a.Delete(a.First()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		flush(b, a, 0)
	}
	rate(b, "cells", 262_144*b.N)
}

// BenchmarkOpen opens ten thousand arrays with a few cells in each state.
func BenchmarkOpen(b *testing.B) {
	fsys := crashfs.New(crashfs.Options{})
	p := benchParams()
	p.Handles = segment.NewHandles(0)
	at := segment.State{First: 10, Flushed: 1000, Tail: make([]byte, 4*32)}
	dirs := make([]string, 10_000)
	for i := range dirs {
		dirs[i] = fmt.Sprintf("queues/%d/0", i)
	}
	b.ReportAllocs()
	for range b.N {
		for _, dir := range dirs {
			if _, err := segment.Open(fsys, dir, p, at); err != nil {
				b.Fatal(err)
			}
		}
	}
	rate(b, "arrays", len(dirs)*b.N)
}
