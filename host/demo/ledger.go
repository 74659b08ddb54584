package demo

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// place is where a message stands. It is the same for ever.
type place struct {
	topic  string
	queue  int
	offset int64
}

// entry is what is known of one event.
type entry struct {
	Event
	sends     int     // with an answer or without
	acked     int     // answered: stored
	cancelled int     // of the acked ones
	firstSent int64   // ms since 1970; no copy can be due before this and the delay
	due       int64   // ms since 1970, as the server said last
	arrived   []int64 // the due times of the places where consumers saw it
	seen      int     // places where it stands, by the audit
	dues      []int64 // the due times of these, ms since 1970
	dropped   int     // verdicts of the filter that dropped it
	calls     int     // of the webhook
	taken     []int64 // when the webhook's receiver took it, ms since 1970
	movedTo   []int64 // the due times it was moved to
}

// arrival is a message that a consumer got for the first time, in µs since 1970.
type arrival struct{ due, received int64 }

// outage is a time without a server, in µs since 1970.
type outage struct{ from, to int64 }

// ledger keeps account of a run. It is safe for concurrent use.
type ledger struct {
	mu       sync.Mutex
	entries  map[string]*entry
	places   map[place]string // the event that stands there
	arrivals []arrival
	outages  []outage
	counts   Counts
	replayed int      // sends that were answered with the result of an earlier one
	audit    int64    // when it began, ms since 1970
	faults   []string // the first of them, for the report
}

// Counts are what a run has done so far.
type Counts struct {
	Put       int // events acknowledged
	Cancelled int
	Moved     int
	Delivered int // places that consumers have seen
	Filtered  int // dropped by the filter
	Hooked    int // events that the webhook's receiver took
	Busy      int // calls that it answered with 503
	Early     int
	Replaced  int // places that held another event before
}

// pending is how many events wait, or are on their way to a consumer. Copies whose answer the kill cut off are delivered
// and were not acknowledged.
func (c Counts) pending() int { return max(c.Put-c.Cancelled-c.Filtered-c.Delivered, 0) }

func newLedger(events []Event) *ledger {
	l := &ledger{entries: make(map[string]*entry, len(events)), places: map[place]string{}}
	for _, e := range events {
		l.entries[e.ID] = &entry{Event: e}
	}
	return l
}

// sending notes that an event is sent, maybe not for the first time.
func (l *ledger) sending(id string, nowMs int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[id]
	if e.sends == 0 {
		e.firstSent = nowMs
	}
	e.sends++
}

// unsent takes a sending back: no connection was made.
func (l *ledger) unsent(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[id].sends--
}

// acked notes that an event is stored, with its due time, ms since 1970, and whether an earlier sending had stored it.
func (l *ledger) acked(id string, dueMs int64, replayed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[id]
	if replayed {
		l.replayed++
	}
	e.acked++
	e.due = dueMs
	l.counts.Put++
}

// cancelled notes that an event was taken back.
func (l *ledger) cancelled(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[id].cancelled++
	l.counts.Cancelled++
}

// moved notes that an event was moved to a due time, ms since 1970.
func (l *ledger) moved(id string, dueMs int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[id]
	e.movedTo = append(e.movedTo, dueMs)
	e.due = dueMs
	l.counts.Moved++
}

// filtered notes that the filter dropped an event.
func (l *ledger) filtered(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[id]
	if e == nil {
		l.counts.Replaced++
		l.fault("filtered: %q, which nobody sent", id)
		return
	}
	e.dropped++
	l.counts.Filtered++
}

// called notes a call of the webhook, and says whether its receiver takes the event: one that is busy at first does not take
// the first call.
func (l *ledger) called(id string, nowMs int64, busyAtFirst bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[id]
	if e == nil {
		l.counts.Replaced++
		l.fault("webhook: called for %q, which nobody sent", id)
		return true
	}
	if e.calls++; e.calls == 1 && busyAtFirst {
		l.counts.Busy++
		return false
	}
	if e.taken = append(e.taken, nowMs); len(e.taken) == 1 {
		l.counts.Hooked++
	}
	return true
}

// arrived notes that a consumer got an event, the first time or again.
func (l *ledger) arrived(at place, id string, dueMs int64, received time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stands(at, id) {
		return
	}
	l.counts.Delivered++
	e := l.entries[id]
	e.arrived = append(e.arrived, dueMs)
	a := arrival{due: dueMs * 1000, received: received.UnixMicro()}
	l.arrivals = append(l.arrivals, a)
	soonest := e.firstSent + (e.delay() + min(e.shift(), 0)).Milliseconds()
	if a.received < a.due || dueMs < soonest {
		l.counts.Early++
		l.fault("early: %s, sent %d, due %d, received %d µs", id, e.firstSent, dueMs, a.received)
	}
}

// stands notes what stands at a place; true when the place is new. The caller holds mu.
func (l *ledger) stands(at place, id string) bool {
	before, known := l.places[at]
	switch {
	case known && before != id:
		l.counts.Replaced++
		l.fault("replaced: %v held %s, now %s", at, before, id)
		return false
	case known:
		return false
	case l.entries[id] == nil:
		l.counts.Replaced++
		l.fault("replaced: %v holds %q, which nobody sent", at, id)
		return false
	}
	l.places[at] = id
	return true
}

// auditing notes that the reading at the end begins, ms since 1970.
func (l *ledger) auditing(nowMs int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.audit = nowMs
}

// audited notes what stands at a place, by the reading at the end.
func (l *ledger) audited(at place, id string, dueMs int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stands(at, id)
	if e := l.entries[id]; e != nil {
		e.seen++
		e.dues = append(e.dues, dueMs)
	}
}

// fault keeps a description of the first faults. The caller holds mu.
func (l *ledger) fault(format string, args ...any) {
	const most = 20
	if len(l.faults) < most {
		l.faults = append(l.faults, fmt.Sprintf(format, args...))
	}
}

// down notes a time without a server.
func (l *ledger) down(from, to time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outages = append(l.outages, outage{from.UnixMicro(), to.UnixMicro()})
}

// now is a copy of the counts.
func (l *ledger) now() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

// settled says that everything that must arrive has. It looks at each event, since a copy of one that has arrived does not
// make up for another one that has not.
func (l *ledger) settled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		visible, dropped := e.owed()
		if e.acked == 0 || len(e.arrived) < visible || e.dropped < dropped || e.Topic == hookedTopic && len(e.taken) < len(e.arrived) {
			return false
		}
	}
	return true
}

// owed is how often an event must stand in its topic, and how often the filter must drop it.
func (e *entry) owed() (visible, dropped int) {
	n := e.acked - e.cancelled
	if e.Paid {
		return 0, n
	}
	return n, 0
}

// cutOffMs is how long before a kill the receiver may have taken an event whose verdict is not in the log yet: then it is
// called again, as it must be.
const cutOffMs = 1000

// repeats counts the calls of the webhook that came again though the event was taken: those that a kill explains, and others.
func (l *ledger) repeats(e *entry) (cutOff, others int) {
	for i := 1; i < len(e.taken); i++ {
		explained := slices.ContainsFunc(l.outages, func(o outage) bool {
			killed := o.from / 1000
			return e.taken[i-1] > killed-cutOffMs && e.taken[i-1] <= killed+cutOffMs && e.taken[i] >= killed
		})
		if explained {
			cutOff++
		} else {
			others++
		}
	}
	return cutOff, others
}

// judge counts what went wrong, after the audit.
func (l *ledger) judge() Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := Report{
		Put: l.counts.Put, Cancelled: l.counts.Cancelled, Delivered: l.counts.Delivered,
		Filtered: l.counts.Filtered, Hooked: l.counts.Hooked, HookedBusy: l.counts.Busy,
		Early: l.counts.Early, Moved: l.counts.Moved, Replaced: l.counts.Replaced, UnansweredStored: l.replayed,
	}
	ids := make([]string, 0, len(l.entries))
	for id := range l.entries {
		ids = append(ids, id)
	}
	slices.Sort(ids) // so that the faults read the same each time
	for _, id := range ids {
		e := l.entries[id]
		must, dropped := e.owed()
		r.Unanswered += e.sends - e.acked
		switch {
		case e.seen < must:
			r.Lost += must - e.seen
			l.fault("lost: %s, sent %d times, acknowledged %d, cancelled %d, seen %d, due %d ms before the end", id, e.sends, e.acked, e.cancelled, e.seen, l.audit-e.due)
		case e.seen > must:
			r.Twice += e.seen - must
			l.fault("twice: %s, sent %d times, acknowledged %d, cancelled %d, seen %d", id, e.sends, e.acked, e.cancelled, e.seen)
		}
		l.judgePlugins(e, dropped, &r)
		for _, due := range e.movedTo {
			if e.seen >= must && !slices.Contains(e.dues, due) {
				r.OffTime++
				l.fault("off time: %s, moved to %d, stands there with %d", id, due, e.dues)
			}
		}
	}
	r.Faults = l.faults
	up, restart := l.lateness()
	r.Up, r.Restart = newLateness(up), newLateness(restart)
	return r
}

// judgePlugins counts what went wrong where a plugin decides: an event that was dropped too seldom or too often, or for which
// the webhook was not called, or again without need. The caller holds mu.
func (l *ledger) judgePlugins(e *entry, dropped int, r *Report) {
	switch {
	case e.dropped < dropped:
		r.Lost += dropped - e.dropped
		l.fault("lost: %s, acknowledged %d times, cancelled %d, dropped by the filter %d", e.ID, e.acked, e.cancelled, e.dropped)
	case e.dropped > dropped:
		r.Twice += e.dropped - dropped
		l.fault("twice: %s, acknowledged %d times, cancelled %d, dropped by the filter %d", e.ID, e.acked, e.cancelled, e.dropped)
	}
	if e.Topic != hookedTopic {
		return
	}
	if e.seen > 0 && len(e.taken) == 0 {
		r.Lost++
		l.fault("lost: %s, in its topic, and the webhook was not called", e.ID)
	}
	cutOff, others := l.repeats(e)
	r.HookedAgain += cutOff
	if others > 0 {
		r.Twice += others
		l.fault("twice: %s, taken by the webhook's receiver at %d", e.ID, e.taken)
	}
}

// lateUp is how late messages were so far that came due while the server ran.
func (l *ledger) lateUp() Lateness {
	l.mu.Lock()
	up, _ := l.lateness()
	l.mu.Unlock() // sorting holds up no consumer
	return newLateness(up)
}

// lateness divides the arrivals: what was due before a server was back and came after the one before was killed has
// waited for the restart. It returns µs; the caller holds mu.
func (l *ledger) lateness() (up, restart []int64) {
	for _, a := range l.arrivals {
		waited := slices.ContainsFunc(l.outages, func(o outage) bool { return a.due <= o.to && a.received >= o.from })
		if waited {
			restart = append(restart, a.received-a.due)
		} else {
			up = append(up, a.received-a.due)
		}
	}
	return up, restart
}
