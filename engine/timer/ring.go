package timer

import (
	"fmt"
	"math"
	"slices"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/timerlog"
	"github.com/tidewheel/tidewheel/engine/timerwheel"
)

// ring is a TimerWheel with the groups that its slots name.
type ring struct {
	wheel *timerwheel.Wheel
	log   *timerlog.Log

	// Slots below opened have all their groups in the merge, or behind it. The merge opens a slot when it comes to its
	// begin, so that after a long stop no more sources are open than one hour and one second have.
	opened int64
	open   []*runSource
	swept  int64 // slots below are cleared

	// ends says of each file of which the slots name a group how long it is needed. Older files than all of these are not:
	// where a chain leads to one it ends.
	ends map[int64]fileEnd
}

// fileEnd is the end of a file: it is needed until the frontier has passed slot, the greatest of its groups, or everything
// below and at top was rolled, whichever comes first. Top is the greatest position in the flushes that wrote to the file, not
// in the file: it grows from flush to flush, but a flush writes by slot. So what a roll makes useless is always the oldest,
// and no chain leads through it to what is not.
type fileEnd struct {
	slot int64
	top  commitlog.Offset
}

// fits says whether two laps stay apart: the slot of a due time is less than a lap ahead of the frontier's.
func (r *ring) fits(due int64, frontier timerlog.Key) bool {
	return r.wheel.Number(due)-r.wheel.Number(frontier.Due) < int64(r.wheel.Slots())
}

// span is the slots that can hold living entries, [from, to).
func (r *ring) span(frontier timerlog.Key) (from, to int64) {
	from = r.wheel.Number(frontier.Due)
	return from, from + int64(r.wheel.Slots())
}

// nextBegin is the first due time of the first occupied slot that is not open, math.MaxInt64 if there is none.
func (r *ring) nextBegin(frontier timerlog.Key) int64 {
	from, to := r.span(frontier)
	s, ok := r.wheel.Next(max(from, r.opened), to)
	if !ok {
		return math.MaxInt64
	}
	return r.wheel.Begin(s.Time)
}

// openNext opens the first occupied slot that is not open, if it begins at or before limit, and returns its sources.
func (r *ring) openNext(limit int64, frontier timerlog.Key) ([]*runSource, error) {
	from, to := r.span(frontier)
	s, ok := r.wheel.Next(max(from, r.opened), to)
	if !ok || r.wheel.Begin(s.Time) > limit {
		return nil, nil
	}
	groups, err := chain(r.log, s, r.floor())
	if err != nil {
		return nil, err
	}
	sources := make([]*runSource, 0, len(groups))
	for _, ref := range groups {
		sources = append(sources, &runSource{log: r.log, run: Run{ref}, after: frontier})
	}
	r.opened = s.Time + 1
	if len(r.open) > openMost { // nobody puts: the merge is not made anew, which would do it
		r.open = pruned(r.open)
	}
	r.open = append(r.open, sources...)
	return sources, nil
}

// openMost is how many sources of slots are kept, of which most may be at their end.
const openMost = 256

// floor is the oldest file that is needed.
func (r *ring) floor() int64 {
	floor := int64(math.MaxInt64)
	for file := range r.ends {
		floor = min(floor, file)
	}
	return floor
}

// chain lists the groups of a slot, newest first, as far as they lie in files from floor on.
func chain(log *timerlog.Log, s timerwheel.Slot, floor int64) ([]timerlog.Ref, error) {
	var groups []timerlog.Ref
	for at := s.Last; at != timerlog.NoPlace && at.File >= floor; {
		ref, prev, err := log.Lookup(at)
		if err != nil {
			return nil, fmt.Errorf("timer: slot %d: %w", s.Time, err)
		}
		if ref.Slot != s.Time {
			return nil, fmt.Errorf("timer: slot %d: group of slot %d at byte %d of file %d", s.Time, ref.Slot, at.Offset, at.File)
		}
		groups = append(groups, ref)
		if at == s.First {
			break
		}
		at = prev
	}
	return groups, nil
}

// link adds a group to its slot; top is the greatest position in its flush. What the frontier has passed is left out: all
// its entries are dead, and the index may belong to the next lap.
func (r *ring) link(ref timerlog.Ref, top commitlog.Offset, frontier timerlog.Key) {
	if ref.Slot < r.wheel.Number(frontier.Due) {
		return
	}
	s, ok := r.wheel.Slot(ref.Slot)
	if !ok {
		s = timerwheel.Slot{Time: ref.Slot, First: ref.Place()}
	}
	s.Last = ref.Place()
	s.Count += uint32(ref.Count)
	r.wheel.Set(s)
	end, ok := r.ends[ref.File]
	if !ok {
		end.slot = ref.Slot
	}
	r.ends[ref.File] = fileEnd{max(end.slot, ref.Slot), max(end.top, top)}
	if ref.Slot < r.opened {
		r.open = append(r.open, &runSource{log: r.log, run: Run{ref}, after: frontier})
	}
}

// sweep clears slots that the frontier has passed, a few at a time.
func (r *ring) sweep(frontier timerlog.Key) {
	const most = 256
	r.swept = r.wheel.ClearBefore(r.swept, r.wheel.Number(frontier.Due), most)
}

// needs lists the files that hold a living group. Sources in those that do not are given up; it says whether there were any.
func (r *ring) needs(frontier timerlog.Key, rolled commitlog.Offset) (ends map[int64]fileEnd, gone bool) {
	now := r.wheel.Number(frontier.Due)
	for file, end := range r.ends {
		if end.slot < now || end.top < rolled {
			delete(r.ends, file)
		}
	}
	floor := r.floor()
	n := len(r.open)
	r.open = slices.DeleteFunc(r.open, func(s *runSource) bool { return s.run[0].File < floor })
	return r.ends, len(r.open) < n
}
