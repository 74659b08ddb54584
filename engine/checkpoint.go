package engine

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tidewheel/tidewheel/engine/consumequeue"
	"github.com/tidewheel/tidewheel/engine/internal/checkpoint"
	"github.com/tidewheel/tidewheel/engine/internal/corrupt"
	"github.com/tidewheel/tidewheel/engine/internal/idempotency"
	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/schedule"
	"github.com/tidewheel/tidewheel/engine/statebits"
	"github.com/tidewheel/tidewheel/engine/timer"
)

// Kinds of sections in a checkpoint. They are part of the file format, do not change.
const (
	sectionState     = 1 // package internal/state's encoding
	sectionLocal     = 2 // what this machine knows beside it: see local
	sectionQueues    = 3 // consumequeue.States
	sectionSchedule  = 4 // schedule.States
	sectionTimers    = 5 // timer.State of each lane
	sectionBits      = 6 // statebits.Table
	sectionBitsRedo  = 7 // pages
	sectionSeen      = 8
	sectionSeenRedo  = 9
	sectionWheels    = 10 // see appendRings
	sectionKeyed     = 11 // idempotency.State; missing in checkpoints of before there were keys
	sectionKinds     = 12
	checkpointDir    = "checkpoint"
	inlineTail       = 4096 // bytes: shorter unsynced queue tails travel inside the checkpoint, see inlineBytes
	derivedBytes     = 8 << 20
	backlogDistances = 4 // messages are refused when the last checkpoint lies so many distances back
)

// checkpoints is what the writer knows of them.
type checkpoints struct {
	x       Offset // of the last one that is whole
	seq     uint64
	wanted  bool  // something waits for a checkpoint, though little was written since
	derived int64 // bytes that the fold added to queues since the last snapshot

	pending *snapshot
	clean   *cleanup
	garbage []func() error // files of topics that are gone, since the last snapshot
	swept   bool           // files of topics that were gone before Open are removed; owned by the job
}

// snapshot is a checkpoint being made. Its fields are frozen by the writer at the batch boundary x; run, on another
// goroutine, writes what they say.
type snapshot struct {
	e        *Engine
	x        Offset
	seq      uint64
	state    []byte
	local    []byte
	queues   consumequeue.Marks
	schedule schedule.Marks
	spills   []*timer.Spill
	rings    []ringFrozen
	bits     []statebits.Page
	seen     []statebits.Page
	bitsAt   statebits.Table
	seenAt   statebits.Table
	keyed    *idempotency.Freeze
	garbage  []func() error

	// set by run
	queuesAt   consumequeue.States
	scheduleAt schedule.States
	lanes      []timer.State
}

// beginCheckpoint takes a snapshot when enough was written since the last one.
func (e *Engine) beginCheckpoint() {
	c := &e.ck
	x := e.log.End()
	if c.pending != nil || c.clean != nil || x == c.x || e.jobs.active[jobIndex] != nil {
		return
	}
	dirty := e.bits.DirtyBytes() + e.seen.DirtyBytes()
	for _, r := range e.rings {
		dirty += r.wheel.DirtyBytes()
	}
	full := int64(derivedBytes)
	if e.opts.Profile == ProfileEdge {
		full /= 8
	}
	if int64(x-c.x) < e.opts.CheckpointEvery && c.derived < full && int64(dirty) < full && !c.wanted {
		return
	}
	c.wanted, c.derived = false, 0
	for delay, passed := range e.lanes[levelLane].Passed() {
		e.schedule.Queue(delay).Trim(passed)
	}
	c.pending = &snapshot{
		e: e, x: x, seq: c.seq + 1,
		state:    e.st.Append(nil),
		local:    e.local().append(nil),
		queues:   e.queues.Mark(),
		schedule: e.schedule.Mark(),
		rings:    e.freezeRings(),
		bits:     e.bits.Freeze(), bitsAt: e.bits.Table(),
		seen: e.seen.Freeze(), seenAt: e.seen.Table(),
		keyed:   e.idem.NewFreeze(x, e.keysFrom()),
		garbage: c.garbage,
	}
	c.garbage = nil
	for _, l := range e.lanes {
		c.pending.spills = append(c.pending.spills, l.NewSpill())
	}
}

// run makes the checkpoint: derived files are durable up to the recorded lengths first, then both copies, and only then
// anything changes in place. It may be repeated after an error.
func (s *snapshot) run() (err error) {
	e := s.e
	if s.queuesAt, err = e.queues.Flush(s.queues, e.inlineBytes()); err != nil {
		return err
	}
	if s.scheduleAt, err = e.schedule.Flush(s.schedule, e.inlineBytes()); err != nil {
		return err
	}
	s.lanes = s.lanes[:0]
	for _, spill := range s.spills {
		if err := spill.Run(); err != nil {
			return err
		}
		s.lanes = append(s.lanes, spill.State())
	}
	if err := s.keyed.Run(); err != nil {
		return err
	}
	f := s.file()
	for _, name := range []string{checkpoint.CopyA, checkpoint.CopyB} {
		if err := checkpoint.Write(e.fs, e.path(checkpointDir), name, f); err != nil {
			return err
		}
	}
	for i, r := range s.rings {
		if err := e.rings[i].wheel.Write(r.pages); err != nil {
			return err
		}
	}
	if err := e.bits.WritePages(s.bits); err != nil {
		return err
	}
	return e.seen.WritePages(s.seen)
}

// inlineBytes is the length from which on a queue's tail is written to its file. Checkpoints that come often stay small.
func (e *Engine) inlineBytes() int { return int(min(inlineTail, e.opts.CheckpointEvery/16)) }

func (s *snapshot) file() *checkpoint.File {
	f := &checkpoint.File{Seq: s.seq, X: s.x, StoreID: s.e.meta.StoreID, LogID: s.e.meta.LogID}
	add := func(kind uint16, parts ...[]byte) {
		f.Sections = append(f.Sections, checkpoint.Section{Kind: kind, Flags: checkpoint.MustUnderstand, Parts: parts})
	}
	add(sectionState, s.state)
	add(sectionLocal, s.local)
	add(sectionQueues, s.queuesAt.Append(nil))
	add(sectionSchedule, s.scheduleAt.Append(nil))
	add(sectionTimers, appendLanes(s.lanes))
	add(sectionWheels, s.e.appendRings(s.rings))
	add(sectionBits, statebits.AppendTable(nil, s.bitsAt))
	add(sectionBitsRedo, statebits.EncodePages(s.bits)...)
	add(sectionSeen, statebits.AppendTable(nil, s.seenAt))
	add(sectionSeenRedo, statebits.EncodePages(s.seen)...)
	add(sectionKeyed, s.keyed.State().Append(nil))
	return f
}

// installCheckpoint gives back what the snapshot froze, and has deleted what only older checkpoints needed.
func (e *Engine) installCheckpoint(s *snapshot) {
	e.queues.Installed(s.queuesAt)
	e.schedule.Installed(s.scheduleAt)
	for i, l := range e.lanes {
		l.InstallSpill(s.spills[i])
	}
	for i, r := range s.rings {
		e.rings[i].wheel.Thaw(r.pages)
	}
	e.bits.Thaw(s.bits)
	e.seen.Thaw(s.seen)
	e.idem.Install(s.keyed)
	c := &e.ck
	c.x, c.seq, c.pending = s.x, s.seq, nil
	c.clean = &cleanup{e: e, from: s}
	for i, l := range e.lanes {
		c.clean.lanes = append(c.clean.lanes, l.Garbage(s.lanes[i]))
	}
	e.stats.checkpoints.Add(1)
}

// cleanup deletes files behind a checkpoint of which both copies are there.
type cleanup struct {
	e     *Engine
	from  *snapshot
	lanes []func() error // delete files of the TimerLog
}

func (c *cleanup) run() error {
	e, s := c.e, c.from
	var errs []error
	do := func(what func() error) {
		if err := what(); err != nil {
			errs = append(errs, err)
		}
	}
	for _, remove := range s.garbage {
		do(remove)
	}
	if !e.ck.swept { // a crash may have come between the end of a topic and this
		do(func() error {
			err := e.queues.Sweep(s.queuesAt)
			e.ck.swept = err == nil
			return err
		})
	}
	do(func() error { return e.queues.Delete(s.queuesAt) })
	do(func() error { return e.schedule.Delete(s.scheduleAt) })
	for _, remove := range c.lanes {
		do(remove)
	}
	do(func() error { return e.bits.DeleteClosed(s.bitsAt) })
	do(func() error { return e.seen.DeleteClosed(s.seenAt) })
	do(func() error { return e.idem.Sweep(s.keyed.State()) })
	return errors.Join(errs...)
}

// cleanLater leaves to the next checkpoint what could not be deleted: files that stay for a while hold up nobody.
func (e *Engine) cleanLater() bool {
	e.ck.garbage = append(e.ck.garbage, e.ck.clean.from.garbage...)
	e.ck.clean = nil
	return true
}

// local is what a checkpoint holds beside the state: it differs between machines with the same log.
type local struct {
	prevCRC uint32 // of the batch that ends at x
	oldest  uint64
	lossy   bool
	lost    []state.Hole
}

func (e *Engine) local() local {
	return local{e.log.LastCRC(), e.st.Oldest, e.st.Lossy(), e.st.Lost}
}

func (l local) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, l.prevCRC)
	b = binary.BigEndian.AppendUint64(b, l.oldest)
	lossy := byte(0)
	if l.lossy {
		lossy = 1
	}
	b = append(b, lossy)
	for _, h := range l.lost {
		b = binary.BigEndian.AppendUint64(b, uint64(h.From))
		b = binary.BigEndian.AppendUint64(b, uint64(h.To))
	}
	return b
}

const localHead = 4 + 8 + 1

func decodeLocal(b []byte) (l local, err error) {
	if len(b) < localHead || (len(b)-localHead)%16 != 0 || b[12] > 1 {
		return l, fmt.Errorf("engine: checkpoint: local section of %d bytes", len(b))
	}
	l = local{prevCRC: binary.BigEndian.Uint32(b), oldest: binary.BigEndian.Uint64(b[4:]), lossy: b[12] == 1}
	for b = b[localHead:]; len(b) > 0; b = b[16:] {
		l.lost = append(l.lost, state.Hole{From: Offset(binary.BigEndian.Uint64(b)), To: Offset(binary.BigEndian.Uint64(b[8:]))})
	}
	return l, nil
}

// section finds a part of a loaded checkpoint.
func section(f *checkpoint.File, kind uint16) ([]byte, error) {
	b, ok := f.Section(kind)
	if !ok {
		return nil, corrupt.Errorf(checkpointDir, 0, "section %d is missing", kind)
	}
	return b, nil
}
