package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidewheel/tidewheel/engine"
)

// What a worker of a stage takes at once.
const (
	stageMessages = 1024                  // of a queue, before they are settled
	stageBytes    = 1 << 20               // of their records
	stageAsk      = 256                   // of them, for one question
	stagePatience = 20 * time.Millisecond // after which what is decided is settled, and the rest is asked about later
)

// How long a worker waits before it asks again about what was not decided.
const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 5 * time.Second
)

// stageWorker has what is in a stage decided, and settles it: the queues side by side, each in its order.
//
//	pull ──► Hooks.Due ──► Settle: verdicts, and what takes the place of messages, in one batch of the log
//
// All its fields are owned by its goroutine.
type stageWorker struct {
	*stage
	b   *Broker
	ctx context.Context // ends with the broker

	queues  []*stageQueue
	backoff time.Duration
	fault   string // that was logged last
}

// stageQueue is a queue of a stage.
type stageQueue struct {
	number int
	next   int64 // the first that is not settled
	known  bool  // next is what the log says
	into   engine.Pulled
	parts  []*settling // of this round, in order
	req    *request    // of parts; nil when there is nothing to settle
	// alone: a Settle of several messages was refused for one of them: those below are settled one by one.
	alone int64
	// bad says why the message at next cannot go where its verdict sends it; nil: nothing is known against it.
	bad error
}

// run is the worker's life.
func (w *stageWorker) run() {
	for {
		did, undecided, err := w.round()
		switch {
		case w.ended(err):
			w.b.stages.end(w.stage)
			return
		case did:
			w.backoff = 0
		case undecided || err != nil:
			w.rest()
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

// rest waits before the worker asks again.
func (w *stageWorker) rest() {
	w.backoff = min(max(2*w.backoff, firstBackoff), lastBackoff)
	timer := time.NewTimer(w.backoff)
	defer timer.Stop()
	w.b.stages.rest(w.stage, true)
	defer w.b.stages.rest(w.stage, false)
	select {
	case <-timer.C:
	case <-w.wake:
		w.backoff = 0
	case <-w.b.closing:
	}
}

// round takes each queue one step. It says whether anything was settled, and whether something was not decided.
func (w *stageWorker) round() (did, undecided bool, err error) {
	if err := w.find(); err != nil {
		return false, false, err
	}
	var errs []error
	for _, q := range w.queues {
		more, err := w.ask(q)
		undecided = undecided || more
		if err = errors.Join(err, w.send(q)); err != nil {
			errs = append(errs, err)
		}
	}
	for _, q := range w.queues { // they share an fsync
		settled, err := w.settled(q)
		did = did || settled
		if err != nil {
			errs = append(errs, err)
		}
	}
	return did, undecided, errors.Join(errs...)
}

// find looks which queues there are, and where they begin. ErrNoTopic: the stage is gone.
func (w *stageWorker) find() error {
	if err := w.b.enter(); err != nil {
		return err
	}
	defer w.b.leave()
	info, ok, _ := w.b.e.Topic(stagePrefix + w.topic)
	if !ok || info.ID != w.id {
		return engine.ErrNoTopic
	}
	for n := len(w.queues); n < info.Count; n++ {
		w.queues = append(w.queues, &stageQueue{number: n})
	}
	for n, q := range w.queues {
		if !q.known {
			q.next, _, _ = w.b.e.Committed(engine.StageGroup, info.Name, n)
			q.known = true
		}
		q.next = max(q.next, info.Queues[n].Min) // more in a log that was repaired
	}
	return nil
}

// ask has the next messages of a queue decided. With an error or something undecided, those before are to be settled.
func (w *stageWorker) ask(q *stageQueue) (undecided bool, err error) {
	if err := w.pull(q); err != nil {
		return false, err
	}
	began := w.b.env.Mono()
	for rest := q.into.Messages; len(rest) > 0 && !undecided && err == nil; {
		var n int
		n, undecided, err = w.askSome(q, rest)
		rest = rest[n:]
		if time.Duration(w.b.env.Mono()-began) > stagePatience {
			break
		}
	}
	return undecided, err
}

// pull reads the next messages of a queue.
func (w *stageWorker) pull(q *stageQueue) error {
	if err := w.b.enter(); err != nil {
		return err
	}
	defer w.b.leave()
	req := engine.PullRequest{
		Topic: stagePrefix + w.topic, Queue: q.number, Offset: q.next, MaxCount: stageMessages, MaxBytes: stageBytes,
	}
	if q.next < q.alone {
		req.MaxCount = 1
	}
	err := w.b.e.Pull(req, &q.into)
	switch info, _, _ := w.b.e.Topic(req.Topic); {
	case errors.Is(err, engine.ErrTrimmed) && q.into.Min > q.next:
		q.next, q.into.Messages = q.into.Min, nil
		return nil
	case err != nil:
		return fmt.Errorf("broker: %w", err)
	case info.ID != w.id: // it was read from the stage of a new topic of the name
		return engine.ErrNoTopic
	}
	return nil
}

// askSome has at least one of the messages decided, and says how many are.
func (w *stageWorker) askSome(q *stageQueue, messages []engine.Message) (n int, undecided bool, err error) {
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
		return 1, false, w.add(q, &messages[0], d)
	case hooks == nil || !hooks.Stages(w.topic): // nobody decides any more
		for ; n < readable && err == nil; n++ {
			err = w.add(q, &messages[n], &Decision{Action: ActionKeep})
		}
		return n, false, err
	}
	decisions, err := w.b.askHooks(w.ctx, readable, func(ctx context.Context, h Hooks) ([]Decision, error) {
		return h.Due(ctx, w.topic, messages[:readable])
	})
	for n < len(decisions) {
		d := &decisions[n]
		if d.action() == Undecided {
			w.b.measures.due.add(Undecided)
			return n, true, err
		}
		if err := w.add(q, &messages[n], d); err != nil {
			return n, false, err
		}
		n++
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

// add adds a message that is decided to those that are settled in this round.
func (w *stageWorker) add(q *stageQueue, message *engine.Message, d *Decision) error {
	m := &leasedMessage{Message: *message, topic: w.topic, queue: q.number, attempt: int(message.Attempts)}
	if q.bad != nil && m.Offset == q.next {
		d = d.instead(q.bad)
	}
	put, d := w.put(m, d)
	var part *settling
	if n := len(q.parts); n > 0 {
		part = q.parts[n-1]
	}
	size := 0
	if put != nil {
		size = len(put.Body) + len(put.Properties)
	}
	// What is replaced becomes visible in front of what is kept by the same Settle.
	if part == nil || part.full(size) || d.Action == ActionReplace && part.keeps {
		part = &settling{Settle: engine.Settle{
			Group: engine.StageGroup, Topic: stagePrefix + w.topic, TopicID: w.id, Queue: q.number, InOrder: true,
		}}
		q.parts = append(q.parts, part)
	}
	if put == nil {
		part.add(message, d).Keep = d.Action == ActionKeep
		part.keeps = part.keeps || d.Action == ActionKeep
		return nil
	}
	part.add(message, d, put)
	if d.Action == ActionDeadLetter {
		return part.define(w.b, put.Topic, deadQueues)
	}
	return nil
}

// put is what takes the place of a message; nil if nothing does. A decision that cannot be done becomes a dead letter's.
func (w *stageWorker) put(m *leasedMessage, d *Decision) (*engine.Put, *Decision) {
	switch d.Action {
	case ActionRetry:
		p := m.moved(w.b, w.topic)
		p.Queue, p.DelayMs, p.Attempts = engine.AnyQueue, d.delayMs(w.b), uint16(min(m.attempt+1, 1<<16-1))
		return p, d
	case ActionRoute:
		p, err := m.routed(w.b, d)
		if err != nil {
			d = d.instead(err)
			break
		}
		return p, d
	case ActionReplace:
		p := m.replaced(w.b, w.topic, d.Message)
		p.Queue, p.Unstaged = m.queue, true
		return p, d
	}
	if d.Action == ActionDeadLetter {
		return m.dead(w.b, d.deadGroup(), hookDue, d), d
	}
	return nil, d
}

// send hands what was decided to the writer.
func (w *stageWorker) send(q *stageQueue) error {
	if len(q.parts) == 0 {
		return nil
	}
	r := &request{done: make(chan struct{})}
	for _, part := range q.parts {
		one := part.request()
		r.cmds, r.size = append(r.cmds, one.cmds...), r.size+one.size
	}
	if err := w.b.queue.push(w.ctx, r); err != nil {
		q.parts = nil
		return err
	}
	q.req = r
	return nil
}

// settled waits until what was decided is in the log, and says whether it is.
func (w *stageWorker) settled(q *stageQueue) (did bool, err error) {
	r, parts := q.req, q.parts
	if q.req, q.parts = nil, nil; r == nil {
		return false, nil
	}
	<-r.done // Close ends it
	if r.err != nil {
		return false, r.err
	}
	answers := r.answers
	for _, part := range parts {
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

// refused notes why a Settle was refused. What stands in its way is found by settling one message after the other.
func (w *stageWorker) refused(q *stageQueue, part *settling, err error) error {
	first, last := part.Items[0].Offset, part.Items[len(part.Items)-1].Offset
	switch {
	case errors.Is(err, engine.ErrSettled):
		q.known = false // somebody else settles here
	case isTransient(err):
	case first == last:
		q.bad = err
	default:
		q.alone = last + 1
	}
	return fmt.Errorf("broker: settle queue %d of topic %q from offset %d on: %w", q.number, part.Topic, first, err)
}
