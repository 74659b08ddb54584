package timer

import (
	"fmt"
	"testing"

	"github.com/tidewheel/tidewheel/engine/schedule"
	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/engine/timerwheel"
	"github.com/tidewheel/tidewheel/fsadapter/crashfs"
)

func perSecond(b *testing.B) {
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// benchLane is a lane in memory whose entries are alive until the frontier has passed them.
func benchLane(b *testing.B, capacity int, levels, rings bool) (l *Lane, frontier *timerlog.Key) {
	b.Helper()
	disk := crashfs.New(crashfs.Options{})
	frontier = &timerlog.Key{Due: begin}
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	table := func(family string) Table {
		log, err := timerlog.Open(disk, "timerlog", family, timerlog.Options{}, timerlog.State{})
		must(err)
		return Table{Entries: capacity, Log: log}
	}
	ring := func(family string, slots int, width int64) *Ring {
		w, err := timerwheel.Open(disk, "timerwheel/"+family, timerwheel.Params{Slots: slots, WidthMs: width})
		must(err)
		return &Ring{Table: table(family), Wheel: w}
	}
	cfg := Config{
		Runs: 1000, Loose: table("loose"),
		Alive:    func(e *timerlog.Entry) (bool, error) { return frontier.Less(e.Key), nil },
		Frontier: func() timerlog.Key { return *frontier },
	}
	if levels {
		var err error
		cfg.Queues, err = schedule.Open(disk, "schedule", schedule.Options{}, schedule.States{})
		must(err)
	}
	if rings {
		cfg.Seconds, cfg.Hours = ring("seconds", 1209600, 1000), ring("hours", 65536, hourMs)
	}
	return New(cfg), frontier
}

// BenchmarkPut puts a million entries at a time, in no order, into the memtable of a ring, and of a level.
func BenchmarkPut(b *testing.B) {
	const n = 1 << 18
	due := make([]int64, n)
	r := newRand(1)
	for i := range due {
		due[i] = begin + r.Int64N(hourMs)
	}
	for name, level := range map[string]bool{"timed": false, "level": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var l *Lane
			for i := range b.N {
				if i%n == 0 {
					b.StopTimer()
					l, _ = benchLane(b, n, level, !level)
					b.StartTimer()
				}
				e, delay := at(due[i%n], uint64(i+1)), int64(0)
				if level {
					e.Due, delay = begin+int64(i), 1000
				}
				if err := l.Put(e, delay, begin); err != nil {
					b.Fatal(err)
				}
			}
			perSecond(b)
		})
	}
}

// BenchmarkTake takes chunks of 1,024 from a merge of one memtable, of 18 schedule queues, and of 96 runs in files.
func BenchmarkTake(b *testing.B) {
	const chunk, batch = 1024, 1 << 17
	for _, sources := range []int{1, 18, 96} {
		b.Run(fmt.Sprintf("sources=%d", sources), func(b *testing.B) {
			b.ReportAllocs()
			var l *Lane
			var frontier *timerlog.Key
			var dst []timerlog.Entry
			left := 0
			for n := 0; n < b.N; {
				if left == 0 {
					b.StopTimer()
					l, frontier = fillSources(b, sources, batch)
					left = batch
					b.StartTimer()
				}
				var err error
				dst, _, err = l.Take(begin+1<<40, chunk, dst[:0])
				if err != nil || len(dst) == 0 {
					b.Fatal(len(dst), err)
				}
				for i := range dst {
					l.Gone(dst[i].Key)
				}
				*frontier = dst[len(dst)-1].Key
				n, left = n+len(dst), left-len(dst)
			}
			perSecond(b)
		})
	}
}

// fillSources spreads n entries over so many sources.
func fillSources(b *testing.B, sources, n int) (*Lane, *timerlog.Key) {
	b.Helper()
	var l *Lane
	var frontier *timerlog.Key
	put := func(i int, delay int64) {
		if err := l.Put(at(begin+int64(i)+1, uint64(i+1)), delay, begin); err != nil {
			b.Fatal(err)
		}
	}
	switch sources {
	case 1:
		l, frontier = benchLane(b, n, true, false)
		for i := range n {
			put(i, 0)
		}
	case 18:
		l, frontier = benchLane(b, 1, true, false)
		for i := range n {
			put(i, int64(i%sources+1)*1000)
		}
	default:
		l, frontier = benchLane(b, n/sources+1, true, false)
		for s := range sources {
			for i := s; i < n; i += sources {
				put(i, 0)
			}
			if l.frozenTable() == nil {
				if err := l.freeze(l.tables[0]); err != nil {
					b.Fatal(err)
				}
			}
			f := l.NewFlush()
			if err := f.Run(); err != nil {
				b.Fatal(err)
			}
			l.InstallFlush(f)
		}
	}
	return l, frontier
}
