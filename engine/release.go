package engine

import (
	"sync"
	"sync/atomic"

	"github.com/tidewheel/tidewheel/engine/consumequeue"
)

// QueueRef names a queue.
type QueueRef struct{ Topic, Queue uint32 }

// visible keeps, for each batch that is not released, how long the queues became by it.
type visible struct {
	touched []*consumequeue.Queue // by the batch being folded; owned by the writer
	mark    map[*consumequeue.Queue]bool

	mu sync.Mutex
	// guarded by mu
	waiting []growth // by batch, oldest first, from head on
	head    int
	woken   []QueueRef
	ids     []idsAt // by batch, oldest first

	nextID atomic.Uint64 // ids below were given out by what is released
	lastID uint64        // the next id after the batch before; owned by the writer
}

// idsAt says that the ids below next are known when the log is released up to end.
type idsAt struct {
	end  Offset
	next uint64
}

// start says which ids there are when a store is opened.
func (v *visible) start(nextID uint64) {
	v.lastID = nextID
	v.nextID.Store(nextID)
}

// growth says that a queue has length when the log is released up to end.
type growth struct {
	end    Offset
	queue  *consumequeue.Queue
	length consumequeue.QueueOffset
}

// touch notes that a queue grew.
func (v *visible) touch(q *consumequeue.Queue) {
	if n := len(v.touched); n > 0 && v.touched[n-1] == q || v.mark[q] {
		return
	}
	if v.mark == nil {
		v.mark = map[*consumequeue.Queue]bool{}
	}
	v.mark[q] = true
	v.touched = append(v.touched, q)
}

// forget drops what is known of a topic's queues.
func (v *visible) forget(topic uint32) {
	kept := v.touched[:0]
	for _, q := range v.touched {
		if q.Key().Topic != topic {
			kept = append(kept, q)
		} else {
			delete(v.mark, q)
		}
	}
	v.touched = kept
}

// batchEnds queues what the batch made visible, and which ids it gave out, until the log is released up to its end.
func (v *visible) batchEnds(end Offset, nextID uint64) {
	if len(v.touched) == 0 && v.lastID == nextID {
		return
	}
	v.mu.Lock()
	if v.lastID != nextID {
		v.ids, v.lastID = append(v.ids, idsAt{end, nextID}), nextID
	}
	if v.head > 0 && len(v.waiting) == cap(v.waiting) {
		v.waiting = v.waiting[:copy(v.waiting, v.waiting[v.head:])]
		v.head = 0
	}
	for _, q := range v.touched {
		v.waiting = append(v.waiting, growth{end, q, q.Len()})
	}
	v.mu.Unlock()
	v.touched = v.touched[:0]
	clear(v.mark)
}

// release shows what the log up to pos made visible.
func (v *visible) release(pos Offset) []QueueRef {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.woken = v.woken[:0]
	for v.head < len(v.waiting) && v.waiting[v.head].end <= pos {
		g := &v.waiting[v.head]
		g.queue.Release(g.length)
		v.woken = append(v.woken, QueueRef{g.queue.Key().Topic, g.queue.Key().Queue})
		*g = growth{}
		v.head++
	}
	if v.head == len(v.waiting) {
		v.waiting, v.head = v.waiting[:0], 0
	}
	known := 0
	for known < len(v.ids) && v.ids[known].end <= pos {
		v.nextID.Store(v.ids[known].next)
		known++
	}
	if known > 0 {
		v.ids = append(v.ids[:0], v.ids[known:]...)
	}
	return v.woken
}

// Commit writes what was appended to the log, one write a batch, without fsync. A failed write is final. It belongs to
// the writer.
func (e *Engine) Commit() error {
	if err := e.usable(); err != nil {
		return err
	}
	if err := e.log.Commit(); err != nil {
		return e.fail(err)
	}
	return nil
}

// Sync makes what was written durable and returns the end of that: up to there the log may be released. A failed sync
// is final and never repeated. It may run on one goroutine beside the writer.
func (e *Engine) Sync() (Offset, error) {
	if err := e.usable(); err != nil {
		return 0, err
	}
	pos, err := e.log.Sync()
	if err != nil {
		return 0, e.fail(err)
	}
	return pos, nil
}

// Release moves the mark up to which answers, reads and wake-ups may leave; alone that is what Sync returned. It never
// moves back. The queues that show more than before are valid until the next Release. Safe for concurrent use.
func (e *Engine) Release(pos Offset) []QueueRef {
	for {
		old := e.released.Load()
		if int64(pos) <= old || e.released.CompareAndSwap(old, int64(pos)) {
			break
		}
	}
	return e.visible.release(e.Released())
}

// Released is the position up to which what was computed may leave. Safe for concurrent use.
func (e *Engine) Released() Offset { return Offset(e.released.Load()) }
