package engine

import (
	"math"

	"github.com/tidewheel/tidewheel/engine/commitlog"
)

// batch is the one being made. It is begun by its first record: a call that only refuses writes nothing, and the clocks
// of the fold stay those of the last batch in the log.
type batch struct {
	w     *commitlog.Writer
	need  int   // bytes of records announced
	wall  int64 // the clocks, read once per call
	logMs int64
	full  bool // no message that waits has room, and nobody knows when one will
	torn  bool // a batch was folded, perhaps in part, and is not in the log: the engine has failed
	// understand says that who does not know what is in the batch must not go on.
	understand bool
	// Which puts without a delay may wait: staging says that a topic may be staged, restaged that a command of the batch may
	// have changed which are.
	staging, restaged bool
}

// payload is what every record type can do.
type payload interface {
	Append(b []byte) []byte
}

// recordOverhead is the frame around a payload: length, CRC, kind, flags.
const recordOverhead = commitlog.RecordHeaderSize

// readClocks sets the time of the call.
func (e *Engine) readClocks() {
	e.batch.wall, e.batch.logMs = e.env.Wall(), e.logNow()
}

// room makes sure that a batch with so many bytes of records, and so many entries of loose messages, can be made now.
// ErrBusy: something has to end first, and has been begun.
func (e *Engine) room(bytes, loose int) error {
	if e.memory() < loose {
		return ErrBusy // the flush of the frozen memtable has to end
	}
	for {
		switch e.log.Room(bytes) {
		case commitlog.Fits:
			e.batch.need = bytes
			return nil
		case commitlog.NeedsState:
			if err := e.writeState(); err != nil {
				return err
			}
		case commitlog.NeedsSeal:
			return e.seal()
		default:
			return ErrBusy
		}
	}
}

// memory is how many waiting messages may be stored, whatever lane they go to, before a flush has to end.
func (e *Engine) memory() int {
	room := math.MaxInt
	for _, l := range e.lanes {
		room = min(room, l.Room())
	}
	return room
}

// write appends a record to the batch and returns where it is and how long. The caller folds it next.
func (e *Engine) write(kind commitlog.Kind, p payload) (Offset, int32) {
	w := e.writer()
	if w == nil {
		return 0, 0
	}
	w.Open(kind, 0)
	w.Buf = p.Append(w.Buf)
	pos, size := w.Close()
	return pos, int32(size)
}

// writer is the encoder of the batch, which begins here if it has not; nil after a failure.
func (e *Engine) writer() *commitlog.Writer {
	if e.batch.w == nil && e.failed.Load() == nil {
		e.batch.w = e.beginBatch()
	}
	return e.batch.w
}

func (e *Engine) beginBatch() *commitlog.Writer {
	w, err := e.log.Begin(e.batch.need, commitlog.BatchInfo{
		AppendMs: e.batch.wall, LogMs: e.batch.logMs, BaseID: e.st.NextID,
	})
	if err != nil {
		_ = e.fail(err) // room said that it fits
		return nil
	}
	e.st.BeginBatch(e.batch.logMs, e.batch.wall)
	return w
}

// asOf is the position that comes with what is read out of the fold. When that is ahead of the log for good, no answer may
// leave.
func (e *Engine) asOf() Offset {
	if e.batch.torn {
		return math.MaxInt64
	}
	return e.log.End()
}

// folded takes the result of a fold: an error leaves the state half changed, so nothing more may come of it.
func (e *Engine) folded(err error) {
	if err != nil {
		_ = e.fail(err)
	}
}

// endBatch appends the batch, if there is one, and returns the end of the log.
func (e *Engine) endBatch() (Offset, error) {
	w, flags := e.batch.w, uint16(0)
	if e.batch.understand {
		flags = commitlog.FlagMustUnderstand
	}
	e.batch.w, e.batch.understand = nil, false
	if err := e.usable(); err != nil {
		if w != nil {
			w.Abandon()
			e.batch.torn = true
		}
		return 0, err
	}
	if w == nil {
		return e.log.End(), nil
	}
	end := w.Finish(flags)
	e.st.EndBatch(end, false)
	e.visible.batchEnds(end, e.st.NextID)
	e.stats.batches.Add(1)
	return end, nil
}
