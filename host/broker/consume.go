package broker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/tidewheel/tidewheel/engine"
)

// Handler handles a message. Nil acks it; an error has it delivered again later, as Retry does; an error made by Reject
// makes it a dead letter at once, one made by RetryIn says when to try again; a panic counts as an error. The delivery and
// its slices are the handler's until it returns. The context ends when that of Consume does.
type Handler func(ctx context.Context, d *Delivery) error

// ConsumeOptions tune a Consume. The zero value is right for most.
type ConsumeOptions struct {
	// Concurrency is how many handlers run at once. 1.
	Concurrency int
	// Tags, if any, are the ones wanted; messages with others count as acked by the group.
	Tags []string
	// AckTimeout is how long a lease lasts. It is extended while a handler runs, so it says how soon a message comes again
	// whose consumer was killed. 0: Options.AckTimeout.
	AckTimeout time.Duration
}

// rejection is what Reject makes.
type rejection struct{ error }

func (r rejection) Unwrap() error { return r.error }

// Reject makes an error that, returned by a Handler, says: do not try again.
func Reject(err error) error {
	if err == nil {
		err = errors.New("rejected")
	}
	return rejection{err}
}

// postponed is what RetryIn makes.
type postponed struct {
	error
	delay time.Duration
}

func (p postponed) Unwrap() error { return p.error }

// RetryIn makes an error that, returned by a Handler, says: try again after that long, at most the broker's MaxDelay.
func RetryIn(d time.Duration, err error) error {
	if err == nil {
		err = errors.New("put off")
	}
	return postponed{err, d}
}

// Consume gives a group's messages of a topic to a handler, until the context ends; it returns the context's error when
// all handlers have returned and what they handled is acked. Messages that no handler has begun with go back at once. A
// topic that is not there is made, unless topics are only made on purpose; then it is engine.ErrNoTopic. Any number of
// Consumes can run for a group: they share its messages.
//
// A consumer of a broadcast group sees what becomes visible after it has begun, each message once; nothing is acked and
// nothing comes again. Queues that the topic gets meanwhile it reads from within a minute.
func (b *Broker) Consume(ctx context.Context, topic, group string, h Handler, opts ConsumeOptions) error {
	if opts.Concurrency == 0 {
		opts.Concurrency = 1
	}
	if opts.Concurrency < 0 || opts.Concurrency > MaxPull {
		return fmt.Errorf("%w: Concurrency is %d, allowed is 1 to %d", ErrRequest, opts.Concurrency, MaxPull)
	}
	if h == nil || group == "" {
		return fmt.Errorf("%w: Consume needs a group and a handler", ErrRequest)
	}
	if err := b.needTopic(ctx, topic); err != nil {
		return err
	}
	c := &consumer{
		b: b, h: h, topic: topic, group: group, opts: opts,
		todo: make(chan work), done: make(chan string, MaxPull), held: map[string]struct{}{},
	}
	if is, err := b.broadcast(ctx, group); err != nil {
		return err
	} else if is {
		return c.broadcast(ctx)
	}
	return c.run(ctx)
}

// needTopic makes a topic if it is not there and may be made.
func (b *Broker) needTopic(ctx context.Context, topic string) error {
	_, err := b.Topic(ctx, topic)
	if !errors.Is(err, engine.ErrNoTopic) || b.opts.Engine.NoAutoTopics {
		return err
	}
	return b.DefineTopic(ctx, topic, b.queues())
}

// consumer is one Consume.
//
//	puller ──todo──► handlers ──done──► acker        keeper: extends what is held
type consumer struct {
	b            *Broker
	h            Handler
	topic, group string
	opts         ConsumeOptions

	todo chan work
	done chan string // receipts of what was handled

	mu    sync.Mutex
	held  map[string]struct{} // receipts whose leases are to go on; guarded by mu
	fatal error               // guarded by mu
}

// work is a message for a handler; batch counts those of its Pulled.
type work struct {
	d     Delivery
	batch *sync.WaitGroup
}

// run is the consumer's life. The goroutines end in the order in which they hand over.
func (c *consumer) run(ctx context.Context) error {
	pulling, stop := context.WithCancel(ctx)
	defer stop()
	var handlers, acker, keeper sync.WaitGroup
	for range c.opts.Concurrency {
		handlers.Go(func() {
			for w := range c.todo {
				c.handle(ctx, w)
			}
		})
	}
	acker.Go(func() { c.ack(stop) })
	ended := make(chan struct{})
	keeper.Go(func() { c.keep(ended) })

	err := c.pull(pulling)
	close(c.todo)
	handlers.Wait()
	close(c.done)
	acker.Wait()
	close(ended)
	keeper.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.fatal != nil:
		return c.fatal
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return err
}

// pull takes messages and hands them to the handlers. It returns when the context ends or nothing can be read.
func (c *consumer) pull(ctx context.Context) error {
	free := make(chan *Pulled, 2) // one is being handled while the next is pulled
	free <- new(Pulled)
	free <- new(Pulled)
	var batches sync.WaitGroup
	defer batches.Wait()
	for {
		var into *Pulled
		select {
		case into = <-free:
		case <-ctx.Done():
			return ctx.Err()
		}
		req := PullRequest{
			Topic: c.topic, Group: c.group, Tags: c.opts.Tags, MaxCount: c.opts.Concurrency,
			AckTimeout: c.opts.AckTimeout, Wait: MaxWait,
		}
		if err := c.b.Pull(ctx, req, into); err != nil {
			return err
		}
		batch := c.share(ctx, into)
		batches.Go(func() {
			batch.Wait()
			free <- into
		})
	}
}

// share hands out what was pulled. What nobody takes before the context ends goes back.
func (c *consumer) share(ctx context.Context, p *Pulled) *sync.WaitGroup {
	c.mu.Lock()
	for d := range p.Deliveries() {
		c.held[d.Receipt] = struct{}{}
	}
	c.mu.Unlock()
	batch := new(sync.WaitGroup)
	for d := range p.Deliveries() {
		batch.Add(1)
		select {
		case c.todo <- work{d, batch}:
		case <-ctx.Done():
			c.letGo(d.Receipt)
			c.b.GiveBack(d.Receipt)
			batch.Done()
		}
	}
	return batch
}

// GiveBack ends a lease whose message nobody has tried to handle: it comes again at once, and the delivery does not count. A
// receipt of no lease that runs changes nothing.
func (b *Broker) GiveBack(receipt string) {
	if r, g, _ := b.holder(receipt); g != nil {
		_ = g.extend(r, b.env.Mono(), 0, true) // a lease that is over needs no end
		b.groups.release(g)
	}
}

func (c *consumer) letGo(receipt string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, receipt)
}

// handle lets the handler have a message, and does what it says.
func (c *consumer) handle(ctx context.Context, w work) {
	defer w.batch.Done()
	err := w.d.Err
	if err != nil {
		err = Reject(err) // nobody can handle it
	} else {
		err = c.call(ctx, &w.d)
	}
	if err == nil {
		c.done <- w.d.Receipt
		return
	}
	defer c.letGo(w.d.Receipt)
	finish := context.WithoutCancel(ctx) // Close ends it
	var rejected rejection
	var later postponed
	switch {
	case errors.As(err, &rejected):
		_, err = c.b.Reject(finish, w.d.Receipt, rejected.Error())
	case errors.As(err, &later):
		_, err = c.b.Retry(finish, w.d.Receipt, RetryOptions{Delay: max(later.delay, time.Millisecond), Reason: later.Error()})
	default:
		_, err = c.b.Retry(finish, w.d.Receipt, RetryOptions{Reason: err.Error()})
	}
	if err != nil {
		c.b.log.Warn("a message that was not handled cannot be put off: it comes again when its lease is over",
			"group", c.group, "topic", c.topic, "queue", w.d.Queue, "offset", w.d.Offset, "error", err)
	}
}

// call calls the handler.
func (c *consumer) call(ctx context.Context, d *Delivery) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.b.log.Error("a handler panicked", "group", c.group, "topic", c.topic, "queue", d.Queue, "offset", d.Offset,
				"panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return c.h(ctx, d)
}

// ack acks what was handled, as many at once as there are. When that fails for good, the consumer stops.
func (c *consumer) ack(stop func()) {
	for receipt := range c.done {
		batch := []string{receipt}
		for more := true; more && len(batch) < MaxPull; {
			select {
			case r, ok := <-c.done:
				if more = ok; ok {
					batch = append(batch, r)
				}
			default:
				more = false
			}
		}
		_, err := c.b.Ack(context.Background(), batch...) // Close ends it
		for _, r := range batch {
			c.letGo(r)
		}
		if err != nil {
			c.mu.Lock()
			c.fatal = err
			c.mu.Unlock()
			stop()
		}
	}
}

// keep extends the leases of what is held, so that none ends while its handler runs.
func (c *consumer) keep(ended <-chan struct{}) {
	timeout := c.b.opts.timeout(c.opts.AckTimeout)
	ticker := time.NewTicker(max(timeout/3, time.Millisecond/2))
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			return
		case <-ticker.C:
		}
		c.mu.Lock()
		for receipt := range c.held {
			if r, g, _ := c.b.holder(receipt); g != nil {
				_ = g.extend(r, c.b.env.Mono(), timeout, false) // one that is over is somebody else's now
				c.b.groups.release(g)
			}
		}
		c.mu.Unlock()
	}
}

// broadcast reads everything from now on, and keeps its place.
func (c *consumer) broadcast(ctx context.Context) error {
	info, err := c.b.Topic(ctx, c.topic)
	if err != nil {
		return err
	}
	req := PullRequest{Topic: c.topic, Group: c.group, Tags: c.opts.Tags, MaxCount: MaxPull, Wait: MaxWait}
	for q := range info.Queues {
		req.From = append(req.From, QueueOffset{q, info.Queues[q].Visible})
	}
	var into Pulled
	for {
		if err := c.b.Pull(ctx, req, &into); err != nil {
			return err
		}
		slots := make(chan struct{}, c.opts.Concurrency)
		var handlers sync.WaitGroup
		for i := range into.Queues {
			part := &into.Queues[i]
			for j := 0; j < len(part.Messages) && ctx.Err() == nil; j++ {
				d := Delivery{Message: part.Messages[j], Lease: Lease{Attempt: 1, Topic: c.topic}, Queue: part.Queue}
				d.ID = c.b.firstID(&d.Message)
				slots <- struct{}{}
				handlers.Go(func() {
					defer func() { <-slots }()
					if err := c.call(ctx, &d); err != nil {
						c.b.log.Warn("a message of a broadcast group was not handled", "group", c.group, "topic", c.topic,
							"queue", d.Queue, "offset", d.Offset, "error", err)
					}
				})
			}
			for k := range req.From {
				if req.From[k].Queue == part.Queue {
					req.From[k].Offset = part.Next
				}
			}
		}
		handlers.Wait()
		if req.From, err = c.added(ctx, req.From); err != nil {
			return err
		}
	}
}

// added is a list of queues to read with those that the topic got since it was made, from their first message.
func (c *consumer) added(ctx context.Context, from []QueueOffset) ([]QueueOffset, error) {
	info, err := c.b.Topic(ctx, c.topic)
	for q := len(from); q < len(info.Queues); q++ {
		from = append(from, QueueOffset{q, info.Queues[q].Min})
	}
	return from, err
}
