package enginetest

import (
	"github.com/tidewheel/tidewheel/engine"
)

// Recovered says that the process died and the store was opened again. What was released before must be there. Calls
// that were not are looked for: each happened if and only if all before it did, and from here on that is what counts.
func (m *Model) Recovered(e *engine.Engine) {
	m.blind = false
	end := e.Released()
	if end < m.released {
		m.violated("the log ends at %d after recovery, it was released up to %d", end, m.released)
		return
	}
	// The log is a prefix of what was appended, so its end says which calls happened. That these did, and the others
	// did not, is then seen in the store: verify finds a call that is missing as well as one too many.
	lost := m.journal
	w := m.hear(end)
	lost = lost[len(lost)-len(m.journal):]
	for i := range lost {
		m.forget(e, &lost[i])
	}
	m.journal = m.journal[:0]
	m.released = 0 // positions of what was lost are given out again
	m.verify(e, &w)
	m.released = end
}

// forget drops a call that did not survive, after a look that it did not.
func (m *Model) forget(e *engine.Engine, lost *entry) {
	switch lost.call.Command.(type) {
	case *engine.Put, *engine.Move, *engine.Undo:
	default:
		return
	}
	if o := lost.ans.Outcome; o != engine.Scheduled && o != engine.Moved && o != engine.Restored || lost.call.New < 0 {
		return
	}
	if _, undo := lost.call.Command.(*engine.Undo); undo && lost.ans.Outcome == engine.Scheduled {
		return // it speaks of the old message
	}
	if got, _, err := e.Verdict(lost.ans.Handle()); err != nil || got != engine.NotFound {
		m.violated("%s is beyond the end of the log at %d, and its verdict is %v, %v", describe(lost), m.released, got, err)
	}
}

// Drained says that the engine was driven until nothing waited: everything that was put and not taken back is visible.
func (m *Model) Drained(e *engine.Engine) {
	m.Verify(e)
	for i := range m.msgs {
		if m.msgs[i].status == waiting {
			m.violated("m%d, due %d, is never delivered", i, m.msgs[i].due)
			return
		}
	}
}

// Quiet says that Tick has nothing to do at this wall clock, and all it did is released: nothing that is due may wait.
func (m *Model) Quiet(wall int64) {
	for i := range m.msgs {
		x := &m.msgs[i]
		if x.status == waiting && x.due <= wall {
			m.violated("m%d, due %d, still waits at %d and Tick has nothing to do", i, x.due, wall)
			return
		}
	}
}
