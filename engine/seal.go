package engine

import (
	"github.com/tidewheel/tidewheel/engine/commitlog"
	"github.com/tidewheel/tidewheel/engine/internal/state"
	"github.com/tidewheel/tidewheel/engine/record"
)

// statePart is how much of the state goes into one batch.
const statePart = 1 << 20

// seal ends the segment with an empty batch. The answer is always an error: ErrBusy until the next segment is there.
func (e *Engine) seal() error {
	e.readClocks()
	end, err := e.log.Seal(commitlog.BatchInfo{AppendMs: e.batch.wall, LogMs: e.batch.logMs, BaseID: e.st.NextID})
	if err != nil {
		return e.fail(err)
	}
	e.st.BeginBatch(e.batch.logMs, e.batch.wall)
	e.st.EndBatch(end, true)
	return ErrBusy
}

// writeState writes the state record at the begin of a segment. Its batches have the clocks of the batch before, so
// that the state they are compared with is the state they were made from. Here nothing is compared: that would encode all of
// it again.
func (e *Engine) writeState() error {
	data := e.st.Append(nil)
	r := &record.State{Parts: uint32((len(data) + statePart - 1) / statePart), Digest: state.DigestOf(data)}
	for ; r.Part < r.Parts; r.Part++ {
		n := min(len(data), statePart)
		r.Data, data = data[:n], data[n:]
		flags := commitlog.FlagState | commitlog.FlagMustUnderstand
		if r.Part == r.Parts-1 {
			flags |= commitlog.FlagStateEnd
		}
		w, err := e.log.Begin(recordOverhead+r.PayloadSize(), commitlog.BatchInfo{
			AppendMs: e.st.WallMs, LogMs: e.st.LogMs, BaseID: e.st.NextID, Flags: flags,
		})
		if err != nil {
			return e.fail(err)
		}
		w.Open(record.KindState, 0)
		w.Buf = r.Append(w.Buf)
		w.Close()
		if e.st.Lossy() { // behind a hole the fold begins again here
			e.folded(e.st.State(r, (*index)(e)))
		}
		e.st.EndBatch(w.Finish(0), false)
	}
	e.segmentCost = e.log.End() - e.st.Segments[len(e.st.Segments)-1].Base
	return e.usable()
}
