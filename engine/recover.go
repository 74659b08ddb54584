package engine

import (
	"errors"
	"fmt"
	"math"
	"path"
	"strings"

	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/consumequeue"
	"github.com/tidewheel/tidewheel/engine/internal/checkpoint"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/idempotency"
	"github.com/tidewheel/tidewheel/engine/internal/segment"
	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/schedule"
	"github.com/tidewheel/tidewheel/engine/statebits"
	"github.com/tidewheel/tidewheel/engine/timer"
)

// caches are the derived files as a checkpoint knew them; zero for a rebuild.
type caches struct {
	queues   consumequeue.States
	schedule schedule.States
	lanes    []timer.State
	rings    []ringAt
	bits     statebits.Table
	bitsRedo []statebits.Page
	seen     statebits.Table
	seenRedo []statebits.Page
	keyed    idempotency.State
}

// recoverFrom loads a checkpoint and folds the log from its position on.
func (e *Engine) recoverFrom(f *checkpoint.File, readOnly bool) error {
	if err := f.Understood(func(kind uint16) bool { return kind < sectionKinds }); err != nil {
		return fmt.Errorf("%w: %w", ErrNewer, err)
	}
	if !readOnly {
		if err := checkpoint.Settle(e.fs, e.path(checkpointDir), f); err != nil {
			return fmt.Errorf("engine: open: %w", err)
		}
	}
	at, l, err := e.loadState(f)
	if err != nil {
		return err
	}
	if err := e.openCaches(at); err != nil {
		return err
	}
	e.st.Seen, e.st.Oldest, e.st.Lost = e.seen, l.oldest, l.lost
	e.st.Resume(l.lossy)
	if err := e.verifyCaches(at.lanes); err != nil {
		return err
	}
	for i, l := range e.lanes {
		if err := l.Load(at.lanes[i]); err != nil {
			return fmt.Errorf("engine: open: %w", err)
		}
	}
	e.ck.x, e.ck.seq = f.X, f.Seq
	if err := e.newLog(readOnly); err != nil {
		return err
	}
	start := commitlog.Start{From: f.X, PrevCRC: l.prevCRC, Durable: f.X}
	return e.fold(start, readOnly)
}

// loadState decodes a checkpoint.
func (e *Engine) loadState(f *checkpoint.File) (at caches, l local, err error) {
	e.st = state.New(0)
	for kind, decode := range map[uint16]func(b []byte) error{
		sectionState:    func(b []byte) error { return e.st.Decode(b) },
		sectionLocal:    func(b []byte) (err error) { l, err = decodeLocal(b); return err },
		sectionQueues:   func(b []byte) (err error) { at.queues, err = consumequeue.DecodeStates(b); return err },
		sectionSchedule: func(b []byte) (err error) { at.schedule, err = schedule.DecodeStates(b); return err },
		sectionTimers:   func(b []byte) (err error) { at.lanes, err = decodeLanes(b); return err },
		sectionWheels:   func(b []byte) (err error) { at.rings, err = decodeRings(b); return err },
		sectionBits:     func(b []byte) (err error) { at.bits, _, err = statebits.DecodeTable(b); return err },
		sectionBitsRedo: func(b []byte) (err error) { at.bitsRedo, err = statebits.DecodePages(b); return err },
		sectionSeen:     func(b []byte) (err error) { at.seen, _, err = statebits.DecodeTable(b); return err },
		sectionSeenRedo: func(b []byte) (err error) { at.seenRedo, err = statebits.DecodePages(b); return err },
		sectionKeyed:    func(b []byte) (err error) { at.keyed, err = idempotency.DecodeState(b); return err },
	} {
		b, err := section(f, kind)
		if _, ok := f.Section(kind); !ok && kind == sectionKeyed {
			at.keyed = idempotency.State{Low: f.X, Memory: f.X} // before there was no key
			continue
		}
		if err == nil {
			err = decode(b)
		}
		if errors.Is(err, state.ErrNewer) {
			return at, l, fmt.Errorf("%w: %w", ErrNewer, err)
		}
		if err != nil {
			return at, l, corrupt.Errorf(e.path(checkpointDir), 0, "section %d: %v", kind, err)
		}
	}
	want := 1 + int(e.meta.Lanes)
	if len(e.st.Lanes) != want || len(at.lanes) != want || len(at.rings) != 2*(want-1) {
		return at, l, corrupt.Errorf(e.path(checkpointDir), 0, "%d frontiers, %d lanes, %d rings; the store has %d lanes",
			len(e.st.Lanes), len(at.lanes), len(at.rings), want)
	}
	return at, l, nil
}

// openCaches opens the derived files.
func (e *Engine) openCaches(at caches) (err error) {
	handles := segment.NewHandles(0)
	e.queues, err = consumequeue.Open(e.fs, e.path(queueDir), consumequeue.Options{
		PerFile: e.opts.UnitsPerFile, LogID: e.meta.LogID, Handles: handles,
	}, at.queues)
	if err == nil {
		e.schedule, err = schedule.Open(e.fs, e.path(scheduleDir), schedule.Options{
			PerFile: e.opts.EntriesPerFile, LogID: e.meta.LogID, Handles: handles,
		}, at.schedule)
	}
	if err == nil {
		e.bits, err = openBits(e, bitsDir, at.bits, at.bitsRedo)
	}
	if err == nil {
		e.seen, err = openBits(e, seenDir, at.seen, at.seenRedo)
	}
	e.idem = idempotency.Open(e.fs, e.path(keyedDir), e.meta.LogID, at.keyed)
	if err == nil {
		err = e.openLanes(at)
	}
	if err != nil {
		return fmt.Errorf("engine: open: %w", err)
	}
	return nil
}

func openBits(e *Engine, dir string, at statebits.Table, redo []statebits.Page) (*statebits.Bits, error) {
	b, err := statebits.Open(e.fs, e.path(dir), statebits.Options{CacheBytes: e.opts.BitsBytes, Ident: e.meta.StoreID}, at)
	if err != nil {
		return nil, err
	}
	for _, p := range redo {
		if err := b.Redo(p); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// verifyCaches checks that the files that the checkpoint refers to are there. What is in them is checked as it is read.
func (e *Engine) verifyCaches(lanes []timer.State) error {
	if err := e.queues.Verify(); err != nil {
		return err
	}
	if err := e.schedule.Verify(); err != nil {
		return err
	}
	for i, l := range e.lanes {
		if err := l.Verify(lanes[i]); err != nil {
			return err
		}
	}
	if err := e.bits.Verify(); err != nil {
		return err
	}
	if err := e.idem.Verify(false); errors.Is(err, idempotency.ErrNewerFormat) {
		return fmt.Errorf("%w: %w", ErrNewer, err)
	} else if err != nil {
		return err
	}
	return e.seen.Verify()
}

// recoverAll makes all caches from the log, from the oldest segment of its unbroken end on. Segments below a gap are some
// that were deleted and came back, if what follows says that the log begins above them; else one is missing.
func (e *Engine) recoverAll(readOnly bool) error {
	if !readOnly {
		if err := e.wipe(); err != nil {
			return err
		}
	}
	var first error
	for start := Offset(0); ; {
		err := e.recoverSuffix(start, readOnly)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
		next, ok := e.segmentBehind(start)
		if !errors.Is(err, corrupt.ErrCorrupt) || !ok {
			return first
		}
		e.releaseFiles()
		if !readOnly {
			if err := e.wipe(); err != nil {
				return err
			}
		}
		start = next
	}
}

// segmentBehind finds the segment from which a fold that began at or above start and stopped may be tried again: behind where it
// stopped. From any segment between it would read the same batches and stop at the same place.
func (e *Engine) segmentBehind(start Offset) (Offset, bool) {
	if e.log == nil {
		return 0, false
	}
	segs := e.log.Segments()
	i := 0
	for i < len(segs)-1 && segs[i].Base < start {
		i++
	}
	if i >= len(segs) || e.st.Head() < segs[i].Base && e.st.End >= segs[len(segs)-1].Base {
		return 0, false // or it came to the end: what is missing lies before the first segment
	}
	from := segs[i].Base
	for _, g := range segs {
		if g.Base > from && g.Base >= e.st.End-commitlog.SegmentHeaderSize {
			return g.Base, true
		}
	}
	return 0, false
}

// recoverSuffix folds the log from the first segment at or above start.
func (e *Engine) recoverSuffix(start Offset, readOnly bool) error {
	e.st = state.New(1 + int(e.meta.Lanes))
	if err := e.openCaches(caches{}); err != nil {
		return err
	}
	e.st.Seen = e.seen
	if err := e.newLog(readOnly); err != nil {
		return err
	}
	from := Offset(0)
	for _, g := range e.log.Segments() {
		if from = g.Base; from >= start {
			break
		}
	}
	if from > 0 || e.log.Size() > 0 {
		e.env.Log.Info("folding the log from its head", "from", from, "bytes", e.log.Size())
	}
	if err := e.fold(commitlog.Start{From: from}, readOnly); err != nil {
		return err
	}
	if head := e.st.Head(); head < from {
		return corrupt.Errorf(e.segmentName(head), 0, "the segment is missing, the log begins at %d", from)
	}
	return nil
}

func (e *Engine) segmentName(base Offset) string {
	return path.Join(e.path(logDir), fmt.Sprintf("%020d", base))
}

// fold reads the log from a position on, and makes the engine ready.
func (e *Engine) fold(start commitlog.Start, readOnly bool) error {
	for _, l := range e.lanes {
		if !readOnly { // else what does not fit stays in memory
			l.Wait = func() error { return flushNow(l) }
		}
	}
	total, done := e.log.Size(), int64(0)
	rec, err := e.log.Recover(start, func(b *commitlog.Batch) error {
		done += b.Length
		if e.opts.Progress != nil {
			e.opts.Progress(done, total)
		}
		if err := e.replay(b); err != nil || readOnly {
			return err
		}
		return e.idem.Spill(b.End())
	})
	for _, l := range e.lanes {
		l.Wait = nil
	}
	if errors.Is(err, commitlog.ErrNewerFormat) {
		return fmt.Errorf("%w: %w", ErrNewer, err)
	}
	if err != nil {
		return fmt.Errorf("engine: recover: %w", err)
	}
	if rec.Cut > 0 {
		e.env.Log.Info("cut a torn tail that nobody was promised", "at", rec.CutAt, "bytes", rec.Cut, "reason", rec.Reason)
	}
	isNew := rec.End == 0
	if isNew {
		e.st.Create(e.env.Wall())
	}
	e.log0, e.mono0 = max(e.st.LogMs, rec.LogMs), e.env.Mono()
	if !isNew {
		e.logMin = e.log0 + 1 // what becomes visible now is told from what did just before the stop
	}
	e.stats.replayed = done
	if err := e.settle(readOnly); err != nil {
		return err
	}
	e.space.marked = rec.End
	e.released.Store(int64(rec.End))
	e.visible.start(e.st.NextID)
	if isNew && !readOnly {
		return e.begin()
	}
	return nil
}

// firstUnit is the first offset of a queue whose unit is there; above every offset if it has none.
func (e *Engine) firstUnit(topic, queue uint32) int64 {
	if q := e.queues.Queue(topic, queue); q != nil {
		return int64(q.First())
	}
	return math.MaxInt64
}

// flushNow ends a flush during a replay.
func flushNow(l *timer.Lane) error {
	f := l.NewFlush()
	if f == nil {
		return nil
	}
	if err := f.Run(); err != nil {
		return err
	}
	for !l.InstallFlush(f) {
	}
	return nil
}

// replay folds one batch.
func (e *Engine) replay(b *commitlog.Batch) error {
	err := e.foldBatch(e.st, b, (*index)(e), nil)
	e.visible.touched = e.visible.touched[:0] // all of it is released
	clear(e.visible.mark)
	return err
}

// foldBatch folds a batch as it was read. look, if not nil, sees each record before it is folded.
func (e *Engine) foldBatch(st *state.State, b *commitlog.Batch, ix state.Index, look func(r *commitlog.Record) error) error {
	seal := b.Has(commitlog.FlagSeal)
	if b.Has(commitlog.FlagHole) {
		st.LostBatches(b.Base, b.End())
		st.Behead(e.log.First(), e.firstUnit) // the trim of segments that are gone may have been there
		st.EndBatch(b.End(), seal)
		return nil
	}
	st.BeginBatch(b.LogMs, b.AppendMs)
	records := b.Records()
	for {
		r, ok, err := records.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if look != nil {
			err = look(&r)
		}
		if err == nil {
			err = st.Apply(&r, b.Has(commitlog.FlagMustUnderstand), ix)
		}
		if err != nil {
			return e.foldFailed(r.Pos, err)
		}
	}
	st.EndBatch(b.End(), seal)
	return nil
}

// foldFailed gives an error of the fold the place in the log, unless it is about a file of its own.
func (e *Engine) foldFailed(pos Offset, err error) error {
	var c *corrupt.Error
	switch {
	case errors.Is(err, state.ErrNewer):
		return fmt.Errorf("%w: %w", ErrNewer, err)
	case errors.As(err, &c) && strings.Contains(c.File, "/"), c == nil && !errors.Is(err, state.ErrFold):
		return err // about a file; payloads are named by their kind of record
	}
	base, _, _, _ := e.log.SegmentOf(pos)
	return corrupt.Errorf(e.segmentName(base), int64(pos-base), "%v", err)
}

// settle compares the fold with the files: segments that the table names must be there, those below its head go, and
// every queue must have the length that the fold says.
func (e *Engine) settle(readOnly bool) error {
	have := map[Offset]bool{}
	for _, g := range e.log.Segments() {
		have[g.Base] = true
	}
	for i, g := range e.st.Segments {
		last := i == len(e.st.Segments)-1
		if !have[g.Base] && !last {
			return corrupt.Errorf(e.segmentName(g.Base), 0, "the segment is missing")
		}
	}
	if !readOnly && e.log.First() < e.st.Head() {
		if err := e.log.DropBefore(e.st.Head()); err != nil {
			return fmt.Errorf("engine: open: %w", err)
		}
	}
	for _, t := range e.st.Topics {
		for i, want := range t.Queues {
			if err := e.settleQueue(t.ID, uint32(i), want); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *Engine) settleQueue(topic, queue uint32, want state.Queue) error {
	q := e.queues.Queue(topic, queue)
	if q == nil {
		if want.Next == 0 {
			return nil
		}
		// A rebuild from a suffix of the log that has none of its units: they were trimmed.
		_, err := e.queues.Start(topic, queue, consumequeue.QueueOffset(want.Next))
		return err
	}
	for e.st.Lossy() && int64(q.Len()) < want.Next || len(e.st.Lost) > 0 && int64(q.Len()) < want.Next {
		q.Append(consumequeue.Unit{Flags: consumequeue.FlagHole, LogMs: e.st.LogMs})
	}
	if int64(q.Len()) != want.Next {
		return corrupt.Errorf(e.path(queueDir), 0, "topic %d queue %d has %d units, the log gives %d", topic, queue, q.Len(), want.Next)
	}
	q.Trim(consumequeue.QueueOffset(max(want.Min, int64(q.First()))))
	q.Release(q.Len())
	return nil
}

// begin writes the first segment of a new store: it is a store when its state record is durable.
func (e *Engine) begin() error {
	for e.log.RotateNeeded() || e.log.SpareNeeded() {
		if err := e.segmentJob().run(); err != nil {
			return fmt.Errorf("engine: open: first segment: %w", err)
		}
	}
	if err := e.room(0, 0); err != nil {
		return fmt.Errorf("engine: open: first segment: %w", err)
	}
	if err := e.Commit(); err != nil {
		return err
	}
	pos, err := e.Sync()
	if err != nil {
		return err
	}
	e.Release(pos)
	return nil
}
