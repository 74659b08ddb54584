package broker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tidewheel/tidewheel/engine"
)

// What a worker of a stage takes at once.
const (
	stageMessages = 1024                  // of a queue
	stageBytes    = 1 << 20               // of their records
	stageRound    = 4096                  // messages of all queues that are read together, or more from one
	stageQueues   = 16                    // queues that are read together
	stageFlight   = 2                     // of a queue: one is decided about while the other gets into the log
	stageAsk      = 256                   // messages for one question
	stagePatience = 20 * time.Millisecond // after which what is decided is settled, and the rest is asked about later
)

// What a worker of a stage takes when little is to be read: because nothing may be decided, or because the workers of all stages
// have read so much already. So a thousand stages in which much waits take no more memory than a few.
const (
	stageHeld        = 64 << 20 // bytes of messages, of all workers
	stageLittle      = 16       // messages, of one queue
	stageLittleBytes = 64 << 10 // of their records
)

// How long a worker waits before it asks again about what was not decided.
const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 5 * time.Second
)

// backoff is the wait after one of a length.
func backoff(last time.Duration) time.Duration { return min(max(2*last, firstBackoff), lastBackoff) }

// stageWorker has what is in a stage decided, and settles it: the queues side by side, each in its order.
//
//	pull ──► Hooks.Due ──► Settle: verdicts, and what takes the place of messages, in one batch of the log
//
// All its fields are owned by its goroutine.
type stageWorker struct {
	*stage
	b   *Broker
	ctx context.Context // ends with the broker

	queues []*stageQueue
	origin int // queues of the topic
	turn   int // the queue that the next round begins with
	fault  string
	free   []*stageMemory
	held   int64 // bytes of all its memory, a part of stages.held

	asked []*stageQueue // of this round
	reqs  []engine.PullRequest
}

// stageMemory holds the messages of a round. They are needed until all of its batches are in the log.
type stageMemory struct {
	into []*engine.Pulled // one for each queue
	used int              // batches that need it
	size int64            // bytes of the messages of the largest round so far
}

// stageQueue is a queue of a stage.
type stageQueue struct {
	number int
	next   int64 // the first that is not settled
	ahead  int64 // the first that is not decided about
	end    int64 // as far as messages may be read
	known  bool  // next is what the log says

	wait  time.Duration // how long the last wait was
	until int64         // it is not asked about before, ns of Env.Mono

	fault  error         // of the pull of this round
	flight []*stageBatch // decided about, and on the way into the log; the oldest first

	alone int64 // a Settle of several messages was refused: those below are settled one by one
	bad   error // why the message at badAt cannot go where its verdict sends it; nil: there is no such message
	badAt int64
}

// stageBatch is what is decided about at once.
type stageBatch struct {
	memory *stageMemory
	parts  []*settling // in order; each is refused when one before it is
	req    *request    // of the parts
}

// run is the worker's life.
func (w *stageWorker) run() {
	defer func() { w.b.stages.held.Add(-w.held) }()
	for {
		did, err := w.round()
		switch pause := w.pause(); {
		case w.ended(err):
			w.b.stages.end(w.stage)
			return
		case did:
		case pause > 0:
			w.rest(pause)
		case w.b.stages.idle(w.stage):
			return
		}
	}
}

// ended says whether an error ends the worker: the broker or the topic is gone. Any other is tried again.
func (w *stageWorker) ended(err error) bool {
	for _, kind := range []error{ErrClosed, ErrFailed, ErrUnknown, engine.ErrClosed, engine.ErrNoTopic} {
		if errors.Is(err, kind) {
			return true
		}
	}
	if err == nil {
		w.fault = ""
	} else if text := err.Error(); text != w.fault { // once until it changes
		w.fault = text
		w.b.log.Warn("messages wait in the stage of a topic", "topic", w.topic, "error", err)
	}
	return w.b.isClosing()
}

// pause is the time until a queue is to be asked about again; 0 when none has to wait.
func (w *stageWorker) pause() time.Duration {
	first := int64(math.MaxInt64)
	for _, q := range w.queues {
		if q.wait > 0 && q.until > 0 {
			first = min(first, q.until)
		}
	}
	if first == math.MaxInt64 {
		return 0
	}
	return max(time.Duration(first-w.b.env.Mono()), time.Millisecond)
}

// rest waits before the worker asks again. It keeps no messages meanwhile.
func (w *stageWorker) rest(pause time.Duration) {
	for _, memory := range w.free {
		w.holds(-memory.size)
	}
	w.free = nil
	timer := time.NewTimer(min(pause, lastBackoff))
	defer timer.Stop()
	w.b.stages.rest(w.stage, true)
	defer w.b.stages.rest(w.stage, false)
	select {
	case <-timer.C:
	case <-w.came:
	case <-w.again:
		for _, q := range w.queues {
			q.wait, q.until = 0, 0
		}
	case <-w.b.closing:
	}
}

// round takes each queue in which something waits one step, as far as the budget goes. It says whether that did anything, or another
// round may.
func (w *stageWorker) round() (did bool, err error) {
	if err := w.find(); err != nil {
		return false, err
	}
	now := w.b.env.Mono()
	did, errs := w.choose(now), []error(nil) // with more to choose from, come again at once
	if len(w.asked) > 0 {
		memory := w.pull()
		for i, q := range w.asked {
			sent, undecided, err := w.step(q, memory, memory.into[i])
			switch q.until = 0; {
			case undecided || err != nil:
				q.wait = backoff(q.wait)
				q.until = now + int64(q.wait)
			case sent:
				q.wait = 0
			}
			did, errs = did || sent, append(errs, err)
		}
		w.unused(memory)
	}
	waits := !did // nothing more can be asked about: what is on its way is all there is
	for _, q := range w.queues {
		if n := len(q.flight); n == 0 || n < stageFlight && !waits {
			continue
		}
		settled, err := w.settled(q)
		if err != nil {
			q.wait = backoff(q.wait)
			q.until = now + int64(q.wait)
			errs = append(errs, err)
		}
		did = did || settled
	}
	return did, errors.Join(errs...)
}

// most is how many batches of the queue may be on their way.
func (q *stageQueue) most() int {
	if q.next < q.alone {
		return 1
	}
	return stageFlight
}

// find looks which queues there are, and where they begin and end. ErrNoTopic: the stage is gone.
func (w *stageWorker) find() error {
	if err := w.b.enter(); err != nil {
		return err
	}
	defer w.b.leave()
	info, ok, _ := w.b.e.Topic(stagePrefix + w.topic)
	if !ok || info.ID != w.id {
		return engine.ErrNoTopic
	}
	w.origin = info.Count // as many as the topic has
	for n := len(w.queues); n < len(info.Queues); n++ {
		w.queues = append(w.queues, &stageQueue{number: n})
	}
	for n, q := range w.queues {
		if !q.known {
			q.next, _, _ = w.b.e.Committed(engine.StageGroup, info.Name, n)
			q.ahead, q.known = q.next, true
		}
		q.next = max(q.next, info.Queues[n].Min) // more in a log that was repaired
		q.ahead = max(q.ahead, q.next)
		q.end = info.Queues[n].Visible
	}
	return nil
}

// choose finds the queues that are asked about in this round, another one first each time, and says whether there are more.
func (w *stageWorker) choose(now int64) (more bool) {
	w.asked, w.reqs = w.asked[:0], w.reqs[:0]
	messages, little := 0, w.b.stages.held.Load() > stageHeld
	for n := range w.queues {
		q := w.queues[(w.turn+n)%len(w.queues)]
		if q.ahead >= q.end {
			q.wait, q.until = 0, 0
		}
		if q.ahead >= q.end || now < q.until || len(q.flight) == q.most() {
			continue
		}
		if messages >= stageRound || len(w.asked) == stageQueues || little && len(w.asked) > 0 {
			w.turn = q.number
			return true
		}
		req := engine.PullRequest{
			Topic: stagePrefix + w.topic, Queue: q.number, Offset: q.ahead, MaxCount: stageMessages, MaxBytes: stageBytes,
		}
		switch {
		case q.ahead < q.alone:
			req.MaxCount = 1
		case little || q.wait > 0:
			req.MaxCount, req.MaxBytes = stageLittle, stageLittleBytes
		}
		messages += int(min(q.end-q.ahead, int64(req.MaxCount)))
		w.asked, w.reqs = append(w.asked, q), append(w.reqs, req)
	}
	return false
}

// pull reads the next messages of the queues of this round. It notes what is wrong with a queue.
func (w *stageWorker) pull() *stageMemory {
	memory := new(stageMemory)
	if n := len(w.free); n > 0 {
		memory, w.free = w.free[n-1], w.free[:n-1]
	}
	for len(memory.into) < len(w.reqs) {
		memory.into = append(memory.into, new(engine.Pulled))
	}
	most := mostBytes(w.reqs)
	w.holds(most) // for the workers that look meanwhile
	defer w.measure(memory, -most)
	err := w.b.enter()
	if err == nil {
		defer w.b.leave()
		errs := w.b.e.PullAll(w.reqs, memory.into)
		if info, _, _ := w.b.e.Topic(stagePrefix + w.topic); info.ID != w.id { // it may have been the stage of a new topic of the name
			err = engine.ErrNoTopic
		}
		for i, q := range w.asked {
			q.fault = errs[i]
		}
	}
	if err != nil {
		for _, q := range w.asked {
			q.fault = err
		}
	}
	return memory
}

// mostBytes is how much may be read.
func mostBytes(reqs []engine.PullRequest) (most int64) {
	for i := range reqs {
		most += int64(reqs[i].MaxBytes)
	}
	return most
}

// measure notes how large memory has become, and what else has changed.
func (w *stageWorker) measure(memory *stageMemory, other int64) {
	size := int64(0)
	for _, into := range memory.into {
		for i := range into.Messages {
			m := &into.Messages[i]
			size += int64(requestOverhead + len(m.Body) + len(m.Properties))
		}
	}
	size = max(size, memory.size)
	w.holds(size - memory.size + other)
	memory.size = size
}

// holds notes that the worker has more memory, or less.
func (w *stageWorker) holds(bytes int64) {
	w.held += bytes
	w.b.stages.held.Add(bytes)
}

// unused takes back the memory of a round, unless a batch needs it.
func (w *stageWorker) unused(memory *stageMemory) {
	switch {
	case memory.used > 0:
	case w.b.stages.held.Load() > stageHeld:
		w.holds(-memory.size)
	default:
		w.free = append(w.free, memory)
	}
}

// step has messages of a queue decided, and hands the verdicts to the writer. With an error or something undecided, those before
// are sent all the same.
func (w *stageWorker) step(q *stageQueue, memory *stageMemory, into *engine.Pulled) (sent, undecided bool, err error) {
	if q.fault != nil {
		return false, false, fmt.Errorf("broker: %w", q.fault)
	}
	batch := &stageBatch{memory: memory}
	began := w.b.env.Mono()
	for rest := into.Messages; len(rest) > 0 && !undecided && err == nil; {
		var n int
		n, undecided, err = w.askSome(q, batch, rest)
		rest = rest[n:]
		if time.Duration(w.b.env.Mono()-began) > stagePatience {
			break
		}
	}
	if len(batch.parts) == 0 {
		return false, undecided, err
	}
	if failed := w.send(q, batch); failed != nil {
		return false, undecided, errors.Join(err, failed)
	}
	return true, undecided, err
}

// askSome has at least one of the messages decided, and says how many are.
func (w *stageWorker) askSome(q *stageQueue, batch *stageBatch, messages []engine.Message) (n int, undecided bool, err error) {
	readable := 0
	for readable < min(len(messages), stageAsk) && messages[readable].Err == nil {
		readable++
	}
	switch hooks := w.b.opts.Hooks; {
	case readable == 0:
		d, err := unreadable(&messages[0])
		if err != nil {
			return 0, false, err
		}
		return 1, false, w.add(q, batch, &messages[0], d)
	case hooks == nil || !hooks.Stages(w.topic): // nobody decides any more
		for ; n < readable && err == nil; n++ {
			err = w.add(q, batch, &messages[n], &Decision{Action: ActionKeep})
		}
		return n, false, err
	}
	decisions, err := w.b.askHooks(w.ctx, readable, func(ctx context.Context, h Hooks) ([]Decision, error) {
		return h.Due(ctx, w.topic, messages[:readable])
	})
	for n < len(decisions) {
		d := &decisions[n]
		if d.action() == Undecided {
			break
		}
		if err := w.add(q, batch, &messages[n], d); err != nil {
			return n, false, err
		}
		n++
	}
	if n < readable {
		w.b.measures.due.add(Undecided)
	}
	return n, n < readable, err
}

// unreadable decides about a message that nobody can read. Readers of its topic are told so, as they are of any other.
func unreadable(m *engine.Message) (*Decision, error) {
	switch {
	case errors.Is(m.Err, engine.ErrTrimmed):
		return &Decision{Action: ActionDrop}, nil
	case errors.Is(m.Err, engine.ErrHole), errors.Is(m.Err, engine.ErrCorrupt):
		return &Decision{Action: ActionKeep}, nil
	}
	return nil, fmt.Errorf("broker: %w", m.Err)
}

// add adds a message that is decided about to its batch.
func (w *stageWorker) add(q *stageQueue, batch *stageBatch, m *engine.Message, d *Decision) error {
	if q.bad != nil && m.Offset == q.badAt {
		d = d.instead(q.bad)
	}
	if d.Action == ActionKeep || d.Action == ActionDrop {
		part := w.part(q, batch, 0, false)
		part.add(m, d).Keep = d.Action == ActionKeep
		part.keeps = part.keeps || d.Action == ActionKeep
		return nil
	}
	put, d := w.put(&leasedMessage{Message: *m, topic: w.topic, queue: q.number, attempt: int(m.Attempts)}, d)
	part := w.part(q, batch, len(put.Body)+len(put.Properties), d.Action == ActionReplace)
	part.add(m, d, put)
	if d.Action == ActionDeadLetter {
		return part.defineDead(w.b, d.deadGroup())
	}
	return nil
}

// part is the Settle that a message goes to, with a copy of a size. One that is replaced becomes visible in front of what is kept
// by the same Settle, so it does not go there.
func (w *stageWorker) part(q *stageQueue, batch *stageBatch, size int, replaced bool) *settling {
	if n := len(batch.parts); n > 0 {
		if part := batch.parts[n-1]; !part.full(size) && !(replaced && part.keeps) {
			return part
		}
	}
	part := &settling{Settle: engine.Settle{
		Group: engine.StageGroup, Topic: stagePrefix + w.topic, TopicID: w.id, Queue: q.number, InOrder: true,
	}}
	batch.parts = append(batch.parts, part)
	return part
}

// put is what takes the place of a message. A decision that cannot be done becomes a dead letter's.
func (w *stageWorker) put(m *leasedMessage, d *Decision) (*engine.Put, *Decision) {
	switch d.Action {
	case ActionRetry:
		p := m.moved(w.b, w.topic)
		p.Queue, p.DelayMs, p.Attempts = m.queue%w.origin, d.delayMs(w.b), uint16(min(m.attempt+1, 1<<16-1))
		return p, d
	case ActionReplace:
		p := m.replaced(w.b, w.topic, d.Message)
		p.Queue, p.Unstaged = m.queue%w.origin, true
		return p, d
	case ActionRoute:
		p, err := m.routed(w.b, d)
		if err == nil {
			return p, d
		}
		d = d.instead(err)
	}
	return m.dead(w.b, d.deadGroup(), hookDue, d), d
}

// send hands what was decided to the writer.
func (w *stageWorker) send(q *stageQueue, batch *stageBatch) error {
	r := &request{done: make(chan struct{})}
	for _, part := range batch.parts {
		one := part.request()
		r.cmds, r.size = append(r.cmds, one.cmds...), r.size+one.size
		q.ahead = part.Items[len(part.Items)-1].Offset + 1
	}
	if err := w.b.queue.push(w.ctx, r); err != nil {
		q.known = false
		return err
	}
	batch.req = r
	batch.memory.used++
	q.flight = append(q.flight, batch)
	return nil
}

// settled waits until what was decided about first is in the log, and says whether it is. If it is not, nothing behind it is either.
func (w *stageWorker) settled(q *stageQueue) (did bool, err error) {
	for len(q.flight) > 0 {
		batch := q.flight[0]
		q.flight = q.flight[1:]
		<-batch.req.done // Close ends it
		batch.memory.used--
		w.unused(batch.memory)
		if err != nil {
			continue
		}
		if did, err = w.answered(q, batch); err == nil {
			return did, nil
		}
	}
	q.ahead = q.next
	return did, err
}

// answered takes the answers to a batch.
func (w *stageWorker) answered(q *stageQueue, batch *stageBatch) (did bool, err error) {
	if batch.req.err != nil {
		return false, batch.req.err
	}
	answers := batch.req.answers
	for _, part := range batch.parts {
		a := &answers[len(part.defines)]
		answers = answers[len(part.defines)+1:]
		if a.Err != nil {
			return did, w.refused(q, part, a.Err)
		}
		did, q.bad = true, nil
		q.next = part.Items[len(part.Items)-1].Offset + 1
		w.b.measures.settled(part, w.b.env.Wall())
	}
	return did, nil
}

// refused notes why a Settle was refused. What stands in its way is found by settling one message after the other. The error is
// none that ends the worker: it may well be about another topic.
func (w *stageWorker) refused(q *stageQueue, part *settling, err error) error {
	first, last := part.Items[0].Offset, part.Items[len(part.Items)-1].Offset
	switch {
	case errors.Is(err, engine.ErrSettled):
		q.known = false
	case first != last && !errors.Is(err, engine.ErrFailed):
		q.alone = last + 1 // also on a full disk: what is kept in front of what needs room goes on
	case !isTransient(err):
		q.bad, q.badAt = err, first
	}
	return fmt.Errorf("broker: settle queue %d of topic %q from offset %d on: %v", q.number, part.Topic, first, err)
}
