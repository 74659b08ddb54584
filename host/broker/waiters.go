package broker

import (
	"context"
	"math"
	"sync"

	"github.com/tidewheel/tidewheel/engine"
)

// gate holds back reads of state that is not durable yet. It is safe for concurrent use.
type gate struct {
	wake func() // tells who syncs that somebody waits; set before use, nil: not needed

	mu      sync.Mutex
	pos     engine.Offset // released up to here
	err     error         // no more will be released
	waiting map[chan struct{}]engine.Offset
}

func newGate(pos engine.Offset) *gate {
	return &gate{pos: pos, waiting: map[chan struct{}]engine.Offset{}}
}

// wait returns when the log is released up to pos.
func (g *gate) wait(ctx context.Context, pos engine.Offset) error {
	g.mu.Lock()
	if g.pos >= pos || g.err != nil {
		defer g.mu.Unlock()
		return g.errAt(pos)
	}
	ch := make(chan struct{})
	g.waiting[ch] = pos
	g.mu.Unlock()
	if g.wake != nil {
		g.wake()
	}
	select {
	case <-ch:
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.errAt(pos)
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.waiting, ch)
		return ctx.Err()
	}
}

// errAt is the error of a wait for pos that has ended. The caller holds mu.
func (g *gate) errAt(pos engine.Offset) error {
	if g.pos >= pos {
		return nil
	}
	return g.err
}

// open lets through what waits for pos and below.
func (g *gate) open(pos engine.Offset) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pos = pos
	for ch, p := range g.waiting {
		if p <= pos {
			close(ch)
			delete(g.waiting, ch)
		}
	}
}

// waits says whether somebody waits.
func (g *gate) waits() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting) > 0
}

// fail ends all waits, and those to come for what is not released.
func (g *gate) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return
	}
	g.err = err
	for ch := range g.waiting {
		close(ch)
		delete(g.waiting, ch)
	}
}

// allQueues is the queue number of a bell that rings for every queue of a topic. No topic has that many.
const allQueues = math.MaxUint32

// bells wake readers that wait for messages. It is safe for concurrent use.
type bells struct {
	wake func() // as of a gate

	mu  sync.Mutex
	all map[engine.QueueRef]*bell
}

// bell wakes the readers of one queue, or of one topic, once.
type bell struct {
	rung    chan struct{} // closed by ring
	readers int           // guarded by bells.mu
}

func newBells() *bells { return &bells{all: map[engine.QueueRef]*bell{}} }

// listen registers a reader. It must do so before it looks for messages: what arrives after its look then rings. It
// must leave when it has stopped waiting.
func (b *bells) listen(ref engine.QueueRef) *bell {
	if b.wake != nil {
		defer b.wake() // behind the unlock
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.all[ref]
	if l == nil {
		l = &bell{rung: make(chan struct{})}
		b.all[ref] = l
	}
	l.readers++
	return l
}

// leave takes a reader away.
func (b *bells) leave(ref engine.QueueRef, l *bell) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.readers--; l.readers == 0 && b.all[ref] == l {
		delete(b.all, ref)
	}
}

// ring wakes the readers of queues in which something became visible.
func (b *bells) ring(refs []engine.QueueRef) {
	if len(refs) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ref := range refs {
		b.ringOne(ref)
		b.ringOne(engine.QueueRef{Topic: ref.Topic, Queue: allQueues})
	}
}

func (b *bells) ringOne(ref engine.QueueRef) {
	if l := b.all[ref]; l != nil {
		close(l.rung)
		delete(b.all, ref)
	}
}

// readers counts who is waiting.
func (b *bells) readers() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, l := range b.all {
		n += l.readers
	}
	return n
}
