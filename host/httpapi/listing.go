package httpapi

import (
	"time"

	"github.com/tidewheel/tidewheel/engine"
	"github.com/tidewheel/tidewheel/engine/message"
)

// listTime bounds how long one request looks for the first message that matches. A page can be empty, and not the last.
const listTime = 50 * time.Millisecond

// maxTimers is the most that a page has.
const maxTimers = 1000

// listTimers lists waiting messages.
func (a *API) listTimers(c *call) error {
	q := c.query()
	now := a.b.NowMs()
	f := engine.Filter{Topic: q.text("topic"), FromMs: q.instant("from", now, 0), ToMs: q.instant("to", now, 0)}
	for _, tag := range q.values["tag"] {
		f.Tags = append(f.Tags, message.TagHash(tag))
	}
	if key := q.text("key"); key != "" {
		f.KeyHash = message.KeyHash(key)
	}
	limit := q.number("limit")
	if q.err == nil && q.text("to") != "" && f.ToMs <= f.FromMs {
		q.fail("to", q.text("to"), "a time after from", "")
	}
	if q.err != nil {
		return q.err
	}
	p, err := a.b.TimersPage(c.ctx(), f, q.text("page"), int(limit))
	for began := time.Now(); err == nil && len(p.Messages) == 0 && p.Next != "" && time.Since(began) < listTime; {
		p, err = a.b.TimersPage(c.ctx(), f, p.Next, int(limit)) // nothing in it that matches: a look is bounded
	}
	if err != nil {
		return err
	}
	out := Timers{Timers: []Waiting{}, Next: p.Next, Now: instantText(now)}
	for i := range p.Messages {
		m := &p.Messages[i]
		out.Timers = append(out.Timers, Waiting{
			Handle: m.Handle, Topic: m.Topic, Queue: int(m.Queue), Due: instantText(m.DueMs), DueMs: m.DueMs,
			DueIn: dueIn(m.DueMs, now), Size: int(m.Size), DelayLevel: m.Level,
		})
	}
	if p.Next != "" {
		// Before anything was looked at it is the time before from, which may be none.
		out.ScannedToMs = max(p.ScannedTo, 0)
		out.ScannedTo = instantText(out.ScannedToMs)
	}
	return c.answer(out)
}

// horizonSteps is how many steps a horizon has whose end is not said.
const horizonSteps = 24

// horizon counts waiting messages by due time.
func (a *API) horizon(c *call) error {
	q := c.query()
	now := a.b.NowMs()
	step := q.duration("step")
	from := q.instant("from", now, now)
	if q.err == nil && step < time.Millisecond {
		q.fail("step", q.text("step"), "1ms or more", "")
	}
	if q.err != nil {
		return q.err
	}
	// Whole steps, so that hours are the hours that are counted anyway.
	ms := step.Milliseconds()
	from = max(from, 0) / ms * ms
	to := q.instant("to", now, min(from+horizonSteps*ms, maxDueMs))
	if q.err == nil && to <= from {
		q.fail("to", q.text("to"), "a time after from", "")
	}
	if q.err != nil {
		return q.err
	}
	if to = min(to, maxDueMs); to%ms != 0 && to <= maxDueMs-ms {
		to += ms - to%ms
	}
	h, err := a.b.Horizon(c.ctx(), q.text("topic"), from, to, ms)
	if err != nil {
		return err
	}
	out := Horizon{
		Topic: q.text("topic"), FromMs: h.FromMs, ToMs: to, StepMs: h.StepMs, Counts: h.Counts, ScannedToMs: h.ScannedTo,
		Complete: h.ScannedTo >= to, Now: instantText(now),
	}
	for _, n := range h.Counts {
		out.Total += n
	}
	return c.answer(out)
}
