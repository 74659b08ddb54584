package httpapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/instant"
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
	}
	var due int64
	if outcome == engine.Delivered {
		t, err := a.b.Timer(r.Context(), text)
		if err != nil {
			return err
		}
		due = t.DueMs
	}
	return refusal(outcome, due)
}

// refusal says why a message that should be changed was not.
func refusal(outcome engine.Outcome, dueMs int64) error {
	switch outcome {
	case engine.Superseded:
		p := problem(http.StatusConflict, "superseded", "The message was moved; its newer handle counts")
		p.Fix = "use the handle that the move answered"
		return p
	case engine.Delivered:
		p := problem(http.StatusConflict, "already_delivered", "The message was delivered before")
		p.DueMs = dueMs
		return p
	case engine.AlreadyCancelled:
		p := problem(http.StatusConflict, "already_cancelled", "The message was cancelled before")
		p.Fix = "POST /v1/timers/{handle}/undo takes the cancel back"
		return p
	case engine.Scheduled:
		return problem(http.StatusConflict, "not_cancelled", "The message waits: there is no cancel to take back")
	}
	return noTimer()
}

func noTimer() *Problem {
	p := problem(http.StatusNotFound, "not_found", "No such handle")
	p.Detail = "it is unknown, damaged, of another store, or forgotten after the retention"
	return p
}

// states are the outcomes of looking at a handle.
var states = map[engine.Outcome]string{
	engine.Scheduled: StateScheduled, engine.Cancelled: StateCancelled, engine.AlreadyCancelled: StateCancelled,
	engine.Superseded: StateSuperseded, engine.Delivered: StateDelivered,
}

// showTimer says what became of a delayed message.
func (a *API) showTimer(w http.ResponseWriter, r *http.Request) error {
	text := r.PathValue("handle")
	t, err := a.b.Timer(r.Context(), text)
	if err != nil {
		return err
	}
	state, ok := states[t.Outcome]
	if !ok {
		return noTimer()
	}
	now := a.b.NowMs()
	out := Timer{Handle: text, Topic: t.Topic, State: state, Due: instantText(t.DueMs), DueMs: t.DueMs, Now: instantText(now)}
	if state == StateScheduled {
		out.DueIn = dueIn(t.DueMs, now)
	}
	if state != StateScheduled && state != StateCancelled {
		return answer(w, http.StatusOK, out)
	}
	m, err := a.b.Read(r.Context(), text)
	if errors.Is(err, engine.ErrNoMessage) { // delivered meanwhile, or cancelled long ago
		return answer(w, http.StatusOK, out)
	}
	if err != nil {
		return err
	}
	queue := int(m.Queue)
	out.Queue, out.Key, out.Tag, out.DelayLevel = &queue, string(m.Key), string(m.Tag), int(m.Level)
	out.StoredMs, out.BornMs = m.StoreMs, m.BornMs
	out.Properties = wireProperties(m.Properties)
	out.Body, out.BodyBase64 = wireBody(m.Body)
	return answer(w, http.StatusOK, out)
}

// moveTimer gives a waiting message another due time.
func (a *API) moveTimer(w http.ResponseWriter, r *http.Request) error {
	b, err := readBody(w, r, maxRaw)
	if err != nil {
		return err
	}
	var req Reschedule
	if err := readJSON(b, &req); err != nil {
		return err
	}
	text := r.PathValue("handle")
	due, err := a.newDue(r, text, &req)
	if err != nil {
		return err
	}
	c, err := a.b.Move(r.Context(), text, due)
	return a.changed(w, OutcomeMoved, c, err)
}

// newDue is the due time that is asked for.
func (a *API) newDue(r *http.Request, text string, req *Reschedule) (int64, error) {
	all := req.asked()
	if req.By != nil {
		all = append(all, asked{field: "by", got: *req.By})
	}
	if len(all) == 0 {
		return 0, badField("body", "no time", "one of delay, deliver_at, deliver_at_ms, by", "")
	}
	if len(all) > 1 {
		return 0, twoTimes(all)
	}
	now := a.b.NowMs()
	if req.By == nil {
		when, err := all[0].read(a, all[0])
		return when.DueMs(now), err
	}
	shift, err := instant.Shift(*req.By)
	if err != nil {
		return 0, badField("by", *req.By, "a sign and a duration", `as in "+2h" or "-30m"`)
	}
	t, err := a.b.Timer(r.Context(), text)
	if err != nil {
		return 0, err
	}
	due := max(t.DueMs+shift.Milliseconds(), 0)
	_, err = a.at(all[0], due)
	return due, err
}

// fireTimer delivers a waiting message now.
func (a *API) fireTimer(w http.ResponseWriter, r *http.Request) error {
	c, err := a.b.Fire(r.Context(), r.PathValue("handle"))
	return a.changed(w, OutcomeFired, c, err)
}

// undoTimer takes a cancel back.
func (a *API) undoTimer(w http.ResponseWriter, r *http.Request) error {
	c, err := a.b.Undo(r.Context(), r.PathValue("handle"))
	return a.changed(w, OutcomeRestored, c, err)
}

// changed answers a move, a fire and an undo.
func (a *API) changed(w http.ResponseWriter, outcome string, c broker.Changed, err error) error {
	if err != nil {
		return err
	}
	if c.Outcome != engine.Moved && c.Outcome != engine.Restored {
		return refusal(c.Outcome, c.DueMs)
	}
	now := a.b.NowMs()
	w.Header().Set("Location", a.opts.Prefix+"/v1/timers/"+c.Handle)
	return answer(w, http.StatusOK, Changed{
		Outcome: outcome, Handle: c.Handle, Due: instantText(c.DueMs), DueMs: c.DueMs, DueIn: dueIn(c.DueMs, now),
		Now: instantText(now),
	})
}

// explainTimer tells the life of a message.
func (a *API) explainTimer(w http.ResponseWriter, r *http.Request) error {
	text := r.PathValue("handle")
	x, err := a.b.Explain(r.Context(), text)
	if err != nil {
		return err
	}
	state, ok := states[x.Outcome]
	if !ok {
		return noTimer()
	}
	topics, err := a.b.Topics(r.Context())
	if err != nil {
		return err
	}
	names := map[uint32]string{}
	for i := range topics {
		names[topics[i].ID] = topics[i].Name
	}
	out := Explanation{
		Handle: text, State: state, Reason: x.Reason, Events: []Event{}, Complete: x.ScannedTo >= x.Position,
		Now: instantText(a.b.NowMs()),
	}
	for _, e := range x.Events {
		event := Event{
			Kind: e.Kind, At: instantText(e.WallMs), AtMs: e.WallMs, Position: Int64(e.Position), Topic: names[e.Topic],
			DueMs: e.DueMs, Queue: int(e.Queue),
		}
		if e.Offset >= 0 {
			offset := Int64(e.Offset)
			event.Offset = &offset
		}
		out.Events = append(out.Events, event)
	}
	return answer(w, http.StatusOK, out)
}

// instantText is a time as answers show it.
func instantText(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// dueIn is how far away a due time is, as answers show it; at most 100 years, so it is a Duration.
func dueIn(dueMs, nowMs int64) string {
	return (time.Duration(max(dueMs-nowMs, 0)) * time.Millisecond).String()
}
