package timerlog_test

import (
	"testing"

	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/engine/vfs/osfs"
)

func records(b *testing.B, n int) {
	b.Helper()
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

func BenchmarkWriteGroup(b *testing.B) {
	const n = 65_536
	l := benchLog(b)
	es := run(1, 1, n)
	b.SetBytes(n * timerlog.EntrySize)
	b.ReportAllocs()
	for b.Loop() {
		writeGroup(b, l, es)
		if err := l.Delete(func(int64) bool { return false }); err != nil {
			b.Fatal(err)
		}
	}
	records(b, n)
}

// The groups of a run in a ring: a few entries each.
func BenchmarkWriteSmallGroups(b *testing.B) {
	const n = 16
	l := benchLog(b)
	es := run(1, 1, n)
	b.ReportAllocs()
	for b.Loop() {
		writeGroup(b, l, es)
	}
	records(b, n)
}

func BenchmarkCursorScan(b *testing.B) {
	const n = 65_536
	l := benchLog(b)
	ref := writeGroup(b, l, run(1, 1, n))
	b.SetBytes(n * timerlog.EntrySize)
	b.ReportAllocs()
	for b.Loop() {
		c, err := l.Cursor(ref, before)
		if err != nil {
			b.Fatal(err)
		}
		for ok := true; ok; {
			if _, ok, err = c.Next(); err != nil {
				b.Fatal(err)
			}
		}
	}
	records(b, n)
}

func BenchmarkCursorSeek(b *testing.B) {
	const n = 524_288
	l := benchLog(b)
	es := run(1, 1, n)
	ref := writeGroup(b, l, es)
	r := newRand(1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Cursor(ref, es[r.IntN(n)].Key); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEach(b *testing.B) {
	const n = 65_536
	l := benchLog(b)
	ref := writeSpill(b, l, run(1, 1, n))
	b.SetBytes(n * timerlog.EntrySize)
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Each(ref, func(timerlog.Entry) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	records(b, n)
}

func benchLog(b *testing.B) *timerlog.Log {
	b.Helper()
	fsys, err := osfs.New(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	return open(b, fsys, timerlog.Options{}, timerlog.State{})
}
