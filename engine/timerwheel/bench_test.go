package timerwheel_test

import (
	"testing"

	"github.com/tidewheel/tidewheel/engine/timerwheel"
	"github.com/tidewheel/tidewheel/engine/vfs/osfs"
)

const literal = 1_209_600

// benchWheel is a ring in a real directory with a slot at every step of numbers.
func benchWheel(b *testing.B, step int64) *timerwheel.Wheel {
	b.Helper()
	fsys, err := osfs.New(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	w := open(b, fsys, literal)
	for number := int64(0); number < literal; number += step {
		w.Set(slot(number, 0))
	}
	return w
}

func records(b *testing.B, each int) {
	b.Helper()
	b.ReportMetric(float64(b.N)*float64(each)/b.Elapsed().Seconds(), "slots/s")
}

// A flush links a group to every slot of a week.
func BenchmarkSet(b *testing.B) {
	w := benchWheel(b, 2)
	b.ReportAllocs()
	number := int64(0)
	for b.Loop() {
		w.Set(slot(number, 1))
		number = (number + 2) % literal
	}
	records(b, 1)
}

// The next occupied slot, a second, an hour and a week ahead.
func BenchmarkNext(b *testing.B) {
	for _, c := range []struct {
		name string
		step int64
	}{{"dense", 1}, {"hourly", 3600}, {"alone", literal}} {
		b.Run(c.name, func(b *testing.B) {
			w := benchWheel(b, c.step)
			b.ReportAllocs()
			from := int64(1)
			for b.Loop() {
				s, ok := w.Next(from, from+literal)
				if from = s.Time + 1; !ok || from >= literal {
					from = 1
				}
			}
			records(b, 1)
		})
	}
}

// The sweep behind the frontier.
func BenchmarkClearBefore(b *testing.B) {
	w := benchWheel(b, literal)
	b.ReportAllocs()
	at := int64(0)
	for b.Loop() {
		for number := at; number < at+256; number++ {
			w.Set(slot(number, 0))
		}
		at = w.ClearBefore(at, at+256, 256)
	}
	records(b, 256)
}

// What a look at waiting messages takes: a view of the whole ring, and its first slots.
func BenchmarkView(b *testing.B) {
	w := benchWheel(b, 2)
	b.ReportAllocs()
	for b.Loop() {
		v := w.View()
		if len(v.From(600_000, 600_000+literal, 256)) != 256 {
			b.Fatal("slots are missing")
		}
		v.Release()
	}
}

// A checkpoint after a flush that touched every page, without the two copies: 38.7 MB in place.
func BenchmarkCheckpointWholeRing(b *testing.B) {
	w := benchWheel(b, 2)
	b.SetBytes(38_707_200)
	b.ReportAllocs()
	for b.Loop() {
		for number := int64(0); number < literal; number += pageSlots {
			w.Set(slot(number, 1))
		}
		checkpoint(b, w)
	}
}

// A restart reads every page that is in use.
func BenchmarkLoadWholeRing(b *testing.B) {
	fsys, err := osfs.New(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	w := open(b, fsys, literal)
	for number := int64(0); number < literal; number += 2 {
		w.Set(slot(number, 0))
	}
	checkpoint(b, w)
	table := w.Table()
	b.SetBytes(38_707_200)
	b.ReportAllocs()
	for b.Loop() {
		if err := open(b, fsys, literal).Load(table, nil); err != nil {
			b.Fatal(err)
		}
	}
}
