package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/consumequeue"
	"github.com/tidewheel/tidewheel/engine/internal/checkpoint"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/idempotency"
	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/message"
	"github.com/tidewheel/tidewheel/engine/record"
	"github.com/tidewheel/tidewheel/engine/statebits"
	"github.com/tidewheel/tidewheel/engine/timerlog"
)

// CheckReport says what a check looked at.
type CheckReport struct {
	Segments, Batches, Records int
	LogBytes                   int64
	Topics                     int
	Units                      int64 // visible messages whose ConsumeQueue units were compared
	Pending                    int64 // waiting messages that were found and read
	Lost                       int   // ranges of the log that were declared lost
}

// Check proves a data directory that nobody has open: every byte of the log has its checksum, the state that a restart
// would have is the fold of the whole log, each unit of a ConsumeQueue, each state bit and each waiting message is the one
// that the log gives, once, and what they point to can be read. It changes nothing. The error names the first faults, by
// file and byte where it can. Its memory grows with the number of state bits that the log made, a quarter of a byte each,
// and where no checkpoint can be used with what waits.
func Check(env Env, dir string, opts Options) (CheckReport, error) {
	opts.NoLock = true
	if opts.SegmentSize == 0 {
		opts.SegmentSize = 4 << 20 // nothing is written
	}
	e, err := prepare(env, dir, opts)
	if err != nil {
		return CheckReport{}, err
	}
	defer func() {
		e.closed.Store(true)
		_ = e.closeFiles()
	}()
	if err := e.open(true); err != nil {
		return CheckReport{}, err
	}
	c := &checker{e: e, tally: map[uint64]tally{}}
	err = c.run()
	return c.report, err
}

// checker folds the log a second time and holds the engine's caches against it.
type checker struct {
	e       *Engine
	st      *state.State
	bits    *statebits.Bits
	seen    *statebits.Bits
	tally   map[uint64]tally // of waiting messages, by chunk
	copied  bool             // the message being folded is a roll's copy
	report  CheckReport
	missing error // the first unit that is wrong
}

// tally names a set of waiting messages: two sets with equal tallies are equal, but for a chance of 2^-64.
type tally struct {
	count int64
	sum   uint64
}

func (t tally) add(k timerlog.Key, n int64) tally {
	h := uint64(k.Due)*0x9e3779b97f4a7c15 ^ k.ID
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	h = (h ^ h>>29) * 0xca4bcaa75ec3f625
	t.count += n
	t.sum += uint64(n) * (h ^ h>>32)
	return t
}

func (c *checker) run() error {
	var errs []error
	if _, problems, err := checkpoint.Load(c.e.fs, c.e.path(checkpointDir)); err != nil {
		errs = append(errs, err)
	} else {
		for _, p := range problems {
			if !errors.Is(p, fs.ErrNotExist) {
				errs = append(errs, p)
			}
		}
	}
	for _, step := range []func() error{c.wholeKeys, c.foldLog, c.sameState, c.sameQueues, c.sameBits, c.sameWaiting} {
		if err := step(); err != nil {
			errs = append(errs, err)
			break // what follows would only repeat it
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("engine: check: %w", err)
	}
	return nil
}

// foldLog reads every batch from the head on into a state of its own.
func (c *checker) foldLog() (err error) {
	e := c.e
	c.st = state.New(len(e.lanes))
	if c.bits, err = statebits.Open(e.fs, "", statebits.Options{}, statebits.Table{}); err != nil {
		return err
	}
	if c.seen, err = statebits.Open(e.fs, "", statebits.Options{}, statebits.Table{}); err != nil {
		return err
	}
	c.st.Seen = c.seen
	for _, g := range e.log.Segments() {
		if g.Base >= e.st.Head() {
			c.report.Segments++
		}
	}
	if c.report.Segments == 0 {
		c.st.Create(e.env.Wall()) // a store without a first segment is a new one
		c.st.Lanes, c.st.WallMs, c.st.Steps = e.st.Lanes, e.st.WallMs, e.st.Steps
		return nil
	}
	return e.log.Scan(e.st.Head(), 0, false, c.foldBatch)
}

func (c *checker) foldBatch(b *commitlog.Batch) error {
	c.report.Batches++
	c.report.LogBytes += b.Length
	if err := c.e.foldBatch(c.st, b, c, c.look); err != nil {
		return err
	}
	return c.missing
}

// look counts a record, and checks a message whole: the fold reads only its head. What a stage kept must be what is in it.
func (c *checker) look(r *commitlog.Record) error {
	c.report.Records++
	switch r.Kind {
	case message.KindMessage:
	case record.KindVerdict:
		return c.sameKept(r)
	default:
		return nil
	}
	var m message.Message
	if err := message.Decode(r.Payload, &m); err != nil {
		return err
	}
	c.copied = m.Flags&message.Copy != 0
	return nil
}

// sameKept compares what a stage kept with its units.
func (c *checker) sameKept(r *commitlog.Record) error {
	var v record.Verdict
	if err := v.Decode(r.Payload); err != nil {
		return err
	}
	q := c.e.queues.Queue(v.Topic, v.Queue)
	for i := range v.Items {
		it := &v.Items[i]
		if !it.Kept || q == nil || it.Offset < int64(q.First()) || it.Offset >= int64(q.Len()) {
			continue // of a topic that was deleted later, or trimmed
		}
		u, err := q.Unit(consumequeue.QueueOffset(it.Offset))
		if err != nil {
			return err
		}
		if u.Flags&consumequeue.FlagHole == 0 && (u.Position != it.Position || u.Size != it.Size || u.Tags != it.Tags) {
			return corrupt.Errorf("", 0, "offset %d of the stage was kept as %+v, it is %+v", it.Offset, *it, u)
		}
	}
	return nil
}

// lossy says that parts of the log were declared lost: then counts need not fit.
func (c *checker) lossy() bool { return len(c.st.Lost) > 0 }

func (c *checker) sameState() error {
	c.report.Topics, c.report.Lost = len(c.st.Topics), len(c.st.Lost)+len(c.st.Holes)
	if got, want := c.e.st.Digest(), c.st.Digest(); got != want {
		return fmt.Errorf("%w: a restart has the state %x at %d, the fold of the whole log is %x at %d",
			ErrCorrupt, got, c.e.st.End, want, c.st.End)
	}
	return nil
}

// sameQueues checks that no queue is longer than the log makes it; its units were compared as they were folded.
func (c *checker) sameQueues() error {
	for _, t := range c.st.Topics {
		for i, want := range t.Queues {
			q := c.e.queues.Queue(t.ID, uint32(i))
			if q == nil && want.Next == want.Min {
				continue
			}
			if q == nil || int64(q.Len()) != want.Next || int64(q.First()) > want.Min && !c.lossy() {
				return corrupt.Errorf(c.e.path(queueDir), 0, "topic %d queue %d is not [%d, %d)", t.ID, i, want.Min, want.Next)
			}
		}
	}
	return nil
}

// sameBits compares what became of each id that the log still speaks of.
func (c *checker) sameBits() error {
	for chunk := uint64(0); chunk*state.ChunkIDs < c.st.NextID; chunk++ {
		if chunk < uint64(len(c.st.Chunks)) && c.st.Chunks[chunk].Closed {
			continue
		}
		want, err := c.bits.Page(chunk)
		if err != nil {
			return err
		}
		want = slices.Clone(want)
		got, err := c.e.bits.Page(chunk)
		if err != nil {
			return err
		}
		if slices.Equal(got, want) {
			continue
		}
		for id := chunk * state.ChunkIDs; id < (chunk+1)*state.ChunkIDs; id++ {
			if err := c.sameBit(id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *checker) sameBit(id uint64) error {
	if id < c.st.Oldest {
		if s, err := c.seen.Get(id); err != nil || s == statebits.Regular {
			return err // the log has forgotten it
		}
	}
	want, err := c.bits.Get(id)
	if err != nil {
		return err
	}
	got, err := c.e.bits.Get(id)
	if err == nil && got != want {
		err = corrupt.Errorf(c.e.path(bitsDir), 0, "message %d is %v, the log gives %v", id, got, want)
	}
	return err
}

// sameWaiting finds every waiting message in the sources of the lane, once, and reads it.
func (c *checker) sameWaiting() error {
	found := map[uint64]tally{}
	var m message.Message
	var buf []byte
	visit := func(en *timerlog.Entry) error {
		rec, b, err := c.e.log.ReadRecord(en.Position, int(en.Size), buf)
		buf = b
		if err == nil {
			err = message.DecodeHead(rec.Payload, &m)
		}
		if err != nil {
			if c.lossy() || c.e.st.InHole(en.Position) {
				return nil
			}
			return fmt.Errorf("waiting message %d: %w", en.ID, err)
		}
		if m.ID != en.ID || m.DueMs != en.Due || m.Topic != en.Topic || m.Queue != en.Queue || m.Tags != en.Tags {
			return fmt.Errorf("%w: the entry of message %d is not that of the record at %d", ErrCorrupt, en.ID, en.Position)
		}
		c.report.Pending++
		found[en.ID/state.ChunkIDs] = found[en.ID/state.ChunkIDs].add(en.Key, 1)
		return nil
	}
	for _, l := range c.e.lanes {
		if err := l.Each(visit); err != nil {
			return err
		}
	}
	if c.lossy() {
		return nil
	}
	for chunk, want := range c.tally {
		if got := found[chunk]; got != want {
			return fmt.Errorf("%w: %d messages of chunk %d wait in the index, the log has %d, or others", ErrCorrupt, got.count, chunk, want.count)
		}
		delete(found, chunk)
	}
	for i, table := range c.st.Chunks {
		if want := c.tally[uint64(i)].count; table.Pending != want {
			return fmt.Errorf("%w: the chunk table says that %d messages of chunk %d wait, the log has %d", ErrCorrupt, table.Pending, i, want)
		}
	}
	for chunk, got := range found {
		if got.count > 0 {
			return fmt.Errorf("%w: %d messages of chunk %d wait in the index, the log has none", ErrCorrupt, got.count, chunk)
		}
	}
	return nil
}

// The checker as the fold's index.

// Unit compares a unit with the one in the ConsumeQueue.
func (c *checker) Unit(topic, queue uint32, at int64, u consumequeue.Unit) error {
	q := c.e.queues.Queue(topic, queue)
	if q == nil || at < int64(q.First()) || c.missing != nil {
		return nil // of a topic that was deleted later, or trimmed
	}
	got, err := q.Unit(consumequeue.QueueOffset(at))
	if err == nil && got != u {
		err = corrupt.Errorf(c.e.path(queueDir), 0, "topic %d queue %d offset %d is %+v, the log gives %+v", topic, queue, at, got, u)
	}
	c.missing = err
	c.report.Units++
	return nil
}

// Put counts a waiting message.
func (c *checker) Put(e timerlog.Entry, _ int64) error {
	if !c.copied || e.ID < c.st.Oldest && !c.has(e.Key) {
		c.tally[e.ID/state.ChunkIDs] = c.tally[e.ID/state.ChunkIDs].add(e.Key, 1)
		c.counted(e.Key)
	}
	return nil
}

// wholeKeys reads the files of idempotency keys whole.
func (c *checker) wholeKeys() error { return c.e.idem.Verify(true) }

// Keyed looks for an entry of the index.
func (c *checker) Keyed(topic uint32, key []byte, pos Offset) {
	if pos < c.e.idem.Low() || pos < c.e.keysFrom() || c.missing != nil {
		return // its time is over
	}
	found := false
	err := c.e.idem.Find(idempotency.Hash(topic, key), func(p Offset) bool { found = p == pos; return !found })
	if err == nil && !found {
		err = corrupt.Errorf(c.e.path(keyedDir), 0, "the idempotency key of the message at %d is missing", pos)
	}
	c.missing = err
}

// Gone counts one that does not wait any more.
func (c *checker) Gone(_ uint8, k timerlog.Key) {
	if k.ID < c.st.Oldest && !c.has(k) {
		return // its put, and every copy, lie before the head: nothing was counted
	}
	c.tally[k.ID/state.ChunkIDs] = c.tally[k.ID/state.ChunkIDs].add(k, -1)
}

// counted and has keep, for ids from before the head, whether a copy was counted: twice the id in the set of seen ids
// would need a third value, so they use the bits of ids beyond the table.
func (c *checker) counted(k timerlog.Key) {
	if k.ID < c.st.Oldest {
		_ = c.seen.Set(k.ID+beyond, statebits.Cancelled)
	}
}

func (c *checker) has(k timerlog.Key) bool {
	s, err := c.seen.Get(k.ID + beyond)
	return err == nil && s == statebits.Cancelled
}

// beyond is more ids than a store gives out.
const beyond = 1 << 48

// SetBits follows the fold.
func (c *checker) SetBits(id uint64, s statebits.State) error { return c.bits.Set(id, s) }

// CloseChunk follows the fold.
func (c *checker) CloseChunk(chunk uint64) { c.bits.CloseChunk(chunk) }

// TopicGone needs nothing: the units of a topic that is gone later are not compared.
func (c *checker) TopicGone(uint32) {}

// Trimmed needs nothing: units below the minimum are not compared.
func (c *checker) Trimmed(uint32, uint32, int64) {}

var _ state.Index = (*checker)(nil)
