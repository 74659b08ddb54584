package httpapi

import (
	"errors"
	"fmt"
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/host/broker"
	"github.com/tidewheel/tidewheel/host/instant"
)

// changeProblems are those of whatever changes a message that waits.
var changeProblems = []string{"not_found", "already_delivered", "superseded", "unknown_outcome", "failed"}

var timerRoutes = []route{
	{
		method: "GET", pattern: "/v1/timers", id: "listTimers", group: "Timers", role: RoleRead,
		summary: "List messages that wait, in the order of their due times",
		text: "One look is bounded: an empty page may have a next one, and scanned_to says how far it looked. Tags and keys are " +
			"compared by their hashes. Pages stay valid while messages fire.",
		params: []param{
			{in: inQuery, name: "topic", text: "only of this topic"},
			{in: inQuery, name: "from", kind: kindWhen, text: "due at or after"},
			{in: inQuery, name: "to", kind: kindWhen, text: "due before"},
			{in: inQuery, name: "tag", list: true, text: "only with one of these tags"},
			{in: inQuery, name: "key", text: "only with this key"},
			{in: inQuery, name: "limit", kind: kindWhole, min: 1, max: maxTimers, def: "100", text: "the most messages of the page"},
			{in: inQuery, name: "page", text: "next of the page before; none: the first"},
		},
		gives: jsonOf[Timers](), problems: []string{"unknown_topic", "bad_request"}, handle: (*API).listTimers,
	},
	{
		method: "GET", pattern: "/v1/timers/{handle}", id: "showTimer", group: "Timers", role: RoleRead,
		summary: "What became of a delayed message, and its body while it waits",
		params:  []param{handleParam}, gives: jsonOf[Timer](), problems: []string{"not_found"}, handle: (*API).showTimer,
	},
	{
		method: "DELETE", pattern: "/v1/timers/{handle}", id: "cancelTimer", group: "Timers", role: RoleProduce,
		summary: "Cancel a message that waits",
		text:    "The answer is definite, also after a crash.",
		params:  []param{handleParam}, gives: jsonOf[Cancelled](), problems: changeProblems, handle: (*API).cancelTimer,
	},
	{
		method: "PATCH", pattern: "/v1/timers/{handle}", id: "moveTimer", group: "Timers", role: RoleProduce,
		summary: "Give a message that waits another due time",
		text:    "It is one step: the message never is away, and never there twice. The old handle is superseded by the new one.",
		params:  []param{handleParam}, takes: jsonOf[Reschedule](), gives: jsonOf[Changed](),
		problems: append([]string{"already_cancelled", "delay_too_long", "due_time"}, changeProblems...), handle: (*API).moveTimer,
	},
	{
		method: "POST", pattern: "/v1/timers/{handle}/fire", id: "fireTimer", group: "Timers", role: RoleProduce,
		summary: "Deliver a message that waits now",
		params:  []param{handleParam}, gives: jsonOf[Changed](),
		problems: append([]string{"already_cancelled"}, changeProblems...), handle: (*API).fireTimer,
	},
	{
		method: "POST", pattern: "/v1/timers/{handle}/undo", id: "undoTimer", group: "Timers", role: RoleProduce,
		summary: "Take a cancel back, until the due time",
		params:  []param{handleParam}, gives: jsonOf[Changed](),
		problems: append([]string{"not_cancelled", "too_late", "body_deleted"}, changeProblems...), handle: (*API).undoTimer,
	},
	{
		method: "GET", pattern: "/v1/timers/{handle}/explain", id: "explainTimer", group: "Timers", role: RoleRead,
		summary: "The life of a delayed message, and why it is where it is",
		params:  []param{handleParam}, gives: jsonOf[Explanation](), problems: []string{"not_found"}, handle: (*API).explainTimer,
	},
	{
		method: "GET", pattern: "/v1/horizon", id: "horizon", group: "Timers", role: RoleRead,
		summary: "How many messages fall due when",
		text: "Of all topics, in whole hours, it is exact and costs nothing; any other is counted, and scanned_to_ms says how far " +
			"it came.",
		params: []param{
			{in: inQuery, name: "topic", text: "only of this topic"},
			{in: inQuery, name: "from", kind: kindWhen, text: "the begin, put back to a whole step; none: now"},
			{in: inQuery, name: "to", kind: kindWhen, text: "the end; none: 24 steps"},
			{in: inQuery, name: "step", kind: kindSpan, def: "1h", text: "the width of a count"},
		},
		gives: jsonOf[Horizon](), problems: []string{"unknown_topic", "bad_request"}, handle: (*API).horizon,
	},
}

// cancelTimer takes a waiting message back.
func (a *API) cancelTimer(c *call) error {
	text := c.path("handle")
	outcome, err := a.b.Cancel(c.ctx(), text)
	if err != nil {
		return err
	}
	switch outcome {
	case engine.Cancelled:
		return c.answer(Cancelled{OutcomeCancelled})
	case engine.AlreadyCancelled:
		return c.answer(Cancelled{OutcomeAlreadyCancelled})
	}
	var due int64
	if outcome == engine.Delivered {
		t, err := a.b.Timer(c.ctx(), text)
		if err != nil {
			return err
		}
		due = t.DueMs
	}
	return a.refusal(text, outcome, due)
}

// refusal says why a message that should be changed was not.
func (a *API) refusal(text string, outcome engine.Outcome, dueMs int64) error {
	switch outcome {
	case engine.Superseded:
		p := problem("superseded")
		p.Fix = "use the handle that the move, fire or undo answered; explain tells it, too"
		return p
	case engine.Delivered:
		return a.delivered(text, dueMs)
	case engine.AlreadyCancelled:
		p := problem("already_cancelled")
		p.Fix = "POST /v1/timers/{handle}/undo takes the cancel back"
		return p
	case engine.Scheduled:
		return problem("not_cancelled")
	}
	return noTimer()
}

// delivered says that a message is in its topic, and where, when that is quickly found: whether it can't be told or can't be read,
// the answer is as definite without it.
func (a *API) delivered(text string, dueMs int64) *Problem {
	p := problem("already_delivered")
	p.DueMs = dueMs
	at, ok, err := a.b.Place(text)
	if err != nil || !ok {
		return p
	}
	offset := Int64(at.Offset)
	p.DeliveredAt, p.Topic, p.Queue, p.Offset = instantText(at.AtMs), at.Topic, &at.Queue, &offset
	p.Detail = fmt.Sprintf("it is in topic %s, queue %d, at offset %d, since %s", at.Topic, at.Queue, at.Offset, p.DeliveredAt)
	return p
}

func noTimer() *Problem {
	p := problem("not_found")
	p.Detail = "it is unknown, damaged, of another store, or forgotten after the retention"
	return p
}

// states are the outcomes of looking at a handle.
var states = map[engine.Outcome]string{
	engine.Scheduled: StateScheduled, engine.Cancelled: StateCancelled, engine.AlreadyCancelled: StateCancelled,
	engine.Superseded: StateSuperseded, engine.Delivered: StateDelivered,
}

// showTimer says what became of a delayed message.
func (a *API) showTimer(c *call) error {
	text := c.path("handle")
	t, err := a.b.Timer(c.ctx(), text)
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
		return c.answer(out)
	}
	m, err := a.b.Read(c.ctx(), text)
	if errors.Is(err, engine.ErrNoMessage) { // delivered meanwhile, or cancelled long ago
		return c.answer(out)
	}
	if err != nil {
		return err
	}
	queue := int(m.Queue)
	out.Queue, out.Key, out.Tag, out.DelayLevel = &queue, string(m.Key), string(m.Tag), int(m.Level)
	out.StoredMs, out.BornMs = m.StoreMs, m.BornMs
	_, own := m.IdempotencyKey()
	out.Properties = wireProperties(own)
	out.Body, out.BodyBase64 = wireBody(m.Body)
	return c.answer(out)
}

// moveTimer gives a waiting message another due time.
func (a *API) moveTimer(c *call) error {
	b, err := c.body(maxRaw)
	if err != nil {
		return err
	}
	var req Reschedule
	if err := readJSON(b, &req); err != nil {
		return err
	}
	text := c.path("handle")
	due, err := a.newDue(c, text, &req)
	if err != nil {
		return err
	}
	changed, err := a.b.Move(c.ctx(), text, due)
	return a.changed(c, text, OutcomeMoved, changed, err)
}

// newDue is the due time that is asked for.
func (a *API) newDue(c *call, text string, req *Reschedule) (int64, error) {
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
	t, err := a.b.Timer(c.ctx(), text)
	if err != nil {
		return 0, err
	}
	due := max(t.DueMs+shift.Milliseconds(), 0)
	_, err = a.at(all[0], due)
	return due, err
}

// fireTimer delivers a waiting message now.
func (a *API) fireTimer(c *call) error {
	text := c.path("handle")
	changed, err := a.b.Fire(c.ctx(), text)
	return a.changed(c, text, OutcomeFired, changed, err)
}

// undoTimer takes a cancel back.
func (a *API) undoTimer(c *call) error {
	text := c.path("handle")
	changed, err := a.b.Undo(c.ctx(), text)
	return a.changed(c, text, OutcomeRestored, changed, err)
}

// changed answers a move, a fire and an undo.
func (a *API) changed(c *call, text, outcome string, changed broker.Changed, err error) error {
	if err != nil {
		return err
	}
	if changed.Outcome != engine.Moved && changed.Outcome != engine.Restored {
		return a.refusal(text, changed.Outcome, changed.DueMs)
	}
	now := a.b.NowMs()
	c.w.Header().Set("Location", a.opts.Prefix+"/v1/timers/"+changed.Handle)
	return c.answer(Changed{
		Outcome: outcome, Handle: changed.Handle, Due: instantText(changed.DueMs), DueMs: changed.DueMs,
		DueIn: dueIn(changed.DueMs, now), Now: instantText(now),
	})
}

// explainTimer tells the life of a message.
func (a *API) explainTimer(c *call) error {
	text := c.path("handle")
	x, err := a.b.Explain(c.ctx(), text)
	if err != nil {
		return err
	}
	state, ok := states[x.Outcome]
	if !ok {
		return noTimer()
	}
	topics, err := a.b.Topics(c.ctx())
	if err != nil {
		return err
	}
	names := map[uint32]string{}
	for i := range topics {
		names[topics[i].ID] = topics[i].Name
	}
	out := Explanation{
		Handle: text, State: state, Reason: x.Reason, Events: []Event{}, NewHandle: x.Handle,
		Complete: x.ScannedTo >= x.Position, Now: instantText(a.b.NowMs()),
	}
	for _, e := range x.Events {
		event := Event{
			Kind: e.Kind, At: instantText(e.WallMs), AtMs: e.WallMs, Position: Int64(e.Position), Topic: names[e.Topic],
			DueMs: e.DueMs, NewDueMs: e.NewDueMs, Queue: int(e.Queue),
		}
		if e.Offset >= 0 {
			offset := Int64(e.Offset)
			event.Offset = &offset
		}
		event.Action, event.Code, event.Plugin = verdictOf(&e)
		out.Events = append(out.Events, event)
	}
	return c.answer(out)
}

// instantText is a time as answers show it.
func instantText(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// dueIn is how far away a due time is, as answers show it; at most 100 years, so it is a Duration.
func dueIn(dueMs, nowMs int64) string {
	return instant.Span(time.Duration(max(dueMs-nowMs, 0)) * time.Millisecond)
}
