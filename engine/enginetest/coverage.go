package enginetest

import (
	"errors"
	"fmt"

	"github.com/tidewheel/tidewheel/engine"
)

// Coverage counts what a run met: a clean result that met nothing says nothing.
type Coverage map[string]int

// Add adds the counts of o.
func (c Coverage) Add(o Coverage) {
	for what, n := range o {
		c[what] += n
	}
}

// outcomeNames never changes.
var outcomeNames = [...]string{
	engine.Refused: "Refused", engine.Stored: "Stored", engine.Scheduled: "Scheduled", engine.Cancelled: "Cancelled",
	engine.Moved: "Moved", engine.AlreadyCancelled: "AlreadyCancelled", engine.Superseded: "Superseded",
	engine.Delivered: "Delivered", engine.NotFound: "NotFound", engine.Done: "Done",
	engine.Restored: "Restored",
}

// answer counts an answer, and the reason of a refusal.
func (c Coverage) answer(a *engine.Answer) {
	c["answer "+outcomeNames[a.Outcome]]++
	for _, kind := range []error{
		engine.ErrTopicName, engine.ErrNoTopic, engine.ErrQueue, engine.ErrLevel, engine.ErrTooLarge, engine.ErrProperties,
		engine.ErrDue, engine.ErrDelay, engine.ErrTooLate, engine.ErrOffset, engine.ErrDiskFull, engine.ErrBacklog,
		engine.ErrBroadcast, engine.ErrSettled,
	} {
		if errors.Is(a.Err, kind) {
			c["refused "+kind.Error()]++
		}
	}
}

// stats counts what the engine did until now.
func (s *Sim) stats() {
	if s.e == nil {
		return
	}
	for lane := range max(s.opts.Lanes, 1) {
		for _, ring := range []string{"seconds", "hours"} {
			if list, err := s.FS.ReadDir(fmt.Sprintf("timerlog/%d/%s", lane+1, ring)); err == nil && len(list) > 0 {
				s.cover["group of "+ring]++
			}
		}
	}
	st := s.e.Stats()
	s.cover["checkpoint"] += int(st.Checkpoints)
	s.cover["rolled message"] += int(st.RolledMessages)
	s.cover["dropped message"] += int(st.Dropped)
	if st.Head > 0 {
		s.cover["deleted head"]++
	}
	if st.Replayed > 0 {
		s.cover["replay"]++
	}
}
