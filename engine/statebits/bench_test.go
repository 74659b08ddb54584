package statebits_test

import (
	"testing"

	"github.com/tidewheel/tidewheel/engine/statebits"
	"github.com/tidewheel/tidewheel/engine/vfs/osfs"
)

func benchBits(b *testing.B) *statebits.Bits {
	b.Helper()
	fsys, err := osfs.New(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	return open(b, fsys, statebits.Options{}, statebits.Table{})
}

func records(b *testing.B) {
	b.Helper()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

func BenchmarkSetSequential(b *testing.B) {
	bits := benchBits(b)
	b.ReportAllocs()
	id := uint64(0)
	for b.Loop() {
		if err := bits.Set(id&0xffffff, statebits.State(1+id>>24&1)); err != nil {
			b.Fatal(err)
		}
		id++
	}
	records(b)
}

func BenchmarkGetSequential(b *testing.B) {
	bits := benchBits(b)
	for c := range uint64(16) {
		set(b, bits, first(c), statebits.Cancelled)
	}
	b.ReportAllocs()
	id := uint64(0)
	for b.Loop() {
		if _, err := bits.Get(id & 0xfffff); err != nil {
			b.Fatal(err)
		}
		id++
	}
	records(b)
}

// Regular ids of chunks that have no page: what firing asks most.
func BenchmarkGetAbsent(b *testing.B) {
	bits := benchBits(b)
	b.ReportAllocs()
	id := uint64(0)
	for b.Loop() {
		if _, err := bits.Get(id & 0xffffff); err != nil {
			b.Fatal(err)
		}
		id++
	}
	records(b)
}

func BenchmarkGetRandomCached(b *testing.B) {
	bits := benchBits(b)
	for c := range uint64(256) {
		set(b, bits, first(c), statebits.Cancelled)
	}
	checkpoint(b, bits)
	r := newRand(1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := bits.Get(r.Uint64() & 0xffffff); err != nil {
			b.Fatal(err)
		}
	}
	records(b)
}

func BenchmarkGetRandomFromDisk(b *testing.B) {
	bits := benchBits(b)
	for c := range uint64(2048) {
		set(b, bits, first(c), statebits.Cancelled)
	}
	checkpoint(b, bits)
	r := newRand(1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := bits.Get(r.Uint64() & 0x7ffffff); err != nil {
			b.Fatal(err)
		}
	}
	records(b)
}

// A checkpoint of 8 MiB of changed bits, without the two copies.
func BenchmarkWritePages(b *testing.B) {
	bits := benchBits(b)
	b.SetBytes(512 * statebits.PageBytes)
	b.ReportAllocs()
	s := statebits.Cancelled
	for b.Loop() {
		for c := range uint64(512) {
			set(b, bits, first(c), s)
		}
		checkpoint(b, bits)
		s ^= 3
	}
}
