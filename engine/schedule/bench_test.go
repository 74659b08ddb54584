package schedule_test

import (
	"testing"

	"github.com/tidewheel/tidewheel/engine/schedule"
	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/engine/vfs/osfs"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

func rate(b *testing.B, what string, n int) {
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), what+"/s")
}

func BenchmarkAppend(b *testing.B) {
	q := ensure(b, open(b, crashfs.New(crashfs.Options{}), schedule.States{}), 1000)
	b.ReportAllocs()
	for i := range b.N {
		if err := q.Append(timerlog.Entry{Key: timerlog.Key{Due: int64(i / 100), ID: uint64(i)}, Size: 300}); err != nil {
			b.Fatal(err)
		}
		if i&0xfffff == 0xfffff {
			q.Trim(q.Len())
		}
	}
	rate(b, "entries", b.N)
}

const benchEntries = 200_000

// fill makes a queue whose entries are in memory or in files.
func fill(b *testing.B, where string) *schedule.Queue {
	fsys, err := osfs.New(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	s, err := schedule.Open(fsys, dir, schedule.Options{}, schedule.States{})
	if err != nil {
		b.Fatal(err)
	}
	q := ensure(b, s, 1000)
	appendTo(b, q, benchEntries)
	if where == "file" {
		checkpoint(b, s, 0)
	}
	b.Cleanup(func() { s.Close() })
	b.ReportAllocs()
	b.ResetTimer()
	return q
}

func BenchmarkCursor(b *testing.B) {
	for _, where := range []string{"memory", "file"} {
		b.Run(where, func(b *testing.B) {
			c := fill(b, where).Cursor(0)
			for range b.N {
				_, ok, err := c.Next()
				if err != nil {
					b.Fatal(err)
				}
				if !ok {
					c.MoveTo(0)
				}
			}
			rate(b, "entries", b.N)
		})
	}
}

func BenchmarkSearch(b *testing.B) {
	for _, where := range []string{"memory", "file"} {
		b.Run(where, func(b *testing.B) {
			q := fill(b, where)
			for i := range b.N {
				if _, err := q.Search(entryAt(1000, int64(i*7919%benchEntries)).Key); err != nil {
					b.Fatal(err)
				}
			}
			rate(b, "searches", b.N)
		})
	}
}

func BenchmarkParseLevels(b *testing.B) {
	b.ReportAllocs()
	for range b.N {
		if _, err := schedule.ParseLevels(schedule.DefaultLevels); err != nil {
			b.Fatal(err)
		}
	}
}
