package broker

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/tidewheel/tidewheel/engine"
)

// track is what the broker remembers of a group in one queue: which messages it handed out, and which of them are done.
//
//	done with        entries, in order of offset                not looked at
//	─────────── low ┬────────┬────────┬────────┬────────┬ next ───────────────
//	                │ leased │ done   │ free   │ leased │
//
// What lies between and is no entry is done with: a message with another tag, say. A track is guarded by its group's mu.
//
// Invariant: entries[head:] is sorted by offset, all of it below next, and entries[head] is not done.
type track struct {
	topic string // the topic of the queue: what was pulled, or the group's retries
	id    uint32 // of the topic
	queue int

	next    int64
	min     int64 // the queue's first offset, as it may be told
	entries []entry
	head    int
	ends    int64  // no lease that runs ends before, ns of Env.Mono; a bound
	loose   bool   // there may be entries that are free
	epoch   uint32 // counts what made all leases void
	void    uint64 // the last token of a lease that a seek made void

	committed int64 // what the log has, durably
	handed    int64 // what the writer was given with no one waiting for it

	reading chan struct{} // closed when the pull that reads the queue is done with it; nil: nobody reads
	asking  bool          // that pull asks hooks
	blocked bool          // a pull found the track full

	settled []engine.OffsetRange // above next, what is settled in the log: sorted; done with

	held    int64         // ns of Env.Mono: before, nothing new is read, since hooks have decided nothing about what was
	backoff time.Duration // how long that was the last time
}

// entry is a message that is not done with, or is above one that is not.
type entry struct {
	offset   int64
	until    int64  // the lease ends then, ns of Env.Mono; free: nobody has it
	token    uint64 // of the lease, another one each time
	before   uint16 // deliveries of the copies before this one
	attempts uint16 // deliveries of this copy
	origin   uint32 // in the group's retries: the number of the topic that it comes from
	state    entryState
	unasked  bool // hooks are to be asked before it is handed out; with an end in until, nobody has it and that is when to ask
}

type entryState uint8

const (
	stateOpen entryState = iota
	stateBusy            // a copy of it is on its way into the log
	stateDone            // acked
)

// free as the end of a lease means that there is none.
const free = math.MinInt64

// low is the lowest offset that is not done with: what may be committed.
func (t *track) low() int64 {
	if t.head < len(t.entries) {
		return t.entries[t.head].offset
	}
	return t.next
}

// lowWithout is what low will be when an entry is done.
func (t *track) lowWithout(e *entry) int64 {
	if e.offset != t.low() {
		return t.low()
	}
	for i := t.head; i < len(t.entries); i++ {
		if x := &t.entries[i]; x.offset != e.offset && x.state != stateDone {
			return x.offset
		}
	}
	return t.next
}

// find is the entry of an offset, nil if there is none. The pointer is good until the track changes.
func (t *track) find(offset int64) *entry {
	list := t.entries[t.head:]
	i, ok := slices.BinarySearchFunc(list, offset, func(e entry, at int64) int { return cmp.Compare(e.offset, at) })
	if !ok {
		return nil
	}
	return &list[i]
}

// done says that an entry is done with. It makes pointers to entries invalid.
func (t *track) done(e *entry) {
	e.state = stateDone
	t.settle()
}

// settle drops the entries at the head that are done.
func (t *track) settle() {
	for t.head < len(t.entries) && t.entries[t.head].state == stateDone {
		t.head++
	}
	switch {
	case t.head == len(t.entries):
		t.entries, t.head = t.entries[:0], 0
		if cap(t.entries) > keptEntries {
			t.entries = nil
		}
	case t.head > len(t.entries)/2 && t.head >= 64:
		t.entries = t.entries[:copy(t.entries, t.entries[t.head:])]
		t.head = 0
	}
}

// keptEntries is how much memory an empty track keeps.
const keptEntries = 1024

// forward says that all below an offset is done with.
func (t *track) forward(offset int64) {
	for i := t.head; i < len(t.entries) && t.entries[i].offset < offset; i++ {
		t.entries[i].state = stateDone
	}
	t.next = max(t.next, offset)
	t.settle()
}

// dropOrigin says that all of a topic is done with, except what is on its way elsewhere.
func (t *track) dropOrigin(origin uint32) {
	for i := t.head; i < len(t.entries); i++ {
		if e := &t.entries[i]; e.origin == origin && e.state == stateOpen {
			e.state = stateDone
		}
	}
	t.settle()
}

// reset makes the track begin again at an offset: all leases are void.
func (t *track) reset(offset int64) {
	t.next, t.entries, t.head, t.ends, t.loose = offset, nil, 0, math.MaxInt64, false
	t.committed, t.handed = offset, offset
	t.settled, t.held, t.backoff = nil, 0, 0
	t.epoch++
}

// isSettled says whether an offset that was not looked at is done with.
func (t *track) isSettled(offset int64) bool {
	for _, r := range t.settled {
		if offset < r.To {
			return offset >= r.From
		}
	}
	return false
}

// skipSettled passes over what comes next and is settled.
func (t *track) skipSettled() {
	for len(t.settled) > 0 && t.settled[0].From <= t.next {
		t.next = max(t.next, t.settled[0].To)
		t.settled = t.settled[1:]
	}
}

// undecided puts off an entry about which hooks decided nothing.
func (t *track) undecided(e *entry, now int64) {
	e.unasked, e.token, e.until = true, 0, now+int64(t.backoff)
	t.ends = min(t.ends, e.until)
}

// askNow has what was not decided asked about at once.
func (t *track) askNow() {
	for i := t.head; i < len(t.entries); i++ {
		if e := &t.entries[i]; e.unasked && e.state == stateOpen && e.token == 0 {
			e.until, t.loose = free, true
		}
	}
	t.held, t.backoff = 0, 0
}

// room says how many more offsets may be looked at.
func (t *track) room(most int) int { return int(max(int64(most)-(t.next-t.low()), 0)) }

// isFree says whether an entry can be handed out.
func (e *entry) isFree(now int64) bool { return e.state == stateOpen && e.until <= now }

// collect lists, in order, at most n offsets of free entries that are wanted. Expire comes first.
func (t *track) collect(now int64, n int, wanted func(*entry) bool, into []int64) []int64 {
	if !t.loose {
		return into
	}
	t.loose = false
	for i := t.head; i < len(t.entries); i++ {
		e := &t.entries[i]
		if !e.isFree(now) {
			continue
		}
		t.loose = true
		if n > 0 && wanted(e) {
			into = append(into, e.offset)
			n--
		}
	}
	return into
}

// expire frees what has ended, and says whether anything was.
func (t *track) expire(now int64) (any bool) {
	if now < t.ends {
		return false
	}
	t.ends = math.MaxInt64
	for i := t.head; i < len(t.entries); i++ {
		e := &t.entries[i]
		switch {
		case e.state != stateOpen || e.until == free:
		case e.until <= now:
			e.until, any = free, true
		default:
			t.ends = min(t.ends, e.until)
		}
	}
	t.loose = t.loose || any
	return any
}

// leased counts the leases that run. What nobody has had yet has no token.
func (t *track) leased(now int64) (n int) {
	for i := t.head; i < len(t.entries); i++ {
		if e := &t.entries[i]; e.state != stateDone && e.until > now && e.token != 0 {
			n++
		}
	}
	return n
}

// add takes in an offset that was not looked at before. It must be above all others.
func (t *track) add(e entry) *entry {
	t.entries = append(t.entries, e)
	t.next = e.offset + 1
	return &t.entries[len(t.entries)-1]
}

// grant begins a lease.
func (t *track) grant(e *entry, token uint64, until int64) {
	e.token, e.until = token, until
	e.attempts = uint16(min(int(e.attempts)+1, math.MaxUint16))
	t.ends = min(t.ends, until)
}

// attempt is the number of the delivery, from 1.
func (e *entry) attempt() int { return int(e.before) + int(e.attempts) }

// Lease is a group's hold on a message, until it is acked, put off, or over.
type Lease struct {
	// Receipt is what Ack, Retry, Reject and Extend take. It is good until the lease is over or the broker is closed.
	Receipt string
	// Attempt is 1 at the first delivery of a message and one more at each that follows, be it after the end of a lease
	// or after a Retry. Those that were cut short by a restart do not count.
	Attempt int
	// EndsMs is when the lease ends, ms since 1970, unless it is extended.
	EndsMs int64
	// Topic is the one that was pulled, also of a message that comes from the group's retries.
	Topic string
	// ID is that of the message at its first delivery: the same at each attempt.
	ID string
}

// Delivery is a message with its lease.
type Delivery struct {
	engine.Message // as it stands in the queue; its slices belong to the Pulled it came from
	Lease
	// Queue is the queue it stands in; with Retried, of the group's retry topic.
	Queue   int
	Retried bool // it comes from the group's retries
}

// timeout is how long a lease lasts.
func (o *Options) timeout(asked time.Duration) time.Duration {
	if asked == 0 {
		return o.AckTimeout
	}
	return asked
}
