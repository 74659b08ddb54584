package broker

import (
	"errors"
	"fmt"
	"time"

	"github.com/tidewheel/tidewheel/engine"
)

// batchBytes is about what one Append takes, and how much has to gather before a batch is appended beside a running
// fsync instead of after it.
const batchBytes = 256 << 10

// maxBatches is how many batches may be appended before they are written and synced together: what has gathered during
// one fsync should need only one more.
const maxBatches = 16

// maxSleep bounds the writer's sleep, so that a wake-up that is derived wrongly, or a step of the wall clock, costs a
// second at most.
const maxSleep = time.Second

// idleSleep is the shortest sleep when the engine asks to be called at once but has nothing to show for the last call:
// it waits for something else, and the loop must not spin meanwhile.
const idleSleep = time.Millisecond

// closeGrace is how long Close waits for the fsync of what was appended, where that needs a job that fails.
const closeGrace = 2 * time.Second

// writer is the one goroutine that changes the engine. All its fields are owned by that goroutine.
type writer struct {
	b *Broker
	e *engine.Engine

	cmds   []engine.Command // reused
	sent   []*request       // in the engine; answered when released, in order of pos
	failed error            // the first final error

	closing  bool
	deadline time.Time // of closing

	syncing  bool          // the syncer is at work
	dirty    bool          // there may be something to write and sync that the running sync does not cover
	dirtyAt  time.Time     // when that began
	blocked  bool          // the engine is busy until a sync or a job ends
	hungry   bool          // something is due and waits for a sync, or was delivered and is to be seen
	progress bool          // the last Tick did something
	next     int64         // when Tick wants to be called, wall ms
	appended engine.Offset // end of the log in memory
	released engine.Offset // end of what may leave

	todo     []*engine.Job // for the workers
	running  int           // jobs with a worker
	finished []*engine.Job // to be installed

	jobs   chan<- *engine.Job
	ended  <-chan *engine.Job
	sync   chan<- struct{}
	synced <-chan syncResult
}

// syncResult is what the syncer found.
type syncResult struct {
	pos engine.Offset
	err error
}

// run is the loop. It returns when the broker is closing and nothing is on its way any more.
func (w *writer) run() {
	timer := time.NewTimer(maxSleep)
	defer timer.Stop()
	for {
		sleep := w.work()
		if w.over() {
			break
		}
		if sleep > 0 {
			timer.Reset(sleep)
			w.wait(timer.C)
		}
		for w.poll() {
		}
	}
	w.doubt(ErrClosed)
}

// work does a slice of everything there is to do, and says how long the loop may sleep. Requests come first, then their
// fsync is on its way, then what is due.
func (w *writer) work() time.Duration {
	defer w.caughtUp()
	w.b.measures.turns.Add(1)
	if w.failed != nil {
		w.b.groups.expire(w.b.env.Mono()) // what is durable can still be read
		return maxSleep
	}
	w.install()
	more := true
	for range maxBatches {
		if more = w.append(); !more {
			break
		}
	}
	w.flush()
	if !w.closing || len(w.sent) > 0 { // the jobs of a closing one matter only to whom still waits
		w.tick()
		w.flush()
	}
	switch {
	case w.failed != nil:
		return maxSleep
	case more, len(w.finished) > 0:
		return 0
	}
	sleep := maxSleep
	if away := w.next - w.b.env.Wall(); away < maxSleep.Milliseconds() {
		sleep = max(time.Duration(away)*time.Millisecond, 0)
	}
	now := w.b.env.Mono()
	if away := w.b.groups.expire(now) - now; away < maxSleep.Nanoseconds() {
		sleep = min(sleep, time.Duration(away))
	}
	sleep = min(sleep, w.untilSync())
	if !w.progress || w.blocked || w.closing {
		sleep = max(sleep, idleSleep)
	}
	return sleep
}

// append hands one batch of requests to the engine; true when more could be appended at once.
func (w *writer) append() (more bool) {
	requests, bytes := w.b.queue.pending()
	gathering := w.syncing && bytes < batchBytes && w.b.opts.Durability == Always
	full := int64(w.appended-w.released) >= w.b.opts.UnsyncedBytes
	if requests == 0 || gathering || full || w.blocked {
		return false
	}
	err := w.hand()
	if errors.Is(err, engine.ErrBusy) {
		w.blocked = true
		w.soil() // a sync is one of the two things that may end it
		return false
	}
	if err != nil {
		w.fail(err)
		return false
	}
	w.settle() // a refusal that wrote nothing needs no fsync
	return true
}

// hand gives the engine the commands that come next, and their requests the answers.
func (w *writer) hand() error {
	q := w.b.queue
	q.appending.Lock()
	defer q.appending.Unlock()
	w.cmds = q.gather(w.cmds[:0], batchBytes)
	defer clear(w.cmds)
	var answers []engine.Answer
	if len(w.cmds) > 0 {
		taken, pos, err := w.e.Append(w.cmds)
		if err != nil {
			return err
		}
		answers = taken
		w.b.measures.answered(taken)
		w.grown(pos)
	}
	w.sent = q.answer(answers, w.appended, w.sent)
	return nil
}

// tick delivers a chunk of what is due and takes the jobs there are.
func (w *writer) tick() {
	if w.failed != nil {
		return
	}
	s := w.e.Tick()
	w.b.measures.ticked(&s)
	w.todo = append(w.todo, s.Jobs...)
	w.next = s.Next
	w.progress = w.grown(s.Position) || s.Fired > 0 || len(s.Jobs) > 0
	w.hungry = w.hungry || s.Fired > 0 || s.Blocked
	if errors.Is(s.Err, engine.ErrFailed) {
		w.fail(s.Err)
		return
	}
	w.notDelivering(s.Err)
}

// notDelivering tells of what keeps due messages back, once until it changes. The engine tries again by itself.
func (w *writer) notDelivering(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if old := w.b.trouble.Swap(&text); text != "" && (old == nil || *old != text) {
		w.b.log.Error("due messages are not delivered", "error", err)
	}
}

// grown notes the log's end; true when it has moved.
func (w *writer) grown(end engine.Offset) bool {
	if end <= w.appended {
		return false
	}
	w.appended = end
	w.soil()
	return true
}

// soil notes that there may be something to write and sync.
func (w *writer) soil() {
	if !w.dirty {
		w.dirty, w.dirtyAt = true, time.Now()
	}
}

// install links one slice of a finished job's result.
func (w *writer) install() {
	if len(w.finished) == 0 {
		return
	}
	if w.e.Install(w.finished[0]) {
		w.finished = append(w.finished[:0], w.finished[1:]...)
		w.blocked = false
	}
	w.soil() // a job may be what the writing of the log waited for
}

// flush writes what was appended, and has it synced if the syncer is free and it is time to.
func (w *writer) flush() {
	if w.failed != nil || !w.dirty {
		return
	}
	if err := w.e.Commit(); err != nil {
		w.fail(err)
		return
	}
	w.answerWritten()
	if !w.syncing && w.mustSync() {
		w.syncing, w.dirty, w.hungry = true, false, false
		w.sync <- struct{}{} // the syncer is waiting for it, so this does not block
	}
}

// wait blocks until something happens.
func (w *writer) wait(timer <-chan time.Time) {
	jobs, first := w.nextJob()
	select {
	case <-w.b.queue.wake:
	case r := <-w.synced:
		w.syncEnded(r)
	case j := <-w.ended:
		w.jobEnded(j)
	case jobs <- first:
		w.jobTaken()
	case <-w.untilClosing():
		w.close()
	case <-timer:
		w.blocked = false
	}
}

// poll takes one more event if there is one.
func (w *writer) poll() bool {
	jobs, first := w.nextJob()
	select {
	case r := <-w.synced:
		w.syncEnded(r)
	case j := <-w.ended:
		w.jobEnded(j)
	case jobs <- first:
		w.jobTaken()
	case <-w.untilClosing():
		w.close()
	default:
		return false
	}
	return true
}

// nextJob is the job that a worker should have; a nil channel when there is none.
func (w *writer) nextJob() (chan<- *engine.Job, *engine.Job) {
	if len(w.todo) == 0 {
		return nil, nil
	}
	return w.jobs, w.todo[0]
}

func (w *writer) jobTaken() {
	w.todo = append(w.todo[:0], w.todo[1:]...)
	w.running++
}

// jobEnded takes a job back. One that failed is installed all the same: the engine decides whether to try again.
func (w *writer) jobEnded(j *engine.Job) {
	w.running--
	if w.failed == nil {
		w.finished = append(w.finished, j)
	}
}

// syncEnded lets leave what has become durable.
func (w *writer) syncEnded(r syncResult) {
	w.syncing = false
	switch {
	case w.failed != nil:
	case r.err != nil:
		w.fail(r.err)
	case r.pos > w.released:
		w.released = r.pos
		w.blocked = false
		woken := w.e.Release(w.released)
		w.b.bells.ring(woken)
		w.b.stages.ring(woken)
		w.b.gate.open(w.released)
		w.b.measures.released(w.released, w.b.env.Wall())
		w.settle()
	}
}

// settle answers the requests that are released.
func (w *writer) settle() {
	n := 0
	for n < len(w.sent) && w.sent[n].pos <= w.released {
		close(w.sent[n].done)
		n++
	}
	rest := copy(w.sent, w.sent[n:])
	clear(w.sent[rest:])
	w.sent = w.sent[:rest]
}

// fail makes the first error final: what was appended is in doubt, what waits and what will come is refused.
func (w *writer) fail(err error) {
	w.failed = err
	w.todo, w.finished = nil, nil
	w.b.log.Error("nothing more is stored until the directory is opened again", "error", err)
	refusal := fmt.Errorf("broker: %w", err)
	w.b.failure.Store(&refusal)
	w.b.gate.fail(refusal)
	w.doubt(err)
	w.refuse(refusal)
}

// doubt answers the requests that are in the engine and will not be released.
func (w *writer) doubt(err error) {
	for _, r := range w.sent {
		r.err = fmt.Errorf("%w: %w", ErrUnknown, err)
		close(r.done)
	}
	w.sent = nil
}

// refuse ends the queue. A request of which the engine has a part is in doubt.
func (w *writer) refuse(err error) {
	for _, r := range w.b.queue.refuse(err) {
		r.err = fmt.Errorf("%w: %w", ErrUnknown, err)
		close(r.done)
	}
}

// untilClosing is the channel that Close closes, until that was seen.
func (w *writer) untilClosing() <-chan struct{} {
	if w.closing {
		return nil
	}
	return w.b.closing
}

// close begins the end: nothing new is taken; what was appended becomes durable and is answered.
func (w *writer) close() {
	w.closing = true
	w.deadline = time.Now().Add(closeGrace)
	w.refuse(ErrClosed)
}

// over says that the broker is closing and nothing is on its way. Jobs that no worker has taken are dropped, once
// nobody waits for what they might bring about.
func (w *writer) over() bool {
	if !w.closing {
		return false
	}
	answered := len(w.sent) == 0 && !w.dirty || w.failed != nil || time.Now().After(w.deadline)
	if answered {
		w.todo = nil
	}
	return answered && !w.syncing && w.running == 0
}
