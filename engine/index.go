package engine

import (
	"github.com/tidewheel/tidewheel/engine/consumequeue"
	"github.com/tidewheel/tidewheel/engine/internal/idempotency"
	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/statebits"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// index is the engine as the fold sees it: the caches that follow.
type index Engine

var _ state.Index = (*index)(nil)

// Unit appends to a ConsumeQueue. A queue that is not there begins at the offset (a rebuild from a suffix of the log);
// offsets that a hole swallowed become hole units, so that queues stay dense.
func (ix *index) Unit(topic, queue uint32, at int64, u consumequeue.Unit) error {
	q := ix.queues.Queue(topic, queue)
	if q == nil {
		var err error
		if q, err = ix.queues.Start(topic, queue, consumequeue.QueueOffset(at)); err != nil {
			return err
		}
	}
	for int64(q.Len()) < at {
		q.Append(consumequeue.Unit{LogMs: u.LogMs, Flags: consumequeue.FlagHole})
	}
	q.Append(u)
	ix.ck.derived += consumequeue.UnitSize
	ix.visible.touch(q)
	return nil
}

// Put takes a waiting message in.
func (ix *index) Put(e timerlog.Entry, delayMs int64) error {
	ix.ck.derived += timerlog.EntrySize
	return ix.lanes[e.Lane()].Put(e, delayMs, ix.st.WallMs)
}

// Keyed notes an idempotency key.
func (ix *index) Keyed(topic uint32, key []byte, pos Offset) {
	ix.idem.Add(idempotency.Entry{Hash: idempotency.Hash(topic, key), Position: pos}, ix.st.LogMs)
}

// Gone frees the place of a message that was decided.
func (ix *index) Gone(lane uint8, k timerlog.Key) { ix.lanes[lane].Gone(k) }

// SetBits says what became of an id.
func (ix *index) SetBits(id uint64, s statebits.State) error { return ix.bits.Set(id, s) }

// CloseChunk forgets the bits of a chunk.
func (ix *index) CloseChunk(chunk uint64) {
	ix.bits.CloseChunk(chunk)
	ix.seen.CloseChunk(chunk)
}

// TopicGone forgets the queues of a topic. Their files go when a checkpoint without them is durable.
func (ix *index) TopicGone(topic uint32) {
	ix.visible.forget(topic)
	ix.ck.garbage = append(ix.ck.garbage, ix.queues.RemoveTopic(topic))
}

// Trimmed raises the minimum offset of a queue.
func (ix *index) Trimmed(topic, queue uint32, low int64) {
	if q := ix.queues.Queue(topic, queue); q != nil {
		q.Trim(min(consumequeue.QueueOffset(low), q.Len()))
	}
}
