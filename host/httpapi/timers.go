package httpapi

import (
	"net/http"

	"github.com/tidewheel/tidewheel/engine"
)

// cancelTimer takes a waiting message back.
func (a *API) cancelTimer(w http.ResponseWriter, r *http.Request) error {
	text := r.PathValue("handle")
	outcome, err := a.b.Cancel(r.Context(), text)
	if err != nil {
		return err
	}
	switch outcome {
	case engine.Cancelled:
		return answer(w, http.StatusOK, Cancelled{OutcomeCancelled})
	case engine.AlreadyCancelled:
		return answer(w, http.StatusOK, Cancelled{OutcomeAlreadyCancelled})
	case engine.Superseded:
		p := problem(http.StatusConflict, "superseded", "The message was moved; its newer handle counts")
		p.Fix = "cancel by the handle that the move answered"
		return p
	case engine.Delivered:
		p := problem(http.StatusConflict, "already_delivered", "The message was delivered before the cancel")
		if t, err := a.b.Timer(r.Context(), text); err == nil {
			p.DueMs = t.DueMs
		}
		return p
	}
	return noTimer()
}

func noTimer() *Problem {
	p := problem(http.StatusNotFound, "not_found", "No such handle")
	p.Detail = "it is unknown, damaged, of another store, or forgotten after the retention"
	return p
}

// showTimer says what became of a delayed message.
func (a *API) showTimer(w http.ResponseWriter, r *http.Request) error {
	text := r.PathValue("handle")
	t, err := a.b.Timer(r.Context(), text)
	if err != nil {
		return err
	}
	states := map[engine.Outcome]string{
		engine.Scheduled: StateScheduled, engine.Cancelled: StateCancelled, engine.AlreadyCancelled: StateCancelled,
		engine.Superseded: StateSuperseded, engine.Delivered: StateDelivered,
	}
	state, ok := states[t.Outcome]
	if !ok {
		return noTimer()
	}
	return answer(w, http.StatusOK, Timer{
		Handle: text, Topic: t.Topic, State: state, Due: instant(t.DueMs), DueMs: t.DueMs, Now: instant(a.b.NowMs()),
	})
}
