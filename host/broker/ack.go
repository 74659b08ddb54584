package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidewheel/tidewheel/engine"
)

// AckOutcome says what became of an ack.
type AckOutcome uint8

// The outcomes of an ack.
const (
	// Acked: the group is done with the message.
	Acked AckOutcome = 1 + iota
	// AckExpired: the lease is over, or the broker was opened again since. The message comes again, or has come.
	AckExpired
	// AckNotFound: there is no such receipt, or its group or topic is gone.
	AckNotFound
)

// String is "acked", "expired" or "not found".
func (o AckOutcome) String() string {
	switch o {
	case Acked:
		return "acked"
	case AckExpired:
		return "expired"
	case AckNotFound:
		return "not found"
	}
	return fmt.Sprintf("outcome %d", uint8(o))
}

// Err is nil for Acked, else ErrExpired or ErrReceipt.
func (o AckOutcome) Err() error {
	switch o {
	case Acked:
		return nil
	case AckExpired:
		return ErrExpired
	}
	return ErrReceipt
}

// Ack says that a group is done with messages. The outcomes stand in the order of the receipts; a message acked twice is
// Acked both times. What the group is done with from the beginning of a queue on without a gap is committed, durably,
// before Ack returns: that a message above a gap was acked is known until the broker is closed, and then the message
// comes again.
//
// An error is about committing: no lease was wasted, what was acked will not come again before the broker is closed.
func (b *Broker) Ack(ctx context.Context, receipts ...string) ([]AckOutcome, error) {
	if b.isClosing() {
		return nil, ErrClosed
	}
	outcomes := make([]AckOutcome, len(receipts))
	var a acks
	defer a.release(b)
	for i, text := range receipts {
		r, g, outcome := b.holder(text)
		if g != nil {
			a.add(b, g)
			outcome = a.mark(g, r, b.env.Mono())
		}
		outcomes[i] = outcome
	}
	for _, c := range a.list {
		if err := b.settle(ctx, c.g, c.want); err != nil {
			return nil, err
		}
	}
	return outcomes, nil
}

// holder finds the group that a receipt is of, acquired; nil with the reason.
func (b *Broker) holder(text string) (receipt, *group, AckOutcome) {
	r, ok := parseReceipt(text)
	if !ok {
		return r, nil, AckNotFound
	}
	if r.nonce != b.groups.nonce {
		return r, nil, AckExpired
	}
	g := b.groups.acquireNumber(r.group)
	if g == nil {
		return r, nil, AckNotFound
	}
	return r, g, 0
}

// acks are the groups of one Ack: nearly always one.
type acks struct{ list []groupAcks }

type groupAcks struct {
	g    *group
	want []mark
}

// mark is an offset below which all is to be committed.
type mark struct {
	t     *track
	epoch uint32
	low   int64
}

// add takes over an acquired group, once.
func (a *acks) add(b *Broker, g *group) {
	for i := range a.list {
		if a.list[i].g == g {
			b.groups.release(g)
			return
		}
	}
	a.list = append(a.list, groupAcks{g: g})
}

func (a *acks) release(b *Broker) {
	for i := range a.list {
		b.groups.release(a.list[i].g)
	}
}

// mark acks one message in memory and notes what has to be committed for it.
func (a *acks) mark(g *group, r receipt, now int64) AckOutcome {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tracks[r.queue]
	if t == nil {
		return AckNotFound
	}
	e := t.find(r.offset)
	switch {
	case e == nil && (r.offset >= t.low() || r.token <= t.void):
		return AckExpired // of before a seek
	case e == nil:
	case e.token != r.token || e.state == stateBusy:
		return AckExpired
	case e.state == stateOpen && e.until <= now:
		return AckExpired
	case e.state == stateOpen:
		t.done(e)
		g.roomier(t)
	}
	if low := t.low(); r.offset < low {
		for i := range a.list {
			if a.list[i].g == g {
				a.list[i].noted(mark{t, t.epoch, low})
			}
		}
	}
	return Acked
}

func (a *groupAcks) noted(m mark) {
	for i := range a.want {
		if a.want[i].t == m.t {
			a.want[i] = m
			return
		}
	}
	a.want = append(a.want, m)
}

// roomier wakes the pulls that found a track full, when it is not any more. The caller holds mu.
func (g *group) roomier(t *track) {
	if t.blocked {
		t.blocked = false
		g.kick()
	}
}

// join lets a call begin whose commit goes its own way, beside the others but not beside a seek. It ends with part.
func (b *Broker) join(ctx context.Context, g *group) error {
	for {
		g.mu.Lock()
		seek := g.seek
		if seek == nil {
			g.others++
			g.mu.Unlock()
			return nil
		}
		g.mu.Unlock()
		if _, err := b.awaits(ctx, seek); err != nil {
			return err
		}
	}
}

// part ends what join began. The caller holds mu.
func (g *group) part() {
	if g.others--; g.others == 0 && g.quiet != nil {
		close(g.quiet)
		g.quiet = nil
	}
}

// alone runs a call beside which nothing of the group is committed: a seek must not be overtaken by an ack from before.
func (b *Broker) alone(ctx context.Context, g *group, call func() error) error {
	seek := make(chan struct{})
	for {
		g.mu.Lock()
		other := g.seek
		if other == nil {
			g.seek = seek
		}
		g.mu.Unlock()
		if other == nil {
			break
		}
		if _, err := b.awaits(ctx, other); err != nil {
			return err
		}
	}
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		close(seek)
		g.seek = nil
		g.kick()
	}()
	for {
		g.mu.Lock()
		wait := g.flight
		if wait == nil && g.others > 0 {
			if g.quiet == nil {
				g.quiet = make(chan struct{})
			}
			wait = g.quiet
		}
		g.mu.Unlock()
		if wait == nil {
			return call()
		}
		if _, err := b.awaits(ctx, wait); err != nil {
			return err
		}
	}
}

// settle returns when what is wanted is committed. One commit of a group is on its way at a time; what is acked meanwhile
// goes with the next one, together: a record in the log per queue and fsync, however many acks there are.
func (b *Broker) settle(ctx context.Context, g *group, want []mark) error {
	for {
		g.mu.Lock()
		if g.gone || covered(want) {
			g.mu.Unlock()
			return nil
		}
		wait := g.seek
		if wait == nil {
			wait = g.flight
		}
		if wait != nil {
			g.mu.Unlock()
			if _, err := b.awaits(ctx, wait); err != nil {
				return fmt.Errorf("%w: acked, but not committed: %w", ErrUnknown, err)
			}
			continue
		}
		g.flight = make(chan struct{})
		marks := g.ahead()
		g.mu.Unlock()
		err := b.commit(ctx, g, marks)
		g.mu.Lock()
		close(g.flight)
		g.flight = nil
		g.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

func covered(want []mark) bool {
	for _, m := range want {
		if m.t.epoch == m.epoch && m.t.committed < m.low {
			return false
		}
	}
	return true
}

// ahead lists what could be committed. The caller holds mu.
func (g *group) ahead() (marks []mark) {
	for _, t := range g.tracks {
		if low := t.low(); low > t.committed {
			marks = append(marks, mark{t, t.epoch, low})
		}
	}
	return marks
}

// commit writes how far a group has come, and notes that it is durable.
func (b *Broker) commit(ctx context.Context, g *group, marks []mark) error {
	r := &request{size: requestOverhead * len(marks)}
	for _, m := range marks {
		r.cmds = append(r.cmds, m.command(g))
	}
	if err := b.queue.do(ctx, r); err != nil {
		return err
	}
	var errs []error
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, m := range marks {
		// Behind what is committed: another commit came first, and is durable as this answer is.
		if err := r.answers[i].Err; err != nil && !errors.Is(err, engine.ErrOffset) {
			if errors.Is(err, engine.ErrNoTopic) || errors.Is(err, engine.ErrQueue) {
				g.drop(m.t)
				continue
			}
			errs = append(errs, err)
			continue
		}
		if m.t.epoch == m.epoch {
			m.t.committed = max(m.t.committed, m.low)
		}
	}
	return errors.Join(errs...)
}

func (m mark) command(g *group) *engine.CommitOffset {
	return &engine.CommitOffset{Group: g.name, Topic: m.t.topic, TopicID: m.t.id, Queue: m.t.queue, Offset: m.low}
}

// nudge has what the group is done with committed, without waiting for it. The caller holds g.mu.
func (b *Broker) nudge(g *group) {
	if g.seek != nil || g.gone {
		return
	}
	r := &request{done: make(chan struct{}), written: true} // nobody waits for an fsync
	marks := g.ahead()
	for _, m := range marks {
		r.cmds = append(r.cmds, m.command(g))
		r.size += requestOverhead
	}
	if len(r.cmds) == 0 || !b.queue.offer(r) {
		return
	}
	for _, m := range marks {
		m.t.handed = m.low
	}
}

// offer is push without waiting: when the queue is full or closed, the request is dropped, and the answer is false.
func (q *queue) offer(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed != nil || len(q.waits) > 0 && q.bytes+r.size > q.limit {
		return false
	}
	q.waits = append(q.waits, r)
	q.bytes += r.size
	q.signal()
	return true
}

// drop forgets a queue that is gone. The caller holds mu.
func (g *group) drop(t *track) {
	ref := engine.QueueRef{Topic: t.id, Queue: uint32(t.queue)}
	if g.tracks[ref] == t {
		delete(g.tracks, ref)
	}
	t.epoch++ // nobody waits for it any more
}

// Extend makes a lease end that long from now, at most MaxAckTimeout; with 0 it ends at once, and the message comes
// again. The error is of kind ErrExpired or ErrReceipt when there is no such lease. It writes nothing and does not wait.
func (b *Broker) Extend(ctx context.Context, receipt string, d time.Duration) error {
	if d < 0 || d > MaxAckTimeout {
		return fmt.Errorf("%w: a lease of %v, allowed is 0 to %v", ErrRequest, d, MaxAckTimeout)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.isClosing() {
		return ErrClosed
	}
	r, g, outcome := b.holder(receipt)
	if g == nil {
		return outcome.Err()
	}
	defer b.groups.release(g)
	return g.extend(r, b.env.Mono(), d, false)
}

// extend changes the end of a lease. With unused, the delivery did not happen.
func (g *group) extend(r receipt, now int64, d time.Duration, unused bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	t, e, outcome := g.held(r, now)
	if outcome != Acked {
		return outcome.Err()
	}
	if unused {
		e.attempts--
	}
	if d == 0 {
		e.until, t.loose = free, true
		g.kick()
		return nil
	}
	e.until = now + d.Nanoseconds()
	t.ends = min(t.ends, e.until)
	g.own.lower(t.ends)
	return nil
}

// held finds the lease of a receipt: Acked when it runs. The caller holds mu.
func (g *group) held(r receipt, now int64) (*track, *entry, AckOutcome) {
	t := g.tracks[r.queue]
	if t == nil {
		return nil, nil, AckNotFound
	}
	e := t.find(r.offset)
	if e == nil || e.token != r.token || e.state != stateOpen || e.until <= now {
		return nil, nil, AckExpired
	}
	return t, e, Acked
}
