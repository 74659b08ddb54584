package consumequeue_test

import (
	"testing"

	"github.com/tidewheel/tidewheel/engine/consumequeue"
	"github.com/tidewheel/tidewheel/engine/vfs/osfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

func openBench(b *testing.B) *consumequeue.Set {
	b.Helper()
	fsys, err := osfs.New(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	s, err := consumequeue.Open(fsys, dir, consumequeue.Options{}, consumequeue.States{})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func rate(b *testing.B, what string, n int) {
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), what+"/s")
}

// BenchmarkAppend finds the queue, appends and releases, as the writer does for each message.
func BenchmarkAppend(b *testing.B) {
	s := open(b, crashfs.New(crashfs.Options{}), consumequeue.States{})
	b.ReportAllocs()
	for i := range b.N {
		q, err := s.Ensure(1, uint32(i&7))
		if err != nil {
			b.Fatal(err)
		}
		q.Release(q.Append(consumequeue.Unit{Position: 1 << 30, Size: 300, Tags: 7, LogMs: int64(i)}) + 1)
		if i&0xfffff == 0xfffff {
			for q := range s.All() {
				q.Trim(q.Len())
			}
		}
	}
	rate(b, "units", b.N)
}

const benchUnits = 200_000

// fill makes a queue whose units are in memory or in a file.
func fill(b *testing.B, where string) *consumequeue.Queue {
	s := openBench(b)
	q := ensure(b, s, 1, 0)
	appendTo(b, q, benchUnits)
	if where == "file" {
		checkpoint(b, s, 0)
	}
	b.Cleanup(func() { s.Close() })
	b.ReportAllocs()
	b.ResetTimer()
	return q
}

func BenchmarkUnits(b *testing.B) {
	for _, where := range []string{"memory", "file"} {
		b.Run(where, func(b *testing.B) {
			q := fill(b, where)
			units := make([]consumequeue.Unit, 32)
			for i := range b.N {
				if n, err := q.Units(consumequeue.QueueOffset(i*7919%(benchUnits-32)), units); n != 32 || err != nil {
					b.Fatal(n, err)
				}
			}
			rate(b, "units", 32*b.N)
		})
	}
}

func BenchmarkSearchLogTime(b *testing.B) {
	for _, where := range []string{"memory", "file"} {
		b.Run(where, func(b *testing.B) {
			q := fill(b, where)
			for i := range b.N {
				if _, err := q.SearchLogTime(int64(i * 7919 % benchUnits)); err != nil {
					b.Fatal(err)
				}
			}
			rate(b, "searches", b.N)
		})
	}
}

// BenchmarkCheckpoint is what a checkpoint of ten thousand queues with little new in each costs the writer (Mark and
// Installed) and the job (Flush and Append).
func BenchmarkCheckpoint(b *testing.B) {
	s, err := consumequeue.Open(crashfs.New(crashfs.Options{}), dir, consumequeue.Options{}, consumequeue.States{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range uint32(10_000) {
		appendTo(b, ensure(b, s, i/4, i%4), 10)
	}
	at, err := s.Flush(s.Mark(), 4096)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("Mark", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			s.Mark()
		}
	})
	b.Run("Installed", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			s.Installed(at)
		}
	})
	b.Run("Flush", func(b *testing.B) {
		b.ReportAllocs()
		m := s.Mark()
		for range b.N {
			if _, err := s.Flush(m, 4096); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Append", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for range b.N {
			buf = at.Append(buf[:0])
		}
		b.SetBytes(int64(len(buf)))
	})
}
