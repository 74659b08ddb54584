package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
)

// leasePull is a Pull of a group on its way: what it returns it leases.
type leasePull struct {
	pull
	g       *group
	timeout time.Duration
	// attempts is how often a message is delivered.
	attempts int

	id      uint32           // of the topic
	retries uint32           // of the group's retry topic; 0: there is none
	busy    <-chan struct{}  // closed when a queue can be read that another pull was reading
	asking  <-chan struct{}  // the same, where that pull asks hooks
	more    bool             // a queue goes on behind what was passed over
	spent   []receipt        // leased to be given up: delivered as often as they may be
	decided []decidedMessage // that hooks do not want delivered; held
	offsets []int64
}

// source is a queue that a group's pull reads.
type source struct {
	topic string
	ref   engine.QueueRef
	info  engine.QueueInfo
	retry bool // of the group's retries: only what comes from the topic is wanted
}

// pullGroup is Pull for a group that goes on where it stands.
func (b *Broker) pullGroup(ctx context.Context, req PullRequest, into *Pulled) error {
	if isStage(req.Topic) || isStage(req.Group) {
		return fmt.Errorf("broker: %w: group %q reads topic %q", engine.ErrReserved, req.Group, req.Topic)
	}
	if err := message.ValidGroup(req.Group); err != nil {
		return fmt.Errorf("broker: %w: %w", engine.ErrGroupName, err)
	}
	if is, err := b.broadcast(ctx, req.Group); err != nil {
		return err
	} else if is {
		return fmt.Errorf("broker: %w: a reader of group %q names the queues that it reads, and from where", ErrBroadcast, req.Group)
	}
	l := &leasePull{
		pull:    pull{b: b, req: req, into: into, tags: tagHashes(req.Tags)},
		g:       b.groups.acquire(req.Group),
		timeout: b.opts.timeout(req.AckTimeout), attempts: b.opts.MaxAttempts,
	}
	if req.MaxAttempts != 0 {
		l.attempts = req.MaxAttempts
	}
	defer func() { b.groups.release(l.g) }()
	if _, err := l.sources(ctx); err != nil {
		return err
	}
	timer := time.NewTimer(req.Wait)
	defer timer.Stop()
	for {
		again, err := l.round(ctx, timer.C)
		if !again {
			return err
		}
	}
}

// round looks once, and waits if there was nothing; again says that there may be something now.
func (l *leasePull) round(ctx context.Context, timer <-chan time.Time) (again bool, err error) {
	if l.g.isGone() {
		l.b.groups.release(l.g)
		l.g = l.b.groups.acquire(l.req.Group)
	}
	topic, retries := engine.QueueRef{Topic: l.id, Queue: allQueues}, engine.QueueRef{Topic: l.retries, Queue: allQueues}
	arrived, returned := l.b.bells.listen(topic), l.b.bells.listen(retries)
	defer l.b.bells.leave(topic, arrived)
	defer l.b.bells.leave(retries, returned)
	changed := l.g.listen()
	sources, err := l.sources(ctx)
	switch {
	case err != nil:
		return false, err
	case l.id != topic.Topic || l.retries != retries.Topic:
		return true, nil // a topic was made meanwhile: listen for that one
	}
	if err := l.lookAll(ctx, sources); err != nil || l.into.Count() > 0 {
		return false, err
	}
	if l.busy != nil { // what it reads may be all there is, or leave something
		return l.b.awaits(ctx, l.busy)
	}
	if l.req.Wait == 0 {
		return false, nil
	}
	select {
	case <-atOnce(l.more):
	case <-arrived.rung:
	case <-returned.rung:
	case <-changed:
	case <-l.asking:
	case <-timer:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	case <-l.b.closing:
		return false, ErrClosed
	}
	return true, nil
}

// awaits waits for a channel to be closed.
func (b *Broker) awaits(ctx context.Context, ch <-chan struct{}) (bool, error) {
	select {
	case <-ch:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	case <-b.closing:
		return false, ErrClosed
	}
}

// sources lists the queues to be read: the topic's, and those of the group's retries. None when the topic is paused.
func (l *leasePull) sources(ctx context.Context) ([]source, error) {
	if err := l.b.enter(); err != nil {
		return nil, err
	}
	info, ok, pos := l.b.e.Topic(l.req.Topic)
	retries, _, _ := l.b.e.Topic(RetryTopic(l.req.Group))
	l.b.leave()
	if !ok {
		return nil, l.refusal(ctx, pos, fmt.Errorf("broker: %w: %q", engine.ErrNoTopic, l.req.Topic))
	}
	l.id, l.retries = info.ID, retries.ID
	if info.Paused {
		return nil, l.settled(ctx, pos)
	}
	list := make([]source, 0, len(info.Queues)+len(retries.Queues))
	for q, queue := range info.Queues {
		list = append(list, source{info.Name, engine.QueueRef{Topic: info.ID, Queue: uint32(q)}, queue, false})
	}
	if retries.ID == info.ID {
		return list, nil
	}
	for q, queue := range retries.Queues {
		list = append(list, source{retries.Name, engine.QueueRef{Topic: retries.ID, Queue: uint32(q)}, queue, true})
	}
	return list, nil
}

// scatter makes numbers that follow each other, or every second, third one, begin with all queues alike: a reader that takes
// turns with others must not always begin with the same. It is 2^32 divided by the golden ratio.
const scatter = 2654435769

// lookAll reads every queue once, starting with another one each time. A queue that cannot be read is an error only when
// the others have nothing.
func (l *leasePull) lookAll(ctx context.Context, sources []source) error {
	l.busy, l.asking, l.more = nil, nil, false
	l.into.Queues = l.into.Queues[:0]
	count, bytes := l.req.MaxCount, l.req.MaxBytes
	turn := int(l.b.turn.Add(1) * scatter >> 16)
	var fault error
	for i := range sources {
		s := &sources[(turn+i)%len(sources)]
		first := len(l.into.Queues)
		if err := l.lookAt(ctx, s, count, bytes); err != nil && fault == nil {
			fault = err
		}
		for p := range l.into.Queues[first:] {
			part := &l.into.Queues[first+p]
			count -= len(part.Messages)
			for j := range part.Messages {
				bytes -= len(part.Messages[j].Body)
			}
		}
	}
	l.giveUp(ctx)
	l.settleDecided(ctx)
	if l.into.Count() > 0 {
		return nil
	}
	return fault
}

// lookAt takes from one queue what is free, and then what is new.
func (l *leasePull) lookAt(ctx context.Context, s *source, count, bytes int) error {
	t, err := l.track(ctx, s)
	if err != nil {
		return err
	}
	if count <= 0 || bytes <= 0 {
		l.tellPlace(s, t)
		return nil
	}
	if !l.begin(t) {
		l.tellPlace(s, t)
		return nil
	}
	defer l.end(t)
	if count, bytes, err = l.readFree(ctx, s, t, count, bytes); err != nil {
		return err
	}
	if count <= 0 || bytes <= 0 {
		return nil
	}
	return l.readNew(ctx, s, t, count, bytes)
}

// track finds what the group knows of a queue. The first time it asks the log.
func (l *leasePull) track(ctx context.Context, s *source) (*track, error) {
	g := l.g
	g.mu.Lock()
	t := g.tracks[s.ref]
	known := t != nil && t.min >= s.info.Min
	g.mu.Unlock()
	if known {
		return t, nil
	}
	for known := false; !known; {
		committed, _, pos, err := l.committedNow(s)
		if err == nil {
			err = l.settled(ctx, pos)
		}
		if err != nil {
			return nil, err
		}
		t, known = l.newTrack(s, committed)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	t.min = max(t.min, s.info.Min)
	t.forward(t.min) // what was deleted is passed over
	return t, nil
}

// committedNow is what the log says now, and from which position on it may be told. What is settled is asked for first: a
// commit in between has passed over some of it.
func (l *leasePull) committedNow(s *source) (int64, []engine.OffsetRange, engine.Offset, error) {
	if err := l.b.enter(); err != nil {
		return 0, nil, 0, err
	}
	defer l.b.leave()
	settled, _ := l.b.e.Settled(l.g.name, s.topic, int(s.ref.Queue))
	at, _, pos := l.b.e.Committed(l.g.name, s.topic, int(s.ref.Queue))
	return at, settled, pos, nil
}

// newTrack makes a track, unless there is one by now; false when something else was committed meanwhile.
func (l *leasePull) newTrack(s *source, committed int64) (*track, bool) {
	g := l.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.tracks[s.ref]; t != nil {
		return t, true
	}
	at, settled, _, err := l.committedNow(s)
	if err == nil && at != committed {
		return nil, false
	}
	t := &track{topic: s.topic, id: s.ref.Topic, queue: int(s.ref.Queue)}
	t.reset(committed)
	t.settled = settled
	g.tracks[s.ref] = t
	return t, true
}

// tellPlace notes where the group stands in a queue that nothing was read from.
func (l *leasePull) tellPlace(s *source, t *track) {
	if s.retry {
		return
	}
	part := l.into.next()
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	part.Topic, part.Queue, part.Leases = s.topic, t.queue, part.Leases[:0]
	part.Messages = part.Messages[:0]
	part.Next, part.Min, part.Max = t.low(), t.min, max(s.info.Visible, t.min)
}

// begin makes this pull the only one that reads a queue for the group; false when another one does.
func (l *leasePull) begin(t *track) bool {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	switch {
	case t.reading == nil:
		t.reading = make(chan struct{})
		return true
	case t.asking:
		l.asking = t.reading // that may take long
	default:
		l.busy = t.reading
	}
	return false
}

func (l *leasePull) end(t *track) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	close(t.reading)
	t.reading = nil
}

// readFree reads again what was handed out and came back, runs of offsets at once.
func (l *leasePull) readFree(ctx context.Context, s *source, t *track, count, bytes int) (int, int, error) {
	l.g.mu.Lock()
	origin := l.g.origin(l.req.Topic)
	wanted := func(e *entry) bool { return !s.retry || e.origin == origin }
	now := l.b.env.Mono()
	if t.expire(now) {
		l.g.kick() // there may be something for others
	}
	l.offsets = t.collect(now, count, wanted, l.offsets[:0])
	epoch := t.epoch
	l.g.mu.Unlock()
	for rest := l.offsets; len(rest) > 0 && bytes > 0; {
		n := 1
		for n < len(rest) && rest[n] == rest[0]+int64(n) {
			n++
		}
		part := l.into.next()
		err := l.read(ctx, s, part, rest[0], n, bytes, nil)
		if errors.Is(err, engine.ErrTrimmed) {
			l.into.Queues = l.into.Queues[:len(l.into.Queues)-1]
			return count, bytes, l.trimmed(ctx, t, part)
		}
		if err != nil {
			return 0, 0, err
		}
		read := len(part.Messages)
		decisions, err := l.ask(ctx, s, t, part, false)
		if err != nil {
			return 0, 0, err
		}
		l.grant(s, t, part, epoch, false, decisions)
		for i := range part.Messages {
			bytes -= len(part.Messages[i].Body)
		}
		count -= len(part.Messages)
		if len(part.Messages) == 0 {
			l.into.Queues = l.into.Queues[:len(l.into.Queues)-1]
		}
		if read == 0 {
			break // a queue that ends before it did: the topic is another one
		}
		rest = rest[min(read, len(rest)):]
	}
	return count, bytes, nil
}

// readNew reads on from where nobody of the group has looked.
func (l *leasePull) readNew(ctx context.Context, s *source, t *track, count, bytes int) error {
	tags := l.tags
	if s.retry {
		tags = nil // what comes from other topics is not passed over for good
	}
	part := l.into.next()
	part.Messages = part.Messages[:0]
	for round := 1; ; round++ {
		l.g.mu.Lock()
		t.skipSettled()
		from, epoch, room := t.next, t.epoch, t.room(l.b.opts.MaxUnacked)
		t.blocked = room == 0
		held := t.held > l.b.env.Mono()
		l.g.mu.Unlock()
		if room == 0 || held {
			break
		}
		err := l.read(ctx, s, part, from, min(count, room), bytes, tags)
		if errors.Is(err, engine.ErrTrimmed) {
			if err := l.trimmed(ctx, t, part); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		moved := part.Next > from
		decisions, err := l.ask(ctx, s, t, part, true)
		if err != nil {
			return err
		}
		l.grant(s, t, part, epoch, true, decisions)
		if len(part.Messages) > 0 || !moved {
			break
		}
		if round == filterRounds {
			l.more = true
			break
		}
	}
	if len(part.Messages) == 0 {
		l.into.Queues = l.into.Queues[:len(l.into.Queues)-1]
		l.tellPlace(s, t)
	}
	return nil
}

// read is one pull of the engine's.
func (l *leasePull) read(ctx context.Context, s *source, part *PulledQueue, from int64, count, bytes int, tags []int32) error {
	part.Topic, part.Queue, part.Leases = s.topic, int(s.ref.Queue), part.Leases[:0]
	part.Messages = part.Messages[:0]
	if err := l.b.enter(); err != nil {
		return err
	}
	err := l.b.e.Pull(engine.PullRequest{
		Topic: s.topic, Queue: part.Queue, Offset: from, MaxCount: count, MaxBytes: bytes, Tags: tags,
	}, &part.Pulled)
	info, _, pos := l.b.e.Topic(s.topic)
	l.b.leave()
	switch {
	case err == nil && info.ID != s.ref.Topic: // it may have read from a new topic of the name
		part.Messages = part.Messages[:0]
		return l.refusal(ctx, pos, fmt.Errorf("broker: %w: %q, which was deleted meanwhile", engine.ErrNoTopic, s.topic))
	case err == nil:
		return nil
	case errors.Is(err, engine.ErrTrimmed) && part.Min > from:
		return err
	}
	return l.refusal(ctx, part.Position, fmt.Errorf("broker: %w", err))
}

// trimmed passes over what was deleted.
func (l *leasePull) trimmed(ctx context.Context, t *track, part *PulledQueue) error {
	if err := l.settled(ctx, part.Position); err != nil {
		return err
	}
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	t.min = max(t.min, part.Min)
	t.forward(part.Min)
	return nil
}

// grant leases what was read and is wanted, and takes the rest out of the part. What is fresh was not looked at before. The
// decisions of hooks, if any, are at the indexes of their messages.
func (l *leasePull) grant(s *source, t *track, part *PulledQueue, epoch uint32, fresh bool, decisions []*Decision) {
	g := l.g
	g.mu.Lock()
	defer g.mu.Unlock()
	known := l.known(s, part) // with the lock: whoever deletes one of the topics comes for its entries afterwards
	now := l.b.env.Mono()
	until := now + l.timeout.Nanoseconds()
	ends := l.b.env.Wall() + l.timeout.Milliseconds()
	kept := part.Messages[:0]
	for i := range part.Messages {
		m := &part.Messages[i]
		if t.epoch != epoch || errors.Is(m.Err, engine.ErrTrimmed) || fresh && m.Offset < t.next {
			continue // void by a seek, a trim or a commit that came while it was read
		}
		e := l.entry(s, t, m, known, fresh, now)
		if e == nil || decisions != nil && decisions[i] != nil && !l.obey(s, t, e, m, decisions[i], epoch, now) {
			continue
		}
		g.tokens++
		spent := e.attempt() >= l.attempts
		t.grant(e, g.tokens, until)
		r := receipt{g.own.nonce, g.number, s.ref, m.Offset, e.token}
		if spent {
			e.attempts--
			l.spent = append(l.spent, r)
			continue
		}
		lease := Lease{Receipt: r.String(), Attempt: e.attempt(), EndsMs: ends, Topic: l.req.Topic, ID: l.b.firstID(m)}
		kept, part.Leases = append(kept, *m), append(part.Leases, lease)
	}
	part.Messages = kept
	if fresh && t.epoch == epoch {
		t.next = max(t.next, part.Next)
	}
	part.Min = t.min
	g.own.lower(t.ends)
	if t.low()-max(t.committed, t.handed) >= passedOver {
		l.b.nudge(g)
	}
}

// passedOver is how many messages with other tags a group passes before that is committed without an ack.
const passedOver = 4096

// entry is the track's entry of a message that this pull may have; nil if it may not.
func (l *leasePull) entry(s *source, t *track, m *engine.Message, known map[string]bool, fresh bool, now int64) *entry {
	if !fresh {
		if e := t.find(m.Offset); e != nil && e.isFree(now) {
			return e
		}
		return nil
	}
	if t.isSettled(m.Offset) {
		return nil
	}
	e := entry{offset: m.Offset, until: free}
	if s.topic == RetryTopic(l.g.name) { // elsewhere they are not deliveries to the group
		e.before = m.Attempts
	}
	if s.retry && m.Err == nil {
		origin := originOf(m, "")
		if origin != l.req.Topic {
			if known[origin] { // somebody else's: it stays
				e.origin, e.unasked = l.g.origin(origin), l.b.opts.Hooks != nil
				t.add(e)
				t.loose = true
			}
			return nil
		}
	}
	e.origin = l.g.origin(l.req.Topic)
	if l.unwanted(*m) {
		return nil // for the group it is done with
	}
	return t.add(e)
}

// known says which of the topics that retries come from are there.
func (l *leasePull) known(s *source, part *PulledQueue) map[string]bool {
	if !s.retry {
		return nil
	}
	known := map[string]bool{}
	if l.b.enter() != nil {
		return known
	}
	defer l.b.leave()
	for i := range part.Messages {
		origin := originOf(&part.Messages[i], "")
		if _, seen := known[origin]; !seen {
			_, known[origin], _ = l.b.e.Topic(origin)
		}
	}
	return known
}

// giveUp makes dead letters of what was delivered too often, side by side, so that they share fsyncs. What cannot be moved
// now comes here again when its lease is over.
func (l *leasePull) giveUp(ctx context.Context) {
	give := &letting{reason: fmt.Sprintf("delivered %d times, and the lease ended each time", l.attempts)}
	parallel(len(l.spent), func(i int) {
		if _, err := l.b.moveOn(ctx, l.g, l.spent[i], give.bury); err != nil {
			l.b.log.Warn("a message that was delivered too often is not moved to the dead letters", "group", l.g.name,
				"topic", l.req.Topic, "offset", l.spent[i].offset, "error", err)
		}
	})
	l.spent = l.spent[:0]
}
