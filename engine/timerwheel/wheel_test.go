package timerwheel_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/engine/timerwheel"
)

// oracle is a ring without cleverness: at each index whatever was set there last.
type oracle struct {
	slots int64
	at    map[int64]timerwheel.Slot
}

func newOracle(slots int) *oracle { return &oracle{int64(slots), map[int64]timerwheel.Slot{}} }

func (o *oracle) index(number int64) int64 { return ((number % o.slots) + o.slots) % o.slots }

func (o *oracle) set(s timerwheel.Slot) { o.at[o.index(s.Time)] = s }

func (o *oracle) slot(number int64) (timerwheel.Slot, bool) {
	s, ok := o.at[o.index(number)]
	if !ok || s.Time != number {
		return timerwheel.Slot{}, false
	}
	return s, true
}

func (o *oracle) clear(number int64) {
	if _, ok := o.slot(number); ok {
		delete(o.at, o.index(number))
	}
}

// in lists the slots with numbers in [from, to), ascending.
func (o *oracle) in(from, to int64) (found []timerwheel.Slot) {
	for _, s := range o.at {
		if s.Time >= from && s.Time < to {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b timerwheel.Slot) int { return cmp.Compare(a.Time, b.Time) })
	return found
}

// byIndex lists all slots in the order of their indexes.
func (o *oracle) byIndex() (found []timerwheel.Slot) {
	for _, s := range o.at {
		found = append(found, s)
	}
	slices.SortFunc(found, func(a, b timerwheel.Slot) int { return cmp.Compare(o.index(a.Time), o.index(b.Time)) })
	return found
}

// pages lists the pages that have an occupied slot.
func (o *oracle) pages() []int {
	pages := []int{}
	for _, s := range o.byIndex() {
		if n := int(o.index(s.Time) / pageSlots); len(pages) == 0 || pages[len(pages)-1] != n {
			pages = append(pages, n)
		}
	}
	return pages
}

// same compares everything that can be asked without a range.
func (o *oracle) same(w *timerwheel.Wheel) error {
	var got []timerwheel.Slot
	_ = w.Each(func(s timerwheel.Slot) error { got = append(got, s); return nil })
	if want := o.byIndex(); !slices.Equal(got, want) {
		return fmt.Errorf("the ring has %v, want %v", got, want)
	}
	if got, want := w.Table(), o.pages(); !slices.Equal(got, want) {
		return fmt.Errorf("its table is %v, want %v", got, want)
	}
	return nil
}

// Random changes and questions, on rings of awkward sizes, with the frontier going round many times.
func TestWheelIsLikeAMap(t *testing.T) {
	rounds := 3000
	if large() {
		rounds = 100_000
	}
	for _, slots := range []int{2, 3, 63, 64, 65, 127, 128, 129, 1000, 4096, 4097, 16384, 65536, 262145} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			r := newRand(uint64(slots))
			w, o := open(t, newFS(), slots), newOracle(slots)
			lap := int64(slots)
			front := r.Int64N(3*lap) - lap // laps begin below zero, too
			for round := range rounds {
				if err := wheelStep(w, o, r.IntN(100), front, r.Int64N(lap), r.Int64N(lap+1), uint32(round)); err != nil {
					t.Fatalf("round %d, frontier %d: %v", round, front, err)
				}
				if r.IntN(10) == 0 {
					front += r.Int64N(lap/2 + 1)
				}
				if round%50 == 0 {
					if err := o.same(w); err != nil {
						t.Fatalf("round %d: %v", round, err)
					}
				}
			}
		})
	}
}

// wheelStep does one thing to both: a is an offset from the frontier, n a length.
func wheelStep(w *timerwheel.Wheel, o *oracle, what int, front, a, n int64, version uint32) error {
	number := front + a
	switch {
	case what < 40:
		w.Set(slot(number, version))
		o.set(slot(number, version))
	case what < 50:
		w.Clear(number)
		o.clear(number)
	case what < 60:
		got, ok := w.Slot(number)
		if want, there := o.slot(number); ok != there || ok && got != want {
			return fmt.Errorf("slot %d is %v %v, want %v %v", number, got, ok, want, there)
		}
	case what < 75:
		got, ok := w.Next(number, number+n)
		want := o.in(number, number+n)
		if ok != (len(want) > 0) || ok && got != want[0] {
			return fmt.Errorf("next in [%d, %d) is %v %v, want %v", number, number+n, got, ok, want)
		}
	case what < 85:
		v := w.View()
		got, want := v.From(number, number+n, 7), o.in(number, number+n)
		v.Release()
		if !slices.Equal(got, want[:min(len(want), 7)]) {
			return fmt.Errorf("from %d to %d there are %v, want %v", number, number+n, got, want)
		}
	default:
		return clearSome(w, o, front-n, front, 1+int(a%9))
	}
	return nil
}

func clearSome(w *timerwheel.Wheel, o *oracle, from, to int64, most int) error {
	dead := o.in(from, to)
	reached := w.ClearBefore(from, to, most)
	want := to
	if len(dead) > most || len(dead) == most && dead[most-1].Time+1 < to {
		want = dead[most-1].Time + 1
	}
	if reached != want {
		return fmt.Errorf("cleared [%d, %d) up to %d, want %d of %v", from, to, reached, want, dead)
	}
	for _, s := range o.in(from, reached) {
		o.clear(s.Time)
	}
	return nil
}

// After a stop of more than a lap what lies behind is of any lap, and goes at once.
func TestWheelClearBeforeMoreThanALap(t *testing.T) {
	w, o := open(t, newFS(), 100), newOracle(100)
	for _, n := range []int64{5, 17, 120, 260, 399, 431} {
		w.Set(slot(n, 0))
		o.set(slot(n, 0))
	}
	if reached := w.ClearBefore(0, 400, 1); reached != 400 {
		t.Fatalf("reached %d", reached)
	}
	for _, s := range o.in(0, 400) {
		o.clear(s.Time)
	}
	if err := o.same(w); err != nil {
		t.Fatal(err)
	}
	if got := all(t, w); len(got) != 1 || got[0].Time != 431 {
		t.Fatalf("left are %v", got)
	}
}

// Two laps share an index: the newer one takes it, and the older is not found any more.
func TestWheelLapsShareAnIndex(t *testing.T) {
	for _, number := range []int64{0, 1, 127, 128, 4095, -1, -128, -4096} {
		w := open(t, newFS(), 4096)
		w.Set(slot(number, 1))
		w.Set(slot(number+4096, 2))
		if s, ok := w.Slot(number); ok {
			t.Errorf("slot %d is %v after a lap", number, s)
		}
		w.Clear(number) // not there: it must not empty the newer lap
		if s, ok := w.Slot(number + 4096); !ok || s != slot(number+4096, 2) {
			t.Errorf("slot %d is %v, %v", number+4096, s, ok)
		}
		if s, ok := w.Next(number, number+4096); ok {
			t.Errorf("the next from %d on is %v, of the next lap", number, s)
		}
		if s, ok := w.Next(number+1, number+4097); !ok || s.Time != number+4096 {
			t.Errorf("the next from %d on is %v, %v", number+1, s, ok)
		}
	}
}

func TestWheelNumber(t *testing.T) {
	hours, err := timerwheel.Open(newFS(), name, timerwheel.Params{Slots: 65536, WidthMs: 3_600_000})
	if err != nil {
		t.Fatal(err)
	}
	seconds := open(t, newFS(), 1_209_600)
	for _, c := range []struct {
		w       *timerwheel.Wheel
		due     int64
		number  int64
		beginMs int64
	}{
		{seconds, 0, 0, 0},
		{seconds, 999, 0, 0},
		{seconds, 1000, 1, 1000},
		{seconds, 1_767_225_599_999, 1_767_225_599, 1_767_225_599_000},
		{seconds, 1_767_225_600_000, 1_767_225_600, 1_767_225_600_000},
		{seconds, -1, -1, -1000},
		{seconds, -1000, -1, -1000},
		{seconds, -1001, -2, -2000},
		{hours, 3_599_999, 0, 0},
		{hours, 3_600_000, 1, 3_600_000},
		{hours, 253_402_300_799_999, 70_389_527, 253_402_297_200_000}, // the end of the year 9999
		{seconds, math.MaxInt64, math.MaxInt64 / 1000, math.MaxInt64 / 1000 * 1000},
	} {
		if n := c.w.Number(c.due); n != c.number || c.w.Begin(n) != c.beginMs {
			t.Errorf("%d ms are in slot %d, which begins at %d; want %d, %d", c.due, n, c.w.Begin(n), c.number, c.beginMs)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, p := range []timerwheel.Params{
		{}, {Slots: 1, WidthMs: 1}, {Slots: -5, WidthMs: 1}, {Slots: 2}, {Slots: 2, WidthMs: -1}, {Slots: 1 << 31, WidthMs: 1},
	} {
		if _, err := timerwheel.Open(newFS(), name, p); err == nil {
			t.Errorf("%+v: no error", p)
		}
	}
	if w := open(t, newFS(), 77); w.Slots() != 77 {
		t.Errorf("%d slots", w.Slots())
	}
}

func TestCanName(t *testing.T) {
	for _, c := range []struct {
		p    timerlog.Place
		want bool
	}{
		{timerlog.Place{}, true},
		{timerlog.Place{File: 1<<32 - 1, Offset: 1<<32 - 1}, true},
		{timerlog.Place{File: 1 << 32}, false},
		{timerlog.Place{Offset: 1 << 32}, false},
		{timerlog.NoPlace, false},
	} {
		if got := timerwheel.CanName(c.p); got != c.want {
			t.Errorf("%v: %v", c.p, got)
		}
	}
}

// A place at the ends of what a slot can name comes back from the file.
func TestSlotKeepsItsPlaces(t *testing.T) {
	want := timerwheel.Slot{
		Time:  9,
		First: timerlog.Place{File: 1<<32 - 1, Offset: 1<<32 - 1},
		Last:  timerlog.Place{File: 0, Offset: 1<<32 - 1},
		Count: math.MaxUint32,
	}
	disk := newFS()
	w := open(t, disk, 100)
	w.Set(want)
	s := checkpoint(t, w)
	s.redo = nil
	w = open(t, disk, 100)
	if err := s.load(w); err != nil {
		t.Fatal(err)
	}
	if got, ok := w.Slot(9); !ok || got != want {
		t.Errorf("got %+v, %v", got, ok)
	}
}

// What was frozen stays as it was; what changed since is in the next Freeze, once.
func TestFreezeIsOfItsMoment(t *testing.T) {
	w := open(t, newFS(), 1000)
	w.Set(slot(3, 1))
	w.Set(slot(300, 1))
	if n := w.DirtyBytes(); n != 2*pageSize {
		t.Errorf("%d bytes are dirty", n)
	}
	pages, table := w.Freeze(), w.Table()
	before := timerwheel.AppendPages(nil, pages)
	w.Set(slot(3, 2))
	w.Set(slot(4, 2))
	w.Clear(300)
	w.Set(slot(999, 2))
	if after := timerwheel.AppendPages(nil, pages); string(after) != string(before) {
		t.Error("a frozen page changed")
	}
	if !slices.Equal(table, []int{0, 2}) || !slices.Equal(w.Table(), []int{0, 7}) {
		t.Errorf("tables %v, %v", table, w.Table())
	}
	w.Thaw(pages)
	next := w.Freeze()
	if len(next) != 2 || next[0].Number != 0 || next[1].Number != 7 {
		t.Errorf("the next Freeze has %d pages", len(next))
	}
	w.Thaw(next)
	if n := len(w.Freeze()); n != 0 {
		t.Errorf("a Freeze without changes has %d pages", n)
	}
}

// A page that became empty is neither dirty nor listed; when it is used again it is both.
func TestEmptyPageLeaves(t *testing.T) {
	disk := newFS()
	w := open(t, disk, 1000)
	w.Set(slot(10, 1))
	checkpoint(t, w)
	w.Clear(10)
	if w.DirtyBytes() != 0 || len(w.Table()) != 0 {
		t.Fatalf("%d dirty bytes, table %v", w.DirtyBytes(), w.Table())
	}
	s := checkpoint(t, w)
	w = open(t, disk, 1000)
	if err := s.load(w); err != nil {
		t.Fatal(err)
	}
	if got := all(t, w); len(got) != 0 {
		t.Fatalf("the ring has %v", got)
	}
	w.Set(slot(11, 2))
	s = checkpoint(t, w)
	s.redo = nil
	w = open(t, disk, 1000)
	if err := s.load(w); err != nil {
		t.Fatal(err)
	}
	if got := all(t, w); len(got) != 1 || got[0] != slot(11, 2) {
		t.Fatalf("the ring has %v", got)
	}
}

// A View answers for its moment, whatever the writer does, and costs nothing after Release.
func TestViewIsOfItsMoment(t *testing.T) {
	w := open(t, newFS(), 1000)
	w.Set(slot(3, 1))
	w.Set(slot(500, 1))
	v := w.View()
	w.Set(slot(3, 2))
	w.Set(slot(1003, 3)) // the next lap takes the index of 3
	w.Clear(500)
	w.Set(slot(700, 1))
	for _, c := range []struct {
		number int64
		want   bool
	}{{3, true}, {500, true}, {700, false}, {1003, false}} {
		got, ok := v.Slot(c.number)
		if ok != c.want || ok && got != slot(c.number, 1) {
			t.Errorf("slot %d is %v, %v", c.number, got, ok)
		}
	}
	if got := v.From(0, 1000, 10); !slices.Equal(got, []timerwheel.Slot{slot(3, 1), slot(500, 1)}) {
		t.Errorf("the view lists %v", got)
	}
	if got := v.From(0, 1000, 1); !slices.Equal(got, []timerwheel.Slot{slot(3, 1)}) {
		t.Errorf("at most one: %v", got)
	}
	v.Release()
	if got := all(t, w); !slices.Equal(got, []timerwheel.Slot{slot(1003, 3), slot(700, 1)}) {
		t.Errorf("the ring has %v", got)
	}
}

// Each stops at the first error and returns it.
func TestEachStops(t *testing.T) {
	w := open(t, newFS(), 1000)
	w.Set(slot(1, 0))
	w.Set(slot(900, 0))
	stop := fmt.Errorf("enough")
	n := 0
	if err := w.Each(func(timerwheel.Slot) error { n++; return stop }); err != stop || n != 1 {
		t.Errorf("%v after %d", err, n)
	}
}
