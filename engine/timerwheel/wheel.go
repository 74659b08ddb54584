package timerwheel

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/tidewheel/tidewheel/engine/vfs"
)

// Params describe a ring. They must be the same each time it is opened.
type Params struct {
	Slots   int    // size of the ring, 2 to 2^31-1
	WidthMs int64  // of a slot
	Ident   uint64 // names the ring among those of all stores
}

// Wheel is the TimerWheel of one ring.
type Wheel struct {
	fsys vfs.FS // set by Open, then read-only
	name string
	p    Params

	// owned by the writer
	pages  []*page  // nil: no slot is occupied
	words  []uint64 // a bit for each occupied slot
	groups []uint64 // a bit for each word that is not zero
	dirty  map[int]bool
	epoch  uint64   // of pages that are made now
	shares []uint64 // the epochs at which pictures were taken that are not given back

	file writer // owned by the job
}

// page is pageSlots slots. A page that a picture (a View or a checkpoint) may hold does not change: a change replaces it.
// That is so when it was made no later than the picture, so that taking one touches no page.
type page struct {
	slots [pageSlots]Slot
	used  int
	epoch uint64
}

// Open returns an empty ring whose file will have the name. It touches no file.
func Open(fsys vfs.FS, name string, p Params) (*Wheel, error) {
	if p.Slots < 2 || p.Slots > 1<<31-1 || p.WidthMs < 1 {
		return nil, fmt.Errorf("timerwheel: open %s: %d slots of %d ms", name, p.Slots, p.WidthMs)
	}
	words := (p.Slots + 63) / 64
	return &Wheel{
		fsys: fsys, name: name, p: p,
		pages: make([]*page, (p.Slots+pageSlots-1)/pageSlots), dirty: map[int]bool{}, epoch: 1,
		words: make([]uint64, words), groups: make([]uint64, (words+63)/64),
	}, nil
}

// Slots is the size of the ring.
func (w *Wheel) Slots() int { return w.p.Slots }

// Number is the number of the slot of a due time in ms.
func (w *Wheel) Number(dueMs int64) int64 {
	n := dueMs / w.p.WidthMs
	if dueMs < 0 && dueMs%w.p.WidthMs != 0 {
		n--
	}
	return n
}

// Begin is the first due time, ms, of a slot.
func (w *Wheel) Begin(number int64) int64 { return number * w.p.WidthMs }

func (w *Wheel) index(number int64) int {
	i := number % int64(w.p.Slots)
	if i < 0 {
		i += int64(w.p.Slots)
	}
	return int(i)
}

// Slot returns the slot of a number; ok is false if nothing lies there, or something of another lap.
func (w *Wheel) Slot(number int64) (s Slot, ok bool) {
	i := w.index(number)
	p := w.pages[i/pageSlots]
	if p == nil {
		return Slot{}, false
	}
	s = p.slots[i%pageSlots]
	return s, s.Count > 0 && s.Time == number
}

// Set puts a slot at the index of its number, in the place of whatever lay there. Its Count is not 0.
func (w *Wheel) Set(s Slot) {
	i := w.index(s.Time)
	p := w.change(i / pageSlots)
	if p.slots[i%pageSlots].Count == 0 {
		p.used++
	}
	p.slots[i%pageSlots] = s
	w.words[i/64] |= 1 << (i % 64)
	w.groups[i/64/64] |= 1 << (i / 64 % 64)
}

// Clear empties the slot of a number, if it is there.
func (w *Wheel) Clear(number int64) {
	if _, ok := w.Slot(number); !ok {
		return
	}
	w.clearIndex(w.index(number))
}

func (w *Wheel) clearIndex(i int) {
	p := w.change(i / pageSlots)
	p.slots[i%pageSlots] = Slot{}
	p.used--
	if w.words[i/64] &^= 1 << (i % 64); w.words[i/64] == 0 {
		w.groups[i/64/64] &^= 1 << (i / 64 % 64)
	}
	if p.used == 0 { // the checkpoint's table will not list it, so its bytes on disk do not matter
		w.pages[i/pageSlots] = nil
		delete(w.dirty, i/pageSlots)
	}
}

// change returns a page to write to.
func (w *Wheel) change(n int) *page {
	p := w.pages[n]
	switch {
	case p == nil:
		p = &page{epoch: w.epoch}
		w.pages[n] = p
	case len(w.shares) > 0 && p.epoch <= slices.Max(w.shares):
		c := *p
		c.epoch = w.epoch
		p = &c
		w.pages[n] = p
	}
	w.dirty[n] = true
	return p
}

// share begins a picture, unshare ends the one of an epoch.
func (w *Wheel) share() (epoch uint64) {
	epoch = w.epoch
	w.shares = append(w.shares, epoch)
	w.epoch++
	return epoch
}

func (w *Wheel) unshare(epoch uint64) {
	if i := slices.Index(w.shares, epoch); i >= 0 {
		w.shares = slices.Delete(w.shares, i, i+1)
	}
}

// Next finds the first occupied slot with a number in [from, to). The range must not be longer than the ring.
func (w *Wheel) Next(from, to int64) (s Slot, ok bool) {
	for from < to {
		i := w.index(from)
		next := w.nextIndex(i)
		if next < 0 { // nothing from i to the end of the ring
			from += int64(w.p.Slots - i)
			continue
		}
		from += int64(next - i)
		if from >= to {
			return Slot{}, false
		}
		if s := w.pages[next/pageSlots].slots[next%pageSlots]; s.Time == from {
			return s, true
		}
		from++
	}
	return Slot{}, false
}

// nextIndex finds the first occupied index at or above i, -1 if there is none before the ring's end.
func (w *Wheel) nextIndex(i int) int {
	word := i / 64
	if rest := w.words[word] >> (i % 64); rest != 0 {
		return i + bits.TrailingZeros64(rest)
	}
	word++
	if word == len(w.words) {
		return -1
	}
	group := word / 64
	rest := w.groups[group] >> (word % 64) << (word % 64)
	for rest == 0 {
		if group++; group == len(w.groups) {
			return -1
		}
		rest = w.groups[group]
	}
	word = group*64 + bits.TrailingZeros64(rest)
	return word*64 + bits.TrailingZeros64(w.words[word])
}

// ClearBefore empties the slots with numbers in [from, to): the frontier has passed them. It returns where it stopped
// after at most most slots.
func (w *Wheel) ClearBefore(from, to int64, most int) (reached int64) {
	if to-from > int64(w.p.Slots) { // a long stop: what lies there is of any lap
		for _, s := range w.before(to) {
			w.Clear(s.Time)
		}
		return to
	}
	for ; most > 0; most-- {
		s, ok := w.Next(from, to)
		if !ok {
			return to
		}
		w.Clear(s.Time)
		from = s.Time + 1
	}
	return from
}

// before lists the occupied slots with numbers below to.
func (w *Wheel) before(to int64) (slots []Slot) {
	for _, n := range w.Table() {
		for _, s := range w.pages[n].slots {
			if s.Count > 0 && s.Time < to {
				slots = append(slots, s)
			}
		}
	}
	return slots
}

// Each calls fn for every occupied slot, in the order of their indexes.
func (w *Wheel) Each(fn func(s Slot) error) error {
	for _, n := range w.Table() {
		for _, s := range w.pages[n].slots {
			if s.Count > 0 {
				if err := fn(s); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Table lists the pages that have an occupied slot, ascending: what a checkpoint records.
func (w *Wheel) Table() []int {
	var table []int
	for n, p := range w.pages {
		if p != nil {
			table = append(table, n)
		}
	}
	return table
}

// DirtyBytes is how much changed since the last Freeze.
func (w *Wheel) DirtyBytes() int { return len(w.dirty) * pageSize }

// View is the wheel as it was at a moment, for other goroutines. Release ends its use.
type View struct {
	p     Params
	pages []*page
	wheel *Wheel // for Release
	epoch uint64
}

// View returns the wheel as it is now. It costs a copy of the pointers to its pages.
func (w *Wheel) View() *View {
	return &View{p: w.p, pages: slices.Clone(w.pages), wheel: w, epoch: w.share()}
}

// Slot is as Wheel.Slot.
func (v *View) Slot(number int64) (s Slot, ok bool) {
	w := Wheel{p: v.p, pages: v.pages}
	return w.Slot(number)
}

// Release gives the view back, which must not be used any more. It is for the writer.
func (v *View) Release() {
	v.wheel.unshare(v.epoch)
	v.pages = nil
}

// From lists the occupied slots with numbers in [from, to), ascending, at most most. The range must not be longer than the
// ring.
func (v *View) From(from, to int64, most int) (slots []Slot) {
	w := Wheel{p: v.p, pages: v.pages}
	for from < to {
		i := w.index(from)
		span := min(int64(pageSlots-i%pageSlots), int64(v.p.Slots-i), to-from) // of one page
		if p := v.pages[i/pageSlots]; p != nil {
			for k, s := range p.slots[i%pageSlots:][:span] {
				if s.Count == 0 || s.Time != from+int64(k) {
					continue
				}
				if len(slots) == most {
					return slots
				}
				slots = append(slots, s)
			}
		}
		from += span
	}
	return slots
}
