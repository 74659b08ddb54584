package broker

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/tidewheel/tidewheel/engine"
)

// request is one call that the writer answers: its commands stand next to each other in the log, in order, and its
// answers leave together.
type request struct {
	cmds []engine.Command
	size int // bytes, estimated
	// written: the answers may leave when they are written, and not only when they are durable.
	written bool

	// owned by the writer until done is closed, then by the caller
	answers []engine.Answer
	pos     engine.Offset // the answers may leave when the log is released up to here
	err     error         // instead of answers

	// guarded by both locks of the queue; the engine has a part of it and shall not get the rest
	withdrawn bool

	done chan struct{} // closed when answered
}

// appended says whether the engine has taken all commands.
func (r *request) appended() bool { return len(r.answers) == len(r.cmds) }

// queue holds the requests that wait for the writer, in the order they came.
//
// Lock order: appending, then mu. The writer holds appending while the engine reads the commands of requests, so
// whoever holds it knows that no caller's bytes are being read. mu is held for moments only.
type queue struct {
	appending sync.Mutex

	mu     sync.Mutex
	waits  []*request
	bytes  int
	limit  int
	space  chan struct{} // closed when bytes shrink; nil while nobody waits for that
	closed error         // what push answers once it is set

	wake chan struct{} // holds a token when there may be something to do
}

func newQueue(limit int) *queue {
	return &queue{limit: limit, wake: make(chan struct{}, 1)}
}

// push adds a request, and waits while the queue is full. An error means that it was not added.
func (q *queue) push(ctx context.Context, r *request) error {
	for {
		q.mu.Lock()
		if q.closed != nil {
			defer q.mu.Unlock()
			return q.closed
		}
		if len(q.waits) == 0 || q.bytes+r.size <= q.limit {
			q.waits = append(q.waits, r)
			q.bytes += r.size
			q.mu.Unlock()
			q.signal()
			return nil
		}
		if q.space == nil {
			q.space = make(chan struct{})
		}
		space := q.space
		q.mu.Unlock()
		select {
		case <-space:
		case <-ctx.Done():
			return fmt.Errorf("broker: the queue of requests is full: %w", ctx.Err())
		}
	}
}

// do pushes a request and waits for its answer. When the context ends first, a request that the writer has not taken
// is withdrawn, and the error says that nothing happened; else it is of kind ErrUnknown. Either way nothing of the
// request is read after do has returned.
func (q *queue) do(ctx context.Context, r *request) error {
	if answered, err := q.ask(ctx, r); answered {
		return err
	}
	if q.withdraw(r) {
		return withdrawn(ctx)
	}
	select {
	case <-r.done: // it came just now
		return r.err
	default:
		return fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
	}
}

// finish is do for a request that changes what the broker remembers beside the log: when the context ends after the engine
// has taken it, or a part of it, it waits all the same, for an fsync at most, so that both say the same.
func (q *queue) finish(ctx context.Context, r *request) error {
	if answered, err := q.ask(ctx, r); answered {
		return err
	}
	if q.withdrawWhole(r) {
		return withdrawn(ctx)
	}
	<-r.done
	return r.err
}

// ask pushes a request and waits for its answer; answered is false when the context ended first.
func (q *queue) ask(ctx context.Context, r *request) (answered bool, err error) {
	r.done = make(chan struct{})
	if err := q.push(ctx, r); err != nil {
		return true, err
	}
	select {
	case <-r.done:
		return true, r.err
	case <-ctx.Done():
		return false, nil
	}
}

// withdrawn is the error of a request that was taken back because its context ended.
func withdrawn(ctx context.Context) error {
	return fmt.Errorf("broker: withdrawn, nothing happened: %w", ctx.Err())
}

// withdrawWhole takes a request back of which the engine has nothing; else false.
func (q *queue) withdrawWhole(r *request) bool {
	q.appending.Lock()
	defer q.appending.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(q.waits, r)
	if at < 0 || len(r.answers) > 0 {
		return false
	}
	q.waits = slices.Delete(q.waits, at, at+1)
	q.shrunk(r.size)
	return true
}

// withdraw takes a request back; false when the engine has taken it, or a part of it, already.
func (q *queue) withdraw(r *request) bool {
	q.appending.Lock()
	defer q.appending.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(q.waits, r)
	switch {
	case at < 0:
		return false // it is answered, or about to be
	case len(r.answers) > 0:
		r.withdrawn = true
		return false
	}
	q.waits = slices.Delete(q.waits, at, at+1)
	q.shrunk(r.size)
	return true
}

// shrunk notes that bytes have left the queue. The caller holds mu.
func (q *queue) shrunk(bytes int) {
	q.bytes -= bytes
	if q.space != nil {
		close(q.space)
		q.space = nil
	}
}

// signal tells the writer to look.
func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// gather collects the commands that come next, up to about budget bytes and at least one. Only the writer calls it,
// with appending held.
func (q *queue) gather(into []engine.Command, budget int) []engine.Command {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.waits {
		if r.withdrawn {
			continue
		}
		rest := r.cmds[len(r.answers):]
		each := r.size/len(r.cmds) + 1
		if fit := max(budget/each, 1); len(rest) > fit {
			return append(into, rest[:fit]...) // answers are spread in order: the next request has to wait for the rest of this one
		}
		into = append(into, rest...)
		if budget -= each * len(rest); budget <= 0 {
			break
		}
	}
	return into
}

// answer spreads the answers of one Append over the requests they belong to, and appends to done those that the engine
// needs no more of. Only the writer calls it, with appending held.
func (q *queue) answer(answers []engine.Answer, pos engine.Offset, done []*request) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := 0
	for _, r := range q.waits {
		if !r.withdrawn && (len(answers) == 0 || !r.take(&answers, pos)) {
			break
		}
		left++
		done = append(done, r)
	}
	q.drop(left)
	return done
}

// take moves answers to the request; true when it has all of them.
func (r *request) take(answers *[]engine.Answer, pos engine.Offset) bool {
	n := min(len(*answers), len(r.cmds)-len(r.answers))
	r.answers = append(r.answers, (*answers)[:n]...)
	r.pos = pos
	*answers = (*answers)[n:]
	return r.appended()
}

// drop forgets the first n requests. The caller holds mu.
func (q *queue) drop(n int) {
	if n == 0 {
		return
	}
	bytes := 0
	for _, r := range q.waits[:n] {
		bytes += r.size
	}
	q.waits = slices.Delete(q.waits, 0, n)
	q.shrunk(bytes)
}

// refuse closes the queue: whatever waits and whatever comes later gets the error. Requests of which the engine has
// taken a part are returned, they are the writer's to answer.
func (q *queue) refuse(err error) (partial []*request) {
	q.appending.Lock()
	defer q.appending.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = err
	for _, r := range q.waits {
		if len(r.answers) > 0 {
			partial = append(partial, r)
			continue
		}
		r.err = err
		close(r.done)
	}
	q.drop(len(q.waits))
	return partial
}

// pending says how many requests and bytes wait.
func (q *queue) pending() (requests, bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waits), q.bytes
}
